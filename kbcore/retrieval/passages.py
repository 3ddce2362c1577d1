"""From chunks to passages: chunks that overlap are joined, neighbours are added, copies are folded under the best."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from kbcore.retrieval.snapshot import Snapshot

SHINGLE = 4
ALIKE = 0.8
_WORD = re.compile(r"\w+")


@dataclass
class Passage:
    """One hit in the making: ``row`` is the global row of the chunk that ranked it, ``first`` to ``last`` the rows of the
    chunks whose text it shows (of one document), ``copies`` the rows folded under it."""

    row: int
    score: float
    first: int
    last: int
    copies: list[int] = field(default_factory=list)


def passages(
    snapshot: Snapshot,
    order: Sequence[tuple[int, float]],
    k: int,
    *,
    merge: bool = False,
    neighbours: int = 0,
    fold: bool = False,
) -> list[Passage]:
    """The first ``k`` passages of ``order`` ((row, score), best first).

    ``neighbours`` widens each chunk by so many before and after it in its document. With ``merge`` a chunk that overlaps a
    passage standing before it, or follows or precedes it directly, is joined to it and takes no place of its own; two
    passages that this brings together become one. With ``fold`` a chunk whose text nearly repeats that of a passage is
    counted there. Nearly: four fifths of the word sequences of four that one of the two has stand in both (the resemblance of
    Broder, 1997, with 4-shingles).
    """
    found: list[Passage] = []
    shingles: dict[int, frozenset[tuple[str, ...]]] = {}
    for row, score in order:
        first, last = snapshot.neighbourhood(row, neighbours)
        near = [passage for passage in found if merge and _meets(snapshot, passage, first, last)]
        if near:
            _join(near, first, last)
            found = [passage for passage in found if passage not in near[1:]]
            continue
        if fold:
            mine = _shingles(str(snapshot.chunk(row)["text"]))
            copy = next((p for p in found if resemblance(mine, shingles[p.row]) >= ALIKE), None)
            if copy is not None:
                copy.copies.append(row)
                continue
            shingles[row] = mine
        if len(found) == k:
            break
        found.append(Passage(row, score, first, last))
    return found


def _meets(snapshot: Snapshot, passage: Passage, first: int, last: int) -> bool:
    """Rows of a document stand in the order of its text: those that overlap or touch are next to each other."""
    return first <= passage.last + 1 and last >= passage.first - 1 and snapshot.same_document(passage.first, first)


def _join(near: Sequence[Passage], first: int, last: int) -> None:
    """Into the best of them."""
    best = near[0]
    best.first = min(first, *(passage.first for passage in near))
    best.last = max(last, *(passage.last for passage in near))
    for passage in near[1:]:
        best.copies += passage.copies


def _shingles(text: str) -> frozenset[tuple[str, ...]]:
    words = _WORD.findall(text.casefold())
    if len(words) < SHINGLE:
        return frozenset([tuple(words)])
    return frozenset(tuple(words[at : at + SHINGLE]) for at in range(len(words) - SHINGLE + 1))


def resemblance(a: frozenset[tuple[str, ...]], b: frozenset[tuple[str, ...]]) -> float:
    """The share of the union that stands in both."""
    return len(a & b) / len(a | b) if a or b else 1.0
