"""The verb that finds where an answer changed: bisect."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kbcore.cli.output import NAMES, AsJson, ConfigFile, emit, guarded, hint, progress, say, table
from kbcore.cli.searching import SearchMode

if TYPE_CHECKING:
    from kbcore.evaluation.bisection import Bisection, Change, Step

app = typer.Typer()


@app.command()
@guarded
def bisect(
    question: Annotated[str, typer.Argument(help="The question.")],
    doc: Annotated[str, typer.Option("--doc", "-d", help="The document that answers it: its id, or its URI.")],
    quote: Annotated[
        str | None, typer.Option(help="The passage of it that answers: a hit counts where it overlaps it.")
    ] = None,
    oldest: Annotated[
        str | None, typer.Option("--from", help=f"{NAMES} Default: the first of the line.", show_default=False)
    ] = None,
    newest: Annotated[str, typer.Option("--to", help=NAMES)] = "latest",
    mode: Annotated[SearchMode | None, typer.Option(help="vector, keyword or hybrid.")] = None,
    k: Annotated[int | None, typer.Option("-k", min=1, help="As many hits as a search shows.")] = None,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Find the releases in which an answer appeared, changed its rank or was lost, and the change that did it."""
    from dataclasses import replace

    from kbcore.evaluation.bisection import bisect as walk
    from kbcore.knowledge_base import open_repository

    base = open_repository(config)
    repository = base.repository
    last = repository.resolve(newest)
    chosen: Any = mode.value if mode else None
    # A newest release that is damaged keeps nobody from looking at those before it.
    settings = base.settings(_readable(base, last), chosen)
    settings = settings if k is None else replace(settings, k=k)
    with progress(as_json) as show:
        found = walk(
            repository, base.catalog, settings, question, doc,
            newest=last, oldest=None if oldest is None else repository.resolve(oldest), quote=quote,
            names=base.config.gate.measures, progress=show,
        )  # fmt: skip
    if as_json:
        emit(found.to_json())
    else:
        _print(found, config)


def _readable(base: Any, newest: str) -> Any:
    from kbcore.evaluation.line import line_of

    line = line_of(base.repository, newest)
    names = line.readable()
    return line.manifests[names[-1]] if names else base.repository.manifest(newest)


def _print(found: Bisection, config: Path | None) -> None:
    looked = [step for step in found.steps if step.state != "passed over"]
    what = f"the passage of {found.document}" if found.quote else found.document
    settings = found.settings
    say(f"{what}, among the answers to: {found.question}")
    say(
        f"{looked[0].release} to {looked[-1].release}, {settings['mode']}, k = {settings['k']}, "
        f"looked for among the first {settings['reach']} chunks"
    )
    rows = [
        [step.release, step.created_at, step.rank if step.rank is not None else step.state, _shown(step), step.outcome]
        for step in looked
    ]
    table(["release", "created", "rank", "in the hits", "outcome"], rows)
    _print_remarks(found, looked)
    if not found.changes:
        say(f"nothing changed: {_standing(looked[-1])} in all {len(looked)} releases")
    for change in found.changes:
        say(f"{change.release}: {change.kind}, {_moved(change)}")
        for cause in change.causes:
            say(f"  {cause.kind}: {cause.said}")
    if found.changes:
        last = found.changes[-1]
        say(hint(f"look closer with: kb diff {last.before} {last.release}", config))


def _print_remarks(found: Bisection, looked: list[Step]) -> None:
    names = {step.document for step in looked if step.document}
    if len(names) > 1 or (names and found.document not in names):
        for name, group in groupby((step for step in looked if step.document), key=lambda step: step.document):
            say(f"{_span(list(group))}: it is {name}")
    for (state, said), group in groupby(found.steps, key=lambda step: (step.state == "passed over", step.said)):
        if said:
            say(f"{_span(list(group))}: {'passed over: ' * state}{said}")


def _span(steps: list[Step]) -> str:
    first, last = steps[0].release, steps[-1].release
    return first if first == last else f"{first} to {last}"


def _shown(step: Step) -> str:
    return "" if step.rank is None else "yes" if step.served else "no"


def _standing(step: Step) -> str:
    return step.state if step.rank is None else f"rank {step.rank}"


def _moved(change: Change) -> str:
    sides = [
        state if rank is None else f"rank {rank}" + ("" if served else ", beyond the hits shown")
        for rank, state, served in (
            (change.old_rank, change.old_state, change.old_served),
            (change.new_rank, change.new_state, change.new_served),
        )
    ]
    return " -> ".join(sides)
