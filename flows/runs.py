"""What a flow run is called, what it logs, and how it ends: in a sentence, with the remedy, where something is wrong."""

from __future__ import annotations

import sys
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from prefect import get_run_logger
from prefect.artifacts import create_markdown_artifact
from prefect.runtime import flow_run
from prefect.states import Completed, Failed

from flows.artifacts import failure_report, key_for
from kbcore.config import DEFAULT_FILE, load
from kbcore.errors import KbError
from kbcore.ingest.report import about_source
from kbcore.promotion import ALREADY_CURRENT


class SourcesFailed(KbError):
    """A refresh went through without some of its sources; ``report`` says what it did all the same."""

    def __init__(self, message: str, report: dict[str, Any]) -> None:
        super().__init__(message, remedy="mend the source; what readers have of it stays as it is")
        self.report = report


def run_name() -> str:
    """The knowledge base and the time; for Prefect, which asks when a run starts."""
    config = (flow_run.get_parameters() or {}).get("config") or DEFAULT_FILE
    return f"{kb_name(config)} {datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC"


def kb_name(config: str) -> str:
    """The name of a knowledge base, or of its file where that does not load."""
    try:
        return load(config).kb.name
    except KbError:
        return str(config)


def completed(said: str, value: Any) -> Any:
    """End a run well with ``said``; whoever called the flow gets ``value``."""
    get_run_logger().info(said)
    return Completed(message=said, data=value)


def failed(flow: str, config: str, error: KbError) -> Any:
    """End a run with the sentence of ``error``, which whoever called the flow gets raised; the artifact has the remedy."""
    get_run_logger().error("%s%s", error.message, f" ({error.remedy})" if error.remedy else "")
    kb = kb_name(config)
    create_markdown_artifact(
        failure_report(flow, kb, error.message, error.remedy),
        key=key_for(f"kb-{flow}-failed", kb),
        description=f"Why the {flow} run failed, and what to do",
    )
    return Failed(message=error.message, data=error)


def refresh_said(report: dict[str, Any]) -> str:
    """One line of what a refresh came to."""
    changes = ", ".join(f"{count} {name}" for name, count in report["changes"].items() if count)
    release = f" {report['release']}" if report["release"] else ""
    if report["promoted"]:
        moved = "promoted"
    elif report["outcome"] == "refused":
        moved = "; ".join(report["refused"])
    elif report["not_promoted"] == ALREADY_CURRENT:
        moved = "current"
    elif (gate := report["gate"]) and not gate["passes"]:
        # Prefect makes events of states: no words of questions or documents, which the artifact has.
        moved = f"not promoted (the gate says {gate['verdict']}: {len(gate['reasons'])} reasons)"
    else:
        moved = f"not promoted ({report['not_promoted']})"
    counts = f"{len(report['failures'])} failed, {len(report['withheld_removals'])} withheld"
    return f"{report['outcome']}{release}, {moved}: {changes or 'no documents'}; {counts}"


def sources_said(sources: list[dict[str, Any]]) -> str:
    """The sources that could not be listed, with the reasons; empty where all could."""
    return "; ".join(about_source(source["name"], source["error"]) for source in sources if source.get("error"))


def in_words(main: Callable[[], None]) -> None:
    """Run a program; an error that was raised on purpose ends it with its sentence and its exit code."""
    try:
        main()
    except KbError as error:
        print(error.message, file=sys.stderr)
        if error.remedy:
            print(f"    {error.remedy}", file=sys.stderr)
        sys.exit(error.exit_code)
