"""Verbs that look after a repository: verify, doctor, freshness, config show."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from kbcore.cli.output import POLICY, AsJson, ConfigFile, ReleaseOption, emit, guarded, paragraph, progress, say, table

app = typer.Typer()
config_app = typer.Typer(help="The configuration in force.", no_args_is_help=True)
app.add_typer(config_app, name="config")


@app.command()
@guarded
def verify(
    release: Annotated[str, typer.Argument(help="current, latest, previous or a release.")] = "current",
    every: Annotated[bool, typer.Option("--all", help="Every release that is not expired, and all records.")] = False,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Read a release in full and compare it with what was published. Ends with 1 if anything is not as it was."""
    from kbcore.knowledge_base import open_repository
    from kbcore.verification import verify_release, verify_repository

    repository = open_repository(config).repository
    if every:
        expired = repository.expired()
        names = [name for name in repository.releases() if name not in expired]
        with progress(as_json) as show:
            findings = verify_repository(repository, names, progress=show)
    else:
        names = [repository.resolve(release)]
        findings = verify_release(repository, names[0])
    if as_json:
        emit({"releases": names, "findings": [finding.to_json() for finding in findings]})
    elif findings:
        table(["release", "file", "finding"], [[f.release, f.file, f.reason] for f in findings], sentences=True)
    elif not names:
        say("nothing was published yet; all records are as written")
    else:
        say(f"{', '.join(names) if len(names) < 6 else f'{len(names)} releases'}: read in full, all as published")
    if findings:
        raise typer.Exit(1)


@app.command()
@guarded
def doctor(config: ConfigFile = None, as_json: AsJson = False) -> None:
    """Check configuration, storage, repository, embedders and versions; each finding names the command that mends it."""
    from kbcore.doctor import examine, worst

    checks = examine(config, os.environ)
    if as_json:
        emit([check.to_json() for check in checks])
    else:
        table(["check", "", "detail", "mend it with"], [[c.name, c.status, c.detail, c.remedy] for c in checks],
              sentences=True)  # fmt: skip
    if worst(checks):
        raise typer.Exit(1)


@app.command()
@guarded
def freshness(
    release: ReleaseOption = "current",
    documents: Annotated[
        bool, typer.Option("--documents", help="Name the documents too that are over their target.")
    ] = False,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Say how old what readers get is, by source, against its target. Ends with 3 if anything is over it."""
    from kbcore.freshness import measure
    from kbcore.ingest.report import about_source
    from kbcore.knowledge_base import open_repository

    base = open_repository(config)
    found = measure(base.repository, base.config, base.repository.resolve(release))
    if as_json:
        emit(found.to_json())
    else:
        say(f"{found.release}: {'over its target' if found.stale else 'within its targets'}")
        table(
            ["source", "documents", "last listed", "last confirmed", "age (days)", "target", "state", "carried over",
             "withheld"],
            [
                [s.source, s.documents, s.listed_at, s.confirmed_at, s.age_days, s.target_days,
                 "stale" if s.stale else "failing" if s.error else "", s.carried_over, s.withheld]
                for s in found.sources
            ],
        )  # fmt: skip
        for source in found.sources:
            if source.error:
                paragraph(about_source(source.source, source.error))
        shown = [d for d in found.documents if d.reason or (documents and d.stale)]
        if shown:
            table(
                ["document", "age (days)", "", "reason", "since"],
                [[d.doc_id, d.age_days, "stale" if d.stale else "", d.reason, d.since] for d in shown],
                sentences=True,
            )
    if found.stale:
        raise typer.Exit(POLICY)


@config_app.command("show")
@guarded
def config_show(
    sources: Annotated[bool, typer.Option("--sources", help="Say where each value came from.")] = False,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Print every setting in force."""
    from kbcore.config import effective, load

    rows = effective(load(config))
    if as_json:
        emit([{"setting": n, "value": v, "from": o} for n, v, o in rows] if sources else {n: v for n, v, _ in rows})
    elif sources:
        table(["setting", "value", "from"], [[n, _shown(v), o] for n, v, o in rows], sentences=True)
    else:
        table(["setting", "value"], [[n, _shown(v)] for n, v, _ in rows], sentences=True)


def _shown(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else "" if value is None else str(value)
