"""Outcomes: hits, weak evidence, and no match for what is unrelated."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbcore.config import Config
from kbcore.embedding.onnx import BUNDLED
from kbcore.evaluation import runner
from kbcore.evaluation.abstention import Evidence, calibrate, measure
from kbcore.evaluation.questions import Question, QuestionSet
from kbcore.retrieval.evidence import EvidenceCut, default_cut
from kbcore.retrieval.settings import RetrievalSettings
from tests.support import configure, knowledge_base, refreshed

figures = st.none() | st.floats(-1, 1)
shares = st.none() | st.floats(0, 1)
cuts = st.builds(
    EvidenceCut, st.floats(-1, 1), st.floats(0, 1.01), st.just("configured"), st.none() | st.floats(-1, 1),
    st.none() | st.floats(0, 1.01),
)  # fmt: skip


@given(cuts, figures, shares)
def test_what_is_not_weak_is_never_withheld(cut: EvidenceCut, cosine: float | None, share: float | None) -> None:
    if cut.is_nothing(cosine, share):
        assert cut.is_weak(cosine, share)


@given(figures, shares)
def test_the_default_cut_withholds_nothing(cosine: float | None, share: float | None) -> None:
    assert not EvidenceCut().is_nothing(cosine, share)


@given(cuts, st.floats(-1, 1), st.floats(0, 1), st.floats(0, 1))
def test_more_evidence_is_never_less_shown(cut: EvidenceCut, cosine: float, share: float, more: float) -> None:
    if not cut.is_nothing(cosine, share):
        assert not cut.is_nothing(min(1.0, cosine + more), share)
        assert not cut.is_nothing(cosine, min(1.0, share + more))


@pytest.mark.parametrize(
    ("cosine", "share", "weak", "nothing"),
    [
        (0.5, 0.1, False, False),
        (0.3, 0.9, False, False),
        (0.3, 0.1, True, False),
        (0.1, 0.1, True, True),
        (0.1, 0.9, False, False),
        (None, 0.1, True, False),  # the share's bound is meant to stand beside the cosine's
        (0.1, None, True, True),
        (0.3, None, True, False),
        (None, None, True, False),
    ],
)
def test_each_figure_decides_as_described(cosine: float | None, share: float | None, weak: bool, nothing: bool) -> None:
    cut = EvidenceCut(0.4, 0.5, "configured", 0.2, 0.3)
    assert (cut.is_weak(cosine, share), cut.is_nothing(cosine, share)) == (weak, nothing)


def test_a_bound_of_the_share_alone_decides_where_there_is_no_cosine() -> None:
    cut = EvidenceCut(0.4, 0.5, "configured", None, 0.3)
    assert [cut.is_nothing(*figures) for figures in ((None, 0.2), (None, 0.4), (0.1, 0.2))] == [True, False, False]


def test_the_bundled_model_has_a_measured_default_and_withholds_what_is_unrelated() -> None:
    cut = default_cut(BUNDLED)
    assert (cut.is_weak(0.39, 0.2), cut.is_weak(0.41, 0.2), cut.is_weak(0.39, 0.4)) == (True, False, False)
    assert [cut.is_nothing(*figures) for figures in ((0.2, 0.1), (0.2, None), (0.3, 0.1), (None, 0.0))] == [
        True, True, False, False,
    ]  # fmt: skip
    assert default_cut("another-model") == EvidenceCut()


def test_an_unrelated_question_gets_no_match_of_the_bundled_model_though_nobody_calibrated(tmp_path: Path) -> None:
    base = knowledge_base(tmp_path, embedder={})
    refreshed(base)
    found = base.retriever().search("granite quarries of medieval Portugal")
    assert (found.outcome, found.hits) == ("no_match", ())
    assert found.evidence["not_shown"] > 0
    assert base.retriever().search("the phone I sign in with is lost").outcome == "hits"
    # In words alone nothing says that it is unrelated for sure.
    assert base.retriever().search("granite quarries of the phone", mode="keyword").outcome == "weak_evidence"


def test_a_cut_survives_its_record_and_one_from_before_has_no_second_bound() -> None:
    cut = EvidenceCut(0.4, 0.5, "here", 0.2, 0.3)
    assert EvidenceCut.from_json(cut.to_json()) == cut
    old = EvidenceCut.from_json({"cosine": 0.4, "share": 0.5}, "a file")
    assert (old.no_match_cosine, old.no_match_share, old.origin) == (None, None, "a file")


def retrieval(**values: float) -> Config:
    return configure(Path("nowhere"), retrieval=values)


def test_a_configured_bound_goes_before_a_calibrated_one() -> None:
    calibrated = EvidenceCut(0.4, 0.7, "a file", 0.15, 0.7)
    assert RetrievalSettings.of(retrieval(), calibrated).cut == calibrated
    cut = RetrievalSettings.of(retrieval(no_match_cosine=0.2), calibrated).cut
    assert (cut.cosine, cut.no_match_cosine, cut.no_match_share, cut.origin) == (0.4, 0.2, 0.7, "configured")
    alone = RetrievalSettings.of(retrieval(no_match_cosine=0.2)).cut
    assert (alone.no_match_cosine, alone.no_match_share) == (0.2, alone.share)
    assert RetrievalSettings.of(retrieval(weak_cosine=0.3)).cut.no_match_cosine is None


def test_a_bound_of_the_share_that_is_configured_for_keyword_search_decides_there(tmp_path: Path) -> None:
    base = knowledge_base(
        tmp_path, embedder={}, retrieval={"mode": "keyword", "no_match_share": 0.9, "weak_share": 0.9}
    )
    refreshed(base)
    assert base.retriever().search("granite quarries of the phone").outcome == "no_match"
    beside = RetrievalSettings.of(retrieval(no_match_share=0.9), default_cut(BUNDLED)).cut
    assert (beside.no_match_cosine, beside.no_match_share) == (0.25, 0.9)


evidence = st.builds(Evidence, st.floats(-1, 1), shares, st.just(True), st.booleans())


@given(st.lists(evidence, max_size=40))
def test_a_calibrated_bound_lies_clearly_below_every_question_with_an_answer(entries: list[Evidence]) -> None:
    found = calibrate(entries, "here")
    if found is None:
        return
    cut = found[0]
    assert cut.no_match_cosine is not None
    for entry in entries:
        if entry.answerable:
            assert not cut.is_nothing(entry.best_cosine, entry.matched_share)
            assert cut.no_match_cosine <= max(-1.0, (entry.best_cosine or 0.0) - 0.0499)
    # Withheld answers were turned away before: what counts as answered is the same with the bound and without.
    assert measure(entries, cut) == measure(entries, EvidenceCut(cut.cosine, cut.share))


@given(st.lists(st.builds(Evidence, st.none(), st.floats(0, 1), st.just(True), st.booleans()), max_size=40))
def test_in_keyword_search_the_share_has_a_bound_of_its_own(entries: list[Evidence]) -> None:
    found = calibrate(entries, "here")
    if found is not None:
        answers = [entry for entry in entries if entry.answerable]
        assert found[0].no_match_cosine is None
        assert not any(found[0].is_nothing(None, entry.matched_share) for entry in answers)


@pytest.fixture
def base(tmp_path: Path):
    found = knowledge_base(tmp_path, retrieval={"weak_cosine": 0.9, "weak_share": 0.5, "no_match_cosine": 0.8})
    refreshed(found)
    return found


def test_an_unrelated_question_gets_no_match_and_the_figures_that_led_to_it(base) -> None:
    for mode in ("vector", "hybrid"):
        found = base.retriever().search("lobster bisque recipe", mode=mode)
        assert (found.outcome, found.hits, found.score_kind) == ("no_match", (), "none")
        assert found.evidence["not_shown"] > 0
        assert found.evidence["best_cosine"] < 0.8
        assert found.evidence["cut"]["no_match_cosine"] == 0.8
    assert base.retriever().search("lobster bisque recipe", mode="keyword").outcome == "no_match"


def test_a_question_that_the_release_holds_words_of_is_still_answered(base) -> None:
    found = base.retriever().search("ERR-4012 gateway")
    assert found.outcome == "hits"
    assert "not_shown" not in found.evidence


def test_an_evaluation_ranks_whatever_the_evidence_and_says_what_users_are_told(base) -> None:
    asked = [
        Question.model_validate({"id": "a", "question": "lobster bisque badge", "expected": [{"uri": "printers.txt"}]}),
        Question.model_validate({"id": "b", "question": "ERR-4012 gateway", "expected": [{"uri": "vpn.md"}]}),
        Question.model_validate({"id": "c", "question": "volcano eruptions", "no_answer": True}),
    ]
    manifest = base.repository.manifest("r000001")
    settings = base.settings(manifest)
    card = runner.evaluate(
        base.repository, "r000001", QuestionSet("s", tuple(asked)), base.catalog, settings, run=base.repository.begin()
    )
    told = {answer.id: answer for answer in card.answers}
    served = {entry.id: base.retriever().search(entry.question).outcome for entry in asked}
    assert {key: answer.outcome for key, answer in told.items()} == served
    assert served == {"a": "no_match", "b": "hits", "c": "no_match"}
    # Nothing is served, and the ranking is measured apart from that.
    assert (told["a"].served, told["a"].finds) == (0, False)
    assert told["a"].hits
    assert told["a"].measures is not None
    assert told["b"].finds
    assert card.abstention["no_answer_answered"] == 0
    assert card.abstention["answerable_abstained"] == 1
    for answer in card.answers:
        assert answer.evidence.answered(settings.cut) == (answer.outcome == "hits")
