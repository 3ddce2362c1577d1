"""How a retriever answers where a call does not say otherwise."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from kbcore.config import Config
from kbcore.retrieval.evidence import EvidenceCut
from kbcore.types import Fusion, Mode

DEFAULT_CUT = EvidenceCut()


@dataclass(frozen=True, slots=True)
class RetrievalSettings:
    """Defaults of a retriever. ``freshness_days`` is by source; ``cut`` belongs to the evidence rule."""

    mode: Mode = "hybrid"
    fusion: Fusion = "minmax"
    alpha: float = 0.5
    k: int = 5
    idf: Literal["lucene", "okapi"] = "lucene"
    k1: float = 1.5
    b: float = 0.75
    cut: EvidenceCut = DEFAULT_CUT
    freshness_days: Mapping[str, float] | None = None

    @classmethod
    def of(cls, config: Config, cut: EvidenceCut | None = None) -> RetrievalSettings:
        """What ``config`` says; ``cut`` is the calibrated one, which a configured one goes before."""
        chosen = config.retrieval
        if chosen.weak_cosine is not None or chosen.weak_share is not None:
            known = cut or DEFAULT_CUT
            cut = EvidenceCut(
                known.cosine if chosen.weak_cosine is None else chosen.weak_cosine,
                known.share if chosen.weak_share is None else chosen.weak_share,
                "configured",
            )
        return cls(
            mode=chosen.mode,
            fusion=chosen.fusion,
            alpha=chosen.alpha,
            k=chosen.k,
            idf=chosen.idf,
            k1=chosen.k1,
            b=chosen.b,
            cut=cut or DEFAULT_CUT,
            freshness_days={s.name: s.freshness_days for s in config.sources if s.freshness_days is not None},
        )
