"""The quality of many releases by one set and one way of searching, beside which of them readers had when."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass

from kbcore.embedding.catalog import Catalog
from kbcore.errors import KbError
from kbcore.evaluation import abstention, measures, runner
from kbcore.evaluation.questions import QuestionSet
from kbcore.evaluation.scorecard import Scorecard
from kbcore.releases import ReleaseRow, list_releases
from kbcore.retrieval.evidence import EvidenceCut
from kbcore.retrieval.settings import RetrievalSettings
from kbcore.store.repository import Repository
from kbcore.types import Json, Progress

NOT_EVALUATED = "not evaluated on this set, searched this way"
KEPT, MADE, MISSING = "kept", "made now", "missing"


@dataclass(frozen=True, slots=True)
class Move:
    """One change of what readers get: ``kind`` is promote, rollback or undo; ``until`` the time of the next one, None
    while it lasts. ``release`` is None where an undo took the first promotion back."""

    seq: int
    kind: str
    at: str
    before: str | None
    release: str | None
    until: str | None
    by: str
    reason: str

    @property
    def forward(self) -> bool:
        """Whether it is a promotion; a rollback and an undo go back."""
        return self.kind == "promote"


@dataclass(frozen=True, slots=True)
class TrendRow:
    """One release. ``scorecard`` is kept, made now or missing; where it is missing ``why`` says so, and figures are None.

    ``means`` go over the ``judged`` of ``questions``; ``stale`` judgments did not apply to this release and were left out.
    """

    release: str
    state: str
    created_at: str | None
    documents: int | None
    chunks: int | None
    embedder_id: str | None
    scorecard: str
    why: str | None
    evaluated_at: str | None
    questions: int | None
    judged: int | None
    stale: int | None
    means: Mapping[str, float]
    abstention: Json | None
    cut: Json | None

    @property
    def missing(self) -> bool:
        return self.scorecard == MISSING


@dataclass(frozen=True)
class Trend:
    """Rows from the lowest release number to the highest; ``moves`` oldest first, those to or from one of these releases."""

    set: Json
    settings: Json
    measures: tuple[str, ...]
    rows: tuple[TrendRow, ...]
    moves: tuple[Move, ...]

    @property
    def failed(self) -> tuple[TrendRow, ...]:
        """Rows that were to be evaluated and could not be."""
        return tuple(row for row in self.rows if row.missing and row.why != NOT_EVALUATED)

    def to_json(self) -> Json:
        return asdict(self)


def trend(
    repository: Repository,
    names: Sequence[str],
    questions: QuestionSet,
    catalog: Catalog,
    settings_of: Callable[[str], RetrievalSettings],
    *,
    measure: Sequence[str],
    evaluate: bool = False,
    progress: Progress | None = None,
) -> Trend:
    """The trend over ``names``. ``settings_of`` a release differ in the cut alone, and that belongs to an embedder: all
    releases with one embedder are judged by the cut of the newest of them.

    Scorecards are those that are kept; with ``evaluate`` what is missing is asked for, and kept. A release that cannot be
    evaluated is a gap with its reason, never a zero.
    """
    known = {row.release: row for row in list_releases(repository)}
    rows: list[TrendRow] = []
    parsed = measures.parse_measures(measure)
    ordered = [name for name in sorted(known) if name in names]
    embedders = runner.Embedders(repository, catalog)
    searched: Json = {}
    cuts: dict[str | None, RetrievalSettings] = {}
    for name in reversed(ordered):
        if known[name].embedder_id is not None:
            cuts.setdefault(known[name].embedder_id, settings_of(name))
    for name in ordered:
        card: Scorecard | None = None
        origin, why = KEPT, NOT_EVALUATED
        settings = cuts.get(known[name].embedder_id)
        if settings is None:
            rows.append(_row(known[name], None, MISSING, "its manifest is damaged", None))
            continue
        try:
            card = runner.kept(repository, name, questions, settings, parsed)
            if card is None and evaluate:
                origin = MADE
                card = runner.card_of(
                    repository, name, questions, catalog, settings,
                    names=parsed, embedders=embedders, progress=progress,
                )  # fmt: skip
        except KbError as error:
            why = error.message
        searched = runner.search_settings(settings, parsed)
        rows.append(_row(known[name], card, origin, why, settings.cut))
    named = {"name": questions.name, "digest": questions.digest, "questions": len(questions.questions)}
    shown = [move for move in moves(repository) if {move.release, move.before} & set(ordered)]
    return Trend(named, searched, tuple(parsed), tuple(rows), tuple(shown))


def _row(release: ReleaseRow, card: Scorecard | None, origin: str, why: str, cut: EvidenceCut | None) -> TrendRow:
    return TrendRow(
        release=release.release,
        state=release.state,
        created_at=release.created_at,
        documents=release.documents,
        chunks=release.chunks,
        embedder_id=release.embedder_id,
        scorecard=MISSING if card is None else origin,
        why=why if card is None else None,
        evaluated_at=card.at if card else None,
        questions=card.counts["questions"] if card else None,
        judged=card.counts["judged"] if card else None,
        stale=len(card.stale) if card else None,
        means=dict(card.means) if card else {},
        abstention=abstention.measure([a.evidence for a in card.answers], cut).to_json() if card and cut else None,
        cut=cut.to_json() if card and cut else None,
    )


def moves(repository: Repository) -> list[Move]:
    """Every change of the release that readers get, oldest first, from the promotions."""
    found: list[Move] = []
    now: str | None = None
    records = [repository.promotion(seq) for seq in repository.promotions()]
    changing = []
    for record in records:
        if record.release != now:
            changing.append((record, now))
            now = record.release
    for number, (record, before) in enumerate(changing):
        until = changing[number + 1][0].at if number + 1 < len(changing) else None
        found.append(Move(record.seq, record.kind, record.at, before, record.release, until, record.by, record.reason))
    return found


def marks(release: str, moves: Sequence[Move]) -> tuple[str, ...]:
    """``promoted`` where readers were given the release by a promotion, ``left`` where a rollback or an undo took them
    away from it."""
    promoted = any(move.forward and move.release == release for move in moves)
    left = any(not move.forward and move.before == release for move in moves)
    return ("promoted",) * promoted + ("left",) * left


def served(release: str, moves: Sequence[Move]) -> bool:
    """Whether readers had it once."""
    return any(move.release == release for move in moves)
