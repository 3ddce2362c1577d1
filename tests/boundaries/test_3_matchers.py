"""3 meaning and words: each matcher sees one of the two, and what the fused number means is said."""

from __future__ import annotations

from pathlib import Path

import pytest

from kbcore.config import Config, load
from kbcore.knowledge_base import KnowledgeBase
from kbcore.retrieval.explaining import explain
from tests.boundaries.claims import Claim
from tests.boundaries.corpus import support
from tests.support import refreshed


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> KnowledgeBase:
    base = support(tmp_path_factory.mktemp("matchers"), retrieval={"alpha": 0.7})
    refreshed(base)
    return base


def test_an_exact_code_and_a_paraphrase(base: KnowledgeBase, claim: Claim) -> None:
    retriever = base.retriever()
    for mode in ("keyword", "hybrid"):
        first = retriever.search("ERR-4012", 3, mode=mode).hits[0]  # type: ignore[arg-type]
        claim(f"{mode} search finds an exact code", f"{first.score:.3f} {first.uri}", first.uri == "errors.md")
    found = retriever.search("reimbursement timeframe", 3, mode="keyword")
    claim("keyword search is blind to a paraphrase, and says no_match", found.outcome, found.outcome == "no_match")
    for mode in ("vector", "keyword"):
        scores = [hit.score for hit in retriever.search("ERR-4012 payment failed", 9, mode=mode).hits]  # type: ignore[arg-type]
        claim(f"{mode} scores fall", f"{len(scores)} hits", scores == sorted(scores, reverse=True))
    cosines = [hit.score for hit in retriever.search("weekend", 9, mode="vector").hits]
    claim("vector scores are cosines", f"{min(cosines):.3f} to {max(cosines):.3f}", all(-1 <= c <= 1 for c in cosines))


def test_the_documented_arithmetic_of_fusion(base: KnowledgeBase, claim: Claim, tmp_path: Path) -> None:
    file = tmp_path / "kb.toml"
    file.write_text('[kb]\nname = "support"\n[retrieval]\nalpha = 0.7\n')
    config: Config = load(file, {})
    claim("[retrieval] alpha = 0.7 is read", config.retrieval.alpha, config.retrieval.alpha == 0.7)
    retriever = base.retriever()
    top = explain(retriever, retriever.request("ERR-4012 payment failed", 3)).candidates[0]
    claim(
        "a chunk that tops both lists has 0.7 x 1.0 + 0.3 x 1.0",
        f"{top.vector_part:.3f} + {top.keyword_part:.3f} = {top.fused:.3f}",
        (round(top.vector_part or 0, 12), round(top.keyword_part or 0, 12), round(top.fused, 12)) == (0.7, 0.3, 1.0),
    )
    # The best vector hit that no word of the question stands in has 0.7 x 1.0 and nothing else.
    found = explain(retriever, retriever.request("can I get my money back? ERR-5001", 4, depth=1))
    alone = next(entry for entry in found.candidates if entry.vector_rank == 1)
    claim(
        "the best vector hit, in no keyword list, has 0.700 = 0.7 x 1.0",
        f"{alone.fused:.3f}",
        alone.keyword_rank is None and round(alone.fused, 12) == 0.7,
    )


def test_one_side_alone_passes_through_and_is_named(base: KnowledgeBase, claim: Claim) -> None:
    retriever = base.retriever()
    question = "reimbursement timeframe"
    hybrid, vector = retriever.search(question, 3), retriever.search(question, 3, mode="vector")
    same = [(hit.chunk_id, hit.score) for hit in hybrid.hits] == [(hit.chunk_id, hit.score) for hit in vector.hits]
    kind = hybrid.score_kind
    claim("hybrid with an empty keyword side is the vector result", kind, same and kind == "cosine")
    fused = retriever.search("ERR-4012 payment failed", 3)
    complete = all(hit.cosine is not None and hit.bm25 is not None for hit in fused.hits)
    kind = fused.score_kind
    claim("a fused hit carries both raw scores, and the kind is named", kind, complete and kind == "minmax")
    vectors = retriever.search(fused.query, 3, mode="vector").hits
    best = fused.evidence["best_cosine"]
    claim("the evidence rule looks at raw figures", f"best cosine {best:.3f}", best == vectors[0].cosine)
