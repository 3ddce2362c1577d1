"""Verbs that judge: eval, compare, gate, and those on evaluation sets."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kbcore.cli.output import (
    AsJson,
    ConfigFile,
    ReleaseArgument,
    ReleaseOption,
    emit,
    guarded,
    hint,
    progress,
    say,
    table,
)
from kbcore.cli.searching import FusionName, SearchMode

if TYPE_CHECKING:
    from kbcore.evaluation.comparison import ChangedQuestion, Comparison
    from kbcore.evaluation.gate import Judgement
    from kbcore.evaluation.scorecard import Scorecard
    from kbcore.knowledge_base import KnowledgeBase
    from kbcore.retrieval.settings import RetrievalSettings
    from kbcore.statistics import Paired

app = typer.Typer()

INVALID, POLICY, DIFFERENCES = 6, 3, 5
QUESTIONS_SHOWN = 10
HITS_SHOWN = 5
SetFile = Annotated[
    Path | None, typer.Option("--set", "-s", help="Evaluation set in JSON lines (default: [gate] evalset).")
]
ModeOption = Annotated[SearchMode | None, typer.Option(help="vector, keyword or hybrid.")]
FusionOption = Annotated[FusionName | None, typer.Option(help="How hybrid joins the two lists.")]
MeasureOption = Annotated[
    list[str] | None,
    typer.Option("--measure", "-m", help="nDCG@10, R@5, RR@10, ...; again for more (default: [gate])."),
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
    from dataclasses import replace

    from kbcore.evaluation import runner
    from kbcore.evaluation.questions import select
    from kbcore.knowledge_base import open_repository

    base = open_repository(config)
    repository = base.repository
    name = repository.resolve(release)
    manifest = repository.manifest(name)
    questions = select(base.questions(evalset), tag or [])
    before = repository.resolve(baseline) if baseline else manifest.parent
    run = repository.begin()
    with progress(as_json) as show:
        card = runner.evaluate(
            repository, name, questions, base.catalog, _settings(base, name, mode, fusion, k),
            names=measure or base.config.gate.measures, baseline=before, run=run, progress=show,
        )  # fmt: skip
    if tag:
        # Some of the questions say too little of the cut that all searches go by.
        card = replace(card, calibration=None)
    record = runner.keep(repository, card, run)
    if as_json:
        emit({**record, "answers": card.answers_json()["answers"]})
    else:
        _print_card(card, base, config)


@app.command()
@guarded
def compare(
    old: ReleaseArgument,
    new: ReleaseArgument = "latest",
    evalset: SetFile = None,
    mode: ModeOption = None,
    fusion: FusionOption = None,
    k: Annotated[int | None, typer.Option("-k", min=1, help="As many hits as a search shows.")] = None,
    measure: MeasureOption = None,
    tag: TagOption = None,
    exit_code: Annotated[bool, typer.Option("--exit-code", help="End with 5 if any question differs.")] = False,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Compare two releases question by question: what got better, what got worse, and why."""
    from kbcore.evaluation import runner
    from kbcore.evaluation.causes import Releases
    from kbcore.evaluation.comparison import compare as pair
    from kbcore.evaluation.questions import select
    from kbcore.knowledge_base import open_repository

    base = open_repository(config)
    repository = base.repository
    names = [repository.resolve(name) for name in (old, new)]
    questions = select(base.questions(evalset), tag or [])
    settings = _settings(base, names[1], mode, fusion, k)
    measures = measure or base.config.gate.measures
    embedders = runner.Embedders(repository, base.catalog)
    with progress(as_json) as show:
        cards = [
            runner.card_of(
                repository, name, questions, base.catalog, settings, names=measures,
                embedder=embedders.of(name, settings.mode), progress=show,
            )
            for name in names
        ]  # fmt: skip
    found = pair(cards[0], cards[1], Releases(repository, names[0], names[1]), cut=settings.cut, names=measures)
    if as_json:
        emit(found.to_json())
    else:
        _print_comparison(found, config)
    if exit_code and found.differs:
        raise typer.Exit(DIFFERENCES)


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


def _settings(
    base: KnowledgeBase, release: str, mode: SearchMode | None, fusion: FusionName | None, k: int | None
) -> RetrievalSettings:
    from dataclasses import replace

    chosen: Any = mode.value if mode else None
    settings = base.settings(base.repository.manifest(release), chosen)
    changes: dict[str, Any] = {"fusion": fusion.value if fusion else None, "k": k}
    return replace(settings, **{name: value for name, value in changes.items() if value is not None})


def _print_card(card: Scorecard, base: KnowledgeBase, config: Path | None) -> None:
    counts = card.counts
    say(
        f"{card.release} on {card.set['name']}: {counts['judged']} of {counts['questions']} questions judged, "
        f"{counts['no_answer']} without an answer; {_searched(card.settings)}"
    )
    columns = ["", "questions", *card.measures]
    rows: list[list[Any]] = [["all", counts["judged"], *(_figure(card.means.get(name)) for name in card.measures)]]
    for part in card.slices:
        label = f"{part.by} {part.value}" + (f" since {card.baseline}" if part.by == "version" else "")
        rows.append([label, part.questions, *(_figure(part.means.get(name)) for name in card.measures)])
    table(columns, rows)
    found = card.abstention
    if found["no_answer"]:
        say(
            f"without an answer: {found['no_answer'] - found['no_answer_answered']} of {found['no_answer']} turned away; "
            f"with one: {found['answerable_abstained']} of {found['answerable']} turned away, at the cut "
            f"{_cut(card.cut)}"
        )
        if card.calibration:
            better = card.calibration["abstention"]
            say(
                f"calibrated on these questions: {_cut({**card.calibration, 'origin': 'from now on'})} turns away "
                f"{better['no_answer'] - better['no_answer_answered']} of {better['no_answer']} without and "
                f"{better['answerable_abstained']} of {better['answerable']} with an answer"
            )
    for entry in card.stale[:QUESTIONS_SHOWN]:
        say(f"stale: {entry['question']}: {entry['document']}: {entry['state']}")
    if len(card.stale) > QUESTIONS_SHOWN:
        say(f"and {len(card.stale) - QUESTIONS_SHOWN} more stale judgments")
    if card.stale:
        say(hint("what to do about them: kb evalset check, kb evalset follow", config))


