"""Verbs that move readers: promote, rollback, undo, hold, pin."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kbcore.cli.output import AsJson, ConfigFile, Reason, emit, guarded, hint, say

if TYPE_CHECKING:
    from kbcore.knowledge_base import KnowledgeBase
    from kbcore.store.promotion import Promotion
    from kbcore.store.repository import Run

app = typer.Typer()

WithoutEmbedder = Annotated[
    bool,
    typer.Option(
        "--without-embedder-check", help="Emergency: move although the embedder is not here. Damage is never skipped."
    ),
]


@app.command()
@guarded
def promote(
    release: Annotated[str, typer.Argument(help="latest, previous, a release or a prefix of one.")] = "latest",
    reason: Reason = "",
    lift: Annotated[bool, typer.Option("--lift", help="End the hold as well.")] = False,
    without_embedder_check: WithoutEmbedder = False,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Make a release current, after checking that it is whole and can be searched."""
    from kbcore import promotion

    _move(config, as_json, lambda base, run: promotion.promote(
        base.repository, base.repository.resolve(release), base.catalog, reason=reason, run=run, lift=lift,
        check_embedder=not without_embedder_check,
    ))  # fmt: skip


@app.command()
@guarded
def rollback(
    to: Annotated[
        str | None, typer.Option("--to", help="A release that was current before (default: the last one).")
    ] = None,
    reason: Reason = "",
    without_embedder_check: WithoutEmbedder = False,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Go back to a release that was current before; sets a hold and blocks the content that is left."""
    from kbcore import promotion

    _move(config, as_json, lambda base, run: promotion.rollback(
        base.repository, base.catalog, to=base.repository.resolve(to) if to else None, reason=reason, run=run,
        check_embedder=not without_embedder_check,
    ))  # fmt: skip


@app.command()
@guarded
def undo(
    reason: Reason = "",
    without_embedder_check: WithoutEmbedder = False,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Restore the state before the last promotion, rollback, hold, lift or pin."""
    from kbcore import promotion

    _move(config, as_json, lambda base, run: promotion.undo(
        base.repository, base.catalog, reason=reason, run=run, check_embedder=not without_embedder_check
    ))  # fmt: skip


@app.command()
@guarded
def hold(
    reason: Reason = "",
    lift: Annotated[bool, typer.Option("--lift", help="End the hold and unblock what was rolled back from.")] = False,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Let no schedule promote anything until the hold is lifted."""
    from kbcore import promotion

    move = promotion.lift if lift else promotion.hold
    _move(config, as_json, lambda base, run: move(base.repository, reason=reason, run=run))


@app.command()
@guarded
def pin(
    release: Annotated[str, typer.Argument(help="The release to keep.")],
    reason: Reason = "",
    remove: Annotated[bool, typer.Option("--remove", help="Let it go again.")] = False,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Keep a release whatever the retention says."""
    from kbcore import promotion

    _move(config, as_json, lambda base, run: promotion.pin(
        base.repository, base.repository.resolve(release), reason=reason, run=run, remove=remove
    ))  # fmt: skip


@app.command()
@guarded
def expire(
    release: Annotated[str, typer.Argument(help="The release to take out of service.")],
    reason: Reason = "",
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Take a release out of service for good; the newest one only if it is damaged."""
    from kbcore import expiry
    from kbcore.knowledge_base import open_repository

    repository = open_repository(config).repository
    # By its number alone: the names that follow what is served mean what must not expire.
    name = release if release in repository.releases() else repository.resolve(release)
    run = repository.begin()
    expiry.expire(repository, name, reason=reason, run=run)
    if as_json:
        emit({"release": name, "state": "expired", "reason": reason, "by": run.by, "run": run.name})
    else:
        say(f"{name} has expired: no reader opens it any more")


def _move(config: Path | None, as_json: bool, move: Callable[[KnowledgeBase, Run], Promotion]) -> None:
    from kbcore.knowledge_base import open_repository

    base = open_repository(config)
    started = time.perf_counter()
    state = base.repository.state()
    before = state.release
    record = move(base, base.repository.begin())
    if as_json:
        emit({**record.to_body(), "from": before, "seconds": round(time.perf_counter() - started, 3)})
        return
    if before != record.release:
        moved = f"{before or 'nothing'} -> {record.release or 'nothing'}"
    else:
        moved = f"{record.release} stays current" if record.release else "nothing is current yet"
    for name in sorted(set(record.pins) ^ set(state.pins)):
        moved = f"{name} is {'kept whatever retention says' if name in record.pins else 'let go'}; {moved}"
    say(f"{record.seq} {record.kind}: {moved}")
    if len(record.blocked) < len(state.blocked):
        say("what was rolled back from is not blocked any more")
    elif len(record.blocked) > len(state.blocked):
        say(f"the content of {before} is blocked: no refresh makes it current until the hold is lifted")
    head = base.repository.head()
    if record.hold is None and head != record.release and record.kind in ("promote", "undo", "lift"):
        say(hint(f'the next refresh makes {head} current, unless you say: kb hold --reason "..."', config))
    if record.hold:
        say(f"on hold: {record.hold['reason']} ({record.hold['by']}, {record.hold['since']})")
        say(hint('end it with: kb hold --lift --reason "..."', config))
