"""The verb that compares: two releases by question, many by measure, two without judgments."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kbcore.cli.judging import FusionOption, MeasureOption, ModeOption, SetFile, TagOption, search_settings
from kbcore.cli.output import (
    DIFFERENCES,
    INVALID,
    NAMES,
    AsJson,
    ConfigFile,
    emit,
    guarded,
    hint,
    paragraph,
    progress,
    say,
    table,
)
from kbcore.errors import EvaluationError, UsageError

if TYPE_CHECKING:
    from kbcore.evaluation.comparison import ChangedQuestion, Comparison
    from kbcore.evaluation.rankings import Asked, RankedHit, RankingComparison
    from kbcore.evaluation.trend import Trend
    from kbcore.knowledge_base import KnowledgeBase
    from kbcore.statistics import Paired

app = typer.Typer()

QUESTIONS_SHOWN = 10
HITS_SHOWN = 5


@app.command()
@guarded
def compare(
    releases: Annotated[
        list[str] | None,
        typer.Argument(help=f"Two to compare (one: with the latest), three or more for their trend. {NAMES}"),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="The trend of all releases that have not expired.")] = False,
    last: Annotated[int | None, typer.Option(min=1, help="The trend of the newest N releases.")] = None,
    evaluate: Annotated[
        bool, typer.Option("--evaluate", help="With a trend: evaluate what is missing, and keep the scorecards.")
    ] = False,
    unjudged: Annotated[
        str | None,
        typer.Option(
            "--questions",
            metavar="FILE|log|log:FOLDER",
            help='Compare rankings without judgments: a file of questions, one a line or JSON lines with "question"; '
            "log: what users asked most, by the configured search log; log:FOLDER: by the one in that folder.",
        ),
    ] = None,
    html: Annotated[Path | None, typer.Option("--html", help="Write a report as one HTML file.")] = None,
    evalset: SetFile = None,
    mode: ModeOption = None,
    fusion: FusionOption = None,
    k: Annotated[
        int | None,
        typer.Option("-k", min=1, help="As many hits as a search shows; with --questions the k of overlap@k too."),
    ] = None,
    measure: MeasureOption = None,
    tag: TagOption = None,
    exit_code: Annotated[bool, typer.Option("--exit-code", help="End with 5 if any question differs.")] = False,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Compare two releases question by question: what got better, what got worse, and why.

    With three or more releases, --all or --last N: the trend of each measure by release, from kept scorecards of one set
    and one way of searching, with promotions and rollbacks; what is missing is shown as missing unless --evaluate is given.
    With --questions: how alike two releases rank, for questions that nobody judged, from a file or the log of searches.
    """
    from kbcore.evaluation.questions import select
    from kbcore.knowledge_base import open_repository

    given = releases or []
    many = every or last is not None or len(given) > 2
    _refuse_mixed(given, many, every, last, evaluate, unjudged, evalset, measure, tag, exit_code)
    _refuse_unwritable(html)
    base = open_repository(config)
    repository = base.repository
    if many:
        trend = _trend(base, given, last, select(base.questions(evalset), tag or []), mode, fusion, k, measure,
                       evaluate, as_json)  # fmt: skip
        _write(html, lambda report: report.trend_page(trend, repository), as_json)
        if as_json:
            emit(trend.to_json())
        else:
            _print_trend(trend, config)
        if trend.failed and evaluate:
            raise typer.Exit(INVALID)
        return

    from kbcore.evaluation.causes import Releases

    names = [repository.resolve(name) for name in [*given, "latest"][:2]]
    found: Comparison | RankingComparison
    if unjudged is not None:
        found = rankings = _rankings(base, names, unjudged, mode, fusion, k, as_json)
        sides = Releases(repository, *names)
        _write(html, lambda report: report.rankings_page(rankings, sides), as_json)
    else:
        found, sides = _pair(base, names, evalset, mode, fusion, k, measure, tag, as_json)
        pair = found
        _write(html, lambda report: report.comparison_page(pair, sides), as_json)
    if as_json:
        emit(found.to_json())
    elif unjudged is not None:
        _print_rankings(rankings)
    else:
        _print_comparison(pair, sides)
    if exit_code and found.differs:
        raise typer.Exit(DIFFERENCES)


def _refuse_mixed(
    given: Sequence[str], many: bool, every: bool, last: int | None, evaluate: bool, unjudged: str | None,
    evalset: Path | None, measure: Sequence[str] | None, tag: Sequence[str] | None, exit_code: bool,
) -> None:  # fmt: skip
    """Options that say nothing together."""
    if given and (every or last is not None):
        raise UsageError("releases are named, and --all or --last too", remedy="give the one or the other")
    if not given and not many:
        raise UsageError(
            "no release is named",
            remedy="two releases: kb compare previous current; a trend: kb compare --all, or --last 10",
        )
    if many and (unjudged is not None or exit_code):
        option = "--exit-code" if exit_code else "--questions"
        raise UsageError(f"{option} compares two releases, not many", remedy="name two: kb compare previous current")
    if evaluate and not many:
        raise UsageError("--evaluate goes with a trend", remedy="two releases are evaluated where that is missing")
    if unjudged is not None and (evalset is not None or measure or tag):
        raise UsageError(
            "--questions are not judged: --set, --measure and --tag do not go with them",
            remedy="leave them out, or --questions",
        )


