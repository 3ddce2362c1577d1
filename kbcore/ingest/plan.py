"""The plan of a refresh: what the sources hold now against the base, fetched, parsed and cut, but not yet embedded."""

from __future__ import annotations

from dataclasses import dataclass, field

from kbcore.errors import SourceError
from kbcore.fingerprint import content_digest
from kbcore.ingest.base import Base
from kbcore.ingest.recipe import Recipe
from kbcore.planning import NOTHING_LEFT, Held
from kbcore.store.rows import DocumentRow
from kbcore.types import Failure, Json


@dataclass
class Plan:
    """What a refresh would do. ``rows`` are the documents to write: added, changed, or cut anew for another recipe."""

    base: Base
    recipe: Recipe
    rows: list[DocumentRow] = field(default_factory=list)
    added: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    removed: list[Held] = field(default_factory=list)
    erased: list[Held] = field(default_factory=list)
    renamed: dict[str, str] = field(default_factory=dict)
    withheld: list[Held] = field(default_factory=list)
    unchanged: int = 0
    failures: list[Failure] = field(default_factory=list)
    skipped: list[tuple[str, str]] = field(default_factory=list)
    sources: list[Json] = field(default_factory=list)
    etags: dict[str, str] = field(default_factory=dict)
    """Validators of documents that stay as they are, newer than those in the base."""
    rebuild: bool = False
    unheard: SourceError | None = None
    """Why nothing could be listed at all, where nothing could."""

    @property
    def carried_over(self) -> list[Failure]:
        return [failure for failure in self.failures if failure.carried_over]

    @property
    def gone(self) -> list[Held]:
        """Documents of the base that the next release does not hold under their id any more."""
        return [*self.removed, *(self.base.held[old] for old in self.renamed), *self.erased]

    @property
    def publishes(self) -> bool:
        """True where the plan comes to another release (the first one is published even when it is empty)."""
        return bool(self.base.manifest is None or self.rebuild or self.added or self.changed or self.gone)

    def changes(self) -> Json:
        """Counts of documents, as a manifest and ``kb refresh --json`` say them."""
        return {
            "added": len(self.added) - len(self.renamed),
            "changed": len(self.changed),
            "removed": len(self.removed),
            "renamed": len(self.renamed),
            "unchanged": self.unchanged,
            "carried_over": len(self.carried_over),
            "erased": len(self.erased),
            "skipped": len(self.skipped),
        }

    def content_digest(self) -> str:
        """The content digest of the release that this plan comes to; the base's own where nothing changes."""
        if self.base.manifest is not None and not self.publishes:
            return self.base.manifest.content_digest
        gone = {held.doc_id for held in self.gone}
        digests = {doc_id: held.doc_digest for doc_id, held in self.base.held.items() if doc_id not in gone}
        digests |= {row.doc_id: row.doc_digest for row in self.rows}
        return content_digest(
            chunker_id=self.recipe.chunker_id,
            analyzer_id=self.recipe.analyzer_id,
            embedder_id=self.recipe.embedder_id,
            doc_digests=digests.values(),
        )

    def reason_of(self, held: Held) -> str:
        """Why a document is removed."""
        if held.doc_id in (skipped := dict(self.skipped)):
            return f"{NOTHING_LEFT}: {skipped[held.doc_id]}"
        if held.source in {entry["name"] for entry in self.sources}:
            return "its source does not list it any more"
        return "its source is not configured any more"

    def texts(self) -> dict[str, tuple[str, int]]:
        """Digest to (exact text to embed, its tokens), each text once, in the order of the documents."""
        found: dict[str, tuple[str, int]] = {}
        for row in self.rows:
            for chunk in row.chunks:
                if chunk.embedded_sha256 not in found:
                    own = chunk.embedded_sha256 == chunk.text_sha256
                    count = chunk.token_count if own else self.recipe.embedder.count_tokens(chunk.embedded)
                    found[chunk.embedded_sha256] = (chunk.embedded, count)
        return found
