"""Verbs that make things: init, plan, refresh."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kbcore.cli.output import (
    DIFFERENCES,
    FAILURES_CHANGED,
    INVALID,
    POLICY,
    AsJson,
    ConfigFile,
    count,
    emit,
    finding,
    guarded,
    hint,
    paragraph,
    progress,
    say,
    size,
    table,
)

if TYPE_CHECKING:
    from kbcore.ingest.report import RefreshReport

app = typer.Typer()

WITHHELD_SHOWN = 20
TEMPLATE = """\
[kb]
name = "{name}"
repository = "releases"

[[sources]]
name = "documents"
type = "directory"
path = "documents"                 # a folder, relative to the working directory; every format that kbcore reads
freshness_target = "7d"

[chunking]
size = 512                         # characters; also bounded by the embedder's tokens
overlap = 50

[embedder]
provider = "fastembed"
model = "all-MiniLM-L6-v2"         # comes with the installation

[retrieval]
mode = "hybrid"

# [gate]                           # questions that a release must not answer worse than the current one:
# evalset = "config/evalset.jsonl" # kb evalset draft proposes some

[schedule]
cron = "0 6 * * *"
timezone = "UTC"
"""


@app.command()
@guarded
def init(
    config: ConfigFile = None,
    as_json: AsJson = False,
    name: Annotated[str | None, typer.Option(help="Name in a new configuration file (default: helpdesk).")] = None,
) -> None:
    """Make the repository, and a configuration file where there is none; the storage is probed first."""
    import os

    from kbcore.config import DEFAULT_FILE, load
    from kbcore.config.sources import DirectorySection
    from kbcore.errors import UsageError
    from kbcore.knowledge_base import KnowledgeBase
    from kbcore.store import layout
    from kbcore.store.probe import require_storage

    file = Path(config or os.environ.get("KB_CONFIG") or DEFAULT_FILE)
    wrote = not file.exists()
    if name is not None and not wrote:
        raise UsageError(f"{file} is there already and names the knowledge base", remedy="leave --name out, or give -c")
    name = name or "helpdesk"
    if wrote:
        if not layout.is_kb_name(name):
            raise UsageError(f"{name!r} cannot name a knowledge base", remedy="use lower-case letters, digits, . _ -")
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
        say(f"wrote {file}")
    say(f"{'found' if existed else 'made'} the repository {base.folder.absolute()}")
    missing = [s.path for s in base.config.sources if isinstance(s, DirectorySection) and not Path(s.path).is_dir()]
    if missing:
        there = f"there is no folder {Path(missing[0]).absolute()} yet"
        paragraph(hint(f"next: name your sources in {file} ({there}), then kb doctor and kb refresh", config))
    else:
        say(hint("next: kb doctor, then kb refresh", config))


@app.command()
@guarded
def plan(
    config: ConfigFile = None,
    as_json: AsJson = False,
    exit_code: Annotated[bool, typer.Option("--exit-code", help="End with 5 if a refresh would publish.")] = False,
) -> None:
    """Say what a refresh would do, the texts to embed included. Nothing is written. Ends with the code that the refresh
    would end with, as far as that can be known without the gate."""
    report = _run(config, as_json, dry_run=True)
    if as_json:
        emit(report.to_json())
    else:
        _print_report(report, config)
    _end(report, exit_code=exit_code)


@app.command()
@guarded
def refresh(
    config: ConfigFile = None,
    as_json: AsJson = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="The same as kb plan.")] = False,
    no_promote: Annotated[
        bool, typer.Option("--no-promote", help="Publish a candidate; readers stay where they are.")
    ] = False,
    no_gate: Annotated[
        bool, typer.Option("--no-gate", help="Promote without asking whether answers got worse.")
    ] = False,
    approve_removals: Annotated[
        int,
        typer.Option(
            "--approve-removals",
            min=0,
            metavar="N",
            help="List again and apply at most N withheld removals.",
        ),
    ] = 0,
    accept_failures: Annotated[
        bool, typer.Option("--accept-failures", help="Publish although too many documents failed.")
    ] = False,
    retry_failed: Annotated[
        bool,
        typer.Option("--retry-failed", help="Try documents again that failed before, also those left alone for now."),
    ] = False,
    strict: Annotated[bool, typer.Option("--strict", help="End with 4 if any document failed.")] = False,
) -> None:
    """List the sources, publish a release if anything changed, and promote it."""
    report = _run(config, as_json, dry_run=dry_run, promote=not no_promote, gate=not no_gate, approve_removals=approve_removals,
                  accept_failures=accept_failures, retry_failed=retry_failed)  # fmt: skip
    if as_json:
        emit(report.to_json())
    else:
        _print_report(report, config)
    _end(report, strict=strict)


def _end(report: RefreshReport, *, strict: bool = False, exit_code: bool = False) -> None:
    """End with the code that a report comes to; a plan with the one that the refresh would."""
    if any("error" in source for source in report.sources):
        raise typer.Exit(1)
    if report.gate and report.gate["verdict"] == "invalid":
        raise typer.Exit(INVALID)
    if report.withheld_removals or report.refused or (report.gate and not report.gate["passes"]):
        raise typer.Exit(POLICY)
    if exit_code and report.outcome == "published":
        raise typer.Exit(DIFFERENCES)
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


def _duration(report: RefreshReport) -> str:
    seconds = report.estimated_seconds
    if not seconds:
        return ""
    about = count(max(1, round(seconds)), "second") if seconds < 90 else count(round(seconds / 60), "minute")
    return f" (about {about})"


def _print_report(report: RefreshReport, config: Path | None) -> None:
    from kbcore.ingest.refresh import NOT_ASKED
    from kbcore.ingest.report import about_source
    from kbcore.promotion import ALREADY_CURRENT

    if report.dry_run:
        verb = "would publish a release" if report.outcome == "published" else "would publish nothing"
        texts = f"{count(report.texts_to_embed or 0, 'text')} to embed, {report.texts_reused} reused"
        paragraph(f"a refresh {verb}: {texts}{_duration(report)}")
        if report.outcome == "published" and report.content_digest:
            say(f"its content digest would be {report.content_digest[:12]}")
    elif report.outcome == "published":
        paragraph(f"published {report.release} on {report.parent or 'an empty repository'}: "
            f"{count(report.chunks['total'], 'chunk')}, {report.chunks['new']} of them new; "
            f"{count(report.texts_embedded, 'text')} embedded, "
            f"{report.texts_reused + report.texts_resumed} reused; {size(report.bytes_written)} written")  # fmt: skip
    elif report.outcome == "refused":
        say(f"refused: nothing is published{f', {report.release} stays the newest' if report.release else ''}")
    else:
        apart = report.withheld_removals or report.failures or not all(source["complete"] for source in report.sources)
        stays = "stays the newest" if apart else "holds what the sources hold"
        say(f"unchanged: {report.release} {stays}; nothing published, nothing embedded")
    if report.took_over:
        paragraph(f"took over from {report.took_over}")
    for setting in report.settings:
        say(f"every document is cut anew: {setting['name']} {setting['old']} -> {setting['new']}")
    counts = {**report.changes, "failed": len(report.failures), "withheld": len(report.withheld_removals)}
    table(list(counts), [list(counts.values())])
    if report.promoted:
        before = report.promoted_from
        say(f"promoted {report.release}" + (f": readers had {before}" if before else ""))
    elif report.not_promoted == ALREADY_CURRENT:
        say(f"{report.release} is current")
    elif report.outcome == "refused":
        pass
    elif report.gate and not report.gate["passes"]:
        say(f"not promoted: readers stay with {report.gate['baseline'] or 'nothing'}")
    elif report.not_promoted is None:
        say(f"and would make {report.release or 'it'} current")
    else:
        paragraph(f"{'would not be' if report.dry_run else 'not'} promoted: {report.not_promoted}")
        if report.not_promoted == NOT_ASKED and report.release and not report.dry_run:
            after = f"the next refresh promotes {report.release} if it passes the gate"
            paragraph(hint(f'{after}, unless held: kb hold --reason "..."', config))
    if report.gate:
        _print_gate(report.gate, config)
    for source in report.sources:
        if "error" in source:
            paragraph(about_source(source["name"], source["error"]))
        elif not source["complete"]:
            paragraph(f"source {source['name']}: the listing is incomplete, nothing of it counts as removed")
    for reason in report.refused:
        paragraph(hint(f"{reason}; look at them, then mend the source or: kb refresh --accept-failures", config))
    if report.flagged:
        table(["doubtful text", "why"], [[entry["doc_id"], ", ".join(entry["flags"])] for entry in report.flagged],
              sentences=True)  # fmt: skip
    if report.failures:
        table(["failed", "reason", "since", "tried again", "kept"], [
            [f["doc_id"], f["reason"], f["since"], f["retry_at"] or "next run",
             "former version" if f["carried_over"] else "nothing"] for f in report.failures
        ], sentences=True)  # fmt: skip
        if any(failure["retry_at"] for failure in report.failures):
            paragraph(
                hint(
                    "those with a time are tried again then, or when they change; at once: kb refresh --retry-failed",
                    config,
                )
            )
    if report.recovered:
        # A monitor that got exit code 4 of a run in which nothing failed looks for this line.
        say(f"failed before, not now: {count(len(report.recovered), 'document')} (a change of what fails ends with 4)")
    if report.skipped:
        table(["skipped", "reason"], [[s["doc_id"], s["reason"]] for s in report.skipped], sentences=True)
    if report.withheld_removals:
        held = len(report.withheld_removals)
        said = f"{count(held, 'removal')} withheld; if {'it is' if held == 1 else 'they are'} meant"
        paragraph(hint(f"{said}: kb refresh --approve-removals {held}", config))
        for doc_id in report.withheld_removals[:WITHHELD_SHOWN]:
            say(f"  {doc_id}")
        if held > WITHHELD_SHOWN:
            say(f"  and {held - WITHHELD_SHOWN} more: --json names them all")


def _print_gate(gate: dict[str, Any], config: Path | None) -> None:
    """The verdict in one line where it lets pass; else every check that does not, and how to go on."""
    parts = [gate["verdict"].replace("_", " ") + ", as judged before" * gate["repeated"]]
    for name, found in list(gate["measures"].items())[:1]:
        after = found.get("new")
        if after is not None:
            before = found.get("old")
            parts.append(f"{name} " + (f"{before:.3f} -> " if before is not None else "") + f"{after:.3f}")
    say(f"gate: {', '.join([*parts, count(len(gate['findings']), 'check')])}")
    if gate["passes"]:
        return
    for found in gate["findings"]:
        if found["verdict"] != "pass":
            finding(**found)
    release = gate["release"]
    if gate["baseline"] and gate["set"]:
        say(hint(f"see what changed: kb compare current {release}", config))
    elif gate["baseline"]:
        say(hint(f"see what changed: kb diff current {release}", config))
    say(hint(f'promote it all the same: kb promote {release} --reason "..."', config))
    say(hint("or without asking: kb refresh --no-gate", config))
