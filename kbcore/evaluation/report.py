"""Comparisons as pages: what is shown, in which order; how it looks is the templates' business."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from kbcore.clock import iso
from kbcore.differences import Difference
from kbcore.evaluation import charts, page, wording
from kbcore.evaluation.causes import Releases
from kbcore.evaluation.comparison import ChangedHit, ChangedQuestion, Comparison
from kbcore.evaluation.excerpts import Excerpts
from kbcore.evaluation.rankings import ComparedQuestion, RankedHit, RankingComparison
from kbcore.evaluation.trend import Trend, marks, served
from kbcore.releases import list_releases
from kbcore.store.manifest import Manifest
from kbcore.store.repository import Repository
from kbcore.types import Json

IN_FULL = 200
"""So many changed questions are shown with their hits: a page must still open, and fit a ticket."""
HITS_IN_FULL = 5
NAMED = 10
Row = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class ShownHit:
    """One row of a hit list. ``answers``: judged to answer; ``judged`` says the grade in words; ``state`` of its document.
    ``brief``: its passage is left out, being one of those far down that nobody judged to answer."""

    rank: int
    doc_id: str
    state: str
    title: str
    heading: str
    text: str | None
    judged: str
    answers: bool
    brief: bool


@dataclass(frozen=True, slots=True)
class ShownQuestion:
    id: str
    question: str
    tags: tuple[str, ...]
    kind: str
    figures: str
    causes: Sequence[Any]
    no_cause: str
    old_hits: tuple[ShownHit, ...]
    new_hits: tuple[ShownHit, ...]


@dataclass(frozen=True, slots=True)
class Changes:
    """What changed between two releases: counts in words, settings as rows, documents by kind with how many more."""

    old: str
    new: str
    counts: str
    settings: list[Row]
    documents: list[tuple[str, list[str], int]]


def comparison_page(found: Comparison, releases: Releases) -> str:
    """The report of a comparison."""
    repository = releases.repository
    shown, hidden = found.changed[:IN_FULL], found.changed[IN_FULL:]
    first = next(iter(found.measures))
    sides = _passages(releases, shown)
    return page.render(
        "report.html.j2",
        **_frame(repository, f"{found.old} and {found.new} of {repository.name}", wording.verdict(found)),
        parts=[
            ("releases", "Releases"), ("measures", "Measures"), ("changes", "Changes"),
            ("questions", "Questions that changed"), ("same", "Questions that did not"),
        ],
        old=found.old,
        new=found.new,
        releases=_release_rows(releases),
        asked=[*_set_rows(repository, found.set, found.settings), ("Cut of weak evidence", wording.cut_said(found.cut))],
        judged=found.judged,
        chart=page.markup(
            charts.whiskers(
                [charts.Whisker(name, p.difference, p.low, p.high) for name, p in found.measures.items()],
                chart_id="differences",
                title=f"Difference of each measure, {found.new} less {found.old}",
            )
        ),
        measures=list(found.measures.items()),
        first=first,
        slices=found.slices,
        abstention=_abstention_rows(found.abstention),
        similarity=", ".join(f"{name} {value:.3f}" for name, value in found.similarity.items()),
        unjudged=found.unjudged,
        changes=_changes(releases.difference),
        changed=[_question(entry, first, releases, sides) for entry in shown],
        hidden=hidden,
        unchanged=found.unchanged,
    )  # fmt: skip


def rankings_page(found: RankingComparison, releases: Releases) -> str:
    """The report of a comparison without judgments."""
    repository = releases.repository
    changed = [entry for entry in found.questions if entry.differs]
    sides = _passages(releases, changed[:IN_FULL])
    return page.render(
        "rankings.html.j2",
        **_frame(
            repository,
            f"Rankings of {found.old} and {found.new} of {repository.name}",
            wording.ranking_verdict(found),
        ),
        parts=[
            ("releases", "Releases"), ("changes", "Changes"), ("questions", "Questions that changed"),
            ("same", "Questions that did not"),
        ],
        old=found.old,
        new=found.new,
        releases=_release_rows(releases),
        asked=[
            ("Knowledge base", repository.name),
            ("Questions", f"{found.file}, {wording.count(len(found.questions), 'question')} without judgments"),
            ("Searched by", wording.searched(found.settings)),
        ],
        changes=_changes(releases.difference),
        differing=found.differing,
        changed=[_ranked(entry, found.depth, releases, sides) for entry in changed[:IN_FULL]],
        unchanged=[entry for entry in found.questions if not entry.differs],
    )  # fmt: skip


def trend_page(found: Trend, repository: Repository) -> str:
    """The report of a trend."""
    lines = []
    for number, name in enumerate(found.measures, start=1):
        points = [
            charts.Point(
                row.release, row.means.get(name), served(row.release, found.moves), marks(row.release, found.moves)
            )
            for row in found.rows
        ]
        svg = charts.line(points, chart_id=f"trend-{number}", title=f"{name} by release")
        lines.append((name, page.markup(svg)))
    return page.render(
        "trend.html.j2",
        **_frame(repository, f"Releases of {repository.name}", wording.trend_verdict(found)),
        parts=[
            ("how", "How they were asked"), ("charts", "Charts"), ("figures", "Figures"),
            ("moves", "What readers had"),
        ],
        asked=_set_rows(repository, found.set, found.settings),
        notes=wording.trend_notes(found),
        charts=lines,
        measures=found.measures,
        rows=found.rows,
        moves=found.moves,
    )  # fmt: skip


def _frame(repository: Repository, title: str, verdict: str) -> dict[str, Any]:
    return {
        "title": title,
        "verdict": verdict,
        "version": importlib.metadata.version("kbcore"),
        "at": iso(repository.clock()),
    }


def _release_rows(releases: Releases) -> list[Row]:
    states = {row.release: row.state for row in list_releases(releases.repository)}
    manifests = (releases.old.manifest, releases.new.manifest)
    rows: list[tuple[str, Callable[[Manifest], Any]]] = [
        ("Created", lambda m: m.created_at),
        ("State", lambda m: states.get(m.release)),
        ("Parent", lambda m: m.parent or "none"),
        ("Documents", lambda m: f"{m.totals['documents']:,}"),
        ("Chunks", lambda m: f"{m.totals['chunks']:,}"),
        ("Embedder", lambda m: f"{m.embedder['model']}, {m.embedder_id[:12]}"),
        ("Chunking", lambda m: _chunking(m.chunking)),
        ("Content digest", lambda m: m.content_digest),
    ]
    return [(name, *(value(manifest) for manifest in manifests)) for name, value in rows]


def _chunking(chunking: Json) -> str:
    """The settings a person chose, and the identity that covers the rest."""
    chosen = [f"{name} {value}" for name, value in chunking.items() if not name.endswith("_id")]
    return ", ".join([*chosen, f"chunker {str(chunking['chunker_id'])[:12]}"])


def _set_rows(repository: Repository, questions: Json, settings: Json) -> list[Row]:
    return [
        ("Knowledge base", repository.name),
        ("Evaluation set", f"{questions['name']}, {wording.count(questions['questions'], 'question')}"),
        ("Digest of the set", questions["digest"]),
        ("Searched by", wording.searched(settings)),
        ("Chunks looked at", f"{settings['reach']} a question"),
    ]


def _abstention_rows(figures: Any) -> list[Row]:
    sides = [figures["old"], figures["new"]]

    def share(part: str, whole: str) -> list[str]:
        return [f"{side[part]} of {side[whole]}" if side[whole] else "none asked" for side in sides]

    return [
        ("Without an answer, yet answered", *share("no_answer_answered", "no_answer")),
        ("With an answer, yet turned away", *share("answerable_abstained", "answerable")),
    ]


def _changes(found: Difference) -> Changes:
    why = {entry["doc_id"]: f"{entry['reason']}, in {entry['release']}" for entry in found.tombstones}
    kinds = [
        ("Removed", [f"{doc_id}: {why[doc_id]}" if doc_id in why else doc_id for doc_id in found.removed]),
        ("Added", found.added),
        ("Changed", [_changed_said(entry) for entry in found.changed]),
        ("Renamed", [f"{entry['old']} -> {entry['new']}" for entry in found.renamed]),
    ]
    return Changes(
        old=found.old,
        new=found.new,
        counts=wording.documents_said(found),
        settings=[(entry["name"], entry["old"], entry["new"]) for entry in found.settings],
        documents=[(kind, names[:NAMED], max(0, len(names) - NAMED)) for kind, names in kinds if names],
    )


def _changed_said(entry: Json) -> str:
    return f"{entry['doc_id']}: {entry['kept']} chunks kept, {entry['new']} new, {entry['gone']} gone"


Sides = tuple[Excerpts, Excerpts]


def _passages(releases: Releases, entries: Iterable[ChangedQuestion | ComparedQuestion]) -> Sides:
    entries = list(entries)
    return (
        Excerpts(releases.old, (hit.doc_id for entry in entries for hit in entry.old_hits)),
        Excerpts(releases.new, (hit.doc_id for entry in entries for hit in entry.new_hits)),
    )


def _question(entry: ChangedQuestion, first: str, releases: Releases, sides: Sides) -> ShownQuestion:
    return ShownQuestion(
        id=entry.id,
        question=entry.question,
        tags=entry.tags,
        kind=entry.kind,
        figures=wording.question_said(entry, first),
        causes=entry.causes,
        no_cause=wording.NO_CAUSE,
        old_hits=tuple(_hit(hit, sides[0], releases.fate) for hit in entry.old_hits),
        new_hits=tuple(_hit(hit, sides[1], releases.standing) for hit in entry.new_hits),
    )


def _ranked(entry: ComparedQuestion, depth: int, releases: Releases, sides: Sides) -> ShownQuestion:
    outcome = "" if entry.old_outcome == entry.new_outcome else f", {entry.old_outcome} -> {entry.new_outcome}"
    return ShownQuestion(
        id=entry.id,
        question=entry.question,
        tags=(),
        kind="",
        figures=wording.similarity_said(entry, depth) + outcome,
        causes=(),
        no_cause="",
        old_hits=tuple(_hit(hit, sides[0], releases.fate) for hit in entry.old_hits),
        new_hits=tuple(_hit(hit, sides[1], releases.standing) for hit in entry.new_hits),
    )


def _hit(hit: ChangedHit | RankedHit, excerpts: Excerpts, state: Callable[[str], str]) -> ShownHit:
    passage = excerpts.at(hit.doc_id, hit.start, hit.end)
    grade = hit.grade if isinstance(hit, ChangedHit) else None
    return ShownHit(
        rank=hit.rank,
        doc_id=hit.doc_id,
        state=state(hit.doc_id),
        title=passage.title,
        heading=passage.heading,
        text=passage.text,
        judged=wording.grade_said(grade),
        answers=bool(grade),
        brief=hit.rank > HITS_IN_FULL and not grade,
    )