def _searched(settings: dict[str, Any]) -> str:
    fusion = f", {settings['fusion']}" if settings["fusion"] else ""
    alpha = f" {settings['alpha']}" if settings["alpha"] is not None else ""
    return f"{settings['mode']}{fusion}{alpha}, k = {settings['k']}"


def _cut(cut: dict[str, Any]) -> str:
    nothing = cut.get("no_match_cosine")
    below = "" if nothing is None else f", nothing shown below cosine {nothing:.3f}"
    return f"cosine {cut['cosine']:.3f}, matched share {cut['share']:.2f}{below} ({cut['origin']})"


def _figure(value: float | None) -> str | None:
    return None if value is None else f"{value:.3f}"


def _print_comparison(found: Comparison, config: Path | None) -> None:
    say(
        f"{found.old} -> {found.new} on {found.set['name']}: {found.judged} questions judged; {_searched(found.settings)}"
    )
    table(
        ["measure", found.old, found.new, "difference", "95 % interval", "p", "better", "equal", "worse"],
        [_row(name, entry) for name, entry in found.measures.items()],
    )
    if found.slices:
        first = next(iter(found.measures))
        table(
            [f"{first} by tag", "questions", found.old, found.new, "difference", "better", "worse"],
            [
                [part.value, p.count, _figure(p.old), _figure(p.new), _signed(p.difference), p.wins, p.losses]
                for part in found.slices
                for p in [part.paired]
            ],
        )
    for side, release in (("old", found.old), ("new", found.new)):
        away = found.abstention[side]
        if away["no_answer"]:
            say(
                f"{release}: {away['no_answer_answered']} of {away['no_answer']} questions without an answer answered, "
                f"{away['answerable_abstained']} of {away['answerable']} with one turned away"
            )
    say("rankings alike: " + ", ".join(f"{name} {value:.3f}" for name, value in found.similarity.items()))
    if found.unjudged:
        say(f"not judged in either: {', '.join(found.unjudged[:QUESTIONS_SHOWN])}")
    for entry in found.changed[:QUESTIONS_SHOWN]:
        _print_question(found, entry)
    if len(found.changed) > QUESTIONS_SHOWN:
        say(
            f"\nand {len(found.changed) - QUESTIONS_SHOWN} more questions that changed: --json and --html name them all"
        )
    if not found.changed:
        say("no question changed")


def _row(name: str, found: Paired) -> list[Any]:
    interval = "" if found.low is None else f"{found.low:+.3f} to {found.high:+.3f}"
    return [
        name, _figure(found.old), _figure(found.new), _signed(found.difference), interval, _figure(found.p_value),
        found.wins, found.ties, found.losses,
    ]  # fmt: skip


def _signed(value: float | None) -> str | None:
    return None if value is None else f"{value:+.3f}"


def _print_question(found: Comparison, entry: ChangedQuestion) -> None:
    first = next(iter(found.measures))
    figures = (
        f"{first} {entry.old[first]:.3f} -> {entry.new[first]:.3f}" if entry.old and entry.new
        else f"{entry.old_outcome} -> {entry.new_outcome}"
    )  # fmt: skip
    say(f"\n{entry.kind}: {entry.id} {entry.question}  ({figures})")
    for cause in entry.causes:
        say(f"  {cause.kind}: {cause.said}")
    rows = []
    for rank in range(HITS_SHOWN):
        sides = [hits[rank] if rank < len(hits) else None for hits in (entry.old_hits, entry.new_hits)]
        if any(sides):
            rows.append(
                [rank + 1, *("" if hit is None else f"{'* ' if hit.grade else ''}{hit.doc_id}" for hit in sides)]
            )
    table(["", found.old, found.new], rows)


def print_judgement(found: Judgement) -> None:
    """The verdict with every check, what failed first."""
    against = f" against {found.baseline}" if found.baseline else ""
    again = ", as judged before" if found.repeated else ""
    say(f"{found.release}{against}: {found.verdict.replace('_', ' ')}{again}")
    order = {"invalid": 0, "fail": 1, "pass": 2}
    for finding in sorted(found.findings, key=lambda finding: order[finding.verdict]):
        name = "" if finding.said.startswith(finding.check) else f"{finding.check}: "
        say(f"  {finding.verdict:7} {name}{finding.said}")
    if not found.passes:
        for entry in found.causes[:QUESTIONS_SHOWN]:
            causes = "; ".join(f"{cause['kind']}: {cause['said']}" for cause in entry["causes"]) or "no cause found"
            say(f"  lost {entry['id']} {entry['question']}: {causes}")
