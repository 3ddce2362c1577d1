"""What a check of an evaluation set finds, and what it leaves alone."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbcore.evaluation import inspection
from kbcore.evaluation.inspection import ALIKE, Finding, _repeated, inspect
from kbcore.evaluation.questions import Question, QuestionSet
from kbcore.knowledge_base import KnowledgeBase
from kbcore.store.inventory import Inventory
from kbcore.tokenization import tokens
from tests.support import DOCUMENTS, knowledge_base, refreshed, write

GUIDE = "# Guide\n\n" + "The badge opens the door of the printing room on each floor of the house. " * 3
WIFI = "# Wireless\n\nAsk the desk for a voucher; it lasts a week and covers two devices at most.\n"


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> KnowledgeBase:
    """In r000002 printers.txt is renamed, guide.md moves with an edit, wifi_access.md is rewritten as wifi_accesses.md and
    phones.html goes."""
    root = tmp_path_factory.mktemp("inspection")
    made = knowledge_base(root, {**DOCUMENTS, "guide.md": GUIDE, "wifi_access.md": WIFI})
    refreshed(made)
    write(
        root / "docs",
        {"printers.txt": None, "floors/printers.txt": DOCUMENTS["printers.txt"], "phones.html": None,
         "guide.md": None, "manual/handbook.md": GUIDE + "\n\nIt is locked at night.\n",
         "wifi_access.md": None, "wifi_accesses.md": "# Radio\n\nNothing of what was said before holds any longer.\n"},
    )  # fmt: skip
    refreshed(made)
    return made


def findings(base: KnowledgeBase, *questions: dict[str, Any], release: str = "r000002") -> list[Finding]:
    asked = tuple(
        Question.model_validate({"id": f"q{number}", "question": f"{number}?", **question})
        for number, question in enumerate(questions)
    )
    return list(inspect(base.repository, release, QuestionSet("set", asked)).findings)


def found(base: KnowledgeBase, **judgment: Any) -> Finding | None:
    listed = findings(base, {"expected": [judgment]})
    assert len(listed) <= 1
    return listed[0] if listed else None


def test_a_set_that_is_right_is_left_alone(base: KnowledgeBase) -> None:
    right = {
        "question": "What is ERR-4012?",
        "expected": [{"doc_id": "docs:vpn.md", "quote": "the gateway did not answer"}],
    }
    other = {"question": "How is a password reset?", "expected": [{"uri": "passwords.md", "grade": 2}]}
    assert findings(base, right, other, {"question": "Who feeds the cat?", "no_answer": True}) == []


@pytest.mark.parametrize(
    ("judgment", "instead"),
    [
        ({"doc_id": "docs:pasword.md"}, "docs:passwords.md"),
        ({"uri": "passwords.mdx"}, "passwords.md"),
        ({"doc_id": "docs:help/vpn.md"}, "docs:vpn.md"),
        ({"doc_id": "docs:a/long/way/to/the/page/on/vpn.md"}, "docs:vpn.md"),
        ({"doc_id": "vpn.md"}, "docs:vpn.md"),
        ({"uri": "docs:vpn.md"}, "docs:vpn.md"),
        ({"doc_id": "wiki:a quite different name"}, None),
    ],
)
def test_a_name_no_release_knows_leads_to_the_nearest(base: KnowledgeBase, judgment: Any, instead: str | None) -> None:
    finding = found(base, **judgment)
    assert finding is not None
    assert (finding.kind, finding.instead) == ("unknown document", instead)
    assert ("did you mean" in finding.said) == (instead is not None)


def test_nearest_names_are_looked_for_within_bounds(base: KnowledgeBase, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = [{"question": f"{n} {n}?", "expected": [{"uri": f"pass{n}words.md"}]} for n in range(4)]
    held = len(Inventory(base.repository, "r000002").held)
    monkeypatch.setattr(inspection, "COMPARISONS", 2 * held)
    assert [f.instead for f in findings(base, *asked)] == ["passwords.md", "passwords.md", None, None]


def test_an_id_given_as_uri_is_told_so(base: KnowledgeBase) -> None:
    finding = found(base, uri="docs:vpn.md")
    assert finding is not None
    assert "docs:vpn.md as doc_id, not as uri" in finding.said


@pytest.mark.parametrize(
    ("judgment", "instead"),
    [
        ({"doc_id": "docs:printers.txt"}, "docs:floors/printers.txt"),
        ({"uri": "printers.txt", "quote": "badge"}, "floors/printers.txt"),
    ],
)
def test_a_renamed_document_is_found_and_its_judgment_applies(base: KnowledgeBase, judgment: Any, instead: str) -> None:
    finding = found(base, **judgment)
    assert finding is not None
    assert (finding.kind, finding.instead, finding.last) == ("renamed", instead, "r000001")
    question = Question.model_validate({"id": "q", "question": "?", "expected": [judgment]})
    report = inspect(base.repository, "r000002", QuestionSet("set", (question,)))
    assert (report.live, report.judgments) == (1, 1)


def test_a_document_that_moved_with_an_edit_leads_to_where_its_words_are(base: KnowledgeBase) -> None:
    finding = found(base, doc_id="docs:guide.md")
    assert finding is not None
    assert (finding.kind, finding.instead) == ("document gone", "docs:manual/handbook.md")
    assert finding.similarity is not None
    assert 0.5 < finding.similarity < 1


def test_a_document_that_was_rewritten_leads_to_one_that_is_named_alike(base: KnowledgeBase) -> None:
    finding = found(base, uri="wifi_access.md")
    assert finding is not None
    assert (finding.kind, finding.instead, finding.similarity) == ("document gone", "wifi_accesses.md", None)


def test_a_document_that_went_is_told_with_the_release_that_had_it_last(base: KnowledgeBase) -> None:
    finding = found(base, doc_id="docs:phones.html")
    assert finding is not None
    assert (finding.kind, finding.instead, finding.last) == ("document gone", None, "r000001")
    assert "went after r000001" in finding.said


def test_nothing_went_in_the_release_that_has_it(base: KnowledgeBase) -> None:
    names = ("docs:phones.html", "docs:printers.txt", "docs:guide.md")
    assert findings(base, {"expected": [{"doc_id": name} for name in names]}, release="r000001") == []


def test_a_stale_quote_leads_to_the_passage_as_it_is_now(base: KnowledgeBase) -> None:
    finding = found(base, doc_id="docs:passwords.md", quote="A password is changed at the self-service page")
    assert finding is not None
    assert (finding.kind, finding.instead) == ("quote gone", "A password is reset at the self-service page")
    finding = found(base, doc_id="docs:passwords.md", quote="zebras graze on the plain at noon")
    assert finding is not None
    assert (finding.kind, finding.instead) == ("quote gone", None)


def test_questions_that_are_asked_twice_are_found(base: KnowledgeBase) -> None:
    texts = ["How do I reset the password of my mail?", "how  do i reset THE password of my mail?",
             "How do I reset the password of my mail account?", "Where is the printer?"]  # fmt: skip
    listed = findings(base, *({"question": text, "expected": [{"uri": "vpn.md"}]} for text in texts))
    assert [(f.kind, f.question, f.instead) for f in listed] == [("same question", "q1", "q0"), ("alike", "q2", "q0")]


def test_questions_that_differ_by_a_code_are_not_alike(base: KnowledgeBase) -> None:
    texts = ["What does ERR-4012 mean?", "What does ERR-4019 mean?"]
    assert findings(base, *({"question": text, "expected": [{"uri": "vpn.md"}]} for text in texts)) == []


def test_a_question_without_an_answer_that_a_title_answers_is_doubtful(base: KnowledgeBase) -> None:
    listed = findings(
        base,
        {"question": "passwords", "no_answer": True},
        {"question": "passwords of spies", "no_answer": True},
        {"question": "VPN", "expected": [{"uri": "vpn.md"}]},
    )
    assert [(f.kind, f.question, f.document) for f in listed] == [("in a title", "q0", "docs:passwords.md")]


def test_a_question_that_counts_nowhere_is_found(base: KnowledgeBase) -> None:
    listed = findings(base, {"expected": [{"uri": "vpn.md", "grade": 0}]}, {"tags": ["canary"]})
    assert [(f.kind, f.question) for f in listed] == [("no judgment", "q0"), ("no judgment", "q1")]
    assert ["never be lost" in f.said for f in listed] == [False, True]


@pytest.mark.parametrize(
    ("tag", "told"), [("canary", False), ("Canary", True), ("canaries", False), ("canari", True), ("code", False)]
)
def test_a_tag_that_is_nearly_the_gates_is_found(base: KnowledgeBase, tag: str, told: bool) -> None:
    listed = findings(base, {"expected": [{"uri": "vpn.md"}], "tags": [tag]})
    assert [f.kind for f in listed] == (["tag"] if told else [])


def test_drafts_are_counted_and_are_no_fault(base: KnowledgeBase) -> None:
    asked = tuple(
        Question.model_validate({"id": tag, "question": tag, "tags": [tag], "expected": [{"uri": "vpn.md"}]})
        for tag in ("draft", "drafted", "done")
    )
    report = inspect(base.repository, "r000002", QuestionSet("set", asked))
    assert (report.drafts, report.findings) == (1, ())


texts = st.lists(st.sampled_from(["red", "green", "blue", "one", "two", "three", "cat"]), min_size=1, max_size=8).map(
    " ".join
)


@given(st.lists(texts, max_size=12))
def test_alike_are_all_pairs_that_share_so_many_words(questions: list[str]) -> None:
    asked = [Question(id=str(n), question=text) for n, text in enumerate(questions)]
    listed = {(f.question, f.kind) for f in _repeated(asked)}
    expected = set()
    for n, text in enumerate(questions):
        if text in questions[:n]:
            expected.add((str(n), "same question"))
            continue
        mine = set(tokens(text))
        shares = [
            len(mine & set(tokens(o))) / len(mine | set(tokens(o))) for o in itertools.islice(questions, n) if o != text
        ]
        if any(share >= ALIKE for share in shares):
            expected.add((str(n), "alike"))
    assert listed == expected
