"""The gate in a refresh: verdicts, what is not judged twice, and what a promotion names."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kbcore.embedding.catalog import Catalog
from kbcore.errors import EmbedderUnavailableError
from kbcore.evaluation import findings, runner
from kbcore.evaluation.gate import Judgement, judge
from kbcore.ingest import admission
from kbcore.ingest.report import RefreshReport
from kbcore.knowledge_base import KnowledgeBase
from kbcore.promotion import promote, rollback
from kbcore.statistics import paired
from kbcore.store import envelope, evals, layout
from tests.support import configure, knowledge_base, refreshed, write

WORDS = ("anvil", "bellows", "chisel", "dowel", "easel", "funnel", "gimlet", "hammer")
OPEN: dict[str, Any] = {
    "measures": ["Success@1"], "drop": {"Success@1": 0.25}, "noise": 0, "judged_percent": 0, "removed_percent": 100,
    "shrunk_percent": 100,
}  # fmt: skip
KEYWORD = {"mode": "keyword"}


def page(word: str) -> str:
    return f"# About the {word}\n\nThe {word} lies in the shed.\n"


PAGES = {f"{word}.md": page(word) for word in WORDS}


def questions(
    words: Iterable[str] = WORDS, *, tags: dict[str, list[str]] | None = None, none: Iterable[str] = ()
) -> str:
    lines = [
        {"id": w, "question": f"{w}?", "expected": [{"doc_id": f"docs:{w}.md"}], "tags": (tags or {}).get(w, [])}
        for w in words
    ]
    lines += [{"id": f"no-{w}", "question": f"{w}?", "no_answer": True} for w in none]
    return "".join(json.dumps(line) + "\n" for line in lines)


class Kb:
    """A repository with a page a word, questions that each one page answers, and bounds that let all else through."""

    def __init__(self, root: Path, asked: str | None = None, **gate: Any) -> None:
        self.root = root
        self.evalset = root / "questions.jsonl"
        self.evalset.write_text(questions() if asked is None else asked)
        self.base = knowledge_base(root, PAGES, **self.sections(gate))
        self.first = refreshed(self.base)

    def sections(self, gate: dict[str, Any]) -> dict[str, Any]:
        guarded = {"name": "docs", "path": str(self.root / "docs"), "guard": {"removals_percent": 100}}
        return {
            "sources": [guarded],
            "retrieval": KEYWORD,
            "gate": {"evalset": str(self.evalset), **OPEN, **gate},
        }

    def with_bounds(self, **gate: Any) -> KnowledgeBase:
        return KnowledgeBase(configure(self.root, **self.sections(gate)))

    def without(self, *words: str) -> RefreshReport:
        write(self.root / "docs", {f"{word}.md": None for word in words})
        return refreshed(self.base)

    def judge(self, base: KnowledgeBase | None = None, release: str = "latest", **parameters: Any) -> Judgement:
        base = base or self.base
        repository = base.repository
        manifest = repository.manifest(repository.resolve(release))
        return judge(repository, base.config, manifest, base.catalog, repository.begin(), **parameters)

    @property
    def current(self) -> str | None:
        return self.base.repository.state().release


def verdict(report: RefreshReport) -> str:
    assert report.gate is not None
    return str(report.gate["verdict"])


def test_the_first_release_has_no_baseline_and_is_promoted(tmp_path: Path) -> None:
    kb = Kb(tmp_path)
    assert verdict(kb.first) == "no_baseline"
    assert (kb.first.promoted, kb.current) == (True, "r000001")


@pytest.mark.parametrize(("gone", "expected"), [(WORDS[:2], "pass"), (WORDS[:3], "fail")])
def test_a_measure_that_falls_beyond_its_bound_stops_the_release_and_says_why(
    tmp_path: Path, gone: tuple[str, ...], expected: str
) -> None:
    kb = Kb(tmp_path)
    report = kb.without(*gone)
    assert verdict(report) == expected
    assert report.promoted is (expected == "pass")
    assert report.gate is not None
    assert {entry["id"] for entry in report.gate["causes"]} == set(gone)
    assert {cause["kind"] for entry in report.gate["causes"] for cause in entry["causes"]} == {"document deleted"}
    if expected == "fail":
        assert kb.current == "r000001"
        assert "Success@1 1.000 -> 0.625" in (report.not_promoted or "")


def test_a_fall_within_the_weight_of_some_questions_is_taken_for_noise(tmp_path: Path) -> None:
    kb = Kb(tmp_path, noise=1.5, drop={"Success@1": 0.0})
    assert verdict(kb.without("anvil")) == "pass"
    assert verdict(kb.without("bellows", "chisel")) == "fail"


def test_answers_that_go_with_their_documents_are_no_noise_but_one_page_may_be_retired(tmp_path: Path) -> None:
    kb = Kb(tmp_path, noise=4, drop={"Success@1": 0.0})
    assert verdict(shed(kb, "anvil", "bellows")) == "pass"
    assert verdict(kb.without("chisel")) == "pass"
    report = kb.without("dowel", "easel")
    assert verdict(report) == "fail"
    assert "Success@1 deleted: 0.286 went with documents (2 questions); 0.143 is allowed" in (report.not_promoted or "")
    # Nor is it an accident where somebody let all of them go.
    assert [kb.judge(approved_removals=number).verdict for number in (1, 2)] == ["fail", "pass"]


def shed(kb: Kb, *words: str) -> RefreshReport:
    """The pages of these words no longer answer first: another page speaks of each more often."""
    write(kb.root / "docs", {f"more-{word}.md": f"# {word} {word} {word}\n\n{word} {word} {word}\n" for word in words})
    return refreshed(kb.base)


def test_falls_that_are_each_allowed_and_add_up_stop_the_release_that_goes_too_far(tmp_path: Path) -> None:
    kb = Kb(tmp_path, drop={"Success@1": 0.125}, slide=2.0)
    assert [verdict(shed(kb, word)) for word in WORDS[:2]] == ["pass", "pass"]
    report = shed(kb, WORDS[2])
    assert verdict(report) == "fail"
    assert "Success@1 over time 1.000 in r000001 -> 0.625" in (report.not_promoted or "")
    assert "0.250, is allowed over several" in (report.not_promoted or "")
    # The same falls without a look back, and seen from a release that somebody promoted past the gate.
    assert kb.judge(kb.with_bounds(drop={"Success@1": 0.125}, earlier=0)).verdict == "pass"
    assert kb.judge(kb.with_bounds(drop={"Success@1": 0.125}, earlier=1)).verdict == "pass"
    assert kb.judge(kb.with_bounds(drop={"Success@1": 0.125}, slide=3.0)).verdict == "pass"
    repository = kb.base.repository
    promote(repository, "r000004", kb.base.catalog, reason="the shed is what we want", run=repository.begin())
    assert [verdict(shed(kb, word)) for word in WORDS[3:5]] == ["pass", "pass"]
    assert verdict(shed(kb, WORDS[5])) == "fail"


def test_the_deepest_fall_on_a_handful_of_questions_hides_none_that_goes_too_far_on_many() -> None:
    few = paired([1.0, 1.0, 1.0, 1.0], [0.0, 0.0, 1.0, 1.0])  # -0.5, of which 2 x 1.5 / 4 may be noise
    many = paired([1.0] * 20, [0.0] * 8 + [1.0] * 12)  # -0.4, of which 2 x 1.5 / 20 may be
    beside = [("r000004", few), ("r000003", many), ("r000002", paired([1.0], [1.0]))]
    found = findings.over_time("Success@1", beside, 0.05, 1.5, 2.0)
    assert found.verdict == "fail"
    assert "1.000 in r000003 -> 0.600" in found.said
    assert findings.over_time("Success@1", beside[:1], 0.05, 1.5, 2.0).verdict == "pass"


def test_questions_whose_pages_are_gone_since_do_not_count_over_time(tmp_path: Path) -> None:
    kb = Kb(tmp_path, drop={"Success@1": 0.2}, slide=1.0)
    assert [verdict(kb.without(word)) for word in WORDS[:3]] == ["pass", "pass", "pass"]


def test_an_earlier_release_that_cannot_be_asked_is_no_reason_against_a_candidate(tmp_path: Path) -> None:
    kb = Kb(tmp_path, drop={"Success@1": 0.125}, slide=1.0)
    shed(kb, WORDS[0])
    (kb.base.folder / layout.manifest_file("r000001")).write_bytes(b"x")
    assert verdict(shed(kb, WORDS[1])) == "pass"


def test_a_look_back_ends_at_a_record_of_promotions_that_does_not_read(tmp_path: Path) -> None:
    kb = Kb(tmp_path, drop={"Success@1": 0.125}, slide=1.0)
    shed(kb, WORDS[0])
    (kb.base.folder / layout.promotion_file(1)).write_bytes(b"x")
    assert verdict(shed(kb, WORDS[1])) == "pass"


def test_where_no_drop_is_bounded_no_earlier_release_is_asked(tmp_path: Path, asked: list[str]) -> None:
    kb = Kb(tmp_path, drop={})
    kb.without("anvil")
    kb.evalset.write_text(questions(WORDS[1:]))
    asked.clear()
    kb.without("bellows")
    assert sorted(asked) == ["r000002", "r000003"]


def test_too_few_judged_questions_stop_the_release(tmp_path: Path) -> None:
    kb = Kb(tmp_path, drop={"Success@1": 1.0}, judged_percent=75)
    assert verdict(kb.without("anvil", "bellows")) == "pass"
    assert verdict(kb.without("chisel")) == "fail"


def test_a_canary_that_is_lost_stops_the_release_however_large_the_bounds(tmp_path: Path) -> None:
    asked = questions(tags={"anvil": ["canary"]})
    kb = Kb(tmp_path, asked, drop={"Success@1": 1.0})
    assert verdict(kb.without("bellows")) == "pass"
    report = kb.without("anvil")
    assert verdict(report) == "fail"
    assert "anvil 'anvil?' is not found any more: docs:anvil.md is not in r000003" in (report.not_promoted or "")


def test_a_canary_that_is_served_no_more_stops_the_release_though_no_measure_looks_so_deep(tmp_path: Path) -> None:
    kb = Kb(tmp_path, questions(tags={"anvil": ["canary"]}), drop={"Success@1": 1.0})
    rivals = {f"anvils-{n}.md": f"# Anvil anvil anvil\n\nAnvil, anvil and anvil {n}.\n" for n in range(6)}
    write(tmp_path / "docs", dict(list(rivals.items())[:1]))
    assert verdict(refreshed(kb.base)) == "pass"
    write(tmp_path / "docs", rivals)
    report = refreshed(kb.base)
    assert report.gate is not None
    assert report.gate["measures"]["Success@1"]["losses"] == 0
    assert verdict(report) == "fail"
    assert "anvil 'anvil?' is not found any more: outranked by" in (report.not_promoted or "")


def test_a_canary_that_falls_and_is_still_served_stops_nothing(tmp_path: Path) -> None:
    kb = Kb(tmp_path, questions(tags={"anvil": ["canary"]}), drop={"Success@1": 1.0})
    write(tmp_path / "docs", {"anvils.md": "# Anvil anvil anvil\n\nAnvil, anvil and anvil.\n"})
    report = refreshed(kb.base)
    assert report.gate is not None
    assert report.gate["measures"]["Success@1"]["losses"] == 1
    assert verdict(report) == "pass"


def test_questions_without_an_answer_that_are_answered_stop_the_release(tmp_path: Path) -> None:
    kb = Kb(tmp_path, questions(none=["zebra", "yak", "xerus"]), no_answer_rise=40)
    write(tmp_path / "docs", {"zebra.md": page("zebra")})
    assert verdict(refreshed(kb.base)) == "pass"
    write(tmp_path / "docs", {"yak.md": page("yak"), "xerus.md": page("xerus")})
    report = refreshed(kb.base)
    assert verdict(report) == "fail"
    assert "3 of 3 questions without an answer are answered (100 %), 1 before" in (report.not_promoted or "")


def test_a_set_of_questions_without_an_answer_alone_is_judged_by_them(tmp_path: Path) -> None:
    kb = Kb(tmp_path, questions([], none=["zebra", "yak"]), no_answer_percent=50)
    write(tmp_path / "docs", {"zebra.md": page("zebra")})
    assert verdict(refreshed(kb.base)) == "pass"
    write(tmp_path / "docs", {"yak.md": page("yak")})
    assert verdict(refreshed(kb.base)) == "fail"


def test_too_many_removals_stop_the_release_unless_a_person_approved_them(tmp_path: Path) -> None:
    kb = Kb(tmp_path, drop={"Success@1": 1.0}, removed_percent=25, documents=0)
    assert verdict(kb.without("anvil", "bellows", "chisel")) == "fail"
    assert kb.judge(approved_removals=1).verdict == "pass"
    report = refreshed(kb.base, approve_removals=1)
    assert (report.promoted, kb.current) == (True, "r000002")


def test_without_an_evaluation_set_the_data_are_judged_alone(tmp_path: Path) -> None:
    kb = Kb(tmp_path, evalset=None, removed_percent=25, documents=0)
    assert kb.first.gate is not None
    assert kb.first.gate["set"] is None
    assert verdict(kb.without("anvil", "bellows")) == "pass"
    assert verdict(kb.without("chisel", "dowel")) == "fail"


def test_invalid_outranks_fail_and_both_are_told(tmp_path: Path) -> None:
    kb = Kb(tmp_path, removed_percent=25, documents=0)
    kb.evalset.unlink()
    report = kb.without("anvil", "bellows", "chisel")
    assert verdict(report) == "invalid"
    assert report.gate is not None
    assert {f["check"]: f["verdict"] for f in report.gate["findings"]}["removed"] == "fail"


def test_an_evaluation_set_that_is_missing_makes_the_verdict_invalid(tmp_path: Path) -> None:
    kb = Kb(tmp_path)
    kb.evalset.unlink()
    report = kb.without("anvil")
    assert verdict(report) == "invalid"
    assert (report.promoted, kb.current) == (False, "r000001")
    assert "could not be judged: could not be evaluated: there is no evaluation set" in (report.not_promoted or "")


def test_a_first_release_that_could_not_be_evaluated_is_not_promoted(tmp_path: Path) -> None:
    kb = Kb(tmp_path, "not a question\n")
    assert verdict(kb.first) == "invalid"
    assert (kb.first.promoted, kb.current) == (False, None)


def test_an_embedder_that_is_not_here_makes_the_verdict_invalid(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kb = Kb(tmp_path)
    base = KnowledgeBase(configure(tmp_path, **{**kb.sections({}), "retrieval": {"mode": "hybrid"}}))

    def missing(*_: Any, **__: Any) -> Any:
        raise EmbedderUnavailableError("the model is not on this machine")

    monkeypatch.setattr(Catalog, "find", missing)
    write(tmp_path / "docs", {"anvil.md": None})
    report = refreshed(base)
    assert verdict(report) == "invalid"
    assert (report.promoted, kb.current) == (False, "r000001")
    assert "the model is not on this machine" in (report.not_promoted or "")


@pytest.mark.parametrize("none", [(), ("zebra",)])
def test_a_set_of_which_no_question_is_judged_makes_the_verdict_invalid(tmp_path: Path, none: tuple[str, ...]) -> None:
    kb = Kb(tmp_path)
    kb.evalset.write_text(questions(["wrench"], none=none))
    report = kb.without("anvil")
    assert verdict(report) == "invalid"
    assert (report.promoted, kb.current) == (False, "r000001")


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The releases that were evaluated, in order."""
    seen: list[str] = []
    evaluate = runner.evaluate

    def counting(repository: Any, release: str, *arguments: Any, **parameters: Any) -> Any:
        seen.append(release)
        return evaluate(repository, release, *arguments, **parameters)

    monkeypatch.setattr(runner, "evaluate", counting)
    return seen


