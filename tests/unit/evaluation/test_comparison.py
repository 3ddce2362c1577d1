"""What a comparison of two releases says, question by question."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from kbcore.embedding.catalog import Catalog
from kbcore.errors import EmbedderUnavailableError, EvaluationError
from kbcore.evaluation import runner, wording
from kbcore.evaluation.causes import Releases
from kbcore.evaluation.comparison import compare, judge_alike
from kbcore.evaluation.pairing import compare_releases
from kbcore.evaluation.questions import QuestionSet, select
from kbcore.knowledge_base import KnowledgeBase
from kbcore.retrieval.evidence import EvidenceCut
from kbcore.store import evals
from tests.support import DOCUMENTS
from tests.unit.evaluation.sets import NAMES, QUESTIONS, SETTINGS, compared, history, questions

RIVAL = "# ERR-4012\n\nERR-4012 ERR-4012 mean: what does ERR-4012 mean? See ERR-4012.\n"


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> QuestionSet:
    return questions(tmp_path_factory.mktemp("set"))


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> KnowledgeBase:
    """r000002 lost the phones, r000003 got a rival of the VPN page, r000004 other words for the password."""
    return history(
        tmp_path_factory.mktemp("comparison"),
        {"phones.html": None},
        {"rival.md": RIVAL},
        {"passwords.md": "# Passwords\n\nA password is reset at the self-service page and lasts for a year.\n"},
    )


def test_a_release_compared_with_itself_is_all_ties_and_no_question_changed(base, asked):
    found, _ = compared(base, "r000001", "r000001", asked)
    for figures in found.measures.values():
        assert (figures.wins, figures.losses, figures.ties) == (0, 0, found.judged)
        assert (figures.difference, figures.p_value) == (0.0, 1.0)
    assert not found.changed
    assert not found.differs
    assert set(found.similarity.values()) == {1.0}
    assert [entry.id for entry in found.unchanged] == [entry["id"] for entry in QUESTIONS]
    assert wording.verdict(found).startswith("No difference")


def test_a_label_that_went_counts_as_lost_and_is_not_left_out(base, asked):
    found, _ = compared(base, "r000001", "r000002", asked)
    assert found.judged == 4
    lost = {entry.id: entry for entry in found.changed}["phone"]
    assert lost.kind == "lost"
    assert lost.new["nDCG@10"] == 0.0
    assert [cause.kind for cause in lost.causes] == ["document deleted"]
    assert found.measures["nDCG@10"].losses == 1


def test_a_quote_that_went_counts_as_lost_and_says_that_the_text_changed(base, asked):
    found, _ = compared(base, "r000003", "r000004", asked)
    lost = {entry.id: entry for entry in found.changed}["password"]
    assert (lost.kind, lost.new["nDCG@10"]) == ("lost", 0.0)
    assert [cause.kind for cause in lost.causes] == ["label stale"]


def test_who_went_past_an_answer_is_named_with_what_became_of_it(base, asked):
    found, _ = compared(base, "r000002", "r000003", asked)
    lost = {entry.id: entry for entry in found.changed}["vpn"]
    assert [(cause.kind, cause.documents) for cause in lost.causes] == [("outranked", ("docs:rival.md",))]
    assert "docs:rival.md (new)" in lost.causes[0].said


def test_backwards_what_was_lost_is_won(base, asked):
    forth, _ = compared(base, "r000001", "r000003", asked)
    back, _ = compared(base, "r000003", "r000001", asked)
    swap = {"lost": "won", "won": "lost", "moved": "moved"}
    assert {entry.id: swap[entry.kind] for entry in forth.changed} == {entry.id: entry.kind for entry in back.changed}
    for name in NAMES:
        assert forth.measures[name].difference == pytest.approx(-back.measures[name].difference)


def test_questions_without_an_applicable_judgment_are_reported_and_not_counted(base, asked):
    found, _ = compared(base, "r000001", "r000002", asked)
    assert found.unjudged == ("lunch",)
    assert found.measures["nDCG@10"].count == found.judged == 4
    assert {entry.id: entry.value for entry in found.unchanged}["lunch"] is None


def test_every_question_is_among_the_changed_or_among_the_unchanged(base, asked):
    found, _ = compared(base, "r000001", "r000004", asked)
    ids = [entry.id for entry in [*found.changed, *found.unchanged]]
    assert sorted(ids) == sorted(entry["id"] for entry in QUESTIONS)


def test_answers_are_paired_by_question_whatever_the_order_of_the_cards(base, asked):
    old, new = (
        runner.evaluate(base.repository, name, asked, base.catalog, SETTINGS, names=NAMES, run=base.repository.begin())
        for name in ("r000001", "r000002")
    )
    turned = replace(new, answers=tuple(reversed(new.answers)))
    left, right = judge_alike(NAMES, old, turned)
    assert [answer.id for answer in left] == [answer.id for answer in right]
    releases = Releases(base.repository, "r000001", "r000002")
    assert compare(old, turned, releases).measures == compare(old, new, releases).measures


def test_cards_of_two_sets_are_not_paired(base, asked, tmp_path):
    other = questions(tmp_path, QUESTIONS[:2])
    cards = [
        runner.card_of(base.repository, "r000001", which, base.catalog, SETTINGS, names=NAMES)
        for which in (asked, other)
    ]
    with pytest.raises(EvaluationError, match="other questions"):
        compare(*cards, Releases(base.repository, "r000001", "r000001"))


def test_some_of_the_questions_do_not_calibrate_the_cut_of_all_searches(tmp_path: Path):
    base = history(tmp_path)
    many = [
        {"id": f"a{n}", "question": "lost phone", "expected": [{"uri": "phones.html"}], "tags": ["some"]}
        for n in range(6)
    ]
    many += [{"id": f"n{n}", "question": "zanzibar", "no_answer": True, "tags": ["some"]} for n in range(6)]
    whole = questions(tmp_path, [*many, {**many[0], "id": "more", "tags": []}])
    repository = base.repository

    def calibrations() -> list[object]:
        return [evals.read(repository, entry)["calibration"] for entry in evals.listed(repository, None, "scorecard")]

    runner.card_of(repository, "r000001", select(whole, ["some"]), base.catalog, SETTINGS, names=NAMES)
    assert calibrations() == [None]
    runner.card_of(repository, "r000001", whole, base.catalog, SETTINGS, names=NAMES)
    assert sum(found is not None for found in calibrations()) == 1


def test_the_verdict_says_how_sure_it_is(base, asked):
    found, _ = compared(base, "r000001", "r000002", asked)
    assert wording.verdict(found).startswith("Not told from chance: nDCG@10 ")
    name, first = next(iter(found.measures.items()))
    sure = replace(found, measures={name: replace(first, p_value=0.01)})
    assert wording.verdict(sure).startswith("r000002 answers worse than r000001: ")
    better = replace(found, measures={name: replace(first, p_value=0.01, difference=0.2)})
    assert wording.verdict(better).startswith("r000002 answers better than r000001: ")
    nothing = replace(found, judged=0)
    assert "measures say nothing" in wording.verdict(nothing)


def test_a_hit_says_what_became_of_its_document(base):
    releases = Releases(base.repository, "r000001", "r000004")
    assert releases.fate("docs:phones.html") == "deleted"
    assert releases.fate("docs:passwords.md") == releases.standing("docs:passwords.md") == "changed"
    assert releases.standing("docs:rival.md") == "new"
    assert releases.fate("docs:vpn.md") == releases.standing("docs:vpn.md") == "unchanged"


def test_a_renamed_document_is_said_to_be_renamed(tmp_path):
    base = history(tmp_path, {"printers.txt": None, "floors/printers.txt": DOCUMENTS["printers.txt"]})
    releases = Releases(base.repository, "r000001", "r000002")
    assert releases.fate("docs:printers.txt") == releases.standing("docs:floors/printers.txt") == "renamed"


def test_what_is_shown_is_held_against_one_cut_whenever_the_scorecards_were_made(base, asked):
    old, new = (
        runner.card_of(base.repository, name, asked, base.catalog, SETTINGS, names=NAMES)
        for name in ("r000001", "r000003")
    )
    # As the newer release was asked after a calibration by which nothing is shown for one of the questions.
    later = [replace(answer, served=0, outcome="no_match") if answer.id == "vpn" else answer for answer in new.answers]
    kept = replace(new, answers=tuple(later))
    cut = EvidenceCut.from_json(new.cut)
    releases = Releases(base.repository, "r000001", "r000003")
    assert compare(old, kept, releases, cut=cut, names=NAMES).changed == compare(old, new, releases, cut=cut).changed
    nothing = replace(cut, share=1.01, no_match_share=1.01)
    found = compare(old, new, releases, cut=nothing, names=NAMES).changed
    assert found
    assert not any(entry.old_served or entry.new_served for entry in found)


def test_kept_scorecards_are_compared_though_the_embedder_is_gone(tmp_path, asked, monkeypatch):
    base = history(tmp_path, {"rival.md": RIVAL})
    settings = replace(SETTINGS, mode="vector")

    def pair():
        found, _ = compare_releases(
            base.repository, base.catalog, "r000001", "r000002", asked, settings, names=list(NAMES)
        )
        return found

    before = pair()

    def gone(*_, **__):
        raise EmbedderUnavailableError("the model is not on this machine")

    monkeypatch.setattr(Catalog, "find", gone)
    assert pair() == before


def test_an_answer_that_is_shown_no_more_is_a_change_though_every_measure_is_the_same(base, asked):
    card = runner.card_of(base.repository, "r000001", asked, base.catalog, SETTINGS, names=NAMES)
    deep = replace(card, settings={**card.settings, "k": 1})
    first = next(answer for answer in card.answers if answer.id == "vpn")
    rival = replace(first.hits[0], doc_id="docs:printers.txt")
    answers = [replace(answer, hits=(rival, *answer.hits)) if answer.id == "vpn" else answer for answer in card.answers]
    wide, narrow = replace(card, answers=tuple(answers)), replace(deep, answers=tuple(answers))
    (entry,) = compare(wide, narrow, Releases(base.repository, "r000001", "r000001"), names=NAMES).changed
    assert (entry.id, entry.kind, entry.old, entry.old_served, entry.new_served) == (
        "vpn", "moved", entry.new, True, False,
    )  # fmt: skip
    assert wording.question_said(entry, "nDCG@10").endswith("the answer is not shown any more")
