"""Judgments carried over renames from one release to another, in the text of the set itself."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kbcore.differences import renames
from kbcore.evaluation.labels import ancestors, named
from kbcore.evaluation.questions import LINE_ENDS, Expected, Question, QuestionSet
from kbcore.store.inventory import Inventory
from kbcore.store.repository import Repository
from kbcore.types import Json

BOM = "\ufeff"
KINDS = ("followed", "merged", "gone", "ambiguous", "unknown")


@dataclass(frozen=True)
class Relabelling:
    """What became of every judgment of a set between ``old`` and ``new``.

    ``followed`` {question, document, now}: its document has another name. ``merged`` {question, document, now}: as well, and
    the question judges it under the new name already; that judgment stays alone. ``gone`` {question, document}: it was in
    ``old`` and is not in ``new``. ``ambiguous`` {question, document, now}: a URI of several sources whose documents went
    different ways; a person has to say which. ``unknown`` {question, document}: neither release holds it. ``unchanged``
    counts the rest. ``text`` is the set with the new names; lines that name none of them are as they were.
    """

    old: str
    new: str
    followed: list[Json]
    merged: list[Json]
    gone: list[Json]
    ambiguous: list[Json]
    unknown: list[Json]
    unchanged: int
    text: str

    @property
    def moved(self) -> bool:
        """Whether the text differs from what was read."""
        return bool(self.followed or self.merged)

    def to_json(self) -> Json:
        lists = {kind: getattr(self, kind) for kind in KINDS}
        return {"from": self.old, "to": self.new, "unchanged": self.unchanged, **lists}


def relabel(repository: Repository, old: str, new: str, questions: QuestionSet, text: str) -> Relabelling:
    """Carry the judgments of ``questions``, which were read from ``text``, from release ``old`` to ``new``.

    A rename is a document under another id with equal bytes; between two releases of which one descends from the other it
    is followed step by step, so that one that was renamed and then edited is followed too. ``new`` may be the older one.
    """
    before, after = Inventory(repository, old), Inventory(repository, new)
    moves = _moves(repository, before, after)
    fates = {
        expected: _fate(before, after, moves, expected)
        for question in questions.questions
        for expected in question.expected
    }
    found: dict[str, list[Json]] = {kind: [] for kind in KINDS}
    unchanged = 0
    asked = iter(questions.questions)
    lines: list[str] = []
    for line in re.split(f"({LINE_ENDS})", text):
        if not line.lstrip(BOM).strip():
            lines.append(line)
            continue
        question = next(asked)
        kinds = _kinds(question, fates)
        for expected, kind in zip(question.expected, kinds, strict=True):
            if kind == "unchanged":
                unchanged += 1
                continue
            entry: Json = {"question": question.id, "document": expected.name}
            names = fates[expected].names
            if names:
                entry["now"] = list(names) if kind == "ambiguous" else names[0]
            found[kind].append(entry)
        lines.append(_rewritten(line, question, kinds, fates) if {"followed", "merged"} & set(kinds) else line)
    return Relabelling(old, new, unchanged=unchanged, text="".join(lines), **found)


@dataclass(frozen=True, slots=True)
class _Fate:
    """What became of a judged document, and the names it has now where these are others."""

    kind: str
    names: tuple[str, ...] = ()


def _fate(before: Inventory, after: Inventory, moves: Mapping[str, str], expected: Expected) -> _Fate:
    if named(after, expected):
        return _Fate("unchanged")
    ids = named(before, expected)
    if not ids:
        return _Fate("unknown")
    onward = [moves[doc_id] for doc_id in ids if doc_id in moves]
    names = sorted(set(onward if expected.uri is None else (after.held[doc_id].uri for doc_id in onward)))
    if len(names) > 1:
        return _Fate("ambiguous", tuple(names))
    return _Fate("followed", tuple(names)) if names else _Fate("gone")


def _moves(repository: Repository, before: Inventory, after: Inventory) -> dict[str, str]:
    """Ids of ``before`` to ids of ``after`` of documents that are under another one: by the steps between the two, and,
    for those that no step tells of, by equal bytes at both ends."""
    moved = renames(before, after)
    for start, end in ((before, after), (after, before)):
        if end.release <= start.release:
            continue
        for ancestor in ancestors(repository, end):
            if ancestor.inventory.release == start.release:
                steps = {old: new for old, new in ancestor.onward.items() if old != new}
                return {**moved, **(steps if end is after else {new: old for old, new in steps.items()})}
            if ancestor.inventory.release < start.release:
                break
    return moved


def _kinds(question: Question, fates: Mapping[Expected, _Fate]) -> list[str]:
    """The fate of each judgment of a question; ``merged`` where another one of it has the new name and the same quote."""
    taken = {(e.name, e.quote) for e in question.expected if fates[e].kind != "followed"}
    kinds = []
    for expected in question.expected:
        fate = fates[expected]
        if fate.kind == "followed":
            key = (fate.names[0], expected.quote)
            kinds.append("merged" if key in taken else "followed")
            taken.add(key)
        else:
            kinds.append(fate.kind)
    return kinds


def _rewritten(line: str, question: Question, kinds: Sequence[str], fates: Mapping[Expected, _Fate]) -> str:
    """The line with the new names: keys, their order and all other values as they were."""
    bare = line.lstrip(BOM)
    body = json.loads(bare)
    kept = []
    for entry, expected, kind in zip(body["expected"], question.expected, kinds, strict=True):
        if kind == "followed":
            entry["uri" if expected.doc_id is None else "doc_id"] = fates[expected].names[0]
        if kind != "merged":
            kept.append(entry)
    body["expected"] = kept
    return line[: len(line) - len(bare)] + json.dumps(body, ensure_ascii=False)
