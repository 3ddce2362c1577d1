"""Joining the lists of two matchers into one order. A fused score orders and means nothing else.

Two ways: reciprocal ranks, which look at places only, and weighted min-max, which looks at scores. Neither result is a
similarity, so neither can be compared between two questions or held against a threshold.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

from kbcore.errors import UsageError

K = TypeVar("K", str, int)


def rrf(lists: Sequence[Sequence[str]], k: int = 60) -> dict[str, float]:
    """Reciprocal rank fusion: the sum over the lists of ``1 / (k + rank)``, ranks counted from 1.

    ``lists`` hold ids, best first. An id that a list does not hold gets nothing from it. Formula and ``k = 60``:
    Cormack, Clarke and Buettcher, "Reciprocal Rank Fusion outperforms Condorcet and individual Rank Learning
    Methods", SIGIR 2009. Raises UsageError for a negative ``k`` and for an id that stands twice in one list.
    """
    if k < 0:
        raise UsageError(f"reciprocal rank fusion needs k >= 0, not {k}")
    fused: dict[str, float] = {}
    for ids in lists:
        _refuse_repeats(ids)
        for rank, key in enumerate(ids, start=1):
            fused[key] = fused.get(key, 0.0) + 1.0 / (k + rank)
    return fused


def minmax(
    vector: Sequence[tuple[str, float]], keyword: Sequence[tuple[str, float]], alpha: float = 0.7
) -> dict[str, float]:
    """Weighted min-max fusion: ``alpha * v + (1 - alpha) * w`` of the two normalised scores of an id.

    Each list of (id, score) is mapped to [0, 1] by its own lowest and highest score; equal scores all become 1.0. An id
    that one list does not hold counts 0 there. **When one list is empty the other passes through as it is, not
    normalised**, so the result then holds cosines or BM25 scores: the caller names the kind of score with the result.
    The arithmetic is the one of the concept page this project was given (alpha 0.7, "0.700 = 0.7 x 1.0").
    Raises UsageError for an ``alpha`` outside [0, 1], a score that is not finite, or an id that stands twice in a list.
    """
    if not 0.0 <= alpha <= 1.0:
        raise UsageError(f"alpha is a share between 0 and 1, not {alpha}")
    for scored in (vector, keyword):
        _refuse_repeats([key for key, _ in scored])
        for key, score in scored:
            if not math.isfinite(score):
                raise UsageError(f"the score of {key} is {score}")
    if not vector or not keyword:
        return dict(vector or keyword)
    v, w = normalised(vector), normalised(keyword)
    return {key: alpha * v.get(key, 0.0) + (1.0 - alpha) * w.get(key, 0.0) for key in (*v, *w)}


def ranked(scores: Mapping[str, float]) -> list[tuple[str, float]]:
    """(id, score) by falling score; equal scores by id, so that the order never rests on how the scores came in."""
    return sorted(scores.items(), key=lambda item: (-item[1], item[0]))


def normalised(scored: Sequence[tuple[K, float]]) -> dict[K, float]:
    """A list of (id, score) mapped to [0, 1] by its lowest and highest score; equal scores all become 1.0."""
    lowest = min(score for _, score in scored)
    span = max(score for _, score in scored) - lowest
    if span == 0.0:
        return dict.fromkeys((key for key, _ in scored), 1.0)
    return {key: (score - lowest) / span for key, score in scored}


def _refuse_repeats(ids: Iterable[str]) -> None:
    # A repeated id would count twice in one list and look better than it is.
    seen: set[str] = set()
    for key in ids:
        if key in seen:
            raise UsageError(f"{key} stands twice in one list")
        seen.add(key)
