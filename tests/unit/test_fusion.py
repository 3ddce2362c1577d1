"""Fusion: the arithmetic that is documented, and what a fused order may not depend on."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbcore.errors import UsageError
from kbcore.fusion import minmax, ranked, rrf

SCORES = st.dictionaries(st.sampled_from("abcdefgh"), st.floats(-1.0, 50.0), max_size=8)


def test_the_documented_example_is_alpha_times_one():
    # seeds/001: the best vector hit without a keyword match scores "0.700 - exactly alpha(0.7) x 1.0".
    vector = [("refund", 0.62), ("hours", 0.41), ("gift", 0.35)]
    fused = minmax(vector, [("gift", 1.3), ("hours", 0.4)])
    assert fused["refund"] == 0.7 * 1.0
    assert fused["gift"] == (1.0 - 0.7) * 1.0
    assert ranked(fused)[0] == ("refund", 0.7)


def test_a_chunk_that_tops_both_lists_scores_one():
    fused = minmax([("a", 0.8), ("b", 0.7)], [("a", 2.1), ("b", 0.9)])
    assert fused["a"] == pytest.approx(1.0, abs=1e-15)
    assert fused["b"] == 0.0


def test_each_list_is_normalised_by_its_own_range():
    fused = minmax([("a", 0.9), ("b", 0.5), ("c", 0.1)], [("c", 4.0), ("b", 3.0), ("d", 2.0)])
    assert fused == pytest.approx({"a": 0.7, "b": 0.7 * 0.5 + 0.3 * 0.5, "c": 0.3, "d": 0.0})


@pytest.mark.parametrize("scored", [[("a", 0.81), ("b", 0.67)], [("x", -0.2)], []])
def test_when_one_side_is_empty_the_other_passes_through_unnormalised(scored):
    assert minmax(scored, []) == dict(scored)
    assert minmax([], scored) == dict(scored)


def test_equal_scores_normalise_to_one():
    assert minmax([("a", 0.3), ("b", 0.3)], [("c", 5.0)]) == {"a": 0.7, "b": 0.7, "c": pytest.approx(0.3)}


def test_rrf_adds_one_over_k_plus_rank():
    fused = rrf([["a", "b", "c"], ["c", "a"]])
    assert fused == pytest.approx({"a": 1 / 61 + 1 / 62, "b": 1 / 62, "c": 1 / 63 + 1 / 61})
    assert rrf([["a"]], k=0) == {"a": 1.0}
    assert rrf([]) == rrf([[], []]) == {}


def test_ties_are_ordered_by_id():
    assert [key for key, _ in ranked({"b": 1.0, "c": 2.0, "a": 1.0})] == ["c", "a", "b"]


@pytest.mark.parametrize(
    "call",
    [
        lambda: rrf([["a", "a"]]),
        lambda: rrf([["a"]], k=-1),
        lambda: minmax([("a", 1.0), ("a", 0.5)], [("b", 1.0)]),
        lambda: minmax([("a", math.nan)], [("b", 1.0)]),
        lambda: minmax([("a", 1.0)], [("b", math.inf)]),
        lambda: minmax([("a", 1.0)], [("b", 1.0)], alpha=1.1),
    ],
)
def test_what_would_give_a_wrong_order_is_refused(call):
    with pytest.raises(UsageError):
        call()


@given(SCORES, SCORES, st.floats(0.0, 1.0))
def test_a_fused_score_lies_between_zero_and_one_and_every_chunk_has_one(vector, keyword, alpha):
    fused = minmax(list(vector.items()), list(keyword.items()), alpha)
    assert set(fused) == set(vector) | set(keyword)
    if vector and keyword:
        assert all(0.0 <= score <= 1.0 for score in fused.values())


@given(SCORES, SCORES, st.randoms())
def test_the_order_in_which_scores_come_in_does_not_matter(vector, keyword, random):
    v, w = list(vector.items()), list(keyword.items())
    before = ranked(minmax(v, w))
    random.shuffle(v)
    random.shuffle(w)
    assert ranked(minmax(v, w)) == before