def _refuse_unwritable(html: Path | None) -> None:
    """Before minutes of work rather than after."""
    if html is not None and (html.is_dir() or not html.parent.is_dir()):
        what = "is a folder" if html.is_dir() else "is in a folder that is not there"
        raise UsageError(f"{html} {what}", remedy="name a file, as in --html report.html")


def _write(html: Path | None, page: Any, as_json: bool) -> None:
    if html is None:
        return
    from kbcore.evaluation import report

    html.write_text(page(report), encoding="utf-8", newline="\n")
    if not as_json:
        say(f"report: {html}")


def _pair(
    base: KnowledgeBase, names: Sequence[str], evalset: Path | None, mode: Any, fusion: Any, k: int | None,
    measure: Sequence[str] | None, tag: Sequence[str] | None, as_json: bool,
) -> tuple[Comparison, Any]:  # fmt: skip
    from kbcore.evaluation.pairing import compare_releases
    from kbcore.evaluation.questions import select

    questions = select(base.questions(evalset), tag or [])
    settings = search_settings(base, names[1], mode, fusion, k)
    with progress(as_json) as show:
        return compare_releases(
            base.repository, base.catalog, names[0], names[1], questions, settings,
            names=measure or base.config.gate.measures, progress=show,
        )  # fmt: skip


def _rankings(
    base: KnowledgeBase, names: Sequence[str], where: str, mode: Any, fusion: Any, k: int | None, as_json: bool
) -> RankingComparison:
    from kbcore.evaluation import rankings
    from kbcore.evaluation.causes import Releases

    said, asked = _asked(base, where)
    settings = search_settings(base, names[1], mode, fusion, k)
    with progress(as_json) as show:
        return rankings.compare_rankings(
            Releases(base.repository, names[0], names[1]), asked, base.catalog, settings,
            file=said, depth=k or rankings.DEPTH, progress=show,
        )  # fmt: skip


def _asked(base: KnowledgeBase, where: str) -> tuple[str, Sequence[Asked]]:
    """Questions that nobody judged, and what they are called: those of a file, or of a log of searches."""
    from kbcore.evaluation import logged, rankings

    if where != "log" and not where.startswith("log:"):
        file = Path(where)
        return file.name, rankings.load_asked(file)
    folder = where.removeprefix("log").removeprefix(":") or base.config.search_log.path
    if folder is None:
        raise UsageError(
            "no log of searches is configured",
            remedy="set path and payloads = true in [search_log]; a folder is named as in --questions log:FOLDER; "
            "a file that is called log, as ./log",
        )
    found = logged.questions_of(folder, base.config.kb.name)
    return found.name, [rankings.Asked(question.id, question.question) for question in found.questions]


def _trend(
    base: KnowledgeBase, given: Sequence[str], last: int | None, questions: Any, mode: Any, fusion: Any,
    k: int | None, measure: Sequence[str] | None, evaluate: bool, as_json: bool,
) -> Trend:  # fmt: skip
    from kbcore.evaluation.trend import trend

    repository = base.repository
    expired = repository.expired()
    names = [repository.resolve(name) for name in given] or [
        name for name in repository.releases() if name not in expired
    ][-(last or 0) :]
    if not names:
        raise EvaluationError("nothing was published yet", remedy="publish with: kb refresh")
    with progress(as_json) as show:
        return trend(
            repository, names, questions, base.catalog, lambda name: search_settings(base, name, mode, fusion, k),
            measure=measure or base.config.gate.measures, evaluate=evaluate, progress=show,
        )  # fmt: skip


def _print_comparison(found: Comparison, sides: Any) -> None:
    from kbcore.evaluation import wording
    from kbcore.evaluation.wording import figure, interval, signed

    say(
        f"{found.old} -> {found.new} on {found.set['name']}: {found.judged} questions judged; "
        f"{wording.searched(found.settings)}"
    )
    paragraph(wording.verdict(found))
    for line in [wording.documents_said(sides.difference), *wording.settings_said(sides.difference)]:
        say(line)
    table(
        ["measure", found.old, found.new, "change", "95 % interval", "p", "+", "=", "-"],
        [
            [name, figure(p.old), figure(p.new), signed(p.difference), interval(p), figure(p.p_value),
             p.wins, p.ties, p.losses]
            for name, p in found.measures.items()
        ],
    )  # fmt: skip
    say(f"+ = -: questions better, equal and worse in {found.new}")
    if found.slices:
        first = next(iter(found.measures))
        table(
            [f"{first} by tag", "questions", found.old, found.new, "change", "+", "-"],
            [_slice_row(part.value, part.paired) for part in found.slices],
        )
    for side, release in (("old", found.old), ("new", found.new)):
        away = wording.abstained(found.abstention[side])
        if away:
            paragraph(f"{release}: {away}")
    say("rankings alike: " + ", ".join(f"{name} {value:.3f}" for name, value in found.similarity.items()))
    if found.unjudged:
        more = f" and {len(found.unjudged) - QUESTIONS_SHOWN} more" if len(found.unjudged) > QUESTIONS_SHOWN else ""
        say(f"not judged in either: {', '.join(found.unjudged[:QUESTIONS_SHOWN])}{more}")
    if found.changed:
        say("* before a document: judged to answer")
    for entry in found.changed[:QUESTIONS_SHOWN]:
        _print_question(found, entry)
    if len(found.changed) > QUESTIONS_SHOWN:
        say(
            f"\nand {len(found.changed) - QUESTIONS_SHOWN} more questions that changed: --json and --html name them all"
        )
    if not found.changed:
        say("no question changed")


