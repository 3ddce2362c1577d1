"""The freshness flow: bring a knowledge base up to date with its sources, as a release.

``python -m flows.freshness`` runs it once under Prefect; where there is no Prefect, ``kb refresh`` does the same.
"""

from __future__ import annotations

import sys
from typing import Any

from prefect import flow
from prefect.artifacts import create_markdown_artifact

from flows.artifacts import key_for, refresh_report
from flows.events import emit_failed, emit_refresh, emit_stale
from flows.runs import SourcesFailed, completed, failed, in_words, kb_name, refresh_said, run_name, sources_said
from flows.tasks import freshness_task, last_check_task, refresh_task, releases_task
from kbcore.config import DEFAULT_FILE
from kbcore.errors import KbError, SourceError


@flow(name="freshness", flow_run_name=run_name, persist_result=False)
def freshness(
    config: str = DEFAULT_FILE,
    promote: bool = True,
    approve_removals: int = 0,
    accept_failures: bool = False,
    gate: bool = True,
) -> Any:
    """List the sources of ``config``, publish what changed, promote what the gate lets pass unless told otherwise; gives
    the report. With ``gate`` False nobody asks whether answers got worse. The run fails, with all that could be done
    done, where a source could not be listed: where ``kb refresh`` ends with 1."""
    kb = kb_name(config)
    try:
        report = refresh_task(config, promote, approve_removals, accept_failures, gate)
    except KbError as error:
        _tell(kb, config, error)
        return failed("refresh", config, error)
    except Exception:
        _tell(kb, config, None)
        raise
    ages = freshness_task(config)
    create_markdown_artifact(
        refresh_report(report, releases_task(config), ages, config),
        key=key_for("kb-refresh", kb),
        description="What the refresh did",
    )
    emit_refresh(kb, report, ages)
    said = refresh_said(report)
    if missing := sources_said(report["sources"]):
        return failed("refresh", config, SourcesFailed(f"{missing}; apart from that: {said}", report))
    return completed(said, report)


def _tell(kb: str, config: str, error: KbError | None) -> None:
    """Nobody is told of failed or stale sources by a run that could not be: this says it all the same."""
    try:
        if isinstance(error, SourceError):
            check = last_check_task(config)
            if check.get("outcome") == "failed":
                emit_failed(kb, check["sources"], check["run"])
        emit_stale(kb, freshness_task(config))
    except KbError:
        pass  # what is wrong with the configuration or the repository is said already


if __name__ == "__main__":
    in_words(lambda: freshness(sys.argv[1] if len(sys.argv) > 1 else DEFAULT_FILE))
