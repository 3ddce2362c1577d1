"""The rollback flow: readers go back to a release that was current before, and a hold is set."""

from __future__ import annotations

from typing import Any

from prefect import flow
from prefect.artifacts import create_markdown_artifact

from flows.artifacts import key_for, release_table
from flows.events import emit_promotion
from flows.tasks import releases_task, rollback_task
from kbcore.config import DEFAULT_FILE, load


@flow(name="rollback", persist_result=False)
def rollback(reason: str, to: str | None = None, config: str = DEFAULT_FILE) -> dict[str, Any]:
    """Roll back to ``to`` (default: the release that was current before); gives the promotion record."""
    record = rollback_task(config, reason, to)
    emit_promotion(load(config).kb.name, record)
    create_markdown_artifact(
        release_table(releases_task(config)), key=key_for("kb-releases", load(config).kb.name), description="Releases"
    )
    return record
