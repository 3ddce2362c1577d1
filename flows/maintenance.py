"""The maintenance flow: is everything still as it was written, and in place? It changes nothing."""

from __future__ import annotations

from typing import Any

from prefect import flow
from prefect.artifacts import create_markdown_artifact

from flows.artifacts import key_for, maintenance_report
from flows.tasks import doctor_task, freshness_task, verify_task
from kbcore.config import DEFAULT_FILE, load


class Unsound(Exception):
    """Something needs a person: the flow run fails, so that whoever watches failed runs is told."""


@flow(name="maintenance", persist_result=False)
def maintenance(config: str = DEFAULT_FILE) -> dict[str, Any]:
    """Verify every release in full, run the doctor's checks and measure ages; fails where anything is damaged."""
    findings = verify_task(config)
    checks = doctor_task(config)
    ages = freshness_task(config)
    create_markdown_artifact(
        maintenance_report(findings, checks, ages),
        key=key_for("kb-maintenance", load(config).kb.name),
        description="What was looked at, and what is not as it should be",
    )
    failed = [check["name"] for check in checks if check["status"] == "fail"]
    if findings or failed:
        raise Unsound(
            f"{len(findings)} files are not as they were written; failed checks: {', '.join(failed) or 'none'}"
        )
    return {"findings": findings, "checks": checks, "freshness": ages}