def _slice_row(value: str, p: Paired) -> list[Any]:
    from kbcore.evaluation.wording import figure, signed

    return [value, p.count, figure(p.old), figure(p.new), signed(p.difference), p.wins, p.losses]


def _print_question(found: Comparison, entry: ChangedQuestion) -> None:
    from kbcore.evaluation.wording import question_said

    say(f"\n{entry.kind}: {entry.id} {entry.question}")
    paragraph(question_said(entry, next(iter(found.measures))), "  ")
    for cause in entry.causes:
        paragraph(f"{cause.kind}: {cause.said}", "  ")
    _print_hits(found.old, found.new, [
        [f"{'* ' if hit.grade else ''}{hit.doc_id}" for hit in hits] for hits in (entry.old_hits, entry.new_hits)
    ])  # fmt: skip


def _print_hits(old: str, new: str, sides: Sequence[Sequence[str]]) -> None:
    """Both hit lists side by side."""
    rows = [
        [rank + 1, *(hits[rank] if rank < len(hits) else "" for hits in sides)]
        for rank in range(min(HITS_SHOWN, max(map(len, sides))))
    ]
    table(["", old, new], rows)


def _print_rankings(found: RankingComparison) -> None:
    from kbcore.evaluation import wording

    say(f"{found.old} -> {found.new} on {found.file}, without judgments; {wording.searched(found.settings)}")
    paragraph(wording.ranking_verdict(found))
    differing = [entry for entry in found.questions if entry.differs]
    for entry in differing[:QUESTIONS_SHOWN]:
        say(f"\n{entry.id}: {entry.question}")
        outcome = "" if entry.old_outcome == entry.new_outcome else f", {entry.old_outcome} -> {entry.new_outcome}"
        paragraph(f"{wording.similarity_said(entry, found.depth)}{outcome}", "  ")
        _print_hits(found.old, found.new, [[_stated(hit) for hit in hits] for hits in (entry.old_hits, entry.new_hits)])
    if len(differing) > QUESTIONS_SHOWN:
        say(f"\nand {len(differing) - QUESTIONS_SHOWN} more that differ: --json and --html name them")


def _stated(hit: RankedHit) -> str:
    """A document, before it what became of it where anything did: what is cut is cut at the end."""
    return hit.doc_id if hit.state == "unchanged" else f"({hit.state}) {hit.doc_id}"


def _print_trend(found: Trend, config: Path | None) -> None:
    from kbcore.evaluation import wording
    from kbcore.evaluation.abstention import COUNTS
    from kbcore.evaluation.trend import NOT_EVALUATED, marks
    from kbcore.evaluation.wording import figure

    say(f"{len(found.rows)} releases on {found.set['name']}; {wording.searched(found.settings)}")
    paragraph(wording.trend_verdict(found))
    table(
        ["release", "state", "created", "documents", "chunks", "readers"],
        [
            [row.release, row.state, row.created_at, row.documents, row.chunks,
             ", ".join(wording.MARKS[mark] for mark in marks(row.release, found.moves))]
            for row in found.rows
        ],
    )  # fmt: skip
    table(
        ["release", "card", "judged", *found.measures],
        [[row.release, row.scorecard, row.judged, *(figure(row.means.get(name)) for name in found.measures)]
         for row in found.rows],
    )  # fmt: skip
    asked = [row for row in found.rows if row.abstention and row.abstention["no_answer"]]
    if asked:
        table(
            ["release", "no answer", "answered", "with an answer", "turned away"],
            [[row.release, *(row.abstention[key] for key in COUNTS)] for row in asked if row.abstention],
        )
    for row in found.failed:
        say(f"{row.release}: {row.why}")
    for note in wording.trend_notes(found):
        paragraph(note)
    if any(row.why == NOT_EVALUATED for row in found.rows):
        say(hint("evaluate what is missing with: kb compare --all --evaluate", config))
    if found.moves:
        table(
            ["from", "until", "readers had", "by", "reason"],
            [[move.at, move.until or "now", move.release or "nothing", move.kind, move.reason]
             for move in found.moves],
        )  # fmt: skip
