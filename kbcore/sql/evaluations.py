"""What evaluations and gates found, as rows: one of a scorecard, slice and measure; of a question and measure; of a check."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from kbcore.store import envelope, evals
from kbcore.store.repository import Repository
from kbcore.types import Json

STRING, INTEGER, FLOAT, BOOLEAN = pa.string(), pa.int64(), pa.float64(), pa.bool_()
MADE_WITH = {
    "release": STRING, "run": STRING, "at": STRING, "key": STRING, "set_name": STRING, "set_digest": STRING,
    "mode": STRING, "fusion": STRING, "alpha": FLOAT, "k": INTEGER,
}  # fmt: skip
EVALS = pa.schema({
    **MADE_WITH, "embedder_id": STRING, "baseline": STRING, "slice": STRING, "value": STRING, "questions": INTEGER,
    "measure": STRING, "mean": FLOAT, "judged": INTEGER, "unjudged": INTEGER, "stale": INTEGER, "no_answer": INTEGER,
    "answered_no_answer": INTEGER, "answerable": INTEGER, "abstained_answerable": INTEGER, "cut_cosine": FLOAT,
    "cut_share": FLOAT,
}.items())  # fmt: skip
QUESTIONS = pa.schema({
    **MADE_WITH, "id": STRING, "question": STRING, "tags": pa.list_(STRING), "no_answer": BOOLEAN, "measure": STRING,
    "value": FLOAT, "outcome": STRING, "best_cosine": FLOAT, "matched_share": FLOAT,
}.items())  # fmt: skip
GATES = pa.schema({
    "release": STRING, "run": STRING, "at": STRING, "by": STRING, "baseline": STRING, "set_name": STRING,
    "set_digest": STRING, "verdict": STRING, "check_name": STRING, "finding": STRING, "said": STRING, "digest": STRING,
}.items())  # fmt: skip


def eval_rows(repository: Repository) -> Iterator[Json]:
    """Of every scorecard, oldest first: ``slice`` all, then by tag, source and version. ``questions`` is how many a mean
    goes over; counts and abstention are those of the whole scorecard. CorruptReleaseError on one that does not read."""
    for entry in evals.listed(repository, kind=evals.SCORECARD):
        card = evals.read(repository, entry)
        abstention = card["abstention"]
        whole = {
            **_made_with(card),
            "embedder_id": card["embedder_id"],
            "baseline": card["baseline"],
            "judged": card["counts"]["judged"],
            "unjudged": card["counts"]["unjudged"],
            "stale": len(card["stale"]),
            "no_answer": abstention["no_answer"],
            "answered_no_answer": abstention["no_answer_answered"],
            "answerable": abstention["answerable"],
            "abstained_answerable": abstention["answerable_abstained"],
            "cut_cosine": card["cut"]["cosine"],
            "cut_share": card["cut"]["share"],
        }
        everything = {"by": "all", "value": None, "questions": card["counts"]["judged"], "means": card["means"]}
        for part in (everything, *card["slices"]):
            for measure in card["measures"]:
                yield {**whole, "slice": part["by"], "value": part["value"], "questions": part["questions"],
                       "measure": measure, "mean": part["means"].get(measure)}  # fmt: skip


def question_rows(repository: Repository) -> Iterator[Json]:
    """Of the newest scorecard of each release, set and search: a row a question and measure; ``measure`` is None where a
    question has none, because nothing is judged or there is no answer."""
    newest = {(entry.release, entry.key): entry for entry in evals.listed(repository, kind=evals.SCORECARD)}
    for entry in newest.values():
        card = evals.read(repository, entry)
        for answer in evals.read_answers(repository, entry, card["answers"]):
            asked = {name: answer[name] for name in QUESTIONS.names if name in answer}
            for measure, value in (answer["measures"] or {None: None}).items():
                yield {**_made_with(card), **asked, "measure": measure, "value": value}


def gate_rows(repository: Repository) -> Iterator[Json]:
    """Of every gate record, oldest first: a row a check; one without a check where there was nothing to compare."""
    for entry in evals.listed(repository, kind=evals.GATE):
        body = evals.read(repository, entry)
        shared = {
            **{name: body[name] for name in ("release", "run", "at", "by", "baseline", "verdict")},
            "set_name": body["set"] and body["set"]["name"],
            "set_digest": body["set"] and body["set"]["digest"],
            "digest": envelope.digest(body),
        }
        for finding in body["findings"] or [{"check": None, "verdict": None, "said": None}]:
            yield {**shared, "check_name": finding["check"], "finding": finding["verdict"], "said": finding["said"]}


def _made_with(card: Json) -> Json:
    settings = card["settings"]
    return {
        **{name: card[name] for name in ("release", "run", "at", "key")},
        "set_name": card["set"]["name"],
        "set_digest": card["set"]["digest"],
        **{name: settings[name] for name in ("mode", "fusion", "alpha", "k")},
    }
