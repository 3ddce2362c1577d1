"""The compare flow: two releases on the same questions, as an artifact to look at before anybody is moved."""

from __future__ import annotations

from typing import Any

from prefect import flow
from prefect.artifacts import create_markdown_artifact

from flows.artifacts import comparison_report, key_for
from flows.tasks import compare_task
from kbcore.config import DEFAULT_FILE, load


@flow(name="compare", persist_result=False)
def compare(old: str = "current", new: str = "latest", config: str = DEFAULT_FILE) -> dict[str, Any]:
    """Compare ``old`` and ``new`` on the configured set, evaluating what is missing; gives the comparison."""
    found = compare_task(config, old, new)
    create_markdown_artifact(
        comparison_report(found),
        key=key_for("kb-compare", load(config).kb.name),
        description=f"{found['old']} and {found['new']} on the same questions",
    )
    return found
