"""One configured knowledge base: its repository, its embedders, and retrievers on its releases."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from pathlib import Path

from kbcore.clock import Clock, Token, random_token, system_clock
from kbcore.config import Config, load
from kbcore.embedding.catalog import Catalog
from kbcore.errors import UsageError
from kbcore.evaluation.calibration import cut_of
from kbcore.evaluation.questions import QuestionSet, load_questions
from kbcore.ingest.recipe import embedder_spec
from kbcore.retrieval.live import LiveRetriever
from kbcore.retrieval.retriever import Retriever
from kbcore.retrieval.settings import RetrievalSettings
from kbcore.search_log import SearchLog
from kbcore.store.manifest import Manifest
from kbcore.store.objects import LocalStore
from kbcore.store.promotion import Promotion
from kbcore.store.repository import Repository
from kbcore.types import Mode


class KnowledgeBase:
    """What a configuration file describes. Making one opens nothing."""

    def __init__(self, config: Config, *, clock: Clock = system_clock, token: Token = random_token) -> None:
        self.config = config
        self.clock = clock
        self.token = token

    @property
    def folder(self) -> Path:
        return Path(self.config.kb.repository) / self.config.kb.name

    @cached_property
    def store(self) -> LocalStore:
        return LocalStore(self.folder)

    @cached_property
    def repository(self) -> Repository:
        """The repository; RepositoryNotFoundError where ``kb init`` has not made it."""
        return Repository.open(self.store, self.config.kb.name, clock=self.clock, token=self.token)

    def exists(self) -> bool:
        return (self.folder / "repository.json").exists()

    def create(self) -> Repository:
        """Make the repository, after the storage was seen to keep what a release rests on."""
        self.folder.mkdir(parents=True, exist_ok=True)
        repository = Repository.create(self.store, self.config.kb.name, clock=self.clock, token=self.token)
        self.__dict__["repository"] = repository
        return repository

    @cached_property
    def catalog(self) -> Catalog:
        return Catalog(embedder_spec(self.config), self.config.models.folders)

    def settings(self, manifest: Manifest, mode: Mode | None = None) -> RetrievalSettings:
        """How ``manifest`` is searched: as configured, at the cut that an evaluation calibrated for its embedder."""
        chosen = mode or self.config.retrieval.mode
        settings = RetrievalSettings.of(self.config, cut_of(self.repository, manifest, chosen))
        return replace(settings, mode=chosen)

    def evalset(self, file: str | Path | None = None) -> Path:
        """The file of the evaluation set: ``file``, or the one the configuration names; UsageError where neither is."""
        chosen = file or self.config.gate.evalset
        if not chosen:
            raise UsageError(
                "no evaluation set is named",
                remedy='name one in the configuration, [gate] evalset = "config/evalsets/my.jsonl", or with --set FILE; '
                "kb evalset draft proposes questions",
            )
        return Path(chosen)

    def questions(self, file: str | Path | None = None) -> QuestionSet:
        """The evaluation set of ``file``, or the one the configuration names; UsageError where neither is."""
        return load_questions(self.evalset(file))

    def retriever(self, release: str = "current", *, mode: Mode | None = None) -> Retriever:
        """A retriever on a release (``current``, ``previous``, ``latest``, a name or a prefix of one).

        ``current`` is checked against the manifest digest in its promotion. CorruptReleaseError where a file that
        search uses is damaged.
        """
        repository = self.repository
        state = repository.state()
        name = repository.resolve(release)
        digest = state.manifest_digest if name == state.release else None
        manifest = repository.manifest(name, digest=digest)
        return self._opened(manifest, mode)

    def live_retriever(self, *, mode: Mode | None = None) -> LiveRetriever:
        """A retriever that follows promotions. KbUnavailableError where no release is current yet."""

        def open_release(state: Promotion) -> Retriever:
            manifest = self.repository.manifest(str(state.release), digest=state.manifest_digest)
            return self._opened(manifest, mode)

        return LiveRetriever(self.repository, open_release)

    def _opened(self, manifest: Manifest, mode: Mode | None) -> Retriever:
        settings = self.settings(manifest, mode)
        return Retriever(
            self.repository, manifest, self.catalog, settings=settings, mode=mode, search_log=self.search_log
        )

    @cached_property
    def search_log(self) -> SearchLog | None:
        """The log of searches; None where none is configured."""
        chosen = self.config.search_log
        if chosen.path is None:
            return None
        return SearchLog(chosen.path, payloads=chosen.payloads, keep_days=chosen.keep_days, clock=self.clock)


def open_repository(config: str | Path | Config | None = None) -> KnowledgeBase:
    """The knowledge base of a configuration file (default: KB_CONFIG, else config/kb.toml); its repository must exist."""
    base = KnowledgeBase(config if isinstance(config, Config) else load(config))
    _ = base.repository
    return base
