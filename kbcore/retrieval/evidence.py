"""The evidence rule: is what was found enough to answer from?"""

from __future__ import annotations

from dataclasses import asdict, dataclass

from kbcore.types import Json


@dataclass(frozen=True, slots=True)
class EvidenceCut:
    """Evidence is weak where the best cosine is below ``cosine`` and the matched share below ``share``.

    The matched share is that of the question's terms which the best chunk of keyword search holds, rare ones counting
    more. Where a search has
    one of the two figures only, that one decides; a fused score never does. ``origin`` says where the cut comes from:
    ``default``, ``configured``, or the file of the evaluation it was calibrated by.
    """

    cosine: float = 0.25
    share: float = 0.3
    origin: str = "default"

    def is_weak(self, best_cosine: float | None, matched_share: float | None) -> bool:
        low = best_cosine is None or best_cosine < self.cosine
        return low and (matched_share is None or matched_share < self.share)

    def to_json(self) -> Json:
        return asdict(self)
