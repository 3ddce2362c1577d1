"""The freshness flow: bring a knowledge base up to date with its sources, as a release.

``python -m flows.freshness`` runs it once under Prefect and shows the release and two searches.
"""

from __future__ import annotations

import sys
from typing import Any

from prefect import flow
from prefect.artifacts import create_markdown_artifact

from flows.artifacts import key_for, refresh_report
from flows.tasks import refresh_task, releases_task
from kbcore.config import DEFAULT_FILE, load


@flow(name="freshness", persist_result=False)
def freshness(config: str = DEFAULT_FILE, promote: bool = True, approve_removals: int = 0) -> dict[str, Any]:
    """List the sources of ``config``, publish what changed, promote it unless told otherwise; gives the report."""
    report = refresh_task(config, promote, approve_removals)
    releases = releases_task(config)
    create_markdown_artifact(
        refresh_report(report, releases),
        key=key_for("kb-refresh", load(config).kb.name),
        description="What the refresh did",
    )
    return report


if __name__ == "__main__":
    freshness(sys.argv[1] if len(sys.argv) > 1 else DEFAULT_FILE)
