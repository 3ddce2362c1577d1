"""The verb that says why a question does not get its document."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from kbcore.cli.output import AsJson, ConfigFile, ReleaseOption, emit, guarded, say, table
from kbcore.cli.searching import FusionName, SearchMode, WhereOption

app = typer.Typer()

LOST = 5
MARKS = {True: "ok", False: "LOST", None: "note"}


@app.command()
@guarded
def diagnose(
    query: Annotated[str, typer.Argument(help="The question.")],
    expect: Annotated[
        str,
        typer.Option(
            "--expect", "-e", help="The document that answers it (id or URI; #c3 after it: one chunk). Required."
        ),
    ],
    k: Annotated[int | None, typer.Option("-k", help="How many chunks at most.")] = None,
    mode: Annotated[SearchMode | None, typer.Option(help="vector, keyword or hybrid.")] = None,
    fusion: Annotated[FusionName | None, typer.Option(help="How hybrid joins the two lists.")] = None,
    where: WhereOption = None,
    merge: Annotated[bool, typer.Option("--merge", help="Join chunks that overlap or follow each other.")] = False,
    neighbours: Annotated[int, typer.Option("--neighbours", help="Show so many chunks before and after each.")] = 0,
    fold: Annotated[bool, typer.Option("--fold", help="Count near-copies under the best of them.")] = False,
    max_tokens: Annotated[int, typer.Option("--max-tokens", min=1, help="The budget of the context.")] = 1500,
    release: ReleaseOption = "current",
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Follow a document from its source into the context for a model, and say where it is lost and what to do.

    Ends with 5 where it is lost.
    """
    from kbcore.knowledge_base import open_repository
    from kbcore.retrieval.diagnosing import diagnose as diagnosed
    from kbcore.retrieval.diagnosing import failed

    chosen: Any = mode.value if mode else None
    retriever = open_repository(config).retriever(release, mode=chosen)
    request = retriever.request(
        query, k, fusion=fusion.value if fusion else None, where=where, merge=merge, neighbours=neighbours, fold=fold
    )
    found = diagnosed(retriever, request, expect, max_tokens)
    if as_json:
        emit(found.to_json())
    else:
        say(f"{found.release}: {found.doc_id}")
        table(
            ["step", "", "finding", "what to do"],
            [[step.step, MARKS[step.ok], step.finding, step.advice] for step in found.steps],
            records=True,
        )
        lost = failed(found.steps)
        say(f"lost at: {lost.step}: {lost.finding}" if lost else "it arrives")
    if not found.ok:
        raise typer.Exit(LOST)
