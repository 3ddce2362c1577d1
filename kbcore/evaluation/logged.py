"""Questions that users asked, from the local log of searches, for comparisons without labels."""

from __future__ import annotations

from pathlib import Path

from kbcore import lineage
from kbcore.errors import EvaluationSetError
from kbcore.evaluation.questions import Question, QuestionSet
from kbcore.fingerprint import text_sha256


def questions_of(log: str | Path, kb: str, *, release: str | None = None, most: int = 1_000) -> QuestionSet:
    """The ``most`` frequent questions of a log folder, each once, most frequent first; nothing is expected of any.

    Ids are of the question's text, so that two sets pair. EvaluationSetError where the log holds none.
    """
    # A question of tabs and line ends alone was answered with nothing, and is none that could be compared.
    asked = [entry for entry in lineage.questions(log, kb, release) if entry[0].strip()][:most]
    if not asked:
        raise EvaluationSetError(
            f"the search log {log} holds no question asked of {kb}" + (f" at {release}" if release else ""),
            remedy="questions are logged with [search_log] payloads = true",
        )
    return QuestionSet(
        "search log", tuple(Question(id=f"log-{text_sha256(text)[:16]}", question=text) for text, _ in asked)
    )
