"""How a retriever answers where a call does not say otherwise."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from kbcore.config import Config
from kbcore.embedding.reranking import Reranker, RerankerSpec, make_reranker
from kbcore.retrieval.evidence import EvidenceCut
from kbcore.types import Fusion, Mode

DEFAULT_CUT = EvidenceCut()


@dataclass(frozen=True, slots=True)
class RetrievalSettings:
    """Defaults of a retriever. ``freshness_days`` is by source; ``cut`` belongs to the evidence rule.
    Where there is a ``reranker``, it orders the first ``rerank_depth`` chunks anew, the first k where k is more."""

    mode: Mode = "hybrid"
    fusion: Fusion = "minmax"
    alpha: float = 0.5
    k: int = 5
    idf: Literal["lucene", "okapi"] = "lucene"
    k1: float = 1.5
    b: float = 0.75
    cut: EvidenceCut = DEFAULT_CUT
    freshness_days: Mapping[str, float] | None = None
    reranker: Reranker | None = None
    rerank_depth: int = 20

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
        if chosen.mode == "keyword" and chosen.no_match_share is not None and chosen.no_match_cosine is None:
            # Whoever bounds the share alone, where nothing has a cosine, means it to decide: no default stands beside it.
            given["no_match_cosine"] = None
        if given:
            cut = replace(cut or DEFAULT_CUT, **given, origin="configured")
            if cut.no_match_cosine is not None and cut.no_match_share is None:
                # Beside a cosine the share need only be weak.
                cut = replace(cut, no_match_share=cut.share)
        named = chosen.reranker or chosen.reranker_path
        return cls(
            reranker=make_reranker(RerankerSpec(chosen.reranker or "", chosen.reranker_path)) if named else None,
            rerank_depth=chosen.rerank_depth,
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

    def window(self, k: int) -> int:
        """How many chunks a search for ``k`` reranks; 0 where nothing does."""
        return max(k, self.rerank_depth) if self.reranker is not None else 0
