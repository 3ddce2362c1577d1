"""Rankings compared without judgments."""

from __future__ import annotations

from pathlib import Path

import pytest

from kbcore.errors import EvaluationSetError
from kbcore.evaluation import report, wording
from kbcore.evaluation.causes import Releases
from kbcore.evaluation.rankings import Asked, RankingComparison, compare_rankings, load_asked
from kbcore.knowledge_base import KnowledgeBase
from tests.support import DOCUMENTS
from tests.unit.evaluation.sets import SETTINGS, history

ASKED = (
    Asked("line 1", "printing badge"),
    Asked("line 2", "lost phone"),
    Asked("line 3", "zanzibar"),
    Asked("line 4", "password"),
)


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> KnowledgeBase:
    """r000002 renames the printers and deletes the phones, r000003 changes words of the passwords."""
    return history(
        tmp_path_factory.mktemp("rankings"),
        {"printers.txt": None, "floors/printers.txt": DOCUMENTS["printers.txt"], "phones.html": None},
        {"passwords.md": str(DOCUMENTS["passwords.md"]) + "\nEvery year a new password.\n"},
    )


def compared(base: KnowledgeBase, old: str, new: str) -> RankingComparison:
    return compare_rankings(Releases(base.repository, old, new), ASKED, base.catalog, SETTINGS, file="asked.txt")


def test_a_release_compared_with_itself_is_alike_everywhere(base):
    found = compared(base, "r000001", "r000001")
    assert (found.overlap, found.rbo, found.passages, found.differing, found.differs) == (1.0, 1.0, 1.0, 0, False)
    assert all((q.overlap, q.rbo, q.passages) == (1.0, 1.0, 1.0) for q in found.questions)
    assert [q.id for q in found.questions] == [asked.id for asked in ASKED]
    assert wording.ranking_verdict(found).startswith("No difference")


def test_what_changed_most_comes_first_and_says_what_became_of_its_documents(base):
    found = compared(base, "r000001", "r000002")
    first = found.questions[0]
    assert (first.id, first.overlap, first.rbo, first.passages) == ("line 2", 0.0, 0.0, 0.0)
    assert [(hit.doc_id, hit.state) for hit in first.old_hits] == [("docs:phones.html", "deleted")]
    assert (first.new_hits, first.new_outcome) == ((), "turned away")
    assert found.differing == 1
    assert found.overlap == pytest.approx(0.75)


def test_a_renamed_document_is_the_same_document(base):
    found = {q.id: q for q in compared(base, "r000001", "r000002").questions}["line 1"]
    assert (found.overlap, found.rbo, found.differs) == (1.0, 1.0, False)
    assert [(hit.doc_id, hit.state) for hit in found.new_hits] == [("docs:floors/printers.txt", "renamed")]


def test_another_passage_of_the_same_document_is_a_difference(base):
    found = {q.id: q for q in compared(base, "r000002", "r000003").questions}["line 4"]
    assert (found.overlap, found.rbo, found.passages, found.differs) == (1.0, 1.0, 0.0, True)
    assert found.new_hits[0].state == "changed"


def test_the_page_shows_both_lists(base):
    found = compared(base, "r000001", "r000002")
    page = report.rankings_page(found, Releases(base.repository, "r000001", "r000002"))
    assert "docs:phones.html</bdi> (deleted)" in page
    assert "wiped by the service desk" in page
    assert "no hit" in page


def test_questions_are_read_one_a_line_or_from_json_lines(tmp_path: Path):
    file = tmp_path / "asked.txt"
    file.write_text('How do I print?\n\n{"question": "vpn?", "id": "q7", "at": 3}\n{"question": "wifi"}\nvpn?\n')
    assert load_asked(file) == (Asked("line 1", "How do I print?"), Asked("q7", "vpn?"), Asked("line 4", "wifi"))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ('{"query": "vpn"}\nok\n', 'line 1: has no "question"'),
        ('ok\n{"question": 3}\n', "line 2"),
        ('{"question": \n', "line 1: is not JSON"),
        ("\n \n", "holds no question"),
    ],
)
def test_a_line_that_does_not_read_is_named(tmp_path, content, said):
    file = tmp_path / "asked.txt"
    file.write_text(content)
    with pytest.raises(EvaluationSetError, match=said):
        load_asked(file)


def test_a_file_that_is_not_there_is_an_error_in_words(tmp_path):
    with pytest.raises(EvaluationSetError, match="cannot be read"):
        load_asked(tmp_path / "none.txt")