def test_a_candidate_is_not_judged_twice(tmp_path: Path, asked: list[str]) -> None:
    kb = Kb(tmp_path)
    failed = kb.without(*WORDS[:3])
    records = evals.listed(kb.base.repository)
    asked.clear()
    again = refreshed(kb.base)
    assert asked == []
    assert evals.listed(kb.base.repository) == records
    assert failed.gate is not None
    assert again.gate is not None
    assert again.gate == {**failed.gate, "repeated": True}
    assert (again.promoted, kb.current) == (False, "r000001")


def test_it_is_judged_again_where_the_set_changed(tmp_path: Path, asked: list[str]) -> None:
    kb = Kb(tmp_path)
    kb.without(*WORDS[:3])
    asked.clear()
    kb.evalset.write_text(questions(WORDS[3:]))
    report = refreshed(kb.base)
    assert sorted(asked) == ["r000001", "r000002"]
    assert (verdict(report), report.promoted) == ("pass", True)


def test_it_is_judged_again_where_a_bound_changed_and_no_question_is_asked_again(
    tmp_path: Path, asked: list[str]
) -> None:
    kb = Kb(tmp_path)
    kb.without(*WORDS[:3])
    asked.clear()
    report = refreshed(kb.with_bounds(drop={"Success@1": 0.5}))
    assert asked == []
    assert (verdict(report), report.promoted) == ("pass", True)


