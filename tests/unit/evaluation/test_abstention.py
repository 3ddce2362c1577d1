"""Abstention: what counts, and that the calibrated cut is the best there is."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kbcore.evaluation.abstention import ENOUGH, Abstention, Evidence, calibrate, measure
from kbcore.retrieval.evidence import EvidenceCut

figures = st.integers(0, 20).map(lambda n: n / 20)
entries = st.builds(Evidence, figures, figures, st.sampled_from([True, True, True, False]), st.booleans())
cosines_only = st.builds(Evidence, figures, st.none(), st.just(True), st.booleans())
shares_only = st.builds(Evidence, st.none(), figures, st.just(True), st.booleans())


def enough(evidence: list[Evidence]) -> bool:
    return all(sum(entry.answerable is kind for entry in evidence) >= ENOUGH for kind in (True, False))


def balanced(found: Abstention) -> float:
    turned_away = (found.no_answer - found.no_answer_answered) / found.no_answer
    return (turned_away + 1 - found.answerable_abstained / found.answerable) / 2


def best_by_brute_force(evidence: list[Evidence]) -> float:
    # Figures are multiples of .05: every cut there is lies half way between two of them, or beyond all.
    cuts = [n / 20 - 0.025 for n in range(23)]
    return max(balanced(measure(evidence, EvidenceCut(c, s, ""))) for c, s in itertools.product(cuts, cuts))


@pytest.mark.parametrize("kind", [entries, cosines_only, shares_only])
def test_no_cut_parts_the_two_kinds_better_than_the_calibrated_one(kind: st.SearchStrategy[Evidence]) -> None:
    @settings(max_examples=40, deadline=None)
    @given(st.lists(kind, min_size=10, max_size=24).filter(enough))
    def holds(evidence: list[Evidence]) -> None:
        found = calibrate(evidence, "here")
        assert found is not None
        cut, counts = found
        assert counts == measure(evidence, cut)
        assert balanced(counts) == pytest.approx(best_by_brute_force(evidence))

    holds()


def of(answerable: bool, *cosines: float, share: float | None = None) -> list[Evidence]:
    return [Evidence(cosine, share, True, answerable) for cosine in cosines]


def test_at_least_five_of_each_kind_are_needed() -> None:
    five, four = (0.1, 0.2, 0.1, 0.2, 0.1), (0.8, 0.9, 0.8, 0.9)
    assert calibrate(of(False, *five) + of(True, *four), "") is None
    assert calibrate(of(True, *five) + of(False, *four), "") is None
    assert calibrate(of(False, *five) + of(True, *four, 0.7), "") is not None


def test_questions_with_low_figures_are_turned_away_and_never_those_with_high_ones() -> None:
    found = calibrate(of(False, 0.1, 0.2, 0.1, 0.2, 0.2) + of(True, 0.8, 0.9, 0.8, 0.6, 0.7), "evals/x.json")
    assert found is not None
    cut, counts = found
    assert (cut.cosine, cut.origin) == (pytest.approx(0.4), "evals/x.json")
    assert counts == Abstention(no_answer=5, no_answer_answered=0, answerable=5, answerable_abstained=0)
    assert (counts.precision, counts.recall) == (1.0, 1.0)


def test_where_the_figures_stand_the_wrong_way_round_nothing_parts_the_two() -> None:
    found = calibrate(of(False, 0.8, 0.9, 0.8, 0.6, 0.7) + of(True, 0.1, 0.2, 0.1, 0.2, 0.2), "")
    assert found is not None
    assert balanced(found[1]) == 0.5


def test_of_cuts_that_are_equally_good_the_one_in_the_widest_gap_is_taken() -> None:
    found = calibrate(of(False, 0.10, 0.12, 0.14, 0.16, 0.18) + of(True, 0.50, 0.52, 0.54, 0.56, 0.58), "")
    assert found is not None
    assert found[0].cosine == pytest.approx(0.34)


def test_what_one_question_says_does_not_move_the_cut_past_the_others() -> None:
    found = calibrate(of(False, *[0.1, 0.2] * 10) + of(True, *[0.7, 0.8] * 10, 0.15), "")
    assert found is not None
    assert 0.2 < found[0].cosine < 0.7


def test_a_question_that_nothing_was_found_for_is_turned_away_at_any_cut() -> None:
    nothing = Evidence(None, None, False, False)
    assert not nothing.answered(EvidenceCut(-1.0, 0.0, ""))
    assert measure([nothing], EvidenceCut(-1.0, 0.0, "")) == Abstention(1, 0, 0, 0)


def test_one_figure_that_is_high_enough_is_evidence_enough() -> None:
    cut = EvidenceCut(0.5, 0.6, "")
    answered = {
        (cosine, share): Evidence(cosine, share, True, True).answered(cut)
        for cosine in (0.49, 0.5, None)
        for share in (0.59, 0.6, None)
    }
    assert answered == {
        (0.49, 0.59): False, (0.49, 0.6): True, (0.49, None): False,
        (0.5, 0.59): True, (0.5, 0.6): True, (0.5, None): True,
        (None, 0.59): False, (None, 0.6): True, (None, None): False,
    }  # fmt: skip


def test_precision_is_of_those_turned_away_and_recall_of_those_without_an_answer() -> None:
    found = Abstention(no_answer=10, no_answer_answered=4, answerable=30, answerable_abstained=2)
    assert (found.precision, found.recall) == (6 / 8, 6 / 10)
    assert Abstention(0, 0, 3, 0).recall is None
    assert Abstention(2, 2, 3, 0).precision is None
    assert Abstention.from_json(found.to_json()) == found
