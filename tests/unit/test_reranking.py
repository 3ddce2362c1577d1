"""Reranking: FastEmbed's cross-encoder on a real (tiny) model orders the first chunks anew, and nothing else."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kbcore.config import Config
from kbcore.embedding.reranking import CrossEncoder, RerankerSpec, make_reranker
from kbcore.errors import EmbeddingFailedError, RerankerUnavailableError, UsageError
from kbcore.evaluation.causes import Releases
from kbcore.evaluation.rankings import Asked, compare_rankings
from kbcore.evaluation.runner import search_settings
from kbcore.evaluation.wording import searched
from kbcore.knowledge_base import KnowledgeBase
from kbcore.retrieval.explaining import explain
from kbcore.retrieval.retriever import Retriever
from kbcore.retrieval.settings import RetrievalSettings
from tests.cross_encoder import write_cross_encoder
from tests.support import configure, knowledge_base, refreshed, write

WORDS = "the vpn gateway did not answer badge printer phone lost password reset floor page"
QUESTION = "gateway badge"
DOCUMENTS = {
    # By BM25 the short ones with the rarer word win; the cross-encoder counts how often words are shared.
    "a.md": "gateway badge",
    "b.md": "gateway gateway gateway gateway badge badge badge " + "floor " * 60,
    "c.md": "badge page",
    "d.md": "phone lost",
    **{f"{n}.md": f"gateway page number {n}" for n in range(8)},
}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_cross_encoder(tmp_path_factory.mktemp("model") / "overlap", WORDS)


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory, model: Path) -> KnowledgeBase:
    made = knowledge_base(tmp_path_factory.mktemp("kb"), DOCUMENTS, retrieval={"reranker_path": str(model)})
    refreshed(made)
    return made


def plain(base: KnowledgeBase) -> Retriever:
    settings = replace(base.settings(base.repository.manifest("r000001")), reranker=None)
    return Retriever(base.repository, base.repository.manifest("r000001"), base.catalog, settings=settings)


def test_the_model_scores_pairs_in_their_order(model: Path) -> None:
    scores = make_reranker(RerankerSpec(path=str(model))).score(
        "gateway badge", ["gateway", "phone", "badge badge gateway"]
    )
    assert scores == [1.0, 0.0, 3.0]


def test_a_reranker_orders_anew_and_keeps_every_figure(base: KnowledgeBase) -> None:
    before = plain(base).search(QUESTION, 3)
    after = base.retriever().search(QUESTION, 3)
    assert before.score_kind == "minmax"
    assert before.hits[0].doc_id == "docs:a.md"
    assert all(hit.fused is None for hit in before.hits)
    assert after.score_kind == "rerank"
    assert [(hit.doc_id, hit.score) for hit in after.hits[:2]] == [("docs:b.md", 7.0), ("docs:a.md", 2.0)]
    best = after.hits[0]
    assert None not in (best.cosine, best.bm25, best.vector_rank, best.keyword_rank, best.fused)
    assert after.hits[1].fused == pytest.approx(1.0)


def test_the_evidence_rule_does_not_look_at_it(base: KnowledgeBase) -> None:
    for question in (QUESTION, "how is an unrelated thing done", "phone"):
        before, after = plain(base).search(question, 20), base.retriever().search(question, 20)
        assert after.outcome == before.outcome
        for figure in ("best_cosine", "matched_share"):
            assert after.evidence[figure] == before.evidence[figure]


@pytest.mark.parametrize("mode", ["vector", "keyword", "hybrid"])
def test_the_first_hits_do_not_depend_on_k(base: KnowledgeBase, mode: Any) -> None:
    retriever = base.retriever()
    few, many = retriever.search(QUESTION, 2, mode=mode), retriever.search(QUESTION, 12, mode=mode)
    assert few.score_kind == many.score_kind == "rerank"
    assert [(h.chunk_id, h.score) for h in few.hits] == [(h.chunk_id, h.score) for h in many.hits[:2]]


def test_only_the_first_chunks_are_read_and_the_others_follow_in_their_order(base: KnowledgeBase) -> None:
    retriever = base.retriever()
    unread = retriever.search(QUESTION, 8, rerank=0, depth=12)
    found = retriever.search(QUESTION, 8, rerank=2, depth=12)
    assert {h.chunk_id for h in found.hits[:2]} == {h.chunk_id for h in unread.hits[:2]}
    assert [h.chunk_id for h in found.hits[2:]] == [h.chunk_id for h in unread.hits[2:]]
    scores = [hit.score for hit in found.hits]
    assert scores == sorted(scores, reverse=True)
    assert unread.score_kind == "minmax"


def test_asking_for_a_reranker_where_none_is_configured_is_refused(base: KnowledgeBase) -> None:
    with pytest.raises(UsageError, match="no reranker is configured"):
        plain(base).search(QUESTION, rerank=5)
    with pytest.raises(UsageError, match="rerank is a number"):
        base.retriever().search(QUESTION, rerank=-1)


def test_explain_shows_both_scores_and_follows_the_new_order(base: KnowledgeBase) -> None:
    retriever = base.retriever()
    found = explain(retriever, retriever.request(QUESTION, 1), "docs:a.md")
    assert [entry.doc_id for entry in found.candidates[:2]] == ["docs:b.md", "docs:a.md"]
    assert found.candidates[0].rerank == 7.0
    for entry in found.candidates:
        assert entry.fused == pytest.approx((entry.vector_part or 0.0) + (entry.keyword_part or 0.0))
    assert found.document is not None
    assert (found.document.stage, found.document.rank) == ("cut by k", 2)


def test_one_model_serves_every_release_of_a_process(base: KnowledgeBase) -> None:
    again = KnowledgeBase(base.config).retriever()
    assert again.settings.reranker is base.retriever().settings.reranker


def test_scorecards_name_the_reranker_and_are_kept_apart_by_it(base: KnowledgeBase, tmp_path: Path) -> None:
    settings = base.settings(base.repository.manifest("r000001"))
    named = search_settings(settings, ["nDCG@10"])
    assert settings.reranker is not None
    assert named["reranker"] == {"id": settings.reranker.reranker_id, "model": "overlap", "depth": 20}
    other = make_reranker(RerankerSpec(path=str(write_cross_encoder(tmp_path / "overlap", WORDS, sign=-1))))
    assert other.reranker_id != settings.reranker.reranker_id
    assert searched(named).endswith(", k = 5, the first 20 reranked by overlap")
    without = search_settings(replace(settings, reranker=None), ["nDCG@10"])
    assert "reranker" not in without
    assert searched(without).endswith(", k = 5")


def test_rankings_are_compared_by_the_hits_that_a_search_serves(base: KnowledgeBase) -> None:
    settings = replace(base.settings(base.repository.manifest("r000001")), k=2, rerank_depth=2)
    retriever = Retriever(base.repository, base.repository.manifest("r000001"), base.catalog, settings=settings)
    sides = Releases(base.repository, "r000001", "r000001")
    found = compare_rankings(sides, [Asked("q", QUESTION)], base.catalog, settings, file="asked")
    served = [(hit.doc_id, hit.start, hit.score) for hit in retriever.search(QUESTION).hits]
    assert [(hit.doc_id, hit.start, hit.score) for hit in found.questions[0].new_hits] == served
    assert searched(found.settings).endswith(", k = 2, the first 2 reranked by overlap")


def test_without_a_setting_there_is_none(tmp_path: Path) -> None:
    assert RetrievalSettings.of(configure(tmp_path)).reranker is None


def test_a_reranker_that_is_missing_ends_the_search_in_no_other_order(tmp_path: Path, model: Path) -> None:
    def configured(path: Path) -> Config:
        return configure(tmp_path, retrieval={"reranker_path": str(path)})

    made = knowledge_base(tmp_path, {"a.md": "gateway"})
    refreshed(made)
    with pytest.raises(RerankerUnavailableError, match="no reranker folder") as caught:
        KnowledgeBase(configured(tmp_path / "gone")).retriever()
    assert caught.value.exit_code == 12
    half = tmp_path / "half"
    write(half, {"model.onnx": (model / "model.onnx").read_bytes()})
    with pytest.raises(RerankerUnavailableError, match=r"lacks tokenizer\.json, tokenizer_config\.json"):
        KnowledgeBase(configured(half)).retriever()
    broken = write_cross_encoder(tmp_path / "broken", WORDS)
    (broken / "model.onnx").write_bytes(b"no model")
    with pytest.raises(RerankerUnavailableError, match="does not load"):
        KnowledgeBase(configured(broken)).retriever().search("gateway")
    with pytest.raises(RerankerUnavailableError, match="does not load"):
        KnowledgeBase(configured(broken)).live_retriever()


def test_names_are_looked_up_and_what_is_not_here_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("FASTEMBED_CACHE_PATH", str(tmp_path))
    with pytest.raises(RerankerUnavailableError, match="knows no reranker 'nope'") as caught:
        make_reranker(RerankerSpec("nope"))
    assert "Xenova/ms-marco-MiniLM-L-6-v2" in caught.value.remedy
    with pytest.raises(RerankerUnavailableError, match="is not on this machine"):
        make_reranker(RerankerSpec("Xenova/ms-marco-MiniLM-L-6-v2"))


@pytest.mark.parametrize("scores", [[1.0], [1.0, float("nan")], [1.0, float("inf")]])
def test_scores_that_are_none_are_errors(model: Path, scores: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    reranker = CrossEncoder("overlap", model, "model.onnx")
    reranker.load()
    monkeypatch.setattr(reranker._loaded, "rerank", lambda *_, **__: iter(scores))
    with pytest.raises(EmbeddingFailedError):
        reranker.score("a", ["b", "c"])
