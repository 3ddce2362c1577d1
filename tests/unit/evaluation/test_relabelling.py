"""Judgments carried over renames: what is rewritten, what is told, and what stays as it was."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kbcore.evaluation.labels import labels_of
from kbcore.evaluation.questions import load_questions, read_text, save_text
from kbcore.evaluation.relabelling import Relabelling, relabel
from kbcore.knowledge_base import KnowledgeBase
from kbcore.store.inventory import Inventory
from tests.support import DOCUMENTS, knowledge_base, refreshed, write

PRINTERS = DOCUMENTS["printers.txt"]


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> KnowledgeBase:
    """printers.txt is renamed in r000002, edited in r000003, renamed in r000004; phones.html goes and twice.md, which two
    sources have, goes two ways in r000004."""
    root = tmp_path_factory.mktemp("relabelling")
    made = knowledge_base(
        root,
        sources=[
            {"name": "docs", "path": str(root / "docs"), "include": ["**/*"]},
            {"name": "copy", "path": str(root / "copy"), "include": ["**/*"]},
        ],
    )
    edited = PRINTERS + "\nA new floor has one too.\n"
    for changes in (
        {"docs/twice.md": "# Here\n\nSaid here.\n", "copy/twice.md": "# There\n\nSaid there.\n"},
        {"docs/printers.txt": None, "docs/floors/printers.txt": PRINTERS},
        {"docs/floors/printers.txt": edited},
        {"docs/floors/printers.txt": None, "docs/house/printing.txt": edited, "docs/phones.html": None,
         "docs/twice.md": None, "docs/here.md": "# Here\n\nSaid here.\n",
         "copy/twice.md": None, "copy/there.md": "# There\n\nSaid there.\n"},
    ):  # fmt: skip
        write(root, changes)
        refreshed(made)
    return made


def carried(base: KnowledgeBase, path: Path, text: str, old: str = "r000001", new: str = "r000004") -> Relabelling:
    file = path / "set.jsonl"
    save_text(file, text, overwrite=True)
    return relabel(base.repository, old, new, load_questions(file), read_text(file))


def line(*expected: dict[str, Any], **more: Any) -> str:
    return json.dumps({"id": "q", "question": "?", "expected": list(expected), **more})


def test_a_document_is_followed_through_renames_and_edits(base: KnowledgeBase, tmp_path: Path) -> None:
    found = carried(base, tmp_path, line({"doc_id": "docs:printers.txt"}, {"uri": "printers.txt", "grade": 2}))
    assert [(e["document"], e["now"]) for e in found.followed] == [
        ("docs:printers.txt", "docs:house/printing.txt"),
        ("printers.txt", "house/printing.txt"),
    ]
    assert json.loads(found.text)["expected"] == [
        {"doc_id": "docs:house/printing.txt"},
        {"uri": "house/printing.txt", "grade": 2},
    ]


def test_names_lead_back_to_an_older_release_too(base: KnowledgeBase, tmp_path: Path) -> None:
    found = carried(base, tmp_path, line({"doc_id": "docs:house/printing.txt"}), "r000004", "r000001")
    assert [entry["now"] for entry in found.followed] == ["docs:printers.txt"]


def test_each_judgment_is_told_of_once(base: KnowledgeBase, tmp_path: Path) -> None:
    found = carried(
        base, tmp_path,
        line({"uri": "vpn.md"}, {"uri": "printers.txt"}, {"doc_id": "docs:phones.html"}, {"uri": "twice.md"},
             {"doc_id": "docs:typo.md"}),
    )  # fmt: skip
    assert found.to_json() == {
        "from": "r000001",
        "to": "r000004",
        "unchanged": 1,
        "followed": [{"question": "q", "document": "printers.txt", "now": "house/printing.txt"}],
        "merged": [],
        "gone": [{"question": "q", "document": "docs:phones.html"}],
        "ambiguous": [{"question": "q", "document": "twice.md", "now": ["here.md", "there.md"]}],
        "unknown": [{"question": "q", "document": "docs:typo.md"}],
    }


def test_all_but_the_names_stays_as_it_was(base: KnowledgeBase, tmp_path: Path) -> None:
    kept = '{"question":  "Größe?", "id": "a", "expected": [{"grade": 2, "uri": "vpn.md"}]}'
    moved = (
        '{"tags": ["z", "a"], "id": "b",  "expected": [{"quote": "the badge", "doc_id": "docs:printers.txt"}, '
        '{"doc_id": "docs:phones.html", "grade": 0}], "question": "\\u00dcber?"}'
    )
    found = carried(base, tmp_path, f"\ufeff{kept}\r\n\r\n  \r\n{moved}\r\n")
    first, second, third, rewritten, end = found.text.split("\r\n")
    assert (first, second, third, end) == (f"\ufeff{kept}", "", "  ", "")
    before, after = json.loads(moved), json.loads(rewritten)
    before["expected"][0]["doc_id"] = "docs:house/printing.txt"
    assert after == before
    assert list(after) == ["tags", "id", "expected", "question"]
    assert list(after["expected"][0]) == ["quote", "doc_id"]
    assert "Über?" in rewritten


def test_a_set_in_which_nothing_moved_is_the_same_to_the_byte(base: KnowledgeBase, tmp_path: Path) -> None:
    text = '{"id":"a","question":"?","expected":[{"uri":"vpn.md"}]}\r{"id":"b","question":"?"}\n\n'
    found = carried(base, tmp_path, text)
    assert found.text == text
    assert not found.moved


def test_a_judgment_that_the_question_has_already_is_not_written_twice(base: KnowledgeBase, tmp_path: Path) -> None:
    text = line(
        {"doc_id": "docs:printers.txt", "grade": 1},
        {"doc_id": "docs:printers.txt", "quote": "badge"},
        {"doc_id": "docs:house/printing.txt", "grade": 2},
        {"doc_id": "docs:floors/printers.txt", "quote": "badge"},
    )
    found = carried(base, tmp_path, text, "r000002")
    assert [e["document"] for e in found.followed] == ["docs:floors/printers.txt"]
    found = carried(base, tmp_path, text)
    assert [e["document"] for e in found.merged] == ["docs:printers.txt"]
    assert json.loads(found.text)["expected"][0] == {"doc_id": "docs:house/printing.txt", "quote": "badge"}
    assert json.loads(found.text)["expected"][1] == {"doc_id": "docs:house/printing.txt", "grade": 2}
    save_text(tmp_path / "again.jsonl", found.text, overwrite=False)
    load_questions(tmp_path / "again.jsonl")


def test_carried_judgments_mean_what_following_them_means(base: KnowledgeBase, tmp_path: Path) -> None:
    text = line({"uri": "printers.txt"}, {"doc_id": "docs:vpn.md"}, {"doc_id": "docs:printers.txt", "quote": "badge"})
    found = carried(base, tmp_path, text)
    save_text(tmp_path / "after.jsonl", found.text, overwrite=False)
    inventory = Inventory(base.repository, "r000004")
    before, after = (
        labels_of(base.repository, inventory, load_questions(tmp_path / name).questions)["q"]
        for name in ("set.jsonl", "after.jsonl")
    )
    assert [label.documents for label in before] == [label.documents for label in after]
