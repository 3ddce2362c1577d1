"""The maintenance flow: is everything still as it was written, and in place? It changes nothing."""

from __future__ import annotations

from typing import Any

from prefect import flow
from prefect.artifacts import create_markdown_artifact

from flows.artifacts import key_for, maintenance_report
from flows.events import emit_stale
from flows.runs import completed, failed, kb_name, run_name
from flows.tasks import doctor_task, freshness_task, verify_task
from kbcore.config import DEFAULT_FILE
from kbcore.errors import KbError


class Unsound(KbError):
    """Something needs a person: the flow run fails, so that whoever watches failed runs is told."""


@flow(name="maintenance", flow_run_name=run_name, persist_result=False)
def maintenance(config: str = DEFAULT_FILE) -> Any:
    """Verify every release in full, run the doctor's checks and measure ages; fails where anything is damaged."""
    kb = kb_name(config)
    try:
        findings = verify_task(config)
        checks = doctor_task(config)
        ages = freshness_task(config)
    except KbError as error:
        return failed("maintenance", config, error)
    create_markdown_artifact(
        maintenance_report(findings, checks, ages),
        key=key_for("kb-maintenance", kb),
        description="What was looked at, and what is not as it should be",
    )
    emit_stale(kb, ages)
    wrong = [check["name"] for check in checks if check["status"] == "fail"]
    if findings or wrong:
        files = f"{len(findings)} file is" if len(findings) == 1 else f"{len(findings)} files are"
        said = f"{files} not as written; failed checks: {', '.join(wrong) or 'none'}"
        return failed("maintenance", config, Unsound(said, remedy="kb doctor names what mends each"))
    stale = [source["source"] for source in (ages or {}).get("sources", ()) if source["stale"]]
    said = f"all files as written, {len(checks)} checks; stale: {', '.join(stale) or 'none'}"
    return completed(said, {"findings": findings, "checks": checks, "freshness": ages})
