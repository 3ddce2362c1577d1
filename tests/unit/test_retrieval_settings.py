"""Settings of retrieval: what the configuration says is what search does, and what scorecards name."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from kbcore.evaluation.runner import search_settings
from kbcore.index.lexical import StoredBM25, build_postings
from kbcore.ingest.cutting import terms_of
from kbcore.retrieval import Retriever
from kbcore.retrieval.settings import RetrievalSettings
from kbcore.tokenization import query_terms
from tests.support import configure, knowledge_base, refreshed

PAGES = {
    "a.md": "# Keys\n\nA key opens the key box; every key has a number.\n",
    "b.md": "# Boxes\n\nThe box by the door is grey. " + "It was painted last spring. " * 10 + "\n",
    "c.md": "# Doors\n\nA door that does not open is reported to the porter with its number.\n",
}


@pytest.mark.parametrize(("k1", "b"), [(1.5, 0.75), (0.9, 0.4), (2.0, 0.0)])
def test_keyword_search_weighs_with_the_configured_k1_and_b(tmp_path: Path, k1: float, b: float) -> None:
    base = knowledge_base(tmp_path, PAGES, retrieval={"k1": k1, "b": b})
    refreshed(base)
    retriever = base.retriever(mode="keyword")
    assert isinstance(retriever, Retriever)
    hits = retriever.search("key box number", 10).hits

    (segment,) = base.repository.segments(base.repository.manifest("r000001"))
    columns = segment.chunks(["chunk_id", "document_row", "heading", "text"]).to_pylist()
    titles = segment.documents(["title"]).column("title").to_pylist()
    terms = [terms_of(titles[row["document_row"]], row["heading"], row["text"]) for row in columns]
    expected = StoredBM25([(build_postings(terms), None)], k1=k1, b=b).scores(query_terms("key box number"))
    by_id = {row["chunk_id"]: score for row, score in zip(columns, expected, strict=True)}
    assert hits
    assert {hit.chunk_id: hit.score for hit in hits} == pytest.approx(
        {hit.chunk_id: by_id[hit.chunk_id] for hit in hits}
    )


def test_the_weights_stay_where_a_document_is_erased_from_an_open_retriever(tmp_path: Path) -> None:
    base = knowledge_base(tmp_path, PAGES, retrieval={"k1": 0.9, "b": 0.4})
    refreshed(base)
    snapshot = base.retriever(mode="keyword").snapshot
    lexical = snapshot.without(base.repository, snapshot.erased).lexical
    assert lexical is not None
    assert (lexical.k1, lexical.b) == (0.9, 0.4)


def test_scorecards_name_the_weights_of_bm25_where_it_takes_part(tmp_path: Path) -> None:
    config = configure(tmp_path, retrieval={"k1": 0.9, "b": 0.4})
    default, chosen = RetrievalSettings(), RetrievalSettings.of(config)
    assert search_settings(default, ["nDCG@10"])["bm25"] == {"idf": "lucene", "k1": 1.5, "b": 0.75}
    assert search_settings(chosen, ["nDCG@10"])["bm25"] == {"idf": "lucene", "k1": 0.9, "b": 0.4}
    assert search_settings(RetrievalSettings(mode="vector"), ["nDCG@10"])["bm25"] is None


@pytest.mark.parametrize("wrong", [{"k1": -0.1}, {"b": 1.1}, {"b": -0.1}])
def test_weights_that_bm25_does_not_have_are_refused(tmp_path: Path, wrong: dict[str, float]) -> None:
    with pytest.raises(ValidationError):
        configure(tmp_path, retrieval=wrong)


def test_the_matched_share_is_that_of_the_best_chunk_and_not_of_the_release(tmp_path: Path) -> None:
    base = knowledge_base(tmp_path, PAGES)
    refreshed(base)
    retriever = base.retriever(mode="keyword")
    together = retriever.search("key number", 5).evidence
    apart = retriever.search("painted porter", 5).evidence
    assert (together["matched_terms"], together["matched_share"]) == (2, 1.0)
    assert apart["matched_terms"] == 2, "the release holds both words"
    assert apart["matched_share"] == pytest.approx(0.5, abs=0.01), "no chunk holds both"
