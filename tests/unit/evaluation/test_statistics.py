"""Statistics of paired scores and rankings: properties, and parity with scipy and with the papers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from kbcore.statistics import bootstrap_interval, overlap, paired, randomisation_p, rank_biased_overlap

SCORES = st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=1, max_size=25)
RANKINGS = st.lists(st.integers(0, 30), unique=True, max_size=15)


@settings(max_examples=40, deadline=None)
@given(SCORES)
def test_every_question_is_a_win_a_tie_or_a_loss_and_the_difference_is_that_of_the_means(scores):
    old, new = [a for a, _ in scores], [b for _, b in scores]
    found = paired(old, new)
    assert found.wins + found.ties + found.losses == found.count == len(scores)
    assert found.difference == pytest.approx(found.new - found.old, abs=1e-8)
    assert 0 < found.p_value <= 1
    gaps = np.subtract(new, old)
    assert min(gaps.min(), 0) - 1e-9 <= found.low <= found.high <= max(gaps.max(), 0) + 1e-9


@settings(max_examples=40, deadline=None)
@given(SCORES)
def test_the_other_way_round_is_the_same_with_the_sign_changed(scores):
    old, new = [a for a, _ in scores], [b for _, b in scores]
    forth, back = paired(old, new), paired(new, old)
    assert (forth.wins, forth.ties, forth.losses) == (back.losses, back.ties, back.wins)
    assert forth.difference == pytest.approx(-back.difference)
    assert (forth.low, forth.high) == pytest.approx((-back.high, -back.low))
    assert forth.p_value == back.p_value


@given(st.lists(st.floats(0, 1), min_size=1, max_size=30))
def test_a_system_against_itself_is_all_ties_without_any_doubt(scores):
    found = paired(scores, scores)
    assert (found.wins, found.ties, found.losses) == (0, len(scores), 0)
    assert (found.difference, found.low, found.high, found.p_value) == (0.0, 0.0, 0.0, 1.0)


def test_no_question_has_no_figure():
    found = paired([], [])
    assert (found.count, found.old, found.difference, found.low, found.p_value) == (0, None, None, None, None)


def test_scores_that_do_not_pair_are_refused():
    with pytest.raises(ValueError, match="cannot be paired"):
        paired([1.0], [])


def test_a_rounding_error_is_a_tie():
    assert paired([0.1 + 0.2], [0.3]).ties == 1


@pytest.mark.parametrize("seed", range(5))
def test_the_exact_randomisation_test_is_that_of_scipy(seed):
    rng = np.random.default_rng(seed)
    old, new = rng.random(11), rng.random(11) + 0.1
    theirs = stats.permutation_test(
        (new, old), lambda a, b, axis: np.mean(a - b, axis=axis), permutation_type="samples", n_resamples=np.inf,
        vectorized=True,
    )  # fmt: skip
    assert randomisation_p(new - old) == pytest.approx(theirs.pvalue, abs=1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_the_randomisation_test_by_chance_agrees_with_that_of_scipy(seed):
    rng = np.random.default_rng(seed)
    old = rng.random(80)
    new = np.clip(old + rng.normal(0.03, 0.15, 80), 0, 1)
    theirs = stats.permutation_test(
        (new, old), lambda a, b, axis: np.mean(a - b, axis=axis), permutation_type="samples", n_resamples=20_000,
        vectorized=True, rng=np.random.default_rng(7),
    )  # fmt: skip
    # Both are estimates of one share from 10,000 and 20,000 draws: five standard errors of their difference.
    assert randomisation_p(new - old) == pytest.approx(theirs.pvalue, abs=0.02)


@pytest.mark.parametrize("seed", range(3))
def test_the_bootstrap_interval_is_that_of_scipy(seed):
    gaps = np.random.default_rng(seed).normal(0.05, 0.3, 60)
    theirs = stats.bootstrap(
        (gaps,), np.mean, method="percentile", n_resamples=10_000, rng=np.random.default_rng(7)
    ).confidence_interval
    width = theirs.high - theirs.low
    assert bootstrap_interval(gaps) == pytest.approx((theirs.low, theirs.high), abs=0.05 * width)


def test_figures_are_the_same_in_every_run():
    gaps = np.random.default_rng(1).normal(0, 1, 50)
    assert bootstrap_interval(gaps) == bootstrap_interval(gaps)
    assert randomisation_p(gaps) == randomisation_p(gaps)


def test_rank_biased_overlap_of_the_lists_in_the_paper():
    # Webber, Moffat, Zobel 2010, table 2: agreements 0, 0, 2/3, 2/4, 2/5, 2/6, 2/7. By hand with p = .9:
    # .1/.9 * (2/3 * .729 + 2/4 * .6561 + 2/5 * .59049 + 2/6 * .531441 + 2/7 * .4782969) + 2/7 * .4782969
    assert rank_biased_overlap("abcdefg", "zcavwxy") == pytest.approx(0.288217, abs=1e-6)


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ("b", "ab", 0.45),  # .1/.9 * (1/2 * .81) + 1/2 * .81
        ("a", "ab", 1.0),  # all that is seen agrees
        ("ab", "ba", 0.9),  # .1/.9 * (0 + 1 * .81) + 1 * .81
        ("", "", 1.0),
        ("", "a", 0.0),
    ],
)
def test_rank_biased_overlap_by_hand(a, b, expected):
    assert rank_biased_overlap(a, b) == pytest.approx(expected, abs=1e-12)


@given(RANKINGS, RANKINGS, st.floats(0.5, 0.98))
def test_rank_biased_overlap_is_symmetric_and_between_zero_and_one(a, b, p):
    found = rank_biased_overlap(a, b, p)
    assert found == pytest.approx(rank_biased_overlap(b, a, p), abs=1e-12)
    assert -1e-12 <= found <= 1 + 1e-12


@given(RANKINGS)
def test_equal_rankings_are_exactly_alike(a):
    # Exactly: whether a release differs from itself hangs on it.
    assert rank_biased_overlap(a, list(a)) == 1.0
    assert overlap(a, list(a), 10) == 1.0


@given(RANKINGS.filter(bool), RANKINGS.filter(bool))
def test_disjoint_rankings_have_nothing_in_common(a, b):
    other = [-1 - item for item in b]
    assert rank_biased_overlap(a, other) == 0.0
    assert overlap(a, other, 10) == 0.0


@given(RANKINGS.filter(bool), st.integers(1, 15))
def test_overlap_looks_at_the_first_ranks_and_not_at_their_order(a, depth):
    depth = min(depth, len(a))
    assert overlap(a, [*reversed(a[:depth]), *(-1 - item for item in a)], depth) == 1.0


@given(st.lists(st.integers(), unique=True, min_size=3, max_size=12))
def test_a_change_at_the_top_counts_more_than_one_at_the_bottom(a):
    top = [a[1], a[0], *a[2:]]
    bottom = [*a[:-2], a[-1], a[-2]]
    assert rank_biased_overlap(a, top) < rank_biased_overlap(a, bottom)
