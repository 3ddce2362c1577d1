"""Test collections as they are published, read into questions; what does not read is named by file and line."""

from __future__ import annotations

from pathlib import Path

import pytest

from kbcore.errors import EvaluationSetError, UsageError
from kbcore.evaluation.collection import read_collection
from kbcore.evaluation.questions import Expected
from tests.support import SHARED, write

QUERIES = '{"_id": "1", "text": "One?"}\n{"_id": "2", "text": "Two?", "metadata": {}}\n{"_id": "3", "text": "Three?"}\n'
HEADER = "query-id\tcorpus-id\tscore\n"


def beir(root: Path, **splits: str) -> Path:
    write(root, {"queries.jsonl": QUERIES, **{f"qrels/{name}.tsv": text for name, text in splits.items()}})
    return root


def names(found: object) -> dict[str, list[tuple[str, int]]]:
    return {q.id: [(e.name, e.grade) for e in q.expected] for q in found.questions}  # type: ignore[attr-defined]


def test_a_beir_folder_is_read_in_the_order_of_its_queries(tmp_path: Path) -> None:
    found = read_collection(beir(tmp_path, test=HEADER + "2\tb\t1\n1\ta b\t2\n1\tc\t0\n"))
    assert names(found) == {"1": [("a b", 2), ("c", 0)], "2": [("b", 1)]}
    assert [q.question for q in found.questions] == ["One?", "Two?"]
    assert found.to_json() == {
        "queries": str(tmp_path / "queries.jsonl"),
        "qrels": str(tmp_path / "qrels/test.tsv"),
        "format": "beir",
        "questions": 2,
        "judgments": 3,
        "by_grade": {"0": 1, "1": 1, "2": 1},
        "negative_to_zero": 0,
        "repeated": 0,
        "queries_without_judgment": 1,
        "judged_without_query": [],
    }


def test_the_only_split_is_taken_else_the_test_else_the_one_that_is_named(tmp_path: Path) -> None:
    one = beir(tmp_path / "one", train=HEADER + "1\ttrain\t1\n")
    assert names(read_collection(one)) == {"1": [("train", 1)]}
    with pytest.raises(UsageError, match=r"has no test\.tsv") as caught:
        read_collection(one, split="test")
    assert "train" in caught.value.remedy
    three = beir(tmp_path / "three", **{s: HEADER + f"1\t{s}\t1\n" for s in ("train", "dev", "test")})
    assert names(read_collection(three)) == {"1": [("test", 1)]}
    assert names(read_collection(three, split="dev")) == {"1": [("dev", 1)]}
    two = beir(tmp_path / "two", **{s: HEADER + f"1\t{s}\t1\n" for s in ("train", "dev")})
    with pytest.raises(UsageError, match=r"has no test\.tsv"):
        read_collection(two)


@pytest.mark.parametrize("blank", [" ", "\t", "   "])
def test_trec_judgments_are_read_with_queries_of_either_kind(tmp_path: Path, blank: str) -> None:
    lines = [["1", "0", "LA010189-0001", "1"], ["1", "Q0", "LA010189-0002", "-1"], ["2", "0", "x", "0"]]
    write(tmp_path, {
        "qrels.txt": "".join(blank.join(line) + "\n" for line in lines),
        "topics.tsv": "1\tOne?\r\n2\tTwo?\n", "queries.jsonl": QUERIES,
    })  # fmt: skip
    for queries in ("topics.tsv", "queries.jsonl"):
        found = read_collection(tmp_path / queries, qrels=tmp_path / "qrels.txt")
        assert found.format == "trec"
        assert names(found) == {"1": [("LA010189-0001", 1), ("LA010189-0002", 0)], "2": [("x", 0)]}
        assert found.negative == 1


def test_documents_are_uris_or_ids_of_a_source(tmp_path: Path) -> None:
    folder = beir(tmp_path, test=HEADER + "1\ta/b.md\t1\n")
    assert read_collection(folder).questions[0].expected == (Expected(uri="a/b.md"),)
    assert read_collection(folder, name="docs").questions[0].expected == (Expected(doc_id="docs:a/b.md"),)


def test_judgments_may_lie_apart_from_the_folder(tmp_path: Path) -> None:
    folder = beir(tmp_path / "folder", test=HEADER + "1\ta\t1\n")
    write(tmp_path, {"release-2.tsv": HEADER + "1\tb\t1\n"})
    assert names(read_collection(folder, qrels=tmp_path / "release-2.tsv")) == {"1": [("b", 1)]}
    with pytest.raises(UsageError, match="--split"):
        read_collection(folder, qrels=tmp_path / "release-2.tsv", split="test")


