"""What SQL shows of scorecards, the answers they sum up, and gate records."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from kbcore.errors import CorruptReleaseError
from kbcore.evaluation.gate import judge
from kbcore.evaluation.questions import Expected, Question, QuestionSet
from kbcore.evaluation.runner import evaluate, keep, kept
from kbcore.evaluation.scorecard import Scorecard
from kbcore.knowledge_base import KnowledgeBase
from kbcore.sql import query
from kbcore.store import evals, layout
from kbcore.verification import verify_repository
from tests.support import DOCUMENTS, knowledge_base, refreshed, write

MEASURES = ("nDCG@10", "R@5")
QUESTIONS = QuestionSet(
    "desk.jsonl",
    (
        Question(id="q1", question="ERR-4012 gateway", expected=(Expected(doc_id="docs:vpn.md"),), tags=("network",)),
        Question(id="q2", question="lost phone", expected=(Expected(doc_id="docs:phones.html"),)),
        Question(id="q3", question="a page that was never written", expected=(Expected(doc_id="docs:none.md"),)),
        Question(id="q4", question="volcanoes", no_answer=True),
    ),
)


def evaluated(base: KnowledgeBase, release: str, mode: Any = "keyword") -> Scorecard:
    repository = base.repository
    run = repository.begin("ann")
    settings = base.settings(repository.manifest(release), mode)
    card = evaluate(repository, release, QUESTIONS, base.catalog, settings, names=MEASURES, run=run)
    keep(repository, card, run)
    return card


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> KnowledgeBase:
    root = tmp_path_factory.mktemp("sql-evals")
    made = knowledge_base(root)
    refreshed(made, by="ann")
    write(root / "docs", {"vpn.md": DOCUMENTS["vpn.md"].replace("ERR-4012", "Gateways")})
    refreshed(made, by="ben")
    return made


@pytest.fixture(scope="module")
def cards(base: KnowledgeBase) -> list[Scorecard]:
    return [evaluated(base, "r000001"), evaluated(base, "r000002"), evaluated(base, "r000002", "hybrid")]


def ask(base: KnowledgeBase, statement: str) -> list[tuple[Any, ...]]:
    return query(base.repository, "current", statement).rows


def test_evals_has_the_means_of_every_scorecard_whole_and_by_slice(base: KnowledgeBase, cards: list[Scorecard]) -> None:
    rows = ask(
        base, "SELECT release, mode, measure, mean FROM evals WHERE slice = 'all' ORDER BY release, run, measure"
    )
    expected = [
        (card.release, card.settings["mode"], measure, card.means[measure]) for card in cards for measure in MEASURES
    ]
    assert sorted(rows) == sorted(expected)
    assert ask(base, "SELECT DISTINCT value, questions FROM evals WHERE slice = 'tag'") == [("network", 1)]
    counts = "set_name, judged, unjudged, stale, no_answer, answered_no_answer, answerable, k, alpha"
    assert ask(base, f"SELECT DISTINCT {counts} FROM evals WHERE release = 'r000001'") == [
        ("desk.jsonl", 2, 1, 1, 1, 0, 3, 5, None)
    ]
    assert ask(base, "SELECT DISTINCT set_digest, key FROM evals WHERE mode = 'hybrid'") == [
        (QUESTIONS.digest, cards[2].key)
    ]


def test_eval_questions_are_those_of_the_newest_scorecard_of_each_release_set_and_search(
    base: KnowledgeBase, cards: list[Scorecard]
) -> None:
    before = ask(base, "SELECT count(*) FROM eval_questions")
    time.sleep(1.1)  # the name of a run holds its second: two of one second stand in no order
    again = evaluated(base, "r000002")
    assert ask(base, "SELECT count(*) FROM eval_questions") == before
    assert ask(base, "SELECT DISTINCT run FROM eval_questions WHERE release = 'r000002' AND mode = 'keyword'") == [
        (again.run,)
    ]
    rows = ask(base, "SELECT id, measure, value FROM eval_questions WHERE release = 'r000001' ORDER BY id, measure")
    values = {answer.id: answer.measures or {None: None} for answer in cards[0].answers}
    assert sorted(rows, key=str) == sorted(
        ((name, measure, value) for name, found in values.items() for measure, value in found.items()), key=str
    )
    assert [row for row in rows if row[1] is None] == [("q3", None, None), ("q4", None, None)]
    assert ask(base, "SELECT DISTINCT no_answer, tags FROM eval_questions WHERE id = 'q1'") == [(False, ["network"])]
    # Its means are those of the scorecards.
    joined = (
        "SELECT count(*), max(abs(e.mean - q.mean)) FROM evals e JOIN (SELECT run, measure, avg(value) mean "
        "FROM eval_questions WHERE measure IS NOT NULL GROUP BY ALL) q USING (run, measure) WHERE e.slice = 'all'"
    )
    count, off = ask(base, joined)[0]
    assert count == 6
    assert off < 1e-12


def test_answers_too_large_for_one_record_are_kept_in_several_and_read_as_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evals, "ANSWERS_BYTES", 1500)
    base = knowledge_base(tmp_path)
    refreshed(base)
    card = evaluated(base, "r000001")
    parts = sorted(path.name for path in (base.folder / "evals" / "r000001").glob("answers*"))
    assert len(parts) > 1
    assert all(layout.is_record(f"evals/r000001/{name}") for name in parts)
    settings = base.settings(base.repository.manifest("r000001"), "keyword")
    assert kept(base.repository, "r000001", QUESTIONS, settings, MEASURES) == card
    assert verify_repository(base.repository, ["r000001"]) == []
    assert ask(base, "SELECT count(DISTINCT id) FROM eval_questions") == [(len(QUESTIONS.questions),)]
    (base.folder / "evals" / "r000001" / parts[-1]).unlink()
    assert kept(base.repository, "r000001", QUESTIONS, settings, MEASURES) is None
    (found,) = verify_repository(base.repository, ["r000001"])
    assert (found.file, found.reason) == (f"evals/r000001/{parts[-1]}", "is missing")


def test_gates_are_one_row_a_check_and_join_the_promotions_that_name_them(tmp_path: Path) -> None:
    base = knowledge_base(tmp_path)
    refreshed(base)
    write(tmp_path / "docs", {"new.md": "# New\n\nLaptops.\n"})
    refreshed(base)
    rows = ask(base, "SELECT release, baseline, verdict, check_name, finding FROM gates ORDER BY release, check_name")
    assert rows[0] == ("r000001", None, "no_baseline", None, None)
    assert [row[3] for row in rows[1:]] == ["copied", "emptied", "failed", "flagged", "removed", "size", "untitled"]
    assert {row[:3] + row[4:] for row in rows[1:]} == {("r000002", "r000001", "pass", "pass")}
    assert ask(base, "SELECT DISTINCT p.release FROM promotions p JOIN gates g ON p.gate = g.digest ORDER BY 1") == [
        ("r000001",), ("r000002",),
    ]  # fmt: skip
    manifest = base.repository.manifest("r000001")
    judge(base.repository, base.config, manifest, base.catalog, base.repository.begin())
    assert ask(base, "SELECT count(DISTINCT run) FROM gates") == [(3,)]


def test_a_record_that_does_not_read_is_named_and_not_left_out_in_silence(tmp_path: Path) -> None:
    base = knowledge_base(tmp_path)
    refreshed(base)
    evaluated(base, "r000001")
    for kind, view in (("scorecard", "evals"), ("answers", "eval_questions"), ("gate", "gates")):
        (path,) = (base.folder / "evals").rglob(f"{kind}-*.json")
        data = path.read_bytes()
        path.write_bytes(data[:-2] + b"x\n")
        with pytest.raises(CorruptReleaseError, match=path.name):
            ask(base, f"FROM {view}")
        assert ask(base, "SELECT count(*) FROM releases") == [(1,)]
        path.write_bytes(data)
