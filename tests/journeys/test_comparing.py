"""Releases compared at the command line: two, many, and without judgments, to terminals, programs and tickets."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from kbcore.cli import output
from kbcore.search_log import SearchLog
from kbcore.types import SearchResult
from tests.journeys.test_command_line import Kb
from tests.support import write
from tests.unit.evaluation.pages import check
from tests.unit.evaluation.sets import QUESTIONS


@pytest.fixture(scope="module")
def kb(tmp_path_factory: pytest.TempPathFactory) -> Kb:
    """Three releases: the phones go, then a page comes; the second was promoted and rolled back from."""
    kb = Kb(tmp_path_factory.mktemp("comparing"))
    (kb.root / "set.jsonl").write_text("".join(json.dumps(entry) + "\n" for entry in QUESTIONS))
    (kb.root / "asked.txt").write_text("lost phone\nbadge printing\n")
    kb("init")
    kb("refresh")
    write(kb.root / "docs", {"phones.html": None})
    kb("refresh")
    kb("rollback", "--reason", "phones went")
    write(kb.root / "docs", {"<script>.md": "# <script>alert(1)</script>\n\nA badge for printing. [x](javascript:y)\n"})
    kb("refresh")
    kb.config.write_text(kb.config.read_text() + f'[gate]\nevalset = "{kb.root}/set.jsonl"\n')
    return kb


def test_two_releases_are_compared_for_a_terminal_a_program_and_a_ticket(kb: Kb, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    said = kb("compare", "r1", "r3", "--html", str(page)).stdout
    assert "lost: phone lost phone" in said
    assert "document deleted" in said
    assert "documents: 1 added, 1 removed, 3 unchanged" in said
    assert f"report: {page}" in said
    shown = check(page.read_text(encoding="utf-8")).text
    assert "A lost phone is wiped by the service desk" in shown
    assert "<script>alert(1)</script>" in shown
    again = tmp_path / "again.html"
    found: Any = kb.json("compare", "r1", "r3", "--html", str(again))
    assert {entry["id"]: entry["kind"] for entry in found["changed"]}["phone"] == "lost"
    check(again.read_text(encoding="utf-8"))


def test_a_release_compared_with_itself_does_not_differ(kb: Kb) -> None:
    kb("compare", "r1", "r1", "--exit-code")
    kb("compare", "r1", "r3", "--exit-code", code=5)


def test_one_release_is_compared_with_the_latest(kb: Kb) -> None:
    found: Any = kb.json("compare", "r1")
    assert (found["old"], found["new"]) == ("r000001", "r000003")


def test_a_trend_shows_what_is_missing_until_it_is_evaluated(kb: Kb, tmp_path: Path) -> None:
    asked = tmp_path / "other.jsonl"
    asked.write_text(json.dumps(QUESTIONS[0]) + "\n")
    chosen = ("compare", "--all", "--set", str(asked))
    found: Any = kb.json(*chosen)
    assert [row["scorecard"] for row in found["rows"]] == ["missing"] * 3
    assert all(row["means"] == {} for row in found["rows"])
    said = kb(*chosen).stdout
    assert "missing" in said
    assert "0.000" not in said
    assert "--evaluate" in said
    page = tmp_path / "trend.html"
    made: Any = kb.json(*chosen, "--evaluate", "--html", str(page))
    assert [row["scorecard"] for row in made["rows"]] == ["made now"] * 3
    assert [(move["kind"], move["release"]) for move in made["moves"]] == [
        ("promote", "r000001"), ("promote", "r000002"), ("rollback", "r000001"),
    ]  # fmt: skip
    shown = check(page.read_text(encoding="utf-8")).text
    assert "phones went" in shown
    assert "r000002 1.000, promoted, left" in shown
    assert [row["release"] for row in kb.json("compare", "--last", "2", "--set", str(asked))["rows"]] == [
        "r000002", "r000003",
    ]  # fmt: skip
    named: Any = kb.json("compare", "r3", "r1", "r2", "--set", str(asked))
    assert [row["release"] for row in named["rows"]] == ["r000001", "r000002", "r000003"]


def test_a_trend_that_could_not_be_evaluated_is_invalid_and_no_zero(kb: Kb, tmp_path: Path) -> None:
    asked = tmp_path / "nowhere.jsonl"
    asked.write_text(json.dumps({"id": "q", "question": "q", "expected": [{"uri": "nowhere.md"}]}) + "\n")
    found: Any = kb.json("compare", "--all", "--set", str(asked), "--evaluate", code=6)
    assert [row["scorecard"] for row in found["rows"]] == ["missing"] * 3
    assert "judged to answer it" in found["rows"][0]["why"]


def test_rankings_are_compared_without_judgments(kb: Kb, tmp_path: Path) -> None:
    page = tmp_path / "rankings.html"
    chosen = ("--questions", str(kb.root / "asked.txt"), "--mode", "keyword")
    said = kb("compare", "r1", "r3", *chosen, "--html", str(page), "--exit-code", code=5).stdout
    assert "(deleted) docs:phones.html" in said
    assert "docs:phones.html (deleted)" in check(page.read_text(encoding="utf-8")).text
    same: Any = kb.json("compare", "r1", "r1", *chosen, "--exit-code")
    assert (same["overlap"], same["rbo"], same["passages"], same["differs"]) == (1.0, 1.0, 1.0, False)


def test_rankings_are_compared_on_what_users_asked_by_the_log_of_searches(kb: Kb, tmp_path: Path) -> None:
    asked = {"lost phone": 2, "badge printing": 1}
    log = SearchLog(tmp_path / "log", payloads=True)
    for question, times in asked.items():
        for _ in range(times):
            log.wrote("desk", SearchResult("r000001", question, "keyword", "hits", "none", ()), 5, 0.1)
    log.wrote("other", SearchResult("r000001", "elsewhere", "keyword", "hits", "none", ()), 5, 0.1)
    assert "log:FOLDER" in kb("compare", "--help").stdout
    named: Any = kb.json("compare", "r1", "r3", "--questions", f"log:{tmp_path}/log", "--mode", "keyword")
    assert {entry["question"] for entry in named["questions"]} == set(asked)
    assert all(entry["id"].startswith("log-") for entry in named["questions"])
    assert named["file"] == "search log"
    assert "no log of searches is configured" in kb("compare", "r1", "r3", "--questions", "log", code=2).stderr
    assert "holds no question" in kb("compare", "r1", "r3", "--questions", f"log:{tmp_path}", code=2).stderr
    chosen = ("compare", "r1", "r3", "--questions", "log", "--mode", "keyword", "--json")
    configured = json.loads(kb(*chosen, KB_SEARCH_LOG__PATH=str(tmp_path / "log")).stdout)
    assert configured["questions"] == named["questions"]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_on_a_narrow_terminal_the_widest_column_gives_way_and_none_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Terminal()
    monkeypatch.setattr(sys, "stdout", screen)
    for name, value in {"COLUMNS": "80", "TERM": "dumb"}.items():
        monkeypatch.setenv(name, value)
    output.table(["", "old", "new"], [[7, "a" * 60, "b" * 90], [8, "c", "d"]])
    lines = screen.getvalue().splitlines()
    assert all(len(line) <= 80 for line in lines)
    assert [line.split()[0] for line in lines[2:]] == ["7", "8"]
    assert "a" * 30 + "…" in lines[2] or "a" * 36 in lines[2]
    assert "b" * 30 in lines[2]


def test_on_a_terminal_sentences_break_between_words_and_in_a_pipe_not_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    sentence = "one sentence of several words that is longer than a line of it"
    screens = Terminal(), io.StringIO()
    monkeypatch.setenv("COLUMNS", "30")
    for screen in screens:
        monkeypatch.setattr(sys, "stdout", screen)
        output.paragraph(sentence, "  ")
    lines = screens[0].getvalue().splitlines()
    assert len(lines) > 1
    assert all(len(line) <= 30 and line.startswith("  ") for line in lines)
    assert " ".join(line.strip() for line in lines) == sentence
    assert screens[1].getvalue() == f"  {sentence}\n"


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("r1", "--all"),
        ("r1", "--last", "2"),
        ("r1", "r2", "--evaluate"),
        ("--all", "--exit-code"),
        ("--all", "--questions", "asked.txt"),
        ("r1", "r2", "--questions", "asked.txt", "--tag", "x"),
        ("r1", "r2", "--html", "no/such/folder/report.html"),
        ("r1", "r2", "--html", "."),
    ],
)
def test_options_that_say_nothing_together_are_refused_with_what_to_do(kb: Kb, arguments: tuple[str, ...]) -> None:
    done = kb("compare", *arguments, code=2)
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 2
