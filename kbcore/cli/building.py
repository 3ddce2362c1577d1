"""Verbs that make things: init, plan, refresh."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kbcore.cli.output import AsJson, ConfigFile, emit, guarded, progress, say, size, table

if TYPE_CHECKING:
    from kbcore.ingest.refresh import RefreshReport

app = typer.Typer()

POLICY, FAILURES_CHANGED, DIFFERENCES = 3, 4, 5
TEMPLATE = """\
[kb]
name = "{name}"
repository = "releases"

[[sources]]
name = "documents"
type = "directory"
path = "documents"                 # a folder of .md, .html, .txt and .pdf files, relative to the working directory
freshness_target = "7d"

[chunking]
size = 512                         # characters; also bounded by the embedder's tokens
overlap = 50

[embedder]
provider = "fastembed"
model = "all-MiniLM-L6-v2"         # comes with the installation

[retrieval]
mode = "hybrid"

[schedule]
cron = "0 6 * * *"
timezone = "UTC"
"""


@app.command()
@guarded
def init(
    config: ConfigFile = None,
    as_json: AsJson = False,
    name: Annotated[str, typer.Option(help="Name for a new configuration file.")] = "helpdesk",
) -> None:
    """Make the repository, and a configuration file where there is none; the storage is probed first."""
    import os

    from kbcore.config import DEFAULT_FILE, load
    from kbcore.knowledge_base import KnowledgeBase
    from kbcore.store.probe import require_storage

    file = Path(config or os.environ.get("KB_CONFIG") or DEFAULT_FILE)
    wrote = not file.exists()
    if wrote:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(TEMPLATE.format(name=name), encoding="utf-8")
    base = KnowledgeBase(load(file))
    existed = base.exists()
    if not existed:
        base.folder.mkdir(parents=True, exist_ok=True)
        require_storage(base.store)
        base.create()
    if as_json:
        emit({"config": str(file), "wrote_config": wrote, "repository": str(base.folder), "created": not existed,
              "repository_id": base.repository.repository_id})  # fmt: skip
        return
    if wrote:
        say(f"wrote {file}: name your sources there")
    say(f"{'found' if existed else 'made'} the repository {base.folder}")
    say("next: kb doctor, then kb refresh")


@app.command()
@guarded
def plan(
    config: ConfigFile = None,
    as_json: AsJson = False,
    exit_code: Annotated[bool, typer.Option("--exit-code", help="End with 5 if a refresh would publish.")] = False,
) -> None:
    """Say what a refresh would do, the texts to embed included. Nothing is written."""
    report = _run(config, as_json, dry_run=True)
    if as_json:
        emit(report.to_json())
    else:
        _print_report(report)
    if exit_code and report.outcome == "published":
        raise typer.Exit(DIFFERENCES)


@app.command()
@guarded
def refresh(
    config: ConfigFile = None,
    as_json: AsJson = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="The same as kb plan.")] = False,
    no_promote: Annotated[
        bool, typer.Option("--no-promote", help="Publish a candidate; readers stay where they are.")
    ] = False,
    approve_removals: Annotated[
        int,
        typer.Option(
            "--approve-removals",
            min=0,
            metavar="N",
            help="List again and apply at most N withheld removals of each source.",
        ),
    ] = 0,
    strict: Annotated[bool, typer.Option("--strict", help="End with 4 if any document failed.")] = False,
) -> None:
    """List the sources, publish a release if anything changed, and promote it."""
    report = _run(config, as_json, dry_run=dry_run, promote=not no_promote, approve_removals=approve_removals)
    if as_json:
        emit(report.to_json())
    else:
        _print_report(report)
    if any("error" in source for source in report.sources):
        raise typer.Exit(1)
    if report.withheld_removals:
        raise typer.Exit(POLICY)
    if report.failures_changed or (strict and report.failures):
        raise typer.Exit(FAILURES_CHANGED)


def _run(config: Path | None, as_json: bool, **parameters: Any) -> RefreshReport:
    from kbcore.config import load
    from kbcore.ingest.refresh import refresh as run_refresh
    from kbcore.knowledge_base import KnowledgeBase

    loaded = load(config)
    base = KnowledgeBase(loaded)
    with progress(as_json) as show:
        return run_refresh(base.repository, loaded, progress=show, **parameters)


def _print_report(report: RefreshReport) -> None:
    if report.dry_run:
        verb = "would publish a release" if report.outcome == "published" else "would publish nothing"
        say(f"a refresh {verb}: {report.texts_to_embed} texts to embed, {report.texts_reused} reused")
    elif report.outcome == "published":
        say(f"published {report.release} on {report.parent or 'an empty repository'}: "
            f"{report.chunks['total']} chunks, {report.chunks['new']} of them new; {report.texts_embedded} texts embedded, "
            f"{report.texts_reused + report.texts_resumed} reused; {size(report.bytes_written)} written")  # fmt: skip
    else:
        say(f"unchanged: {report.release} stands, nothing embedded, nothing published")
    table(list(report.changes), [list(report.changes.values())])
    if not report.dry_run:
        current = report.not_promoted == "it is current already"
        say(f"{report.release} is current" if report.promoted or current else f"not promoted: {report.not_promoted}")
    for source in report.sources:
        if "error" in source:
            say(f"source {source['name']}: {source['error']}")
        elif not source["complete"]:
            say(f"source {source['name']}: the listing is incomplete, nothing of it counts as removed")
    if report.failures:
        table(["failed", "reason", "since", ""], [
            [f["doc_id"], f["reason"], f["since"], "former version kept" if f["carried_over"] else ""] for f in report.failures
        ])  # fmt: skip
    if report.skipped:
        table(["skipped", "reason"], [[s["doc_id"], s["reason"]] for s in report.skipped])
    if report.withheld_removals:
        count = len(report.withheld_removals)
        say(f"{count} removals withheld; if they are meant: kb refresh --approve-removals {count}")
        for doc_id in report.withheld_removals[:20]:
            say(f"  {doc_id}")
