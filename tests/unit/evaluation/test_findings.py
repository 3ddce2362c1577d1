"""The checks of the gate: each fires just beyond its bound, and not at it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import pytest

from kbcore.config.gate import GateSection
from kbcore.evaluation import findings
from kbcore.evaluation.abstention import Abstention
from kbcore.evaluation.corpus import CorpusChange
from kbcore.evaluation.findings import Finding
from kbcore.evaluation.scorecard import Scorecard
from kbcore.statistics import paired

SAME = CorpusChange(
    documents_before=100, documents=100, removed=0, changed=10, emptied=0, untitled=0, failed=0, flagged=0, copied=0,
    copied_most=None, characters_before=1000, characters=1000, kept_characters_before=1000, kept_characters=1000,
)  # fmt: skip


def lost(count: int, of: int) -> Any:
    """As many questions were found before and are not any more."""
    return paired([1.0] * of, [0.0] * count + [1.0] * (of - count))


@pytest.mark.parametrize(
    ("questions", "allowed", "noise", "most"),
    [(100, 0.05, 0.0, 5), (100, 0.05, 1.5, 5), (1000, 0.03, 1.5, 30), (25, 0.03, 1.5, 1), (24, 0.05, 2.0, 2), (8, 0.0, 0.0, 0)],
)  # fmt: skip
def test_a_measure_may_fall_by_the_drop_or_the_weight_of_the_noise_whichever_is_larger(
    questions: int, allowed: float, noise: float, most: int
) -> None:
    at, beyond = (findings.drop("R@5", lost(count, questions), allowed, noise) for count in (most, most + 1))
    assert (at.verdict, beyond.verdict) == ("pass", "fail")
    assert f"{most + 1} worse of {questions}" in beyond.said
    assert ("taken for noise" in beyond.said) is (noise / questions > allowed)


def test_a_measure_that_rises_passes_whatever_is_allowed() -> None:
    assert findings.drop("R@5", paired([0.0] * 4, [1.0] * 4), 0.0, 0.0).verdict == "pass"


def test_questions_that_were_won_are_set_off_against_those_that_were_lost() -> None:
    found = paired([1.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 1.0])
    assert findings.drop("R@5", found, 0.0, 0.0).verdict == "pass"


def test_without_a_judged_question_a_drop_is_invalid_and_no_pass() -> None:
    assert findings.drop("R@5", paired([], []), 1.0, 100.0).verdict == "invalid"


@pytest.mark.parametrize(("judged", "verdict"), [(80, "pass"), (79, "fail"), (100, "pass")])
def test_enough_of_the_questions_must_be_judged(judged: int, verdict: str) -> None:
    counts = {"judged": judged, "unjudged": 100 - judged}
    card = cast(Scorecard, type("Card", (), {"counts": counts, "stale": ({},), "release": "r000002"}))
    found = findings.judged_share(card, 80.0)
    assert found.verdict == verdict
    assert f"{judged} of 100 questions ({judged} %)" in found.said
    assert "1 judgments are stale" in found.said


def abstained(answered: int, of: int = 20) -> Abstention:
    return Abstention(of, answered, 30, 0)


@pytest.mark.parametrize(("answered", "verdict"), [(10, "pass"), (11, "fail")])
@pytest.mark.parametrize("old", [None, abstained(20)])
def test_at_most_so_many_questions_without_an_answer_may_be_answered(
    answered: int, verdict: str, old: Abstention | None
) -> None:
    (found,) = findings.no_answer(abstained(answered), old, GateSection(no_answer_percent=50))
    assert found.verdict == verdict


@pytest.mark.parametrize(("answered", "verdict"), [(9, "pass"), (10, "fail")])
def test_and_not_so_many_more_than_before(answered: int, verdict: str) -> None:
    (found,) = findings.no_answer(abstained(answered), abstained(4), GateSection(no_answer_rise=25))
    assert found.verdict == verdict
    assert "4 before" in found.said


def test_one_more_question_that_is_answered_is_taken_for_noise() -> None:
    section = GateSection(no_answer_rise=0)
    assert [f.verdict for f in findings.no_answer(abstained(1, 2), abstained(0, 2), section)] == ["pass"]
    assert [f.verdict for f in findings.no_answer(abstained(2, 2), abstained(0, 2), section)] == ["fail"]


def test_a_set_without_such_questions_says_nothing_of_them() -> None:
    assert list(findings.no_answer(abstained(0, 0), None, GateSection())) == []


def check(name: str, change: CorpusChange, section: GateSection, approved: int = 0) -> Finding:
    return next(f for f in findings.data(change, "r000001", section, approved) if f.check == name)


@pytest.mark.parametrize("name", ["removed", "emptied", "untitled", "failed", "flagged", "copied"])
def test_a_share_of_documents_fires_beyond_its_percent(name: str) -> None:
    section = GateSection.model_validate({f"{name}_percent": 20})
    at, beyond = (check(name, replace(SAME, **{name: count}), section) for count in (20, 21))
    assert (at.verdict, beyond.verdict) == ("pass", "fail")
    assert beyond.said.startswith("21 of 100 documents")


@pytest.mark.parametrize("name", ["removed", "emptied", "untitled", "failed", "flagged", "copied"])
def test_a_few_documents_never_fire_whatever_their_share(name: str) -> None:
    section = GateSection.model_validate({f"{name}_percent": 0, "documents": 3})
    small = replace(SAME, documents_before=4, documents=4)
    at, beyond = (check(name, replace(small, **{name: count}), section) for count in (3, 4))
    assert (at.verdict, beyond.verdict) == ("pass", "fail")


def test_removals_that_a_person_approved_do_not_count() -> None:
    section = GateSection(removed_percent=20)
    change = replace(SAME, removed=30)
    assert check("removed", change, section, 9).verdict == "fail"
    assert check("removed", change, section, 10).verdict == "pass"


@pytest.mark.parametrize(("now", "verdict"), [(700, "pass"), (699, "fail")])
def test_the_documents_that_stayed_may_not_lose_more_of_their_text(now: int, verdict: str) -> None:
    assert check("size", replace(SAME, kept_characters=now), GateSection(shrunk_percent=30)).verdict == verdict


@pytest.mark.parametrize(("now", "verdict"), [(2000, "pass"), (2001, "fail")])
def test_the_whole_may_not_swell(now: int, verdict: str) -> None:
    assert check("size", replace(SAME, characters=now), GateSection(grown_percent=100)).verdict == verdict


def test_a_size_that_a_few_documents_make_does_not_count() -> None:
    few = replace(SAME, documents_before=5, documents=6, changed=2, characters=9000)
    assert check("size", few, GateSection(documents=3)).verdict == "pass"
    assert check("size", replace(few, changed=3), GateSection(documents=3)).verdict == "fail"


def test_the_document_that_is_repeated_most_is_named() -> None:
    found = check("copied", replace(SAME, copied=50, copied_most="docs:vpn.md"), GateSection())
    assert found.verdict == "fail"
    assert "docs:vpn.md the most often" in found.said
