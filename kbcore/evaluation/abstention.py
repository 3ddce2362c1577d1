"""Abstention: how often is a question without an answer answered, and one with an answer turned away? And which cut of
the evidence parts the two best?"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np
from numpy.typing import NDArray

from kbcore.retrieval.evidence import EvidenceCut
from kbcore.types import Json

ENOUGH = 5
MOST = 200
ALONE = 1.01
CLEARLY = 0.05
"""How far below the lowest figure of a question with an answer nothing is shown."""
COUNTS = ("no_answer", "no_answer_answered", "answerable", "answerable_abstained")


@dataclass(frozen=True, slots=True)
class Evidence:
    """What one search rested on: its two figures, whether anything was found at all, and whether there is an answer.

    Answered means the outcome ``hits``: a question whose evidence is weak, or too weak for anything to be shown, is turned
    away.
    """

    best_cosine: float | None
    matched_share: float | None
    found: bool
    answerable: bool

    def answered(self, cut: EvidenceCut) -> bool:
        return self.found and not cut.is_weak(self.best_cosine, self.matched_share)


@dataclass(frozen=True, slots=True)
class Abstention:
    """``precision`` is the share of the questions turned away that have no answer, ``recall`` the share of those without
    one that are turned away; None where there are none."""

    no_answer: int
    no_answer_answered: int
    answerable: int
    answerable_abstained: int

    @property
    def precision(self) -> float | None:
        abstained = self.no_answer - self.no_answer_answered + self.answerable_abstained
        return (self.no_answer - self.no_answer_answered) / abstained if abstained else None

    @property
    def recall(self) -> float | None:
        return (self.no_answer - self.no_answer_answered) / self.no_answer if self.no_answer else None

    def to_json(self) -> Json:
        return {**asdict(self), "precision": self.precision, "recall": self.recall}

    @classmethod
    def from_json(cls, body: Json) -> Abstention:
        return cls(**{name: body[name] for name in COUNTS})


def measure(evidence: Iterable[Evidence], cut: EvidenceCut) -> Abstention:
    """Count at a cut."""
    counts = {True: [0, 0], False: [0, 0]}
    for entry in evidence:
        counts[entry.answerable][0] += 1
        counts[entry.answerable][1] += entry.answered(cut)
    return Abstention(counts[False][0], counts[False][1], counts[True][0], counts[True][0] - counts[True][1])


def calibrate(evidence: Sequence[Evidence], origin: str) -> tuple[EvidenceCut, Abstention] | None:
    """The cut with the best balanced accuracy (the mean of the shares of both kinds that are treated rightly), and what it
    comes to on these questions; None where fewer than five of one kind were asked.

    Below a second pair of bounds, under every question here that has an answer, nothing is shown (``no_match``).
    Among equals the one in the middle of the widest gap between observed figures, so that it does not hang on one question.
    """
    if min(sum(entry.answerable for entry in evidence), sum(not entry.answerable for entry in evidence)) < ENOUGH:
        return None
    wrong = {kind: _turned_away([entry for entry in evidence if entry.answerable is kind]) for kind in (True, False)}
    cosines = _between([entry.best_cosine for entry in evidence if entry.best_cosine is not None], -1.0, 1.0)
    # A figure that no question reaches leaves the decision to the other one alone.
    cosines = np.vstack([cosines, [ALONE, 0.0]])
    shares = _between([entry.matched_share for entry in evidence if entry.matched_share is not None], 0.0, 1.0)
    best: tuple[float, float, float, float] | None = None
    for share, share_gap in [*shares.tolist(), (ALONE, 0.0)]:
        right = (wrong[False](cosines[:, 0], share) + 1.0 - wrong[True](cosines[:, 0], share)) / 2
        top = np.flatnonzero(right >= right.max() - 1e-9)
        at = top[np.argmax(cosines[top, 1])]
        order = (round(float(right[at]), 9), float(cosines[at, 1]) + share_gap, float(cosines[at, 0]), share)
        best = order if best is None else max(best, order)
    assert best is not None
    cut = EvidenceCut(round(best[2], 4), round(best[3], 4), origin)
    cut = _with_bounds(evidence, cut)
    return cut, measure(evidence, cut)


def _with_bounds(evidence: Sequence[Evidence], cut: EvidenceCut) -> EvidenceCut:
    """With the bounds below which nothing is shown: clearly below every question that has an answer.

    Beside a cosine, which tells more, the matched share need only be weak; alone it must lie below every answer's too.
    """
    answers = [entry for entry in evidence if entry.answerable and entry.found]
    cosines = [entry.best_cosine for entry in answers if entry.best_cosine is not None]
    shares = [entry.matched_share for entry in answers if entry.matched_share is not None]
    if cosines:
        lowest = round(max(-1.0, min(min(cosines) - CLEARLY, cut.cosine)), 4)
        return replace(cut, no_match_cosine=lowest, no_match_share=cut.share)
    if shares:
        return replace(cut, no_match_share=round(max(0.0, min(min(shares) - CLEARLY, cut.share)), 4))
    return cut


def _turned_away(evidence: Sequence[Evidence]) -> Callable[[NDArray[np.float64], float], NDArray[np.float64]]:
    """The share of these questions that is turned away, by cosine cuts and one cut of the matched share."""
    cosines = np.array([-np.inf if entry.best_cosine is None else entry.best_cosine for entry in evidence])
    shares = np.array([-np.inf if entry.matched_share is None else entry.matched_share for entry in evidence])
    found = np.array([entry.found for entry in evidence], dtype=bool)

    def at(cuts: NDArray[np.float64], share: float) -> NDArray[np.float64]:
        low = np.sort(cosines[found & (shares < share)])
        away: NDArray[np.float64] = (np.searchsorted(low, cuts, side="left") + (~found).sum()) / len(evidence)
        return away

    return at


def _between(values: Sequence[float], low: float, high: float) -> NDArray[np.float64]:
    """Candidates for a cut, one between each two neighbouring values, with the width of its gap; at most some 200."""
    known = np.unique([low, *values, high])
    step = max(1, len(known) // MOST)
    known = np.unique([*known[::step], known[-1]])
    return np.column_stack([(known[:-1] + known[1:]) / 2, np.diff(known)])
