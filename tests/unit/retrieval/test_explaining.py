"""Explanations: the figures add up, the order is the search's, and each stage at which a document is lost is told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kbcore.knowledge_base import KnowledgeBase
from kbcore.retrieval.explaining import explain
from kbcore.retrieval.retriever import Retriever
from kbcore.tokenization import tokens
from tests.support import DOCUMENTS, knowledge_base, refreshed, write

SAME = (
    "The quarterly notice says that all plotters on the second floor are replaced in the first week of May by the desk."
)
WORDS = ["gateway", "password", "badge", "phone", "plotters", "ERR-4012", "profile", "notice", "zebra"]


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> KnowledgeBase:
    root = tmp_path_factory.mktemp("explaining")
    documents = {
        **DOCUMENTS,
        "one.md": f"{SAME} One.\n",
        "two.md": f"{SAME} Two.\n",
        "retired.md": "# Retired\n\nThe pager is gone.\n",
        "vpn-long.md": "# Routes\n\n"
        + "\n\n".join(f"Route {n} goes by gateway number {n} in hall {n}." for n in range(8)),
    }
    base = knowledge_base(root, documents, chunking={"size": 70, "overlap": 10})
    refreshed(base)
    write(root / "docs", {"retired.md": None, "blank.md": "   \n", "broken.pdf": b"%PDF-1.4 nothing more"})
    refreshed(base)
    return base


@pytest.fixture(scope="module")
def retriever(base: KnowledgeBase) -> Retriever:
    return base.retriever()


def told(retriever: Retriever, query: str, document: str | None = None, k: int = 3, **options: Any) -> Any:
    return explain(retriever, retriever.request(query, k, **options), document)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    words=st.lists(st.sampled_from(WORDS), min_size=1, max_size=4), k=st.integers(1, 12),
    mode=st.sampled_from(["vector", "keyword", "hybrid"]), fusion=st.sampled_from(["rrf", "minmax"]),
    alpha=st.floats(0, 1),
)  # fmt: skip
def test_parts_add_up_and_the_order_is_the_one_of_the_search(
    retriever: Retriever, words: list[str], k: int, mode: Any, fusion: Any, alpha: float
) -> None:
    query = " ".join(words)
    found = told(retriever, query, k=k, mode=mode, fusion=fusion, alpha=alpha)
    search = retriever.search(query, k, mode=mode, fusion=fusion, alpha=alpha)
    assert found.result == search
    assert [entry.rank for entry in found.candidates] == list(range(1, len(found.candidates) + 1))
    top = found.candidates[: len(search.hits)]
    assert [entry.chunk_id for entry in top] == [hit.chunk_id for hit in search.hits]
    for entry, hit in zip(top, search.hits):
        assert (entry.cosine, entry.bm25) == (hit.cosine, hit.bm25)
        assert (entry.vector_rank, entry.keyword_rank) == (hit.vector_rank, hit.keyword_rank)
        assert entry.fused == pytest.approx(hit.score, abs=1e-12)
    if search.score_kind in ("minmax", "rrf"):
        for entry in found.candidates:
            assert (entry.vector_part or 0.0) + (entry.keyword_part or 0.0) == pytest.approx(entry.fused, abs=1e-12)
            assert (entry.vector_part is None) == (entry.vector_rank is None)
    else:
        assert all(entry.vector_part is None and entry.keyword_part is None for entry in found.candidates)
    scores = [entry.fused for entry in found.candidates]
    assert scores == sorted(scores, reverse=True)


@pytest.mark.parametrize("mode", ["vector", "keyword"])
def test_one_matcher_alone_orders_by_its_own_score(retriever: Retriever, mode: Any) -> None:
    for entry in told(retriever, "gateway hall", k=5, mode=mode).candidates:
        assert entry.fused == (entry.cosine if mode == "vector" else entry.bm25)


def test_the_words_of_a_question_are_shown_with_what_they_tell(retriever: Retriever) -> None:
    found = told(retriever, "the GATEWAY zebra ERR-4012 gateway")
    assert found.tokens == tuple(tokens("the GATEWAY zebra ERR-4012 gateway"))
    terms = {entry["term"]: entry for entry in found.terms}
    assert len(terms) == len(found.terms)
    assert terms["zebra"]["chunks"] == 0
    assert terms["gateway"]["chunks"] > terms["err-4012"]["chunks"] > 0
    assert terms["zebra"]["rarity"] > terms["err-4012"]["rarity"] > terms["gateway"]["rarity"]
    assert found.codes == ("err-4012",)


def stage(retriever: Retriever, query: str, document: str, **options: Any) -> tuple[str, str]:
    path = told(retriever, query, document, **options).document
    return path.stage, path.said


def test_shown(retriever: Retriever) -> None:
    path = told(retriever, "wiped lost phone", "docs:phones.html").document
    assert (path.stage, path.said, path.rank) == ("shown", "it is hit 1", 1)
    assert (path.keyword_rank, path.chunks) == (1, 1)
    assert stage(retriever, "wiped lost phone", "phones.html")[0] == "shown"


def test_folded(retriever: Retriever) -> None:
    first, second = (
        stage(retriever, "quarterly notice plotters", name, mode="keyword", fold=True) for name in ("one.md", "two.md")
    )
    assert {first[0], second[0]} == {"shown", "folded"}
    assert "nearly repeats hit 1" in max(first, second, key=lambda entry: entry[0] == "folded")[1]


def test_joined_is_told_of_a_chunk(retriever: Retriever) -> None:
    found = retriever.search("gateway number hall", 1, mode="keyword", merge=True).hits[0]
    assert found.last_ordinal > found.first_ordinal
    stages = {
        ordinal: stage(retriever, "gateway number hall", f"{found.doc_id}#c{ordinal}", k=1, mode="keyword", merge=True)
        for ordinal in range(found.first_ordinal, found.last_ordinal + 1)
    }
    assert stages.pop(found.ordinal) == ("shown", "it is hit 1")
    assert set(stages.values()) == {("joined", "its chunk was joined to hit 1")}


def test_a_chunk_beyond_the_last_is_no_chunk(retriever: Retriever) -> None:
    assert stage(retriever, "gateway", "phones.html#c7") == ("no chunk", "it has 1 chunks: c0 to c0")


def test_cut_by_k(retriever: Retriever) -> None:
    path = told(retriever, "gateway ERR-4012", "vpn-long.md", k=1, mode="hybrid").document
    assert path.stage == "cut by k"
    assert path.rank > 1
    assert f"candidate {path.rank} of" in path.said


def test_not_retrieved_with_the_rank_it_has_among_all(retriever: Retriever) -> None:
    path = told(retriever, "gateway", "phones.html", k=1, mode="vector").document
    assert path.stage == "not retrieved"
    everything = retriever.search("gateway", 200, mode="vector")
    rank = next(at for at, hit in enumerate(everything.hits, start=1) if hit.doc_id == "docs:phones.html")
    better = sum(hit.cosine > path.cosine for hit in everything.hits)
    assert path.vector_rank == better + 1 <= rank


def test_a_document_that_holds_no_term_has_no_keyword_rank(retriever: Retriever) -> None:
    path = told(retriever, "gateway", "phones.html", k=1, mode="keyword").document
    assert (path.stage, path.keyword_rank, path.vector_rank) == ("not retrieved", None, None)


def test_filtered_out(retriever: Retriever) -> None:
    assert stage(retriever, "lost phone", "phones.html", where="uri=vpn.md")[0] == "filtered out"


def test_withheld(tmp_path: Path) -> None:
    base = knowledge_base(tmp_path, retrieval={"weak_cosine": 0.9, "no_match_cosine": 0.8})
    refreshed(base)
    found = told(base.retriever(), "lobster bisque recipe", "vpn.md", k=20)
    assert found.result.outcome == "no_match"
    assert found.document.stage == "withheld"
    assert "too weak for anything to be shown" in found.document.said


def test_skipped_and_failed_and_never_listed(retriever: Retriever) -> None:
    for name in ("blank.md", "docs:blank.md"):
        where, said = stage(retriever, "x", name)
        assert where == "not in the release"
        assert "nothing to index in it" in said
    where, said = stage(retriever, "x", "broken.pdf")
    assert where == "not in the release"
    assert said.startswith("it could not be had")
    where, said = stage(retriever, "x", "nowhere.md")
    assert where == "not in the release"
    assert "no source ever listed it" in said


def test_deleted_in_a_release_that_is_named(base: KnowledgeBase, retriever: Retriever) -> None:
    for name in ("retired.md", "docs:retired.md"):
        assert "it was removed in r000002" in stage(retriever, "pager", name)[1]
    assert stage(base.retriever("r000001"), "pager", "retired.md")[0] == "shown"


def test_no_chunk(tmp_path: Path) -> None:
    base = knowledge_base(tmp_path)
    refreshed(base)
    retriever = base.retriever()
    # A document without a chunk is not made by today's parsers; releases of others may hold one.
    index = retriever.keys(retriever.snapshot)
    plain = index.find
    index.find = lambda key: [type(m)(m.kind, m.doc_id, ()) for m in plain(key)]  # type: ignore[method-assign]
    assert stage(retriever, "gateway", "vpn.md")[0] == "no chunk"


def test_erased(tmp_path: Path) -> None:
    base = knowledge_base(tmp_path)
    refreshed(base)
    base.repository.erase(
        [{"doc_id": "docs:vpn.md", "content_sha256": None}], reason="asked for", run=base.repository.begin()
    )
    assert stage(base.retriever(), "gateway", "vpn.md") == ("not in the release", "it was erased from all releases")


def test_an_explanation_of_a_blank_question_or_an_empty_release_is_no_error(
    tmp_path: Path, retriever: Retriever
) -> None:
    found = told(retriever, "   ", "vpn.md")
    assert (found.result.outcome, found.candidates) == ("no_match", ())
    base = knowledge_base(tmp_path, {"vpn.md": "x\n"})
    refreshed(base)
    write(tmp_path / "docs", {"vpn.md": None})
    refreshed(base, approve_removals=1)
    empty = told(base.retriever("latest"), "gateway", "vpn.md")
    assert empty.result.outcome == "kb_empty"
    assert "removed in" in empty.document.said


def test_an_explanation_is_plain_json(retriever: Retriever) -> None:
    found = told(retriever, "gateway", "vpn.md", where="source=docs")
    body = json.loads(json.dumps(found.to_json(), allow_nan=False))
    assert body["document"]["doc_id"] == "docs:vpn.md"
    assert body["request"]["where"] == {"source": "docs"}
    assert body["result"]["release"] == "r000002"
