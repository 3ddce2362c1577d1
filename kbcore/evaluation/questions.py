"""Evaluation sets: questions with the documents that answer them, kept as JSON lines beside the configuration."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from kbcore.errors import EvaluationSetError, UsageError
from kbcore.fingerprint import canonical, sha256
from kbcore.retrieval.request import MAX_QUERY_CHARACTERS
from kbcore.types import Json

MAX_PROBLEMS = 20
LINE_ENDS = r"\r\n|\r|\n"
SHAPES = {"tuple_type": "a list in brackets", "model_type": "an object in braces", "string_type": "a text"}


class Expected(BaseModel):
    """One judgment: a document by its id, or by its URI in whatever source, and how well it answers.

    Where a ``quote`` is given it is the passage that answers: a hit of the document counts where it overlaps it.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    doc_id: str | None = None
    uri: str | None = None
    grade: int = Field(1, ge=0, le=10)
    quote: str | None = Field(None, min_length=1)

    @model_validator(mode="after")
    def _named(self) -> Expected:
        if (self.doc_id is None) == (self.uri is None):
            raise ValueError("a judgment names its document by doc_id or by uri: one of them")
        if not self.name.strip():
            raise ValueError("the name of the document is blank")
        if self.quote is not None and not self.quote.strip():
            raise ValueError("the quote is blank")
        return self

    @property
    def name(self) -> str:
        """The document as the set names it."""
        return self.doc_id or self.uri or ""

    def to_json(self) -> Json:
        return {key: value for key, value in self.model_dump().items() if value is not None}


class Question(BaseModel):
    """One question. With ``no_answer`` the knowledge base is known to hold none, and nothing is expected."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str = Field(min_length=1, max_length=200)
    question: str = Field(min_length=1)
    expected: tuple[Expected, ...] = ()
    no_answer: bool = False
    tags: tuple[str, ...] = ()

    @field_validator("question")
    @classmethod
    def _asks(cls, value: str) -> str:
        if not value.strip():
            raise ValueError("the question is blank")
        if len(value) > MAX_QUERY_CHARACTERS:
            raise ValueError(f"it has {len(value):,} characters; at most {MAX_QUERY_CHARACTERS:,} are searched")
        return value

    @model_validator(mode="after")
    def _one_or_the_other(self) -> Question:
        if self.no_answer and any(expected.grade for expected in self.expected):
            raise ValueError("a question without an answer expects no document")
        seen = [(expected.name, expected.quote) for expected in self.expected]
        twice = next((name for at, (name, quote) in enumerate(seen) if (name, quote) in seen[:at]), None)
        if twice is not None:
            raise ValueError(f"{twice} is judged twice")
        return self

    def to_json(self) -> Json:
        return {
            "id": self.id,
            "question": self.question,
            "expected": [expected.to_json() for expected in self.expected],
            "no_answer": self.no_answer,
            "tags": list(self.tags),
        }


@dataclass(frozen=True)
class QuestionSet:
    """The questions of a file in its order. ``digest`` names what they say, however the file is laid out. Not ``whole``
    where some were picked from it: too few to calibrate the cut by that all searches use."""

    name: str
    questions: tuple[Question, ...]
    whole: bool = True

    @cached_property
    def digest(self) -> str:
        return sha256(canonical([question.to_json() for question in self.questions]))


def load_questions(path: str | Path) -> QuestionSet:
    """Read an evaluation set. EvaluationSetError names every line that is wrong, and what is."""
    file = Path(path)
    text = read_text(file).removeprefix("\ufeff")
    questions: list[Question] = []
    problems: list[str] = []
    lines: dict[str, int] = {}
    for number, line in enumerate(re.split(LINE_ENDS, text), start=1):
        if not line.strip():
            continue
        try:
            question = Question.model_validate(_decoded(line))
        except ValidationError as error:
            problems += [f"line {number}: {_said(entry)}" for entry in error.errors()]
            continue
        except ValueError as error:
            problems.append(f"line {number}: {error}")
            continue
        if question.id in lines:
            problems.append(f"line {number}: the id {question.id!r} stands on line {lines[question.id]} too")
            continue
        lines[question.id] = number
        questions.append(question)
    if problems:
        more = len(problems) - MAX_PROBLEMS
        shown = [*problems[:MAX_PROBLEMS], *([f"and {more} more"] if more > 0 else [])]
        raise EvaluationSetError(
            f"{file}: " + "; ".join(shown),
            remedy='a line reads {"id": "q1", "question": "...", "expected": [{"doc_id": "handbook:vpn.md"}]}',
        )
    if not questions:
        raise EvaluationSetError(f"{file} holds no question", remedy="write one a line, or: kb evalset draft")
    return QuestionSet(file.name, tuple(questions))


def read_text(path: str | Path) -> str:
    """The text of a set's file with its own line ends, and the mark it may begin with."""
    try:
        return Path(path).read_bytes().decode("utf-8")
    except FileNotFoundError:
        raise EvaluationSetError(
            f"there is no evaluation set {path}", remedy="propose one from the documents: kb evalset draft"
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise EvaluationSetError(f"{path} cannot be read: {error}", remedy="it is JSON lines in UTF-8") from None


def dump_questions(questions: Iterable[Question]) -> str:
    """The lines of an evaluation set."""
    return "".join(json.dumps(question.to_json(), ensure_ascii=False) + "\n" for question in questions)


def save_text(path: str | Path, text: str, *, overwrite: bool) -> None:
    """Write a set's file: whole or not at all, with the rights of the file it replaces. UsageError where it is there and
    may not be overwritten. A link is followed: what it names is replaced."""
    file = Path(path).resolve()
    there = file.exists()
    if there and not overwrite:
        raise UsageError(f"{path} is there already", remedy="name another file, or overwrite it with --force")
    if not file.parent.is_dir():
        raise UsageError(f"there is no folder {file.parent}", remedy="make it, or name another file")
    draft = file.with_name(f".{file.name}.{os.getpid()}.part")
    try:
        with open(draft, "x", encoding="utf-8", newline="") as out:
            out.write(text)
            out.flush()
            os.fsync(out.fileno())
        if there:
            shutil.copymode(file, draft)
        os.replace(draft, file)
    finally:
        draft.unlink(missing_ok=True)


def select(questions: QuestionSet, tags: Sequence[str]) -> QuestionSet:
    """The questions that carry one of ``tags``; all of them where none is given."""
    if not tags:
        return questions
    kept = tuple(question for question in questions.questions if set(tags) & set(question.tags))
    if not kept:
        known = sorted({tag for question in questions.questions for tag in question.tags})
        raise EvaluationSetError(
            f"no question of {questions.name} carries the tag {', '.join(tags)}",
            remedy=f"tags are: {', '.join(known) or 'none'}",
        )
    return QuestionSet(questions.name, kept, whole=kept == questions.questions)


def _decoded(line: str) -> Json:
    try:
        value = json.loads(line)
    except ValueError as error:
        raise ValueError(f"is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise ValueError("is not an object in braces")
    return value


def _said(error: object) -> str:
    assert isinstance(error, dict)
    where = ".".join(str(part) for part in error["loc"])
    if error["type"] == "extra_forbidden":
        return f"unknown key {where!r}"
    if error["type"] == "missing":
        return f"{where} is missing"
    if error["type"] in SHAPES:
        return f"{where}: is not {SHAPES[error['type']]}"
    said = str(error["msg"]).removeprefix("Value error, ")
    return f"{where}: {said}" if where else said
