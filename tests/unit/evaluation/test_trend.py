"""The trend over many releases: what is shown of each, and what is missing."""

from __future__ import annotations

from pathlib import Path

import pytest

from kbcore.errors import EmbedderUnavailableError
from kbcore.evaluation import report, runner, wording
from kbcore.evaluation.questions import QuestionSet
from kbcore.evaluation.trend import NOT_EVALUATED, Trend, marks, moves, served, trend
from kbcore.knowledge_base import KnowledgeBase
from kbcore.promotion import hold, lift, rollback, undo
from kbcore.store import evals
from tests.support import refreshed, write
from tests.unit.evaluation.sets import NAMES, SETTINGS, history, questions


@pytest.fixture
def base(tmp_path: Path) -> KnowledgeBase:
    return history(tmp_path, {"phones.html": None}, {"more.md": "# More\n\nMore of it.\n"})


@pytest.fixture
def asked(tmp_path: Path) -> QuestionSet:
    return questions(tmp_path)


def over(base: KnowledgeBase, asked: QuestionSet, *, evaluate: bool = False, names: list[str] | None = None) -> Trend:
    repository = base.repository
    return trend(
        repository, names or repository.releases(), asked, base.catalog, lambda _: SETTINGS,
        measure=NAMES, evaluate=evaluate,
    )  # fmt: skip


def test_what_was_not_evaluated_is_missing_and_no_zero(base, asked):
    runner.card_of(base.repository, "r000002", asked, base.catalog, SETTINGS, names=NAMES)
    found = over(base, asked)
    assert [row.scorecard for row in found.rows] == ["missing", "kept", "missing"]
    for row in (found.rows[0], found.rows[2]):
        assert (dict(row.means), row.judged, row.abstention, row.why) == ({}, None, None, NOT_EVALUATED)
        assert row.documents is not None
    assert not found.failed
    assert not evals.listed(base.repository, "r000001", evals.SCORECARD)


def test_what_is_missing_is_evaluated_only_when_asked_and_then_kept(base, asked):
    assert [row.scorecard for row in over(base, asked, evaluate=True).rows] == ["made now"] * 3
    assert [row.scorecard for row in over(base, asked).rows] == ["kept"] * 3


def test_each_release_is_judged_by_what_it_holds_and_says_how_many(base, asked):
    rows = over(base, asked, evaluate=True).rows
    assert [(row.judged, row.stale, row.documents) for row in rows] == [(4, 1, 4), (3, 2, 3), (3, 2, 4)]
    assert rows[0].means["Success@1"] == 1.0
    assert "r000002: 2" in " ".join(wording.trend_notes(over(base, asked)))


def test_scorecards_of_another_set_or_search_do_not_count(base, asked, tmp_path):
    over(base, asked, evaluate=True)
    other = questions(tmp_path, [{"id": "one", "question": "vpn", "expected": [{"uri": "vpn.md"}]}], "other.jsonl")
    assert all(row.missing for row in over(base, other).rows)


def test_a_release_that_cannot_be_evaluated_is_a_gap_with_its_reason(base, asked, monkeypatch):
    def refuse(repository, release, *args, **kwargs):
        if release == "r000002":
            raise EmbedderUnavailableError("its model is not here")
        return made(repository, release, *args, **kwargs)

    made = runner.card_of
    monkeypatch.setattr(runner, "card_of", refuse)
    found = over(base, asked, evaluate=True)
    assert [row.scorecard for row in found.rows] == ["made now", "missing", "made now"]
    assert [(row.release, row.why) for row in found.failed] == [("r000002", "its model is not here")]


def test_a_damaged_manifest_is_a_gap(base, asked):
    (base.folder / "manifests" / "r000002.json").write_bytes(b"{}")
    found = over(base, asked, evaluate=True)
    assert [row.missing for row in found.rows] == [False, True, False]
    assert found.rows[1].state == "damaged"


def test_releases_stand_in_the_order_of_their_numbers(base, asked):
    found = over(base, asked, names=["r000003", "r000001"])
    assert [row.release for row in found.rows] == ["r000001", "r000003"]


def test_which_release_readers_had_when_is_told_from_the_promotions(base):
    repository, catalog = base.repository, base.catalog
    rollback(repository, catalog, to="r000002", reason="worse", run=repository.begin())
    undo(repository, catalog, reason="not worse", run=repository.begin())
    hold(repository, reason="moves nothing", run=repository.begin())
    lift(repository, reason="moves nothing", run=repository.begin())
    found = moves(repository)
    assert [(move.kind, move.before, move.release) for move in found] == [
        ("promote", None, "r000001"),
        ("promote", "r000001", "r000002"),
        ("promote", "r000002", "r000003"),
        ("rollback", "r000003", "r000002"),
        ("undo", "r000002", "r000003"),
    ]
    assert [move.until for move in found] == [*(move.at for move in found[1:]), None]
    assert marks("r000003", found) == ("promoted", "left")
    assert marks("r000001", found) == ("promoted",)


def test_of_the_moves_those_of_other_releases_are_left_out(base, asked):
    found = over(base, asked, names=["r000001"])
    assert [(move.before, move.release) for move in found.moves] == [(None, "r000001"), ("r000001", "r000002")]


def test_a_candidate_was_never_served(base):
    repository = base.repository
    hold(repository, reason="freeze", run=repository.begin())
    write(base.folder.parents[1] / "docs", {"later.md": "# Later\n\nMuch later.\n"})
    refreshed(base)
    found = moves(repository)
    assert not served("r000004", found)
    assert marks("r000004", found) == ()
    assert served("r000001", found)


def test_the_page_shows_gaps_as_missing_and_breaks_the_line(base, asked):
    for name in ("r000001", "r000003"):
        runner.card_of(base.repository, name, asked, base.catalog, SETTINGS, names=NAMES)
    page = report.trend_page(over(base, asked), base.repository)
    assert f"missing: <bdi>{NOT_EVALUATED}</bdi>" in page
    assert "r000002 missing" in page
    assert 'class="series"' not in page  # two points on either side of a gap are no line
    assert page.count('class="gap"') == len(NAMES)
    assert "0.000" not in page


def test_the_page_marks_promotions_and_rollbacks(base, asked):
    repository = base.repository
    rollback(repository, base.catalog, to="r000001", reason="worse <b>", run=repository.begin())
    page = report.trend_page(over(base, asked, evaluate=True), repository)
    assert "r000003 0." in page or "r000003 1." in page
    assert ", promoted, left" in page
    assert "worse &lt;b&gt;" in page
    assert 'class="series"' in page
