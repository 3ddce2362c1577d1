"""The list of releases: states are derived from the log and the gate's records, figures from the scorecards."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from kbcore.cli import app
from kbcore.clock import run_name
from kbcore.config.gate import GateSection
from kbcore.evaluation.gate import judge
from kbcore.evaluation.questions import Expected, Question, QuestionSet
from kbcore.evaluation.runner import evaluate, keep
from kbcore.evaluation.scorecard import Scorecard
from kbcore.knowledge_base import KnowledgeBase
from kbcore.promotion import promote, rollback
from kbcore.releases import list_releases
from kbcore.store.objects import LocalStore
from tests.support import DOCUMENTS, knowledge_base, refreshed, write

STRICT = {"documents": 0, "removed_percent": 0}
SET = QuestionSet(
    "desk.jsonl", (Question(id="q1", question="ERR-4012", expected=(Expected(doc_id="docs:vpn.md"),), tags=("vpn",)),)
)
OTHER = QuestionSet("other.jsonl", (Question(id="q9", question="lost phone", expected=(Expected(uri="phones.html"),)),))


def evaluated(base: KnowledgeBase, release: str, questions: QuestionSet = SET) -> Scorecard:
    repository = base.repository
    run = repository.begin()
    settings = base.settings(repository.manifest(release), "keyword")
    names = ("nDCG@10", "R@5") if questions is SET else ("RR@10",)
    card = evaluate(repository, release, questions, base.catalog, settings, names=names, run=run)
    keep(repository, card, run)
    return card


def states(base: KnowledgeBase) -> list[tuple[str, str]]:
    return [(row.release, row.state) for row in reversed(list_releases(base.repository))]


def test_a_release_that_the_gate_refused_is_refused_until_a_person_promotes_it(tmp_path: Path) -> None:
    base = knowledge_base(tmp_path, gate=STRICT)
    refreshed(base)
    write(tmp_path / "docs", {"vpn.md": None})
    assert not refreshed(base).promoted
    assert states(base) == [("r000001", "current"), ("r000002", "refused")]
    assert list_releases(base.repository)[0].gate == "fail"
    promote(base.repository, "r000002", base.catalog, reason="meant", run=base.repository.begin())
    assert states(base) == [("r000001", "previous"), ("r000002", "current")]
    rollback(base.repository, base.catalog, reason="after all", run=base.repository.begin())
    assert states(base) == [("r000001", "current"), ("r000002", "previous")]


def test_the_newest_gate_record_decides_and_one_that_does_not_read_is_passed_over(tmp_path: Path) -> None:
    base = knowledge_base(tmp_path, gate=STRICT)
    refreshed(base)
    write(tmp_path / "docs", {"vpn.md": None})
    refreshed(base)
    repository = base.repository
    lenient = base.config.model_copy(update={"gate": GateSection()})
    # A run's name begins with its time: this one is a day later.
    later = replace(repository.begin(), name=run_name(repository.clock() + timedelta(days=1), "0" * 16))
    assert judge(repository, lenient, repository.manifest("r000002"), base.catalog, later).verdict == "pass"
    assert states(base)[1] == ("r000002", "candidate")
    (newest,) = (base.folder / "evals" / "r000002").glob(f"gate-*-{later.name}.json")
    newest.write_bytes(newest.read_bytes()[:-3])
    assert states(base)[1] == ("r000002", "refused")


@pytest.fixture
def base(tmp_path: Path) -> KnowledgeBase:
    made = knowledge_base(tmp_path)
    refreshed(made)
    for number in range(2):
        write(tmp_path / "docs", {"new.md": f"# New\n\nLaptop {number}.\n"})
        refreshed(made)
    return made


def test_a_release_has_the_first_measure_of_its_scorecard(base: KnowledgeBase) -> None:
    assert [row.quality for row in list_releases(base.repository)] == [None] * 3
    card = evaluated(base, "r000001")
    newest, middle, oldest = list_releases(base.repository)
    assert newest.quality is middle.quality is None
    assert oldest.quality == {
        "measure": "nDCG@10", "mean": card.means["nDCG@10"], "set": "desk.jsonl", "judged": 1, "run": card.run,
    }  # fmt: skip


def test_figures_of_another_set_do_not_stand_in_one_column(base: KnowledgeBase) -> None:
    for release in ("r000001", "r000002"):
        evaluated(base, release)
    evaluated(base, "r000002", OTHER)
    evaluated(base, "r000003", OTHER)
    evaluated(base, "r000003", SET)
    rows = list_releases(base.repository)
    assert {row.quality["set"] for row in rows if row.quality} == {"desk.jsonl"}
    assert [row.quality is not None for row in rows] == [True, True, True]


def test_listing_reads_no_answers_and_at_most_two_records_a_release(
    base: KnowledgeBase, monkeypatch: pytest.MonkeyPatch
) -> None:
    for release in ("r000001", "r000002", "r000003"):
        evaluated(base, release)
        evaluated(base, release)
    read: list[str] = []
    listed: list[str] = []
    get, walk = LocalStore.get, LocalStore.list
    monkeypatch.setattr(LocalStore, "get", lambda self, name: (read.append(name), get(self, name))[1])
    monkeypatch.setattr(LocalStore, "list", lambda self, name: (listed.append(name), walk(self, name))[1])
    list_releases(base.repository)
    records = [name for name in read if name.startswith("evals/")]
    assert len(records) == 3
    assert all("/scorecard-" in name for name in records)
    assert listed.count("evals") == 1


def test_the_table_and_show_say_how_good_a_release_is_and_what_the_gate_said(tmp_path: Path) -> None:
    write(tmp_path / "docs", DOCUMENTS)
    config = tmp_path / "kb.toml"
    config.write_text(
        f'[kb]\nname = "test"\nrepository = "{tmp_path}/releases"\n'
        f'[[sources]]\nname = "docs"\npath = "{tmp_path}/docs"\n[embedder]\nprovider = "hashing"\n'
        "[gate]\ndocuments = 0\nremoved_percent = 0\n"
    )

    def kb(*arguments: str, code: int = 0) -> str:
        result = CliRunner().invoke(app, [*arguments, "-c", str(config)])
        assert result.exit_code == code, (arguments, result.output, result.exception)
        return result.stdout

    kb("init")
    kb("refresh")
    assert "nDCG@10" not in kb("releases")
    assert "gate: no baseline, 0 checks" in kb("show", "r1")
    evalset = tmp_path / "set.jsonl"
    evalset.write_text('{"id": "q1", "question": "ERR-4012", "expected": [{"doc_id": "docs:vpn.md"}]}\n')
    kb("eval", "--set", str(evalset))
    assert "nDCG@10" in kb("releases").splitlines()[0]
    assert "1.000" in kb("releases")
    shown = kb("show", "r1")
    assert "set.jsonl, hybrid, minmax, 1 of 1 judged" in shown
    assert "nDCG@10" in shown
    write(tmp_path / "docs", {"printers.txt": None})
    kb("refresh", code=3)
    assert "refused" in kb("releases")
    refused = kb("show", "latest")
    assert "gate: fail against r000001, 7 checks" in refused
    assert "  fail    removed: 1 of 4 documents of r000001 are gone" in refused
    body: dict[str, Any] = json.loads(kb("show", "latest", "--json"))
    assert (body["gate"]["verdict"], body["scorecard"]) == ("fail", None)
    assert json.loads(kb("show", "r1", "--json"))["scorecard"]["means"]["nDCG@10"] == 1.0
    listed = json.loads(kb("releases", "--json"))
    assert [(row["state"], row["gate"], row["quality"] and row["quality"]["mean"]) for row in listed] == [
        ("refused", "fail", None), ("current", None, 1.0),
    ]  # fmt: skip
