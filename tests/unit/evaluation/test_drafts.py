"""Questions proposed from titles and headings."""

from __future__ import annotations

from pathlib import Path

import pytest

from kbcore.evaluation.drafts import ask, propose
from kbcore.evaluation.labels import find_quote
from kbcore.evaluation.sections import sections
from kbcore.knowledge_base import KnowledgeBase
from kbcore.store.inventory import Inventory
from tests.support import knowledge_base, refreshed

SAYS = (
    "The {0} is kept in the {1} room, and whoever needs one asks at the desk before noon. It goes back the same day. "
)


def page(title: str, *headings: str) -> str:
    parts = (f"## {heading}\n\n{SAYS.format(heading, title)}" for heading in headings)
    return f"# {title}\n\n" + "\n\n".join(parts) + "\n"


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> KnowledgeBase:
    root = tmp_path_factory.mktemp("drafts")
    made = knowledge_base(
        root,
        {f"{name}.md": page(name, f"Large {name}", f"Small {name}", "Overview", "Opening hours")
         for name in ("ladder", "lamp", "bicycle", "projector")},
        sources=[
            {"name": "docs", "path": str(root / "docs"), "include": ["**/*"]},
            {"name": "more", "path": str(root / "more"), "include": ["**/*"]},
        ],
    )  # fmt: skip
    (root / "more").mkdir()
    (root / "more" / "boat.md").write_text(page("boat", "Rowing boat", "Sailing boat"))
    (root / "more" / "index.md").write_text(page("index", "All the things there are"))
    (root / "more" / "links.md").write_text("# Links\n\n## Where to go\n\n" + "- [A page](a.md) about a thing\n" * 20)
    (root / "more" / "short.md").write_text("# Short\n\n## Too short\n\nNot much.\n")
    refreshed(made)
    return made


def test_the_same_seed_gives_the_same_questions_and_another_one_others(base: KnowledgeBase) -> None:
    inventory = Inventory(base.repository, "r000001")
    first = propose(inventory, 6, seed=7)
    assert first == propose(Inventory(base.repository, "r000001"), 6, seed=7)
    assert {q.id for q in first.questions} != {q.id for q in propose(inventory, 6, seed=8).questions}


def test_each_quote_is_the_documents_own_text_under_the_heading(base: KnowledgeBase) -> None:
    inventory = Inventory(base.repository, "r000001")
    drafts = propose(inventory, 100).questions
    assert len(drafts) == 10
    for question in drafts:
        (expected,) = question.expected
        text = inventory.text(expected.doc_id or "") or ""
        assert expected.quote in text
        assert len(find_quote(text, expected.quote or "")) == 1
        assert (expected.quote or "").endswith(".")
        assert question.tags == ("draft",)
        topic = question.question.removeprefix(inventory.titles[expected.doc_id or ""]).split("about ")[1].rstrip("?")
        assert topic.casefold() in (expected.quote or "").casefold()


def test_sources_and_documents_take_turns(base: KnowledgeBase) -> None:
    inventory = Inventory(base.repository, "r000001")
    for seed in range(5):
        order = [q.expected[0].doc_id or "" for q in propose(inventory, 100, seed=seed).questions]
        assert {doc_id.split(":")[0] for doc_id in order[:2]} == {"docs", "more"}
        assert len({doc_id for doc_id in order if doc_id.startswith("docs")}) == 4
        docs = [doc_id for doc_id in order if doc_id.startswith("docs")]
        assert len(set(docs[:4])) == 4


def test_index_pages_short_sections_and_headings_of_several_documents_are_passed_over(base: KnowledgeBase) -> None:
    asked = propose(Inventory(base.repository, "r000001"), 100)
    said = " ".join(q.question for q in asked.questions)
    for word in ("Opening", "Overview", "Where to go", "Too short", "All the things"):
        assert word.casefold() not in said.casefold()
    assert {(q.expected[0].doc_id or "").split(":")[1] for q in asked.questions} == {
        "ladder.md", "lamp.md", "bicycle.md", "projector.md", "boat.md",
    }  # fmt: skip
    assert (asked.sections, asked.documents) == (10, 5)