@pytest.mark.parametrize(
    ("qrels", "said"),
    [
        ("1\ta\n", "test.tsv, line 2: has 2 columns, not 3"),
        ("1\ta\t1\n1\tb\n", "test.tsv, line 3: has 2 columns, not 3"),
        ("1\ta\thigh\n", "test.tsv, line 2: the grade 'high' is no whole number"),
        ("1\ta\t1.5\n", "test.tsv, line 2: the grade '1.5' is no whole number"),
        ("1\ta\t11\n", "test.tsv, line 2: the grade 11 is over 10"),
        ("1\t\t1\n", "test.tsv, line 2: has no document"),
        ("\ta\t1\n", "test.tsv, line 2: has no query"),
        ("1\ta\t1\n\n1\ta\t2\n", "test.tsv, line 4: 'a' is judged otherwise for '1' on line 2"),
        ("1 0 a 1\n1 0 b 1 x\n", "test.tsv, line 3: has 5 columns, not 4"),
    ],
)
def test_a_judgment_that_does_not_read_is_named_by_file_and_line(tmp_path: Path, qrels: str, said: str) -> None:
    header = HEADER if "\t" in qrels else "1 0 z 1\n"
    with pytest.raises(EvaluationSetError) as caught:
        read_collection(beir(tmp_path, test=header + qrels))
    assert f"{tmp_path / 'qrels'}/{said}" in caught.value.message


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{", "line 2: is not JSON"),
        ("[]", "line 2: is not an object"),
        ('{"text": "x"}', "line 2: has no _id"),
        ('{"_id": "9", "text": " "}', "line 2: has no text"),
        ('{"_id": "1", "text": "x"}', "line 2: the id '1' stands on line 1 too"),
    ],
)
def test_a_query_that_does_not_read_is_named_by_file_and_line(tmp_path: Path, line: str, said: str) -> None:
    write(tmp_path, {"queries.jsonl": '{"_id": "1", "text": "One?"}\n' + line, "qrels/test.tsv": HEADER + "1\ta\t1\n"})
    with pytest.raises(EvaluationSetError) as caught:
        read_collection(tmp_path)
    assert f"{tmp_path / 'queries.jsonl'}, {said}" in caught.value.message


def test_a_query_table_without_tabs_is_refused(tmp_path: Path) -> None:
    write(tmp_path, {"topics.tsv": "1 One?\n", "qrels": "1 0 a 1\n"})
    with pytest.raises(EvaluationSetError, match=r"topics\.tsv, line 1: is not an id, a tab and a text"):
        read_collection(tmp_path / "topics.tsv", qrels=tmp_path / "qrels")


def test_repeated_judgments_count_once_and_queries_that_are_not_there_are_named(tmp_path: Path) -> None:
    found = read_collection(beir(tmp_path, test=HEADER + "1\ta\t1\n1\ta\t1\n8\ta\t1\n9\tb\t1\n"))
    assert names(found) == {"1": [("a", 1)]}
    assert (found.repeated, found.unknown) == (1, ("8", "9"))


def test_files_that_do_not_belong_to_each_other_make_no_set(tmp_path: Path) -> None:
    with pytest.raises(EvaluationSetError, match=r"no query of .* is judged in"):
        read_collection(beir(tmp_path, test=HEADER + "77\ta\t1\n"))


def test_what_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no"):
        read_collection(tmp_path / "none")
    write(tmp_path, {"queries.jsonl": QUERIES})
    with pytest.raises(UsageError, match="there are no judgments in"):
        read_collection(tmp_path)
    with pytest.raises(UsageError, match="there is no"):
        read_collection(tmp_path, qrels=tmp_path / "none.tsv")


@pytest.mark.data
@pytest.mark.skipif(not (SHARED / "ir").exists(), reason="the real data is not here")
@pytest.mark.parametrize(
    ("name", "questions", "judgments"), [("scifact", 809, 919), ("adi", 35, 170), ("xquad-en", 1190, 1190)]
)
def test_public_collections_are_read_whole(name: str, questions: int, judgments: int) -> None:
    report = read_collection(SHARED / "ir" / name).to_json()
    assert (report["questions"], report["judgments"]) == (questions, judgments)
    assert (report["repeated"], report["judged_without_query"], report["queries_without_judgment"]) == (0, [], 0)
