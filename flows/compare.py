"""The compare flow: two releases on the same questions, as an artifact to look at before anybody is moved."""

from __future__ import annotations

from typing import Any

from prefect import flow
from prefect.artifacts import create_markdown_artifact

from flows.artifacts import comparison_report, key_for
from flows.runs import completed, failed, kb_name, run_name
from flows.tasks import compare_task
from kbcore.config import DEFAULT_FILE
from kbcore.errors import KbError


@flow(name="compare", flow_run_name=run_name, persist_result=False)
def compare(old: str = "current", new: str = "latest", config: str = DEFAULT_FILE) -> Any:
    """Compare ``old`` and ``new`` on the configured set, evaluating what is missing; gives the comparison."""
    try:
        found = compare_task(config, old, new)
    except KbError as error:
        return failed("compare", config, error)
    create_markdown_artifact(
        comparison_report(found),
        key=key_for("kb-compare", kb_name(config)),
        description=f"{found['old']} and {found['new']} on the same questions",
    )
    changed = f"{len(found['changed'])} questions changed of {found['judged']} judged"
    return completed(f"{found['old']} and {found['new']}: {changed}", found)