def test_sentences_that_two_documents_have_name_neither(tmp_path: Path) -> None:
    said = SAYS.format("key", "front")
    made = knowledge_base(tmp_path, {f"{n}.md": f"# Page {n}\n\n## Keys of {n}\n\n{said}\n" for n in ("a", "b")})
    refreshed(made)
    assert propose(Inventory(made.repository, "r000001"), 10).questions == ()


def test_ids_stay_as_other_documents_come(base: KnowledgeBase, tmp_path: Path) -> None:
    ladder = page("ladder", "Large ladder", "Small ladder", "Overview", "Opening hours")
    made = knowledge_base(tmp_path, {"ladder.md": ladder})
    refreshed(made)
    few = {q.id for q in propose(Inventory(made.repository, "r000001"), 100).questions}
    assert len({q.id for q in propose(Inventory(base.repository, "r000001"), 100).questions} & few) == 2


@pytest.mark.parametrize(
    ("topic", "title", "question"),
    [
        ("Reset your password", "Accounts", "Accounts: How do I reset my password?"),
        ("Back up your files", "Storage", "Storage: How do I back up my files?"),
        ("Backup codes", "Storage", "Storage: What should I know about backup codes?"),
        ("How to connect", "VPN", "VPN: How do I connect?"),
        ("Why does it fail?", "What is a VPN?", "What is a VPN: Why does it fail?"),
        ("ERR-4012", "Error codes", "Error codes: What does ERR-4012 mean?"),
        ("Guest wireless", "Guest wireless", "What should I know about guest wireless?"),
        ("VPN profiles", "VPN", "What should I know about VPN profiles?"),
        ("University of Otago", "Partners", "Partners: What should I know about University of Otago?"),
    ],
)
def test_a_heading_becomes_a_simple_question(topic: str, title: str, question: str) -> None:
    assert ask(topic, title) == question
    assert question != topic


def test_no_english_grammar_is_put_on_other_languages() -> None:
    assert ask("Passwort zurücksetzen", "Konten", english=False) == "Konten: Passwort zurücksetzen?"
    assert ask("Konten", "Konten", english=False) == "Konten?"


PROSE = (
    "Whoever wants one asks at the desk before noon, and brings it back again. It is free of charge for everyone here."
)


@pytest.mark.parametrize(
    "before",
    ["- a list\n- of things\n\n", "| a | table |\n|---|---|\n\n", "```\ncode that says much.\n\nand more.\n```\n\n",
     "![picture](a.png)\n\n", "    indented code that goes on for long enough.\n\n", "!!! note\n    Text.\n\n", "<div>\n\n"],
)  # fmt: skip
def test_a_quote_begins_with_prose(before: str) -> None:
    text = f"## Head\n\n{before}{PROSE}\n"
    (section,) = sections(text, [(0, "Head")])
    assert section.quote == PROSE
    assert text[section.start : section.start + len(section.quote)] == section.quote


def test_an_underlined_heading_is_not_quoted() -> None:
    (section,) = sections(f"Head\n====\n{PROSE}\n", [(0, "Head")])
    assert section.quote == PROSE


def test_a_quote_is_whole_sentences_and_not_too_long() -> None:
    long = " ".join(f"This is sentence number {n} of a paragraph that goes on and on." for n in range(20))
    (section,) = sections(f"## Head\n\n{long}\n", [(0, "Head")])
    assert section.quote == long[: section.quote.rindex(".") + 1]
    assert 120 <= len(section.quote) <= 400


def test_one_endless_sentence_is_not_quoted() -> None:
    assert list(sections("## Head\n\n" + "and so on " * 100 + ".\n", [(0, "Head")])) == []


def test_text_without_headings_stands_under_its_title() -> None:
    (section,) = sections(PROSE, [])
    assert (section.heading, section.quote, section.start) == (None, PROSE, 0)
