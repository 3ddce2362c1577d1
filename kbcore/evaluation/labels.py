"""Judgments as they apply to one release: which document is meant there, where its quote stands, or why it is stale."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from kbcore.differences import renames
from kbcore.errors import KbError
from kbcore.evaluation.questions import Expected, Question
from kbcore.store.inventory import Inventory
from kbcore.store.repository import Repository
from kbcore.types import Json

State = Literal["live", "document gone", "quote gone"]
MAX_STEPS = 200
ENOUGH = 0.5

Spans = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Label:
    """One judgment in one release. ``documents`` are the ids it means there (one, but for a URI that several sources
    have), each with the places of its quote in the document's text, None where the judgment has no quote."""

    grade: int
    documents: Mapping[str, Spans | None]
    state: State

    @property
    def live(self) -> bool:
        return self.state == "live"

    def to_json(self) -> Json:
        documents = {
            doc_id: None if spans is None else [list(span) for span in spans]
            for doc_id, spans in self.documents.items()
        }
        return {"grade": self.grade, "documents": documents, "state": self.state}

    @classmethod
    def from_json(cls, body: Json) -> Label:
        documents = {
            doc_id: None if spans is None else tuple((int(a), int(b)) for a, b in spans)
            for doc_id, spans in body["documents"].items()
        }
        return cls(body["grade"], documents, body["state"])


def labels_of(repository: Repository, inventory: Inventory, questions: Iterable[Question]) -> dict[str, list[Label]]:
    """The labels of each question in the inventory's release, in the order in which the set names them.

    A document that was renamed with equal bytes since it was judged is followed to its new id, through the releases that
    this one descends from.
    """
    asked = list(questions)
    ids = {expected: named(inventory, expected) for question in asked for expected in question.expected}
    followed = follow(repository, inventory, [expected for expected, there in ids.items() if not there])
    meant = {expected: there or followed.get(expected, ()) for expected, there in ids.items()}
    quoted = [doc_id for expected, there in meant.items() if expected.quote is not None for doc_id in there]
    texts = {doc_id: str(row["text"]) for doc_id, row in inventory.rows(["text"], quoted)}
    return {
        question.id: [_label(meant[expected], expected, texts) for expected in question.expected] for question in asked
    }


def label_in(inventory: Inventory, doc_ids: Sequence[str], expected: Expected) -> Label:
    """A judgment in one release, which knows its documents as ``doc_ids``."""
    return _label(doc_ids, expected, inventory.texts(doc_ids) if expected.quote is not None else {})


def _label(doc_ids: Sequence[str], expected: Expected, texts: Mapping[str, str]) -> Label:
    documents: dict[str, Spans | None] = dict.fromkeys(doc_ids)
    state: State = "live" if doc_ids else "document gone"
    if expected.quote is not None:
        for doc_id in doc_ids:
            documents[doc_id] = find_quote(texts[doc_id], expected.quote)
        if doc_ids and not any(documents.values()):
            state = "quote gone"
    return Label(expected.grade, documents, state)


def find_quote(text: str, quote: str) -> Spans:
    """Every place of ``quote`` in ``text``, half open; blanks and line ends stand for each other."""
    words = quote.split()
    if not words:
        return ()
    pattern = re.compile(r"\s+".join(map(re.escape, words)))
    return tuple(match.span() for match in pattern.finditer(text))


@dataclass(frozen=True, slots=True)
class Ancestor:
    """A release that another one descends from. ``onward`` leads from the ids of its documents to the ids that these have
    in the other one, for those that are there still."""

    inventory: Inventory
    onward: Mapping[str, str]


def ancestors(repository: Repository, inventory: Inventory) -> Iterator[Ancestor]:
    """The releases that the inventory's descends from, newest first: at most 200, and as far as they read."""
    onward = {doc_id: doc_id for doc_id in inventory.held}
    newer = inventory
    for _ in range(MAX_STEPS):
        if newer.manifest.parent is None:
            return
        try:
            older = Inventory(repository, newer.manifest.parent)
        except KbError:
            return  # reclaimed or damaged: what was renamed before is not told any more
        moved = renames(older, newer)
        onward = {
            old: onward[new]
            for old in older.held
            if (new := moved.get(old) or (old if old in newer.held else None)) is not None and new in onward
        }
        yield Ancestor(older, onward)
        newer = older


def follow(repository: Repository, inventory: Inventory, judged: Iterable[Expected]) -> dict[Expected, tuple[str, ...]]:
    """The ids that judged documents have in the inventory's release, of those that were renamed with equal bytes.

    Each is looked for in the releases that this one descends from, newest first: where it was last, it was renamed or went.
    Where several sources had the URI, those of its documents that are there still.
    """
    wanted = set(judged)
    found: dict[Expected, tuple[str, ...]] = {}
    for ancestor in ancestors(repository, inventory) if wanted else ():
        for expected in list(wanted):
            ids = named(ancestor.inventory, expected)
            if not ids:
                continue
            wanted.discard(expected)
            onward = tuple(ancestor.onward[doc_id] for doc_id in ids if doc_id in ancestor.onward)
            if onward:
                found[expected] = onward
        if not wanted:
            break
    return found


def named(inventory: Inventory, expected: Expected) -> list[str]:
    """The ids of the documents that a judgment means in a release: the one it names, or one for each source with its URI."""
    if expected.doc_id is None:
        return inventory.with_uri(expected.uri or "")
    return [expected.doc_id] if expected.doc_id in inventory.held else []


@dataclass(frozen=True, slots=True)
class Place:
    """Where a hit lies: its document, and offsets in the document's text."""

    doc_id: str
    start: int
    end: int


def units(places: Iterable[Place], labels: Sequence[Label]) -> list[str]:
    """A ranking of judged units, each once, best first: ``#0``, ``#1`` ... for the labels, a document's id for all else.

    A hit stands for the label of its document; for one with a quote where it overlaps at least half of a place of it.
    """
    by_document: dict[str, list[int]] = {}
    for number, label in enumerate(labels):
        for doc_id in label.documents if label.live else ():
            by_document.setdefault(doc_id, []).append(number)
    ranking: dict[str, None] = {}
    for place in places:
        numbers = by_document.get(place.doc_id, ())
        matched = [number for number in numbers if _shows(place, labels[number].documents[place.doc_id])]
        for unit in [f"#{number}" for number in matched] or [place.doc_id]:
            ranking.setdefault(unit)
    return list(ranking)


def _shows(place: Place, spans: Spans | None) -> bool:
    if spans is None:
        return True
    for start, end in spans:
        shared = min(place.end, end) - max(place.start, start)
        # A chunk that lies within a long quote shows all that it could.
        if shared > 0 and shared >= min(ENOUGH * (end - start), place.end - place.start):
            return True
    return False


def qrels(labels: Sequence[Label], counted: Sequence[bool]) -> dict[str, int]:
    """Unit to grade, of the labels that are counted."""
    return {f"#{number}": label.grade for number, label in enumerate(labels) if counted[number]}


def stale(labels: Mapping[str, Sequence[Label]], questions: Iterable[Question]) -> list[Json]:
    """Every judgment that does not apply: {question, document, quote, state}, in the order of the set."""
    return [
        {"question": question.id, "document": expected.name, "quote": expected.quote, "state": label.state}
        for question in questions
        for expected, label in zip(question.expected, labels[question.id], strict=True)
        if not label.live
    ]
