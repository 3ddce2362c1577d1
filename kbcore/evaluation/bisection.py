"""The releases in which a document came to answer a question, changed its rank or was lost, and the change that did it.

Ranks do not move one way: every release of the line is looked at, none is jumped over as in a binary search.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Literal

from kbcore.embedding.catalog import Catalog
from kbcore.errors import KbError, KbUnavailableError, UsageError
from kbcore.evaluation import runner
from kbcore.evaluation.causes import Cause, Releases, first_hit, ranks
from kbcore.evaluation.labels import Label, label_in
from kbcore.evaluation.line import Inventories, Line, line_of, names_of, nearest
from kbcore.evaluation.questions import Expected, Question
from kbcore.evaluation.scorecard import Answer
from kbcore.retrieval.retriever import Retriever
from kbcore.retrieval.settings import RetrievalSettings
from kbcore.store.inventory import Inventory
from kbcore.store.manifest import Manifest
from kbcore.store.repository import Repository
from kbcore.types import Json, Progress

State = Literal["retrieved", "not retrieved", "quote gone", "not in the release", "passed over"]
Kind = Literal["appeared", "lost", "rose", "fell", "moved"]
OF_LABEL: dict[str, State] = {"document gone": "not in the release", "quote gone": "quote gone"}


@dataclass(frozen=True, slots=True)
class Step:
    """One release. ``rank`` is that of the document (of the passage, with a quote) among the documents that were
    retrieved, from 1; ``served`` says whether it is among the hits that a search shows. ``said`` is why it is not there,
    or not looked at, or what is to know of it; ``same_as`` the release of equal content whose answer this is."""

    release: str
    created_at: str | None
    state: State
    document: str | None = None
    rank: int | None = None
    served: bool = False
    outcome: str | None = None
    said: str = ""
    same_as: str | None = None


@dataclass(frozen=True, slots=True)
class Change:
    """What is otherwise in ``release`` than in ``before``, the one looked at before it, and the change that did it."""

    release: str
    before: str
    kind: Kind
    old_rank: int | None
    new_rank: int | None
    old_state: State
    new_state: State
    old_served: bool
    new_served: bool
    causes: tuple[Cause, ...]


@dataclass(frozen=True)
class Bisection:
    """``settings`` as scorecards name them; ``reach`` among them is how many chunks were looked at for the document."""

    question: str
    document: str
    quote: str | None
    settings: Json
    steps: tuple[Step, ...]
    changes: tuple[Change, ...]

    def to_json(self) -> Json:
        return asdict(self)


def bisect(
    repository: Repository,
    catalog: Catalog,
    settings: RetrievalSettings,
    question: str,
    document: str,
    *,
    newest: str,
    oldest: str | None = None,
    quote: str | None = None,
    names: tuple[str, ...],
    progress: Progress | None = None,
) -> Bisection:
    """Ask ``question`` of every release of the line from ``oldest`` to ``newest``.

    ``names`` are the measures whose depth decides how far is looked, so that ranks are those of a comparison. UsageError
    where no release holds, failed on, or lost the document. Releases that cannot be searched are passed over; where all
    are, the error of the newest is raised.
    """
    if not question.strip():
        raise UsageError("the question is blank")
    if quote is not None and not quote.strip():
        raise UsageError("the quote is blank")
    work = _Bisection(repository, catalog, settings, question, document, quote, names, progress)
    return work.over(line_of(repository, newest, oldest))


class _Bisection:
    def __init__(
        self,
        repository: Repository,
        catalog: Catalog,
        settings: RetrievalSettings,
        question: str,
        document: str,
        quote: str | None,
        names: tuple[str, ...],
        progress: Progress | None,
    ) -> None:
        self.repository = repository
        self.catalog = catalog
        self.settings = settings
        self.question = question
        self.document = document
        self.quote = quote
        self.asked = runner.search_settings(settings, names)
        self.embedders = runner.Embedders(repository, catalog)
        self.progress: Progress = progress or (lambda stage, done, total: None)
        self.error: KbError | None = None
        # Equal content gives equal answers: nothing is asked twice.
        self._known: dict[tuple[str, str], tuple[str, Answer]] = {}
        self._erased = repository.erased()
        self._skipped: dict[str, Json] | None = None
        self._names = {document}
        self._went = ""

    def over(self, line: Line) -> Bisection:
        inventories = Inventories(self.repository, line)
        held = names_of(line, inventories, self.document)
        steps: list[Step] = []
        changes: list[Change] = []
        last: tuple[Step, Answer] | None = None
        self._names |= set(held.values())
        for done, release in enumerate(line.releases):
            self.progress("ask", done, len(line.releases))
            self._remember(line.manifests.get(release), gone=release not in held)
            step, answer = self._step(line, inventories, release, held.get(release))
            steps.append(step)
            if answer is None:
                continue
            if last is not None and (change := self._change(*last, step, answer)) is not None:
                changes.append(change)
            last = step, answer
        self.progress("ask", len(line.releases), len(line.releases))
        if last is None:
            raise self.error or KbUnavailableError(
                f"no release of the line can be looked at; {line.releases[-1]}: {steps[-1].said}",
                remedy="see: kb verify --all",
            )
        if not held and not any(step.said for step in steps if step.state == "not in the release"):
            raise self._unknown(line, inventories)
        return Bisection(self.question, self.document, self.quote, self.asked, tuple(steps), tuple(changes))

    def _step(
        self, line: Line, inventories: Inventories, release: str, doc_id: str | None
    ) -> tuple[Step, Answer | None]:
        manifest = line.manifests.get(release)
        inventory = None if release in line.passed_over else inventories.of(release)
        if manifest is None or inventory is None:
            at = manifest.created_at if manifest is not None else None
            return Step(release, at, "passed over", said=line.passed_over[release]), None
        if doc_id is None:
            said = self._absent(manifest, inventory)
            answer = self._unasked(Label(1, {}, "document gone"))
            return Step(release, manifest.created_at, "not in the release", said=said), answer
        label = label_in(inventory, [doc_id], Expected(doc_id=doc_id, quote=self.quote))
        said = _remarks(manifest, doc_id)
        if not label.live:
            return Step(release, manifest.created_at, OF_LABEL[label.state], doc_id, said=said), self._unasked(label)
        try:
            same_as, answer = self._answer(manifest, doc_id, label)
        except KbError as error:
            self.error = error
            line.passed_over[release] = error.message
            return Step(release, manifest.created_at, "passed over", doc_id, said=error.message), None
        rank = ranks(answer).get(0)
        served = first_hit(answer, 0) in answer.hits[: answer.served]
        state: State = "not retrieved" if rank is None else "retrieved"
        return Step(release, manifest.created_at, state, doc_id, rank, served, answer.outcome, said, same_as), answer

    def _answer(self, manifest: Manifest, doc_id: str, label: Label) -> tuple[str | None, Answer]:
        """The answer, and the release of equal content that it was taken from, if it was."""
        key = manifest.content_digest, doc_id
        if key in self._known:
            return self._known[key]
        retriever = Retriever(
            self.repository, manifest, self.catalog, settings=runner.showing_all(self.settings),
            embedder=self.embedders.of(manifest.release, self.settings.mode),
        )  # fmt: skip
        question = Question(id="bisect", question=self.question)
        answer = runner.ask(retriever, question, [label], self.asked, self.settings)
        self._known[key] = manifest.release, answer
        return None, answer

    def _unasked(self, label: Label) -> Answer:
        """Where the answer is not in the release, there is nothing to look for."""
        return Answer("bisect", self.question, (), False, (label,), 0, (), None, None, "", None)

    def _change(self, old: Step, before: Answer, new: Step, after: Answer) -> Change | None:
        if (old.state, old.rank, old.served) == (new.state, new.rank, new.served):
            return None
        try:
            causes = Releases(self.repository, old.release, new.release).causes(before, after)
        except KbError:
            causes = ()  # a file that causes need and the search did not is damaged; that it moved is known all the same
        if not causes and old.rank == new.rank is not None:
            many = "fewer" if new.served else "more"
            said = f"the same documents stand above it, with {many} of their passages"
            causes = (Cause("figures moved", said, (), old.rank, new.rank),)
        return Change(
            new.release, old.release, _kind(old, new), old.rank, new.rank, old.state, new.state, old.served, new.served,
            causes,
        )  # fmt: skip

    def _remember(self, manifest: Manifest | None, *, gone: bool) -> None:
        """Keep the tombstone of a document that went, also where its release is passed over, until it is there again."""
        if not gone:
            self._went = ""
        elif manifest is not None:
            went = next((entry for entry in manifest.removed if self._is(entry["doc_id"])), None)
            if went is not None:
                self._went = f"removed in {manifest.release}: {went['reason']}"

    def _absent(self, manifest: Manifest, inventory: Inventory) -> str:
        """Why the release does not hold the document; nothing where nobody ever said."""
        if any(self._is(doc_id) for doc_id in self._erased) and self._held_but_erased(inventory):
            return "erased from all releases"
        failed = next((entry for entry in manifest.exceptions if self._is(entry["doc_id"])), None)
        if failed is not None:
            return f"could not be read: {failed['reason']}, since {failed['since']}"
        skipped = next((reason for doc_id, reason in self._skips(manifest.release) if self._is(doc_id)), None)
        return f"left out: {skipped}" if skipped else self._went

    def _is(self, doc_id: str) -> bool:
        return doc_id in self._names or doc_id.partition(":")[2] == self.document

    def _held_but_erased(self, inventory: Inventory) -> bool:
        for segment in inventory.segments:
            ids = segment.documents(["doc_id"]).column("doc_id").to_pylist()
            there = segment.live_documents()
            if any(alive and self._is(doc_id) for doc_id, alive in zip(ids, there)):
                return True
        return False

    def _skips(self, release: str) -> Iterator[tuple[str, str]]:
        """What the newest run that had the release as its head found nothing to index in."""
        if self._skipped is None:
            self._skipped = {str(check.get("head")): check for check in self.repository.recent_checks()}
        yield from self._skipped.get(release, {}).get("skipped", ())

    def _unknown(self, line: Line, inventories: Inventories) -> UsageError:
        # What was meant may have gone long ago.
        seen = (inventories.of(name) for name in reversed(line.readable()))
        near = next((found for one in seen if one is not None and (found := nearest(one, self.document))), None)
        between = f"{line.releases[0]} to {line.releases[-1]}" if len(line.releases) > 1 else line.releases[0]
        return UsageError(
            f"no release holds {self.document!r}, nor did one ever: looked at {between}",
            remedy=f"did you mean {near}?" if near else "see: kb documents",
        )


def _remarks(manifest: Manifest, doc_id: str) -> str:
    """What the manifest says of a document that it holds."""
    said = [
        f"its former version was kept: {entry['reason']}, since {entry['since']}"
        for entry in manifest.exceptions
        if entry["doc_id"] == doc_id and entry["carried_over"]
    ]
    said += ["its removal is withheld" for entry in manifest.withheld if entry["doc_id"] == doc_id]
    return "; ".join(said)


def _kind(old: Step, new: Step) -> Kind:
    if old.rank is None or new.rank is None:
        return "appeared" if new.rank is not None else "lost" if old.rank is not None else "moved"
    if old.rank == new.rank:
        return "rose" if new.served else "fell"
    return "rose" if new.rank < old.rank else "fell"
