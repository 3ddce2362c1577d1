"""An evaluation set's file: what reads, what is refused and where, and what the set's digest says."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbcore.errors import EvaluationSetError, UsageError
from kbcore.evaluation.questions import Expected, Question, dump_questions, load_questions, save_text, select

LINE = {"id": "q1", "question": "Where?", "expected": [{"doc_id": "docs:a.md", "grade": 2}], "tags": ["x"]}


def load(path: Path, *lines: Any, end: str = "\n") -> Any:
    file = path / "set.jsonl"
    text = end.join(line if isinstance(line, str) else json.dumps(line) for line in lines)
    file.write_bytes(text.encode())
    return load_questions(file)


def refusal(path: Path, *lines: Any) -> str:
    with pytest.raises(EvaluationSetError) as caught:
        load(path, *lines)
    return caught.value.message


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{", "line 2: is not JSON"),
        ("[1]", "line 2: is not an object in braces"),
        ({"id": "b"}, "line 2: question is missing"),
        ({"id": "b", "question": "  "}, "line 2: question: the question is blank"),
        ({"id": "b", "question": "?", "answer": 1}, "line 2: unknown key 'answer'"),
        ({"id": "b", "question": "?", "expected": [{"grade": 1}]}, "line 2: expected.0: a judgment names its document"),
        (
            {"id": "b", "question": "?", "expected": [{"doc_id": "a:b", "uri": "b"}]},
            "by doc_id or by uri: one of them",
        ),
        ({"id": "b", "question": "?" * 10_001}, "line 2: question: it has 10,001 characters; at most 10,000 are searched"),
        ({"id": "b", "question": "?", "expected": [{"uri": " "}]}, "line 2: expected.0: the name of the document is blank"),
        ({"id": "b", "question": "?", "expected": [{"uri": "b", "quote": " "}]}, "line 2: expected.0: the quote is blank"),
        ({"id": "b", "question": "?", "expected": {"uri": "b"}}, "line 2: expected: is not a list in brackets"),
        ({"id": "b", "question": "?", "expected": ["b"]}, "line 2: expected.0: is not an object in braces"),
        ({"id": 3, "question": "?"}, "line 2: id: is not a text"),
        ({"id": "b", "question": "?", "expected": [{"uri": "b", "grade": -1}]}, "line 2: expected.0.grade"),
        ({"id": "b", "question": "?", "expected": [{"uri": "b", "grade": 11}]}, "line 2: expected.0.grade"),
        ({"id": "b", "question": "?", "expected": [{"uri": "b"}, {"uri": "b", "grade": 2}]}, "line 2: b is judged twice"),
        ({"id": "b", "question": "?", "expected": [{"uri": "b"}], "no_answer": True}, "line 2: a question without an answer"),
        ({**LINE}, "line 2: the id 'q1' stands on line 1 too"),
    ],
)  # fmt: skip
def test_a_wrong_line_is_named_with_what_is_wrong(tmp_path: Path, line: Any, said: str) -> None:
    assert said in refusal(tmp_path, LINE, line)


def test_every_wrong_line_is_named_and_blank_ones_count(tmp_path: Path) -> None:
    said = refusal(tmp_path, LINE, "", "{", "  ", "[]")
    assert "line 3: is not JSON" in said
    assert "line 5: is not an object" in said


def test_many_wrong_lines_are_cut_short(tmp_path: Path) -> None:
    said = refusal(tmp_path, *["{"] * 50)
    assert "line 20" in said
    assert "line 21" not in said
    assert "and 30 more" in said


def test_a_set_without_questions_and_one_that_is_not_there_are_errors(tmp_path: Path) -> None:
    assert "holds no question" in refusal(tmp_path, "", " ")
    with pytest.raises(EvaluationSetError, match="there is no evaluation set"):
        load_questions(tmp_path / "none.jsonl")
    (tmp_path / "latin.jsonl").write_bytes(b'{"id": "\xe9"}')
    with pytest.raises(EvaluationSetError, match="cannot be read"):
        load_questions(tmp_path / "latin.jsonl")


def test_one_document_may_be_judged_by_two_quotes(tmp_path: Path) -> None:
    line = {**LINE, "expected": [{"uri": "a", "quote": "one"}, {"uri": "a", "quote": "two"}]}
    assert len(load(tmp_path, line).questions[0].expected) == 2


def test_a_question_without_an_answer_may_judge_documents_not_to_answer(tmp_path: Path) -> None:
    line = {"id": "q", "question": "?", "no_answer": True, "expected": [{"uri": "a", "grade": 0}]}
    assert load(tmp_path, line).questions[0].no_answer


def test_the_digest_does_not_hang_on_layout(tmp_path: Path) -> None:
    plain = load(tmp_path, LINE, {"id": "q2", "question": "Größe?"})
    spelled = {**dict(reversed(LINE.items())), "no_answer": False}
    other = load(
        tmp_path, "\ufeff" + json.dumps(spelled, indent=None, separators=(" , ", " : ")), "", "  ",
        json.dumps({"question": "Größe?", "id": "q2", "expected": [], "tags": []}, ensure_ascii=False), "", end="\r\n",
    )  # fmt: skip
    assert other.questions == plain.questions
    assert other.digest == plain.digest


@pytest.mark.parametrize(
    "change",
    [
        {"question": "When?"},
        {"tags": []},
        {"id": "q9"},
        {"expected": [{"doc_id": "docs:a.md", "grade": 1}]},
        {"expected": [{"uri": "docs:a.md", "grade": 2}]},
        {"expected": [{"doc_id": "docs:a.md", "grade": 2, "quote": "b"}]},
    ],
)
def test_the_digest_tells_what_is_asked_and_expected(tmp_path: Path, change: Any) -> None:
    assert load(tmp_path, LINE).digest != load(tmp_path, {**LINE, **change}).digest


def test_the_digest_tells_the_order(tmp_path: Path) -> None:
    second = {"id": "q2", "question": "?"}
    assert load(tmp_path, LINE, second).digest != load(tmp_path, second, LINE).digest


words = st.text(st.characters(codec="utf-8"), min_size=1, max_size=20).filter(str.strip)
judgments = st.builds(
    lambda name, by_uri, grade, quote: Expected(**{"uri" if by_uri else "doc_id": name}, grade=grade, quote=quote),
    words, st.booleans(), st.integers(0, 10), st.none() | words,
)  # fmt: skip
questions = st.lists(
    st.builds(
        Question,
        id=words,
        question=words.filter(str.strip),
        expected=st.lists(judgments, max_size=3, unique_by=lambda e: (e.name, e.quote)).map(tuple),
        tags=st.lists(words, max_size=2).map(tuple),
    ),
    min_size=1,
    max_size=5,
    unique_by=lambda question: question.id,
)


@given(questions)
def test_what_is_dumped_is_read_back(tmp_path_factory: pytest.TempPathFactory, asked: list[Question]) -> None:
    file = tmp_path_factory.mktemp("set") / "set.jsonl"
    save_text(file, dump_questions(asked), overwrite=False)
    assert list(load_questions(file).questions) == asked


def test_questions_are_chosen_by_tag_and_an_unknown_tag_names_the_known_ones(tmp_path: Path) -> None:
    asked = load(tmp_path, LINE, {"id": "q2", "question": "?", "tags": ["y", "x"]}, {"id": "q3", "question": "?"})
    assert [q.id for q in select(asked, ["y"]).questions] == ["q2"]
    assert [q.id for q in select(asked, ["x", "y"]).questions] == ["q1", "q2"]
    assert select(asked, []) is asked
    with pytest.raises(EvaluationSetError, match=r"no question of set\.jsonl carries the tag z") as caught:
        select(asked, ["z"])
    assert "x, y" in caught.value.remedy


def test_a_file_is_not_overwritten_unasked(tmp_path: Path) -> None:
    file = tmp_path / "set.jsonl"
    save_text(file, "a", overwrite=False)
    with pytest.raises(UsageError, match="is there already"):
        save_text(file, "b", overwrite=False)
    assert file.read_text() == "a"
    save_text(file, "b", overwrite=True)
    assert file.read_text() == "b"
    assert os.listdir(tmp_path) == ["set.jsonl"]


def test_a_write_that_fails_leaves_the_file_and_nothing_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "set.jsonl"
    file.write_text("a")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        save_text(file, "b", overwrite=True)
    assert file.read_text() == "a"
    assert os.listdir(tmp_path) == ["set.jsonl"]


def test_an_overwritten_file_keeps_its_rights_and_a_link_stays_one(tmp_path: Path) -> None:
    file, link = tmp_path / "set.jsonl", tmp_path / "link.jsonl"
    file.write_text("a")
    file.chmod(0o640)
    link.symlink_to(file)
    save_text(link, "b", overwrite=True)
    assert link.is_symlink()
    assert file.read_text() == "b"
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
