"""A manifest: what one release is. Creating its file is publishing; nothing ever writes over it."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

from kbcore.errors import CorruptReleaseError
from kbcore.store import envelope, layout
from kbcore.store.segment import SegmentRef
from kbcore.types import Json

LISTS = ("sources", "exceptions", "withheld", "removed")


@dataclass(frozen=True, slots=True)
class Manifest:
    """One release: the segments it is made of and how it was made. It never holds a figure of quality.

    ``changes`` counts documents against the parent (added, changed, removed, renamed, unchanged, carried_over,
    erased, skipped); ``exceptions`` are the documents that failed, ``withheld`` the removals that were not made,
    ``removed`` those that were, each with its reason.
    """

    release: str
    parent: str | None
    kind: str
    created_at: str
    run: str
    nonce: str
    repository_id: str
    content_digest: str
    chunking: Json
    analyzer_id: str
    embedder: Json
    segments: tuple[SegmentRef, ...]
    totals: Json
    changes: Json
    work: Json
    sources: tuple[Json, ...]
    exceptions: tuple[Json, ...]
    withheld: tuple[Json, ...]
    removed: tuple[Json, ...]
    versions: Json

    @property
    def embedder_id(self) -> str:
        return str(self.embedder["embedder_id"])

    @property
    def digest(self) -> str:
        """What promotions name this manifest by."""
        return envelope.digest(self.to_body())

    def to_body(self) -> Json:
        body: Json = {field.name: getattr(self, field.name) for field in fields(self)}
        body["segments"] = [ref.to_body() for ref in self.segments]
        for name in LISTS:
            body[name] = list(body[name])
        return {"format": layout.FORMAT, **body}

    @property
    def settings(self) -> Json:
        """How the release was made: what, where it differs, makes other chunks, words or vectors of the same bytes."""
        return settings(self.chunking, self.analyzer_id, str(self.embedder["model"]), self.embedder_id)

    @classmethod
    def from_body(cls, body: Json, *, file: str) -> Manifest:
        """The manifest in a sealed file's body. CorruptReleaseError on another format, a missing or an unknown field."""
        values: dict[str, Any] = dict(body)
        if values.pop("format", None) != layout.FORMAT:
            raise CorruptReleaseError(
                f"is of format {body.get('format')!r}; this kbcore reads format {layout.FORMAT}", file=file
            )
        try:
            values["segments"] = tuple(SegmentRef.from_body(ref, file=file) for ref in values["segments"])
            for name in LISTS:
                values[name] = tuple(values[name])
            manifest = cls(**values)
        except (TypeError, KeyError) as error:
            raise CorruptReleaseError(f"does not read as a manifest: {error}", file=file) from error
        if file != layout.manifest_file(manifest.release) or not layout.is_embedder(manifest.embedder_id):
            raise CorruptReleaseError(f"holds the manifest of {manifest.release!r}", file=file)
        return manifest

    def numbered(self, release: str, parent: str | None) -> Manifest:
        return replace(self, release=release, parent=parent)


def settings(chunking: Json, analyzer_id: str, model: str, embedder_id: str) -> Json:
    """The settings of a release by name."""
    named: Json = {f"chunking {key}": value for key, value in chunking.items() if key != "chunker_id"}
    return {**named, "analyzer": analyzer_id, "embedder": f"{model} {embedder_id}"}


def changed_settings(old: Json, new: Json) -> list[Json]:
    """The settings that differ, each as {name, old, new}."""
    return [{"name": name, "old": old.get(name), "new": new[name]} for name in new if old.get(name) != new[name]]
