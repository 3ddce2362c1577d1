"""What a refresh says of itself when it has ended."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field

from kbcore.types import Json


@dataclass(frozen=True, slots=True)
class RefreshReport:
    """What a refresh did; ``to_json`` is what ``kb refresh --json`` prints.

    ``outcome`` is published, unchanged or refused (for the reasons in ``refused``; nothing was published then).
    ``promoted`` says whether readers were moved to ``release`` (from ``promoted_from``), ``not_promoted`` why not; of a
    dry run, None where a refresh would move them. ``content_digest`` is the release's, of a dry run the one it would
    have; ``estimated_seconds`` what embedding would take at the last rate of this machine, None where none is known.
    ``settings`` are those that differ from the base's, so that every document is cut or embedded anew. ``flagged`` are
    documents whose text is doubtful. ``gate`` is what the gate said, None where it was not asked. ``recovered`` failed in
    the run before and do not now; ``standing`` says that all that is refused, withheld or failed was so in the run before.
    """

    release: str | None
    parent: str | None
    outcome: str
    promoted: bool
    not_promoted: str | None
    changes: Json
    chunks: Json
    texts_embedded: int
    texts_reused: int
    texts_resumed: int
    bytes_written: int
    failures: list[Json]
    failures_changed: bool
    skipped: list[Json]
    withheld_removals: list[str]
    sources: list[Json]
    run: str
    refused: list[str] = field(default_factory=list)
    flagged: list[Json] = field(default_factory=list)
    promoted_from: str | None = None
    took_over: str | None = None
    settings: list[Json] = field(default_factory=list)
    gate: Json | None = None
    recovered: list[str] = field(default_factory=list)
    standing: bool = False
    dry_run: bool = False
    renamed: dict[str, str] = field(default_factory=dict)
    texts_to_embed: int | None = None
    content_digest: str | None = None
    estimated_seconds: float | None = None

    def to_json(self) -> Json:
        return asdict(self)


def about_source(name: str, error: str) -> str:
    """What is wrong with a source, with its name once: most errors of sources begin with it."""
    return error if error.startswith(f"source {name!r}") else f"source {name}: {error}"
