"""The rollback flow: readers go back to a release that was current before, and a hold is set."""

from __future__ import annotations

from typing import Any

from prefect import flow
from prefect.artifacts import create_markdown_artifact

from flows.artifacts import key_for, rollback_report
from flows.events import emit_promotion
from flows.runs import completed, failed, kb_name, run_name
from flows.tasks import releases_task, rollback_task
from kbcore.config import DEFAULT_FILE
from kbcore.errors import KbError


@flow(name="rollback", flow_run_name=run_name, persist_result=False)
def rollback(reason: str, to: str | None = None, config: str = DEFAULT_FILE) -> Any:
    """Roll back to ``to`` (default: the release that was current before); gives the promotion record."""
    kb = kb_name(config)
    try:
        record, before = rollback_task(config, reason, to)
        releases = releases_task(config)
    except KbError as error:
        return failed("rollback", config, error)
    emit_promotion(kb, record, before)
    create_markdown_artifact(
        rollback_report(record, before, releases), key=key_for("kb-releases", kb), description="Rollback and releases"
    )
    return completed(f"rolled back from {before} to {record['release']}, on hold: {record['hold']['reason']}", record)