def test_it_is_judged_again_where_the_cut_was_calibrated_since(tmp_path: Path, asked: list[str]) -> None:
    kb = Kb(tmp_path, questions(none=["zebra"]), no_answer_percent=0)
    write(tmp_path / "docs", {"zebra.md": page("zebra")})
    assert verdict(refreshed(kb.base)) == "fail"
    assert kb.judge().repeated
    base = kb.base
    card = runner.load(base.repository, "r000001", evals.listed(base.repository, "r000001", evals.SCORECARD)[0].key)
    assert card is not None
    bounds = {"no_match_cosine": None, "no_match_share": None, "abstention": card.abstention}
    calibrated = replace(card, calibration={"cosine": 0.25, "share": 1.01, **bounds})
    runner.keep(base.repository, calibrated, base.repository.begin())
    asked.clear()
    found = kb.judge()
    assert (found.verdict, found.repeated, asked) == ("pass", False, [])
    assert kb.judge().repeated


def test_it_is_judged_again_where_another_release_is_current(tmp_path: Path) -> None:
    kb = Kb(tmp_path)
    kb.without("anvil", "bellows")
    repository = kb.base.repository
    failed = kb.without("chisel", "dowel", "easel")
    assert (verdict(failed), kb.current) == ("fail", "r000002")
    rollback(repository, kb.base.catalog, reason="test", run=repository.begin())
    found = kb.judge()
    assert (found.baseline, found.repeated) == ("r000001", False)
    assert found.measures["Success@1"]["losses"] == 5


