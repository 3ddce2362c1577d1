"""Why a question's answer moved between two releases, told from what the two hold and not guessed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Literal

from kbcore.differences import Difference, compare_inventories, renames
from kbcore.evaluation.labels import Label, Place, units
from kbcore.evaluation.scorecard import Answer, Ranked
from kbcore.store.inventory import Inventory
from kbcore.store.repository import Repository

Kind = Literal[
    "document deleted",
    "document added",
    "label stale",
    "text changed",
    "title changed",
    "chunk boundary moved",
    "embedder changed",
    "words split otherwise",
    "outranked",
    "less outranked",
    "figures moved",
]
DELETED: Final[Kind] = "document deleted"
OUTRANKING = 5
LAST = 1 << 30


@dataclass(frozen=True, slots=True)
class Cause:
    """``kind`` in the words of the field, ``said`` in a sentence with what it rests on; ``documents`` are those it is
    about, and ``rank`` where the answer stood before and stands now (from 1 among judged units, None for not in the list)."""

    kind: Kind
    said: str
    documents: tuple[str, ...]
    old_rank: int | None
    new_rank: int | None


class Releases:
    """Two releases side by side, as far as causes need them. Reads what it is asked for."""

    def __init__(self, repository: Repository, old: str, new: str) -> None:
        self.repository = repository
        self.old = Inventory(repository, old)
        self.new = Inventory(repository, new) if new != old else self.old
        self.renamed = renames(self.old, self.new)
        self._back = {after: before for before, after in self.renamed.items()}

    def old_id(self, doc_id: str) -> str:
        """A document of the new release by the id it had in the old one."""
        return self._back.get(doc_id, doc_id)

    @cached_property
    def difference(self) -> Difference:
        """What changed between the two, by document."""
        return compare_inventories(self.repository, self.old, self.new)

    @cached_property
    def _tombstones(self) -> dict[str, str]:
        found = self.difference.tombstones
        return {entry["doc_id"]: f"{entry['reason']}, in {entry['release']}" for entry in found}

    def causes(self, old: Answer, new: Answer, *, direction: int = 0) -> tuple[Cause, ...]:
        """The causes of the judged answers whose rank moved, the best grades first; each kind once with its documents.

        ``direction`` -1 looks at those that fell or went, 1 at those that rose or came, where there are such; 0 at all.
        """
        before = ranks(old)
        after = ranks(new)
        moved = [number for number in range(len(old.labels)) if before.get(number) != after.get(number)]
        moved += [n for n, (a, b) in enumerate(zip(old.labels, new.labels)) if a.live != b.live and n not in moved]
        chosen = [n for n in moved if direction and (before.get(n, LAST) < after.get(n, LAST)) == (direction < 0)]
        moved = sorted(chosen or moved, key=lambda number: (-old.labels[number].grade, number))
        found: dict[str, Cause] = {}
        for number in moved:
            for cause in self._of_label(old, new, number, before.get(number), after.get(number)):
                found.setdefault(cause.kind, cause)
        return tuple(found.values())

    def _of_label(
        self, old: Answer, new: Answer, number: int, before: int | None, after: int | None
    ) -> Iterator[Cause]:
        was, now = old.labels[number], new.labels[number]
        ids = tuple(was.documents or now.documents)
        if was.live and not now.live:
            yield self._gone(was, now, ids, before, after)
            return
        if now.live and not was.live:
            there = ", ".join(now.documents)
            said = f"{there} holds the answer, which {self.old.release} has not"
            yield Cause("document added", said, tuple(now.documents), before, after)
            return
        if not now.live:
            return
        changed = list(self._of_documents(old, new, number, before, after))
        yield from changed
        if changed and changed[0].kind in ("embedder changed", "words split otherwise"):
            return
        fell = after is None or (before is not None and after > before)
        yield from self._of_others(old, new, number, before, after, fell=fell, alone=not changed)

    def _gone(self, was: Label, now: Label, ids: tuple[str, ...], before: int | None, after: int | None) -> Cause:
        if now.state == "document gone":
            why = "; ".join(dict.fromkeys(self._tombstones.get(doc_id, "") for doc_id in ids)).strip("; ")
            said = f"{', '.join(ids)} is not in {self.new.release}" + (f": {why}" if why else "")
            return Cause(DELETED, said, ids, before, after)
        there = tuple(now.documents)
        said = f"{', '.join(there)} does not hold the quote any more: its text changed"
        return Cause("label stale", said, there, before, after)

    def _of_documents(
        self, old: Answer, new: Answer, number: int, before: int | None, after: int | None
    ) -> Iterator[Cause]:
        """What changed of the document that answers, and of how its text is cut, embedded and split into words."""
        was, now = self.old.manifest, self.new.manifest
        new_id = next(iter(new.labels[number].documents))
        old_id = next(iter(old.labels[number].documents))
        same_text = self.old.text_digests.get(old_id) == self.new.text_digests.get(new_id)
        same_chunks = self.old.chunk_digests(old_id) == self.new.chunk_digests(new_id)
        if was.embedder_id != now.embedder_id:
            models = (
                f"{was.embedder['model']} ({was.embedder_id[:8]}) -> {now.embedder['model']} ({now.embedder_id[:8]})"
            )
            yield Cause("embedder changed", f"vectors come from another embedder: {models}", (new_id,), before, after)
        if was.analyzer_id != now.analyzer_id:
            said = f"words are split by {now.analyzer_id}, before by {was.analyzer_id}"
            yield Cause("words split otherwise", said, (new_id,), before, after)
        if not same_text:
            kept = self._kept_answer(old, new_id, number)
            said = f"the text of {new_id} is another one" + (
                ", the passage that answered is still in it" if kept else ""
            )
            yield Cause("text changed", said, (new_id,), before, after)
        elif not same_chunks:
            sizes = f"{was.chunking.get('size')} -> {now.chunking.get('size')} characters"
            why = f": chunks of {sizes}" if was.chunking != now.chunking else ""
            yield Cause(
                "chunk boundary moved", f"the same text of {new_id} is cut otherwise{why}", (new_id,), before, after
            )
        elif self.old.titles.get(old_id) != self.new.titles.get(new_id):
            said = f"the title of {new_id} was {self.old.titles[old_id]!r} and is {self.new.titles[new_id]!r}"
            yield Cause("title changed", said, (new_id,), before, after)

    def _kept_answer(self, old: Answer, new_id: str, number: int) -> bool:
        best = first_hit(old, number)
        return best is not None and best.text_sha256 in self.new.chunk_digests(new_id)

    def _of_others(
        self, old: Answer, new: Answer, number: int, before: int | None, after: int | None, *, fell: bool, alone: bool
    ) -> Iterator[Cause]:
        """Which documents went past the answer, or stood before it and do not any more."""
        ahead_then = {self.renamed.get(unit, unit) for unit in above(old, number)}
        ahead_now = above(new, number)
        if fell:
            passed = [unit for unit in ahead_now if unit not in ahead_then]
            if passed:
                named = [f"{unit} ({self.standing(unit)})" for unit in passed[:OUTRANKING]]
                more = f" and {len(passed) - OUTRANKING} more" if len(passed) > OUTRANKING else ""
                yield Cause("outranked", f"outranked by {', '.join(named)}{more}", tuple(passed), before, after)
                return
        else:
            now = set(ahead_now)
            gone = [unit for unit in above(old, number) if self.renamed.get(unit, unit) not in now]
            if gone:
                named = [f"{unit} ({self.fate(unit)})" for unit in gone[:OUTRANKING]]
                said = f"not outranked any more by {', '.join(named)}"
                yield Cause("less outranked", said, tuple(gone), before, after)
                return
        if alone:
            said = "the same documents in another order: scores moved with the statistics of the release"
            yield Cause("figures moved", said, (), before, after)

    def standing(self, doc_id: str) -> str:
        """Of a document of the new release: new, renamed, changed or unchanged since the old one."""
        held = self.new.held.get(doc_id)
        before = self.old.held.get(self.old_id(doc_id))
        if held is None or before is None:
            return "new"
        if doc_id in self._back:
            return "renamed"
        return "unchanged" if held.doc_digest == before.doc_digest else "changed"

    def fate(self, doc_id: str) -> str:
        """Of a document of the old release: deleted, renamed, changed or unchanged in the new one."""
        now = self.new.held.get(self.renamed.get(doc_id, doc_id))
        if now is None:
            return "deleted"
        if doc_id in self.renamed:
            return "renamed"
        return "unchanged" if now.doc_digest == self.old.held[doc_id].doc_digest else "changed"


def ranks(answer: Answer) -> dict[int, int]:
    """Label number to its rank, from 1, among the answer's units."""
    ranking = units((hit.place for hit in answer.hits), answer.labels)
    return {int(unit[1:]): rank for rank, unit in enumerate(ranking, start=1) if unit.startswith("#")}


def first_hit(answer: Answer, number: int) -> Ranked | None:
    """The first hit that stands for a label."""
    return next((hit for hit in answer.hits if f"#{number}" in units([hit.place], answer.labels)), None)


def above(answer: Answer, number: int) -> list[str]:
    """Documents of the hits before the first one that stands for a label, each once, best first; of all hits where none
    does. Those of other judged answers are left out: they are no reason to worry."""
    found: dict[str, None] = {}
    for hit in answer.hits:
        mine = units([hit.place], answer.labels)
        if f"#{number}" in mine:
            break
        if not _judged(hit.place, answer.labels):
            found.setdefault(hit.doc_id)
    return list(found)


def _judged(place: Place, labels: Sequence[Label]) -> bool:
    return any(unit.startswith("#") and labels[int(unit[1:])].grade > 0 for unit in units([place], labels))
