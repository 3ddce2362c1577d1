"""How a retriever answers where a call does not say otherwise."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

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
    cut: EvidenceCut = DEFAULT_CUT
    freshness_days: Mapping[str, float] | None = None

    @classmethod
    def of(cls, config: Config, cut: EvidenceCut | None = None) -> RetrievalSettings:
        """What ``config`` says; ``cut`` is the calibrated one, which a configured one goes before."""
        chosen = config.retrieval
        said = {
            "cosine": chosen.weak_cosine,
            "share": chosen.weak_share,
            "no_match_cosine": chosen.no_match_cosine,
            "no_match_share": chosen.no_match_share,
        }
        given: dict[str, Any] = {name: value for name, value in said.items() if value is not None}
        if given:
            cut = replace(cut or DEFAULT_CUT, **given, origin="configured")
            if cut.no_match_cosine is not None and cut.no_match_share is None:
                # Beside a cosine the share need only be weak.
                cut = replace(cut, no_match_share=cut.share)
        return cls(
            mode=chosen.mode,
            fusion=chosen.fusion,
            alpha=chosen.alpha,
            k=chosen.k,
            idf=chosen.idf,
            cut=cut or DEFAULT_CUT,
            freshness_days={s.name: s.freshness_days for s in config.sources if s.freshness_days is not None},
        )
