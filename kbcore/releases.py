"""Every release with its state, which is derived and never stored."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from kbcore.errors import CorruptReleaseError
from kbcore.store.repository import Repository
from kbcore.types import Json


@dataclass(frozen=True, slots=True)
class ReleaseRow:
    """``state``: current (readers get it), previous (was current once), candidate (never was), expired, or damaged
    (its manifest does not read; the counts are None). ``pinned``: retention leaves it alone. ``blocked``: its content was
    rolled back from, and no schedule makes it current until the hold is lifted."""

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

    def to_json(self) -> Json:
        return asdict(self)


def list_releases(repository: Repository) -> list[ReleaseRow]:
    """All releases ever published, newest first."""
    state = repository.state()
    expired = repository.expired()
    promoted = {repository.promotion(seq).release for seq in repository.promotions()} | set(state.stack)
    rows = []
    for name in reversed(repository.releases()):
        if name in expired:
            label = "expired"
        elif name == state.release:
            label = "current"
        else:
            label = "previous" if name in promoted else "candidate"
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
            )
        )
    return rows
