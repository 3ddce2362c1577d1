"""Public test collections: queries and judgments of a BEIR folder or of TREC files, made into an evaluation set."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from kbcore.errors import EvaluationSetError, UsageError
from kbcore.evaluation.questions import MAX_PROBLEMS, Expected, Question
from kbcore.types import Json

DEFAULT_SPLIT = "test"
TREC_COLUMNS = 4


@dataclass(frozen=True)
class Collection:
    """What was read of ``queries`` and ``qrels``: the judged queries in their order, each with its judgments in theirs.

    ``format`` is ``beir`` (three columns) or ``trec`` (four). ``negative`` judgments below 0 became 0, ``repeated`` ones
    said what another had said. ``unjudged`` queries have no judgment and are left out; ``unknown`` are the ids of queries
    that are judged and not there.
    """

    queries: Path
    qrels: Path
    format: str
    questions: tuple[Question, ...]
    negative: int
    repeated: int
    unjudged: int
    unknown: tuple[str, ...]

    def to_json(self) -> Json:
        grades = Counter(expected.grade for question in self.questions for expected in question.expected)
        return {
            "queries": str(self.queries),
            "qrels": str(self.qrels),
            "format": self.format,
            "questions": len(self.questions),
            "judgments": grades.total(),
            "by_grade": {str(grade): count for grade, count in sorted(grades.items())},
            "negative_to_zero": self.negative,
            "repeated": self.repeated,
            "queries_without_judgment": self.unjudged,
            "judged_without_query": list(self.unknown),
        }


@dataclass(frozen=True, slots=True)
class _Judgment:
    query: str
    document: str
    grade: int


def read_collection(
    source: Path, *, qrels: Path | None = None, split: str | None = None, name: str | None = None
) -> Collection:
    """Read a test collection.

    ``source`` is a BEIR folder (``queries.jsonl`` and ``qrels/<split>.tsv``) or a file of queries, as JSON lines
    (``_id``, ``text``) or as ``id<TAB>text``, with ``qrels`` beside it. A document's id becomes a URI, or, with the
    ``name`` of a source, the id it has in that source. UsageError where a file is not there, EvaluationSetError with file
    and line of everything that does not read.
    """
    queries = source / "queries.jsonl" if source.is_dir() else source
    if not queries.is_file():
        raise UsageError(
            f"there is no {queries}", remedy="name a BEIR folder, or a file of queries with --qrels FILE beside it"
        )
    if qrels is None:
        qrels = _split(source, split)
    elif split is not None:
        raise UsageError("--split chooses among the judgments of a folder, --qrels names them", remedy="give one")
    problems: list[str] = []
    asked = dict(_queries(queries, problems))
    judged: dict[str, dict[str, int]] = {}
    repeated = negative = 0
    lines: dict[tuple[str, str], int] = {}
    read = list(_judgments(qrels, problems))
    for number, _, judgment in read:
        grades = judged.setdefault(judgment.query, {})
        known = grades.get(judgment.document)
        key = (judgment.query, judgment.document)
        if known is None:
            grades[judgment.document] = max(judgment.grade, 0)
            lines[key] = number
            negative += judgment.grade < 0
        elif known == max(judgment.grade, 0):
            repeated += 1
        else:
            problems.append(
                f"{qrels}, line {number}: {judgment.document!r} is judged otherwise for {judgment.query!r} on line "
                f"{lines[key]}"
            )
    questions = list(_questions(queries, asked, judged, name, problems))
    unknown = tuple(query for query in judged if query not in asked)
    if problems:
        more = len(problems) - MAX_PROBLEMS
        raise EvaluationSetError(
            "; ".join([*problems[:MAX_PROBLEMS], *([f"and {more} more"] if more > 0 else [])]),
            remedy="mend the lines, or leave them out, and import again",
        )
    if not questions:
        raise EvaluationSetError(
            f"no query of {queries} is judged in {qrels}", remedy="do these two files belong to each other?"
        )
    return Collection(
        queries=queries,
        qrels=qrels,
        format="trec" if read[0][1] == TREC_COLUMNS else "beir",
        questions=tuple(questions),
        negative=negative,
        repeated=repeated,
        unjudged=len(asked) - len(questions),
        unknown=unknown,
    )


def _split(source: Path, split: str | None) -> Path:
    """The judgments of a BEIR folder: those of the split, else the only ones, else those for the test."""
    folder = source / "qrels"
    if not folder.is_dir():
        raise UsageError(f"there are no judgments in {source}", remedy="name their file with --qrels FILE")
    there = {file.stem: file for file in sorted(folder.glob("*.tsv"))}
    chosen = split or (next(iter(there)) if len(there) == 1 else DEFAULT_SPLIT)
    if chosen not in there:
        raise UsageError(f"{folder} has no {chosen}.tsv", remedy=f"--split is one of: {', '.join(there) or 'none'}")
    return there[chosen]


def _lines(file: Path) -> Iterator[tuple[int, str]]:
    """The lines that are not blank, with their numbers."""
    try:
        text = file.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise UsageError(f"there is no {file}", remedy="see the spelling of its name") from None
    except (OSError, UnicodeDecodeError) as error:
        raise EvaluationSetError(f"{file} cannot be read: {error}", remedy="it is text in UTF-8") from None
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            yield number, line.rstrip("\r")


def _queries(file: Path, problems: list[str]) -> Iterator[tuple[str, str]]:
    """Id and text of each query. JSON where the file begins with a brace."""
    seen: dict[str, int] = {}
    kind = ""
    for number, line in _lines(file):
        kind = kind or ("json" if line.lstrip().startswith("{") else "tsv")
        try:
            query, text = _json_query(line) if kind == "json" else _tsv_query(line)
        except ValueError as error:
            problems.append(f"{file}, line {number}: {error}")
            continue
        if query in seen:
            problems.append(f"{file}, line {number}: the id {query!r} stands on line {seen[query]} too")
            continue
        seen[query] = number
        yield query, text


def _json_query(line: str) -> tuple[str, str]:
    try:
        body = json.loads(line)
    except ValueError as error:
        raise ValueError(f"is not JSON: {error}") from None
    if not isinstance(body, dict):
        raise ValueError("is not an object in braces")
    query, text = body.get("_id", body.get("id")), body.get("text")
    if not isinstance(query, str | int) or isinstance(query, bool) or not str(query).strip():
        raise ValueError("has no _id")
    if not isinstance(text, str) or not text.strip():
        raise ValueError("has no text")
    return str(query), text


def _tsv_query(line: str) -> tuple[str, str]:
    query, tab, text = line.partition("\t")
    if not tab or not query.strip() or not text.strip():
        raise ValueError("is not an id, a tab and a text")
    return query.strip(), text.strip()


def _judgments(file: Path, problems: list[str]) -> Iterator[tuple[int, int, _Judgment]]:
    """Line, number of columns, and judgment. The first line that reads says whether the file has three columns between
    tabs, with a header or without, or TREC's four between blanks; all others are as that one."""
    columns = 0
    first = True
    for number, line in _lines(file):
        cells = [cell.strip() for cell in line.split("\t")]
        if first and len(cells) == 3 and _grade(cells[2]) is None:
            first, columns = False, 3  # the header
            continue
        first = False
        if len(cells) != 3 or columns == TREC_COLUMNS:
            cells = line.split()
        columns = columns or (len(cells) if len(cells) in (3, TREC_COLUMNS) else 0)
        if len(cells) != (columns or TREC_COLUMNS):
            wanted = "query, document and grade" if columns == 3 else "query, iteration, document and grade"
            problems.append(f"{file}, line {number}: has {len(cells)} columns, not {columns or TREC_COLUMNS}: {wanted}")
            continue
        grade = _grade(cells[-1])
        if grade is None:
            problems.append(f"{file}, line {number}: the grade {cells[-1]!r} is no whole number")
        elif not cells[0] or not cells[-2]:
            problems.append(f"{file}, line {number}: has no {'document' if cells[0] else 'query'}")
        elif grade > 10:
            problems.append(f"{file}, line {number}: the grade {grade} is over 10")
        else:
            yield number, columns, _Judgment(cells[0], cells[-2], grade)


def _grade(cell: str) -> int | None:
    try:
        return int(cell)
    except ValueError:
        return None


def _questions(
    queries: Path,
    asked: Mapping[str, str],
    judged: Mapping[str, Mapping[str, int]],
    name: str | None,
    problems: list[str],
) -> Iterator[Question]:
    for query, text in asked.items():
        if query not in judged:
            continue
        expected = tuple(
            Expected(doc_id=f"{name}:{document}", grade=grade) if name else Expected(uri=document, grade=grade)
            for document, grade in judged[query].items()
        )
        try:
            yield Question(id=query, question=text, expected=expected)
        except ValidationError as error:
            problems.append(f"{queries}: {query!r}: {error.errors()[0]['msg']}")
