"""Every release with its state, which is derived and never stored."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass

from kbcore.errors import CorruptReleaseError
from kbcore.store import evals
from kbcore.store.evals import Evaluated
from kbcore.store.repository import Repository
from kbcore.types import Json

REFUSING = ("fail", "invalid")


@dataclass(frozen=True, slots=True)
class ReleaseRow:
    """``state``: current (readers get it), previous (was current once), refused (never was, and the newest gate record
    says fail or invalid), candidate (never was), expired, or damaged (its manifest does not read; the counts are None).
    ``pinned``: retention leaves it alone. ``blocked``: its content was rolled back from, and no schedule makes it current
    until the hold is lifted. ``gate`` is the verdict of the newest gate record of a release that never was current.
    ``quality`` is {measure, mean, set, judged, run} of the first measure of its newest scorecard, None where it has none
    that can be held against the other rows'."""

    release: str
    state: str
    created_at: str | None = None
    documents: int | None = None
    chunks: int | None = None
    content_digest: str | None = None
    parent: str | None = None
    kind: str | None = None
    embedder_id: str | None = None
    chunker_id: str | None = None
    segments: int | None = None
    changes: Json | None = None
    pinned: bool = False
    blocked: bool = False
    gate: str | None = None
    quality: Json | None = None

    def to_json(self) -> Json:
        return asdict(self)


def list_releases(repository: Repository) -> list[ReleaseRow]:
    """All releases ever published, newest first."""
    state = repository.state()
    expired = repository.expired()
    promoted = {repository.promotion(seq).release for seq in repository.promotions()} | set(state.stack)
    verdicts, qualities = _judged(repository, promoted)
    rows = []
    for name in reversed(repository.releases()):
        if name in expired:
            label = "expired"
        elif name == state.release:
            label = "current"
        elif name in promoted:
            label = "previous"
        else:
            label = "refused" if verdicts.get(name) in REFUSING else "candidate"
        try:
            manifest = repository.manifest(name)
        except CorruptReleaseError:
            rows.append(ReleaseRow(name, "damaged", pinned=name in state.pins))
            continue
        rows.append(
            ReleaseRow(
                release=name,
                state=label,
                created_at=manifest.created_at,
                documents=manifest.totals["documents"],
                chunks=manifest.totals["chunks"],
                content_digest=manifest.content_digest,
                parent=manifest.parent,
                kind=manifest.kind,
                embedder_id=manifest.embedder_id,
                chunker_id=manifest.chunking["chunker_id"],
                segments=len(manifest.segments),
                changes=manifest.changes,
                pinned=name in state.pins,
                blocked=manifest.content_digest in state.blocked,
                gate=verdicts.get(name),
                quality=qualities.get(name),
            )
        )
    return rows


def _judged(repository: Repository, promoted: Collection[str | None]) -> tuple[dict[str, str], dict[str, Json]]:
    """Verdicts of those that never were current, and a figure of quality by release. One listing, and one small record
    read for each: the answers lie in files of their own."""
    gates: defaultdict[str, list[Evaluated]] = defaultdict(list)
    cards: defaultdict[str, list[Evaluated]] = defaultdict(list)
    for entry in evals.listed(repository):
        if entry.kind == evals.GATE and entry.release not in promoted:
            gates[entry.release].append(entry)
        elif entry.kind == evals.SCORECARD:
            cards[entry.release].append(entry)
    verdicts = {}
    for release, entries in gates.items():
        if (record := evals.newest_of(repository, entries)) is not None:
            verdicts[release] = str(record["verdict"])
    return verdicts, _qualities(repository, cards)


def _qualities(repository: Repository, cards: Mapping[str, Sequence[Evaluated]]) -> dict[str, Json]:
    """Figures that can be held against each other: of the set and search that most releases were evaluated with, among
    equals the one that was used last. What was tried once on one release does not stand in a column with the others."""
    shared = Counter(key for entries in cards.values() for key in {entry.key for entry in entries})
    if not shared:
        return {}
    last = {entry.key: entry.run for entry in sorted((e for es in cards.values() for e in es), key=lambda e: e.run)}
    key = max(shared, key=lambda name: (shared[name], last[name]))
    mine = {release: [entry for entry in entries if entry.key == key] for release, entries in cards.items()}
    bodies = {release: body for release, found in mine.items() if (body := evals.newest_of(repository, found))}
    if not bodies:
        return {}
    measure = max(bodies.values(), key=lambda body: str(body["run"]))["measures"][0]
    return {
        release: {
            "measure": measure,
            "mean": body["means"][measure],
            "set": body["set"]["name"],
            "judged": body["counts"]["judged"],
            "run": body["run"],
        }
        for release, body in bodies.items()
        if measure in body["means"]
    }


def evaluations_of(repository: Repository, release: str) -> tuple[Json | None, Json | None]:
    """The newest scorecard (without the answers) and the newest gate record of a release; None where there is none."""
    listed = evals.listed(repository, release)
    card, gate = (
        evals.newest_of(repository, [entry for entry in listed if entry.kind == kind])
        for kind in (evals.SCORECARD, evals.GATE)
    )
    return card, gate
