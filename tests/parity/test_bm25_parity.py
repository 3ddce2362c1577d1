"""BM25 over postings against rank-bm25, bm25s and the formula written out; and the cases that trip rank-bm25."""

from __future__ import annotations

import math
import random

import bm25s
import numpy as np
import pyarrow as pa
import pytest
from rank_bm25 import BM25Okapi

from kbcore.errors import UsageError
from kbcore.index.lexical import Postings, StoredBM25, build_postings


def corpus(seed: int, chunks: int = 120) -> list[list[str]]:
    """Few words and very unequal shares, so that terms in more than half of the chunks occur; some chunks are empty."""
    rng = random.Random(seed)
    words = ["the", "of", "kb", "naïve", "返金", "err-4012", *(f"w{n}" for n in range(60))]
    weights = [1.0 / (rank + 1) for rank in range(len(words))]
    return [rng.choices(words, weights, k=rng.choice([0, 1, 5, 12, 30])) for _ in range(chunks)]


def queries(seed: int) -> list[list[str]]:
    rng = random.Random(seed)
    words = ["the", "of", "kb", "naïve", "返金", "err-4012", "unknown", *(f"w{n}" for n in range(60))]
    return [rng.sample(words, rng.randint(1, 8)) for _ in range(20)]


def stored(chunks: list[list[str]], **settings) -> StoredBM25:
    return StoredBM25([(build_postings(chunks), None)], **settings)


@pytest.mark.parametrize("seed", range(8))
def test_with_okapi_idf_the_scores_are_those_of_rank_bm25(seed):
    chunks = corpus(seed)
    oracle, ours = BM25Okapi(chunks), stored(chunks, idf="okapi")
    assert ours.average_idf == pytest.approx(oracle.average_idf, rel=1e-12)
    assert ours.idf == pytest.approx(oracle.idf, rel=1e-9)
    for query in queries(seed):
        np.testing.assert_allclose(ours.get_scores(query), oracle.get_scores(query), rtol=1e-5, atol=1e-12)
        np.testing.assert_allclose(
            ours.get_batch_scores(query, [5, 0, 77]), oracle.get_batch_scores(query, [5, 0, 77]), rtol=1e-5, atol=1e-12
        )