def test_what_could_not_be_judged_is_tried_again(tmp_path: Path) -> None:
    kb = Kb(tmp_path)
    kb.evalset.unlink()
    kb.without("anvil")
    kb.evalset.write_text(questions())
    report = refreshed(kb.base)
    assert (verdict(report), report.promoted) == ("pass", True)


def test_the_promotion_names_the_digest_of_the_gate_record(tmp_path: Path) -> None:
    kb = Kb(tmp_path)
    report = kb.without("anvil")
    state = kb.base.repository.state()
    (entry,) = evals.listed(kb.base.repository, "r000002", evals.GATE)
    record = evals.read(kb.base.repository, entry)
    assert report.gate is not None
    assert state.gate == envelope.digest(record) == report.gate["digest"]
    assert record["verdict"] == "pass"


def test_a_release_promoted_without_the_gate_names_no_record(tmp_path: Path) -> None:
    kb = Kb(tmp_path)
    write(tmp_path / "docs", {f"{word}.md": None for word in WORDS[:5]})
    report = refreshed(kb.base, gate=False)
    assert (report.promoted, report.gate, kb.base.repository.state().gate) == (True, None, None)


def test_a_rollback_that_arrives_between_judging_and_promoting_wins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kb = Kb(tmp_path)
    kb.without("anvil")
    repository = kb.base.repository
    assert kb.current == "r000002"

    def judged_late(*arguments: Any, **parameters: Any) -> Judgement:
        found = judge(*arguments, **parameters)
        rollback(repository, kb.base.catalog, reason="it was wrong", run=repository.begin("ada"))
        return found

    monkeypatch.setattr(admission, "judge", judged_late)
    report = kb.without("bellows")
    assert verdict(report) == "pass"
    assert (report.promoted, kb.current) == (False, "r000001")
    assert "ada moved first: rollback r000001" in (report.not_promoted or "")
    assert repository.state().hold is not None


def test_a_scorecard_that_another_run_keeps_than_the_one_that_asked_is_found_again(tmp_path: Path) -> None:
    kb = Kb(tmp_path)
    repository = kb.base.repository
    settings = kb.base.settings(repository.manifest("r000001"), "vector")
    questions = kb.base.questions()
    card = runner.evaluate(repository, "r000001", questions, kb.base.catalog, settings, run=repository.begin())
    runner.keep(repository, card, repository.begin())
    known = runner.kept(repository, "r000001", questions, settings, card.measures)
    assert known is not None
    assert known.answers == card.answers
