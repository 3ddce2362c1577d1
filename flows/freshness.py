"""The freshness flow: bring a knowledge base up to date with its sources, as a release.

``python -m flows.freshness`` runs it once under Prefect; where there is no Prefect, ``kb refresh`` does the same.
"""

from __future__ import annotations

import sys
from typing import Any

from prefect import flow
from prefect.artifacts import create_markdown_artifact

from flows.artifacts import key_for, refresh_report
from flows.events import emit_refresh, emit_stale
from flows.tasks import freshness_task, refresh_task, releases_task
from kbcore.config import DEFAULT_FILE, load


@flow(name="freshness", persist_result=False)
def freshness(
    config: str = DEFAULT_FILE,
    promote: bool = True,
    approve_removals: int = 0,
    accept_failures: bool = False,
    gate: bool = True,
) -> dict[str, Any]:
    """List the sources of ``config``, publish what changed, promote what the gate lets pass unless told otherwise; gives
    the report. With ``gate`` False nobody asks whether answers got worse."""
    kb = load(config).kb.name
    try:
        report = refresh_task(config, promote, approve_removals, accept_failures, gate)
    except Exception:
        # Nobody is told of a stale source by a run that could not be: this says it all the same.
        emit_stale(kb, freshness_task(config))
        raise
    ages = freshness_task(config)
    create_markdown_artifact(
        refresh_report(report, releases_task(config), ages),
        key=key_for("kb-refresh", kb),
        description="What the refresh did",
    )
    emit_refresh(kb, report, ages)
    return report


if __name__ == "__main__":
    freshness(sys.argv[1] if len(sys.argv) > 1 else DEFAULT_FILE)