@pytest.mark.parametrize(("k1", "b"), [(1.5, 0.75), (0.9, 0.4), (1.2, 0.0), (2.0, 1.0)])
def test_with_lucene_idf_the_scores_are_the_formula_written_out(k1, b):
    chunks = corpus(11)
    ours = stored(chunks, k1=k1, b=b)
    n, average = len(chunks), sum(map(len, chunks)) / len(chunks)
    for query in queries(11):
        expected = []
        for chunk in chunks:
            score = 0.0
            for term in set(query) & set(chunk):
                df = sum(term in other for other in chunks)
                tf = chunk.count(term)
                idf = math.log(1 + (n - df + 0.5) / (df + 0.5))
                score += idf * tf * (k1 + 1) / (tf + k1 * (1 - b + b * len(chunk) / average))
            expected.append(score)
        np.testing.assert_allclose(ours.scores(query), expected, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize(("k1", "b"), [(1.5, 0.75), (0.9, 0.4)])
def test_with_lucene_idf_the_scores_are_those_of_bm25s_times_k1_plus_1(k1, b):
    # bm25s follows today's Lucene, which left out the constant factor; rank-bm25 has it. The order is the same.
    chunks = corpus(12)
    oracle = bm25s.BM25(method="lucene", k1=k1, b=b, dtype="float64")
    oracle.index(chunks, show_progress=False)
    ours = stored(chunks, k1=k1, b=b)
    for query in queries(12):
        known = [term for term in query if term != "unknown"]
        if known:
            np.testing.assert_allclose(ours.scores(query), oracle.get_scores(known) * (k1 + 1), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("idf", ["lucene", "okapi"])
@pytest.mark.parametrize("n", [1, 3, 10, 1000])
def test_the_best_rows_are_the_matched_rows_by_score_with_all_ties_of_the_last(idf, n):
    chunks = corpus(13) * 2  # every chunk has an equal twin
    ours = stored(chunks, idf=idf)
    for query in queries(13):
        scores, matched = ours.scores(query), np.flatnonzero(ours.matched(query))
        order = sorted(matched.tolist(), key=lambda row: (-scores[row], row))
        cut = scores[order[min(n, len(order)) - 1]] if order else 0.0
        rows, found = ours.top(query, n)
        assert rows.tolist() == [row for row in order if scores[row] >= cut]
        assert found.tolist() == scores[rows].tolist()


def test_a_match_is_a_term_that_occurs_not_a_score_above_zero():
    chunks = [["a", "b"], ["a", "c"], ["d"], ["e"]]
    ours = stored(chunks, idf="okapi")
    assert ours.scores(["a"]).tolist() == [0.0] * 4  # in exactly half of the chunks
    assert ours.matched(["a"]).tolist() == [True, True, False, False]
    assert ours.top(["a"], 5)[0].tolist() == [0, 1]
    assert (stored(chunks).scores(["a"]) > 0).tolist() == [True, True, False, False]
    one = stored([["a"]], idf="okapi")
    assert one.scores(["a"])[0] < 0  # rank-bm25 scores a corpus of one document below 0
    assert one.top(["a"], 3)[0].tolist() == [0]


def test_only_allowed_rows_come_back_and_their_scores_stay():
    chunks = corpus(14)
    ours = stored(chunks)
    allowed = np.arange(len(chunks)) % 3 == 0
    for query in queries(14):
        scores = ours.scores(query)
        order = sorted(np.flatnonzero(ours.matched(query) & allowed).tolist(), key=lambda row: (-scores[row], row))
        rows, found = ours.top(query, 10**6, allowed)
        assert rows.tolist() == order
        assert found.tolist() == scores[rows].tolist()


@pytest.mark.parametrize("idf", ["lucene", "okapi"])
@pytest.mark.parametrize(
    "parts",
    [
        [],
        [([], None)],
        [([[]], None)],
        [([[], []], None)],
        [([["a"], ["a", "b"]], [False, False])],
        [([["a"]], [False]), ([], None), ([[]], None)],
    ],
)
def test_an_empty_corpus_finds_nothing(parts, idf):
    ours = StoredBM25([(build_postings(c), None if m is None else np.array(m)) for c, m in parts], idf=idf)
    assert not ours.scores(["a", "b"]).any()
    assert not ours.matched(["a"]).any()
    assert [part.tolist() for part in ours.top(["a"], 3)] == [[], []]
    assert ours.get_top_n(["a"], ["doc"] * ours.row_count) == []
    assert ours.idf == {}


def test_a_query_without_known_terms_finds_nothing_and_repeats_count_once():
    ours = stored([["a", "b"], ["a"], ["c"]])
    assert len(ours.top([], 3)[0]) == len(ours.top(["zzz", ""], 3)[0]) == 0
    assert ours.scores(["a", "a", "b"]).tolist() == ours.scores(["b", "a"]).tolist()


def test_the_terms_of_a_query_are_added_in_sorted_order():
    # Not in the order of a set, which differs from one process to the next and with it the last bits of a score.
    chunks = corpus(16)
    ours = stored(chunks)
    for query in queries(16):
        expected = np.zeros(len(chunks))
        for term in sorted(query):
            expected += ours.scores([term])
        assert ours.scores(query).tolist() == expected.tolist()


def test_get_top_n_returns_only_documents_that_match():
    ours = stored([["a", "b"], ["a"], ["c"]])
    assert ours.get_top_n(["c"], ["first", "second", "third"], n=5) == ["third"]
    assert ours.get_top_n(["zzz"], ["first", "second", "third"]) == []
    with pytest.raises(UsageError, match="2 documents were given for 3 rows"):
        ours.get_top_n(["a"], ["first", "second"])


def test_scores_of_single_rows_have_the_same_bits():
    chunks = corpus(15)
    ours = stored(chunks)
    rows = [7, 7, 119, 0, 64]
    for query in queries(15):
        assert ours.score_rows(query, rows).tolist() == ours.scores(query)[rows].tolist()
    assert ours.score_rows(["the"], []).tolist() == []
    for wrong in (-1, 120):
        with pytest.raises(UsageError, match="0 to 119"):
            ours.score_rows(["the"], [wrong])


def test_impossible_questions_are_refused():
    ours = stored([["a"]])
    for wrong in (
        lambda: ours.top(["a"], 0),
        lambda: ours.top(["a"], 1, np.ones(2, dtype=bool)),
        lambda: StoredBM25([(build_postings([["a"]]), np.array([1]))]),
        lambda: stored([["a"]], idf="other"),
    ):
        with pytest.raises(UsageError):
            wrong()


def test_postings_are_sorted_by_code_point_and_complete():
    postings = build_postings(iter([["b", "é", "b"], [], ["𝒳", "～", "b"]]))
    assert postings.terms.to_pylist() == sorted(["b", "é", "～", "𝒳"])
    assert postings.counts.tolist() == [2, 1, 1, 1]
    assert postings.rows.tolist() == [0, 2, 0, 2, 2]
    assert postings.frequencies.tolist() == [2, 1, 1, 1, 1]
    assert postings.lengths.tolist() == [3, 0, 3]


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"terms": pa.array(["b", "a"])}, "sorted"),
        ({"terms": pa.array(["a", "a"])}, "unique"),
        ({"terms": pa.array(["a"])}, "one per count"),
        ({"counts": np.array([3, 0], np.int32)}, "without a posting"),
        ({"counts": np.array([2, 2], np.int32)}, "counted"),
        ({"frequencies": np.array([1, 1], np.int32)}, "frequencies"),
        ({"frequencies": np.array([1, 0, 1], np.int32)}, "below 1"),
        ({"rows": np.array([0, 2, 1], np.int32)}, "outside"),
        ({"rows": np.array([0, -1, 1], np.int32)}, "outside"),
        ({"rows": np.array([1, 1, 0], np.int32)}, "ascend"),
    ],
)
def test_postings_that_do_not_fit_each_other_are_refused(changed, reason):
    good = {
        "terms": pa.array(["a", "b"]),
        "counts": np.array([2, 1], np.int32),
        "rows": np.array([0, 1, 0], np.int32),
        "frequencies": np.array([1, 1, 1], np.int32),
        "lengths": np.array([2, 1], np.int32),
    }
    Postings(**good)
    with pytest.raises(ValueError, match=reason):
        Postings(**(good | changed))


@pytest.mark.parametrize("seed", range(4))
def test_the_terms_of_a_row_are_those_that_its_chunk_holds(seed):
    chunks = corpus(seed)
    ours = stored(chunks)
    for query in queries(seed):
        for row in (0, 7, len(chunks) - 1):
            assert ours.terms_in(query, row) == sorted(set(query) & set(chunks[row]))
    with pytest.raises(UsageError):
        ours.terms_in(["the"], len(chunks))
