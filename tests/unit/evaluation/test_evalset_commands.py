"""``kb evalset`` as a person and as a program meets it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from kbcore.cli import app
from kbcore.cli.output import hint
from tests.support import DOCUMENTS, write

LONG = (
    "# Badges\n\n## Losing a badge\n\n"
    "Whoever lost a badge tells the desk at once, which blocks it. A new one is made on the next day.\n"
)


class Desk:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.set = root / "set.jsonl"
        write(root / "docs", {**DOCUMENTS, "badges.md": LONG})
        self.file = root / "kb.toml"
        self.file.write_text(
            f'[kb]\nname = "desk"\nrepository = "{root}/releases"\n[embedder]\nprovider = "hashing"\n'
            f'[[sources]]\nname = "docs"\npath = "{root}/docs"\n[gate]\nevalset = "{self.set}"\n'
        )
        self("init")
        self("refresh", "--no-gate")
        write(root / "docs", {"vpn.md": None, "net/vpn.md": DOCUMENTS["vpn.md"]})
        self("refresh", "--no-gate")

    def __call__(self, *arguments: str, code: int = 0, config: bool = True) -> str:
        given = ["-c", str(self.file)] if config else []
        result = CliRunner().invoke(app, [*arguments, *given])
        assert result.exit_code == code, (arguments, result.output, result.exception)
        return result.stdout if "--json" in arguments else result.output

    def json(self, *arguments: str, code: int = 0, config: bool = True) -> Any:
        return json.loads(self(*arguments, "--json", code=code, config=config))

    def asks(self, *questions: dict[str, Any]) -> str:
        text = "".join(json.dumps({"id": f"q{n}", **question}) + "\n" for n, question in enumerate(questions))
        self.set.write_text(text)
        return text


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Desk:
    return Desk(tmp_path_factory.mktemp("evalset"))


VPN = {"question": "ERR-4012?", "expected": [{"doc_id": "docs:vpn.md", "quote": "did not answer"}]}


def test_a_set_is_carried_over_a_rename_in_place_and_checks_clean(desk: Desk) -> None:
    text = desk.asks(VPN, {"question": "Printers?", "expected": [{"uri": "printers.txt"}]})
    said = desk("evalset", "check", "--exit-code", code=5)
    assert "q0: renamed: docs:vpn.md is docs:net/vpn.md now" in said
    assert f"kb evalset follow -c {desk.file} --from r000001 --to r000002" in said
    assert "nothing was written" in desk("evalset", "follow", "--from", "r000001")
    assert desk.set.read_text() == text
    assert "wrote" in desk("evalset", "follow", "--from", "r000001", "--to", "latest", "--in-place")
    assert desk.set.read_text() == text.replace("docs:vpn.md", "docs:net/vpn.md")
    assert "nothing is wrong with it" in desk("evalset", "check", "--exit-code")
    again = desk.json("evalset", "follow", "--from", "r000001", "--in-place")
    assert (again["followed"], again["unchanged"], again["out"]) == ([], 2, None)


def test_follow_writes_to_another_file_and_not_over_one_that_is_there(desk: Desk) -> None:
    text = desk.asks(VPN)
    out = desk.root / "followed.jsonl"
    found = desk.json("evalset", "follow", "--from", "r000001", "--out", str(out))
    assert found["followed"] == [{"question": "q0", "document": "docs:vpn.md", "now": "docs:net/vpn.md"}]
    assert desk.set.read_text() == text
    assert out.read_text() == text.replace("docs:vpn.md", "docs:net/vpn.md")
    assert "is there already" in desk("evalset", "follow", "--from", "r000001", "--out", str(out), code=2)
    desk("evalset", "follow", "--from", "r000001", "--out", str(out), "--force")
    assert "--in-place" in desk("evalset", "follow", "--from", "r000001", "--out", "x", "--in-place", code=2)


def test_a_check_without_exit_code_ends_with_0_and_prints_json_alone(desk: Desk) -> None:
    desk.asks({"question": "?", "expected": [{"doc_id": "docs:printer.txt"}], "tags": ["draft"]})
    found = desk.json("evalset", "check")
    assert (found["release"], found["drafts"], found["judgments"], found["live"]) == ("r000002", 1, 1, 0)
    assert found["findings"][0]["instead"] == "docs:printers.txt"
    said = desk("evalset", "check")
    assert "drafts left to edit: 1" in said
    assert "did you mean docs:printers.txt?" in said


def test_a_set_of_another_knowledge_base_is_told_as_one(desk: Desk) -> None:
    desk.asks(*({"question": f"What is number {n}?", "expected": [{"uri": f"wiki/{n}"}]} for n in range(150)))
    said = desk("evalset", "check")
    assert "none of its documents was ever here" in said
    assert "and 50 more; all of them with --json" in said
    assert said.count(": unknown document: ") == 100
    assert len(desk.json("evalset", "check")["findings"]) == 150
    for others in (VPN, {"question": "Printers", "no_answer": True}):
        desk.asks(others, *([{"question": "What is it?", "expected": [{"uri": "wiki/1"}]}] if others is VPN else []))
        assert "was ever here" not in desk("evalset", "check")


def test_what_documents_say_cannot_steer_a_terminal(desk: Desk) -> None:
    desk.asks({"question": "?", "expected": [{"uri": "vpn\u001b[31m.md", "quote": "a\u202e"}]})
    said = desk("evalset", "check")
    assert "\u001b" not in said
    assert "\\u001b" in said


def test_a_set_that_does_not_read_is_refused_before_anything(desk: Desk) -> None:
    desk.set.write_text("{\n")
    for command in (["check"], ["follow", "--from", "r000001", "--in-place"]):
        assert "line 1: is not JSON" in desk("evalset", *command, code=2)
    assert desk.set.read_text() == "{\n"


def test_drafts_are_written_checked_and_evaluated(desk: Desk) -> None:
    out = desk.root / "drafts.jsonl"
    report = desk.json("evalset", "draft", "--out", str(out), "--count", "3", "--seed", "4")
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    assert report["questions"] == len(lines) >= 1
    assert all(line["tags"] == ["draft"] for line in lines)
    assert "is there already" in desk("evalset", "draft", "--out", str(out), code=2)
    assert "tagged draft" in desk("evalset", "draft", "--out", str(out), "--force")
    assert desk.json("evalset", "check", "--set", str(out), "--exit-code")["drafts"] == len(lines)
    assert desk.json("eval", "--set", str(out))["counts"]["judged"] == len(lines)


def test_a_collection_is_imported_with_counts(desk: Desk) -> None:
    write(desk.root, {"topics.tsv": "1\tERR-4012?\n2\tOther?\n", "qrels": "1 0 vpn.md -1\n1 0 net/vpn.md 2\n7 0 a 1\n"})
    out = desk.root / "imported.jsonl"
    arguments = ["evalset", "import", str(desk.root / "topics.tsv"), "--qrels", str(desk.root / "qrels"), "-o", str(out),
                 "--source", "docs"]  # fmt: skip
    said = desk(*arguments, config=False)
    assert "1 questions, 2 judgments: 1 of grade 0, 1 of grade 2" in said
    assert "not among the queries: 7" in said
    assert desk.json("eval", "--set", str(out))["counts"]["judged"] == 1
    assert "is there already" in desk(*arguments, config=False, code=2)
    report = desk.json(*arguments, "--force", config=False)
    assert (report["out"], report["format"], report["negative_to_zero"]) == (str(out), "trec", 1)


def test_advice_names_the_configuration_behind_the_whole_command() -> None:
    said = hint("see kb evalset check --set x, or kb eval", Path("my.toml"))
    assert said == "see kb evalset check -c my.toml --set x, or kb eval -c my.toml"
