"""Lineage: which consumers asked which release what, how often, from the local log of searches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import duckdb

from kbcore.errors import KbUnavailableError
from kbcore.search_log import files
from kbcore.types import Json

QUESTIONS = 5
COLUMNS = {
    "time": "VARCHAR", "kb": "VARCHAR", "release": "VARCHAR", "consumer": "VARCHAR", "mode": "VARCHAR", "k": "BIGINT",
    "outcome": "VARCHAR", "hits": "BIGINT", "latency_ms": "DOUBLE", "question": "VARCHAR", "chunk_ids": "VARCHAR[]",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Consumer:
    """What one consumer asked one release. ``outcomes`` counts answers by outcome; ``questions`` are the most frequent
    (question, times), most first; none where the log holds no payloads. Latencies are in milliseconds."""

    release: str
    consumer: str
    searches: int
    first: str
    last: str
    outcomes: dict[str, int]
    p50_ms: float
    p95_ms: float
    distinct_questions: int
    questions: tuple[tuple[str, int], ...]

    def to_json(self) -> Json:
        return {
            **asdict(self),
            "questions": [{"question": question, "searches": count} for question, count in self.questions],
        }


def consumers(folder: str | Path, kb: str, release: str | None = None, *, questions: int = QUESTIONS) -> list[Consumer]:
    """Who asked ``release`` (default: every one), newest release first, then by number of searches. Lines that do not
    read are left out. KbUnavailableError where a file cannot be read at all."""
    rows = _query(
        folder,
        """SELECT release, consumer, count(*), min(time), max(time), quantile_cont(latency_ms, 0.5),
                  quantile_cont(latency_ms, 0.95), count(DISTINCT question)
           FROM asked WHERE kb = ? AND (? IS NULL OR release = ?)
           GROUP BY ALL ORDER BY release DESC, 3 DESC, consumer""",
        [kb, release, release],
    )
    outcomes: dict[tuple[str, str], dict[str, int]] = {}
    for name, consumer, outcome, count in _query(
        folder,
        "SELECT release, consumer, outcome, count(*) FROM asked WHERE kb = ? GROUP BY ALL ORDER BY outcome",
        [kb],
    ):
        outcomes.setdefault((name, consumer), {})[outcome] = count
    asked: dict[tuple[str, str], list[tuple[str, int]]] = {}
    for name, consumer, question, count in _query(
        folder,
        """SELECT release, consumer, question, count(*) FROM asked WHERE kb = ? AND question IS NOT NULL
           GROUP BY ALL ORDER BY 4 DESC, question""",
        [kb],
    ):
        if len(known := asked.setdefault((name, consumer), [])) < questions:
            known.append((question, count))
    return [
        Consumer(
            release=name, consumer=consumer, searches=count, first=first, last=last, outcomes=outcomes[name, consumer],
            p50_ms=round(p50, 3), p95_ms=round(p95, 3), distinct_questions=distinct,
            questions=tuple(asked.get((name, consumer), ())),
        )
        for name, consumer, count, first, last, p50, p95, distinct in rows
    ]  # fmt: skip


def questions(folder: str | Path, kb: str, release: str | None = None) -> list[tuple[str, int]]:
    """The questions that were asked of a knowledge base and how often, most often first; none without payloads."""
    return _query(
        folder,
        """SELECT question, count(*) FROM asked
           WHERE kb = ? AND (? IS NULL OR release = ?) AND trim(question) <> ''
           GROUP BY question ORDER BY 2 DESC, question""",
        [kb, release, release],
    )


def _query(folder: str | Path, statement: str, parameters: Sequence[Any]) -> list[Any]:
    named = [str(file) for file in files(folder)]
    if not named:
        return []
    # Nothing is downloaded, whatever a statement would need.
    settings: dict[str, Any] = {"autoinstall_known_extensions": False, "autoload_known_extensions": False, "threads": 1}
    with duckdb.connect(config=settings) as connection:
        relation = (
            "WITH asked AS (SELECT * FROM read_json(?, format = 'newline_delimited', columns = "
            f"{COLUMNS}, ignore_errors = true) WHERE time IS NOT NULL AND consumer IS NOT NULL) "
        )
        try:
            found: list[Any] = connection.execute(relation + statement, [named, *parameters]).fetchall()
        except duckdb.IOException as error:
            raise KbUnavailableError(
                f"the log of searches cannot be read: {str(error).splitlines()[0]}",
                remedy="its files are readable by who serves alone: ask as that user, or see what else lies in the folder",
            ) from None
    return found
