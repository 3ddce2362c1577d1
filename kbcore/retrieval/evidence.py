"""The evidence rule: is what was found enough to answer from, or so little that nothing is shown?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from kbcore.types import Json


@dataclass(frozen=True, slots=True)
class EvidenceCut:
    """Evidence is weak where the best cosine is below ``cosine`` and the matched share below ``share``.

    The matched share is that of the question's terms which the best chunk of keyword search holds, rare ones counting
    more. Where a search has one of the two figures only, that one decides; a fused score never does. ``origin`` says where
    the cut comes from: ``default``, ``configured``, or the file of the evaluation it was calibrated by.

    A nearest neighbour exists for every question, an unrelated one too. Weak evidence that is also below
    ``no_match_cosine`` and ``no_match_share`` is not shown at all: the outcome is ``no_match``. Vector search goes by the
    cosine's bound alone; keyword search by the share's, but not by one that stands beside a cosine's, which is not meant to
    decide alone. A bound that is None is never passed.
    """

    cosine: float = 0.25
    share: float = 0.3
    origin: str = "default"
    no_match_cosine: float | None = None
    no_match_share: float | None = None

    def is_weak(self, best_cosine: float | None, matched_share: float | None) -> bool:
        low = best_cosine is None or best_cosine < self.cosine
        return low and (matched_share is None or matched_share < self.share)

    def is_nothing(self, best_cosine: float | None, matched_share: float | None) -> bool:
        """Whether evidence is so weak that nothing is shown; never where it is not weak."""
        if best_cosine is None and self.no_match_cosine is not None:
            return False
        figures = [(best_cosine, self.no_match_cosine), (matched_share, self.no_match_share)]
        known = [(figure, bound) for figure, bound in figures if figure is not None]
        below = bool(known) and all(bound is not None and figure < bound for figure, bound in known)
        return below and self.is_weak(best_cosine, matched_share)

    def to_json(self) -> Json:
        return asdict(self)

    @classmethod
    def from_json(cls, body: Mapping[str, Any], origin: str | None = None) -> EvidenceCut:
        """As ``to_json`` gives it; records of before the second bound have none."""
        bounds = {name: body.get(name) for name in ("no_match_cosine", "no_match_share")}
        return cls(float(body["cosine"]), float(body["share"]), origin or body["origin"], **bounds)


# What cosines mean differs from model to model: these are measured (tests/bench/bench_abstention.py: of 150 questions that
# have an answer at most 2 are called weak in hybrid search, 8 where the cosine decides alone, and none is withheld), and
# other models have the cut above, which calls little weak and withholds nothing.
_MEASURED = {"all-MiniLM-L6-v2": EvidenceCut(0.40, 0.30, "default", 0.25, 0.30)}


def default_cut(model: str) -> EvidenceCut:
    """The cut of an embedder's model, by the name in its fingerprint, where nobody calibrated one."""
    return _MEASURED.get(model, EvidenceCut())
