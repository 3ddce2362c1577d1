"""The knowledge bases that one server answers from, by name."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from kbcore import telemetry
from kbcore.config import load
from kbcore.errors import ConfigError, KbError, UsageError
from kbcore.knowledge_base import KnowledgeBase
from kbcore.retrieval.live import LiveRetriever
from kbcore.retrieval.retriever import Retriever
from kbcore.search_log import asked_by
from kbcore.serving.opened import OpenReleases
from kbcore.store.inventory import Inventory
from kbcore.store.repository import ErasedIds


class Base:
    """One knowledge base and its retriever. Whoever asks first opens it, the others wait; what failed is tried again."""

    def __init__(self, base: KnowledgeBase) -> None:
        self.base = base
        self._lock = threading.Lock()
        self._live: LiveRetriever | None = None
        self._read = threading.Lock()
        self._inventory: tuple[str, ErasedIds, Inventory] | None = None
        self._named = OpenReleases(base.retriever)

    @property
    def name(self) -> str:
        return self.base.config.kb.name

    def live(self) -> LiveRetriever:
        """The retriever that follows promotions. Raises what opening the current release raises."""
        with self._lock:
            if self._live is None:
                self._live = self.base.live_retriever()
            return self._live

    def retriever(self, release: str = "current") -> Retriever:
        """A retriever on a release: the open one for ``current``; of others the last ones asked for stay open."""
        live = self.live()
        if release == "current":
            return live.current()
        name = self.base.repository.resolve(release)
        return live.warm(name) or self._named.get(name)

    def opened(self) -> tuple[str, ...]:
        """The releases that are open now; opens nothing. One that is open in two places stands here twice."""
        live = self._live
        return (*(live.opened if live else ()), *self._named.names())

    def problem(self) -> str | None:
        """Why this base cannot answer, or answers from a release that is not the promoted one. Runs a real search."""
        try:
            live = self.live()
            with asked_by(None), telemetry.unobserved():
                live.search("is anything there?", 1)
            return live.problem
        except KbError as error:
            return error.message
        except OSError as error:
            return f"{type(error).__name__}: {error.strerror}"

    def document(self, doc_id: str, release: str = "current") -> tuple[str, str | None]:
        """The release that ``release`` names, and the text of a document in it: None where it holds none of this id, or
        the document was erased. The last release that was read stays open."""
        repository = self.base.repository
        name, erased = repository.resolve(release), repository.erased()
        with self._read:
            if self._inventory is None or self._inventory[:2] != (name, erased):
                self._inventory = name, erased, Inventory(repository, name)
            return name, self._inventory[2].text(doc_id)


class Bases(Mapping[str, Base]):
    """By the names in their configurations, in the order in which they were given."""

    def __init__(self, bases: Sequence[KnowledgeBase]) -> None:
        """ConfigError where two have one name."""
        self._by_name: dict[str, Base] = {}
        for base in bases:
            name = base.config.kb.name
            if name in self._by_name:
                raise ConfigError(
                    f"two configurations name their knowledge base {name!r}", remedy="give one another [kb] name"
                )
            self._by_name[name] = Base(base)

    @classmethod
    def load(cls, configs: Sequence[str | Path | None]) -> Bases:
        """From configuration files; their repositories must exist."""
        bases = [KnowledgeBase(load(config)) for config in configs or [None]]
        for base in bases:
            _ = base.repository
        return cls(bases)

    def __getitem__(self, name: str) -> Base:
        """UsageError names those that are there."""
        try:
            return self._by_name[name]
        except KeyError:
            known = ", ".join(self._by_name)
            raise UsageError(f"there is no knowledge base {name!r}", remedy=f"served here: {known}") from None

    def __contains__(self, name: object) -> bool:
        return name in self._by_name

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_name)

    def __len__(self) -> int:
        return len(self._by_name)

    def problems(self) -> dict[str, str]:
        """By name, why a base cannot answer, or answers from a release that is not the promoted one; empty where all is
        well. Runs a real search on each."""
        found = {name: entry.problem() for name, entry in self._by_name.items()}
        return {name: problem for name, problem in found.items() if problem}
