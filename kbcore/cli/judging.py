"""Verbs that judge a release: eval, gate."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kbcore.cli.output import (
    INVALID,
    POLICY,
    AsJson,
    ConfigFile,
    ReleaseArgument,
    ReleaseOption,
    emit,
    finding,
    guarded,
    hint,
    paragraph,
    progress,
    say,
    table,
)
from kbcore.cli.searching import FusionName, SearchMode

if TYPE_CHECKING:
    from kbcore.evaluation.gate import Judgement
    from kbcore.evaluation.scorecard import Scorecard
    from kbcore.knowledge_base import KnowledgeBase
    from kbcore.retrieval.settings import RetrievalSettings
    from kbcore.store.manifest import Manifest
    from kbcore.store.repository import Repository

app = typer.Typer()

QUESTIONS_SHOWN = 10
SetFile = Annotated[
    Path | None, typer.Option("--set", "-s", help="Evaluation set in JSON lines (default: \\[gate] evalset).")
]
ModeOption = Annotated[SearchMode | None, typer.Option(help="vector, keyword or hybrid.")]
FusionOption = Annotated[FusionName | None, typer.Option(help="How hybrid joins the two lists.")]
MeasureOption = Annotated[
    list[str] | None,
    typer.Option("--measure", "-m", help="nDCG@10, R@5, RR@10, ...; again for more (default: \\[gate])."),
]
TagOption = Annotated[list[str] | None, typer.Option("--tag", help="Only questions with this tag; again for more.")]


@app.command("eval")
@guarded
def evaluate(
    release: ReleaseOption = "current",
    evalset: SetFile = None,
    mode: ModeOption = None,
    fusion: FusionOption = None,
    k: Annotated[int | None, typer.Option("-k", min=1, help="As many hits as a search shows.")] = None,
    measure: MeasureOption = None,
    tag: TagOption = None,
    baseline: Annotated[
        str | None, typer.Option(help="Tell documents that changed since this release apart (default: its parent).")
    ] = None,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Ask a release every question of a set and measure the answers; the scorecard is kept beside the release."""
    from kbcore.evaluation import runner
    from kbcore.evaluation.questions import select
    from kbcore.knowledge_base import open_repository

    base = open_repository(config)
    repository = base.repository
    name = repository.resolve(release)
    manifest = repository.manifest(name)
    questions = select(base.questions(evalset), tag or [])
    before = repository.resolve(baseline) if baseline else _parent(repository, manifest)
    run = repository.begin()
    with progress(as_json) as show:
        card = runner.evaluate(
            repository, name, questions, base.catalog, search_settings(base, name, mode, fusion, k),
            names=measure or base.config.gate.measures, baseline=before, run=run, progress=show,
        )  # fmt: skip
    record = runner.keep(repository, card, run)
    if as_json:
        emit({**record, "answers": [answer.to_json() for answer in card.answers]})
    else:
        _print_card(card, base, config)
        if before is None and manifest.parent is not None:
            say(f"{manifest.parent} does not read any more: what changed since it is not told apart")


@app.command()
@guarded
def gate(
    release: ReleaseArgument = "latest",
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Say whether a release may take the place of the current one, and why; nothing is moved."""
    from kbcore.evaluation.gate import judge
    from kbcore.knowledge_base import open_repository

    base = open_repository(config)
    repository = base.repository
    manifest = repository.manifest(repository.resolve(release))
    with progress(as_json) as show:
        found = judge(repository, base.config, manifest, base.catalog, repository.begin(), progress=show)
    if as_json:
        emit(found.to_json())
    else:
        print_judgement(found)
    if found.verdict == "invalid":
        raise typer.Exit(INVALID)
    if not found.passes:
        raise typer.Exit(POLICY)


def _parent(repository: Repository, manifest: Manifest) -> str | None:
    """The parent of a release where it reads; a damaged one is no reason not to measure what readers have."""
    from kbcore.errors import KbError
    from kbcore.store.inventory import Inventory

    try:
        return Inventory(repository, manifest.parent).release if manifest.parent is not None else None
    except KbError:
        return None


def search_settings(
    base: KnowledgeBase, release: str, mode: SearchMode | None, fusion: FusionName | None, k: int | None
) -> RetrievalSettings:
    from dataclasses import replace

    chosen: Any = mode.value if mode else None
    settings = base.settings(base.repository.manifest(release), chosen)
    changes: dict[str, Any] = {"fusion": fusion.value if fusion else None, "k": k}
    return replace(settings, **{name: value for name, value in changes.items() if value is not None})


def _print_card(card: Scorecard, base: KnowledgeBase, config: Path | None) -> None:
    from kbcore.evaluation.wording import cut_said, figure, searched

    counts = card.counts
    paragraph(
        f"{card.release} on {card.set['name']}: {counts['judged']} of {counts['questions']} questions judged, "
        f"{counts['no_answer']} without an answer; {searched(card.settings)}"
    )
    columns = ["", "questions", *card.measures]
    rows: list[list[Any]] = [["all", counts["judged"], *(figure(card.means.get(name)) for name in card.measures)]]
    for part in card.slices:
        label = f"{part.by} {part.value}" + (f" since {card.baseline}" if part.by == "version" else "")
        rows.append([label, part.questions, *(figure(part.means.get(name)) for name in card.measures)])
    table(columns, rows)
    found = card.abstention
    if found["no_answer"]:
        paragraph(
            f"without an answer: {found['no_answer'] - found['no_answer_answered']} of {found['no_answer']} turned away; "
            f"with one: {found['answerable_abstained']} of {found['answerable']} turned away, at the cut "
            f"{cut_said(card.cut)}"
        )
        if card.calibration:
            better = card.calibration["abstention"]
            paragraph(
                f"calibrated on these questions: {cut_said({**card.calibration, 'origin': 'from now on'})} turns away "
                f"{better['no_answer'] - better['no_answer_answered']} of {better['no_answer']} without and "
                f"{better['answerable_abstained']} of {better['answerable']} with an answer"
            )
    for entry in card.stale[:QUESTIONS_SHOWN]:
        say(f"stale: {entry['question']}: {entry['document']}: {entry['state']}")
    if len(card.stale) > QUESTIONS_SHOWN:
        say(f"and {len(card.stale) - QUESTIONS_SHOWN} more stale judgments")
    if card.stale:
        say(hint("what to do about them: kb evalset check, kb evalset follow", config))


def print_judgement(found: Judgement) -> None:
    """The verdict with every check, what failed first."""
    against = f" against {found.baseline}" if found.baseline else ""
    again = ", as judged before" if found.repeated else ""
    say(f"{found.release}{against}: {found.verdict.replace('_', ' ')}{again}")
    order = {"invalid": 0, "fail": 1, "pass": 2}
    for entry in sorted(found.findings, key=lambda entry: order[entry.verdict]):
        finding(entry.verdict, entry.check, entry.said)
    if not found.passes:
        for lost in found.causes[:QUESTIONS_SHOWN]:
            causes = "; ".join(f"{cause['kind']}: {cause['said']}" for cause in lost["causes"]) or "no cause found"
            paragraph(f"lost {lost['id']} {lost['question']}: {causes}", "  ")
