"""The base of a refresh: the head release, its documents, and the vectors that can be used again."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from kbcore.arrays import Vectors
from kbcore.errors import CorruptReleaseError
from kbcore.planning import Held
from kbcore.store import layout
from kbcore.store.manifest import Manifest
from kbcore.store.repository import Repository
from kbcore.store.segment import Segment
from kbcore.types import Heading, Parsed

INVENTORY = ("doc_id", "source", "uri", "content_sha256", "parser_id", "etag", "doc_digest")


class Base:
    """The head release as the next one starts from it; empty before the first."""

    def __init__(self, repository: Repository) -> None:
        head = repository.head()
        self.release = head
        try:
            self.manifest: Manifest | None = repository.manifest(head) if head else None
            self.segments: list[Segment] = repository.segments(self.manifest) if self.manifest else []
            self.held: dict[str, Held] = {held.doc_id: held for held in self._inventory()}
        except CorruptReleaseError as error:
            # What readers get may be another release; a refresh needs this one, and says how to go on without it.
            back = 'kb rollback --reason "...", then ' if head == repository.state().release else ""
            raise error.with_remedy(
                f'a refresh builds on the newest release: restore the file, or: {back}kb expire {head} --reason "..."'
            ) from None
        self._where: dict[str, tuple[int, int]] | None = None

    def parsed(self, held: Held) -> tuple[Parsed, dict[str, Any]]:
        """A document as it was parsed, and the columns that say where its bytes came from."""
        row = self.segments[held.segment].documents().slice(held.row, 1).to_pylist()[0]
        headings = tuple(Heading(*entry) for entry in json.loads(row["headings"]))
        parsed = Parsed(
            text=row["text"],
            title=row["title"],
            media_type=row["media_type"],
            parser_id=row["parser_id"],
            headings=headings,
            pages=tuple(row["pages"]),
            metadata=json.loads(row["metadata"]),
            stats=json.loads(row["stats"]),
        )
        return parsed, row

    def vectors_of(self, digests: Iterable[str], embedder_id: str) -> tuple[list[str], Vectors]:
        """The vectors the base holds of texts with these digests: the digests found, and their vectors in that order."""
        if self.manifest is None or self.manifest.embedder_id != embedder_id:
            return [], np.empty((0, 0), dtype=np.float32)
        if self._where is None:
            self._where = dict(self._embedded())
        found = [digest for digest in digests if digest in self._where]
        if not found:
            return [], np.empty((0, 0), dtype=np.float32)
        vectors = np.empty((len(found), self.segments[0].dimension), dtype=np.float32)
        places = np.array([self._where[digest] for digest in found])
        for number in np.unique(places[:, 0]):
            chosen = places[:, 0] == number
            vectors[chosen] = self.segments[number].vectors()[places[chosen, 1]]
            self.segments[number].drop(layout.VECTORS_FILE)
        return found, vectors

    def _embedded(self) -> Iterator[tuple[str, tuple[int, int]]]:
        for number, segment in enumerate(self.segments):
            digests = segment.chunks(["embedded_sha256"]).column("embedded_sha256").to_pylist()
            for row, digest in enumerate(digests):
                yield digest, (number, row)

    def _inventory(self) -> Iterator[Held]:
        for number, segment in enumerate(self.segments):
            live = segment.live_documents()
            columns = segment.documents(list(INVENTORY)).to_pylist()
            for row in np.flatnonzero(live):
                values = columns[row]
                yield Held(
                    values["doc_id"],
                    values["source"],
                    values["uri"],
                    number,
                    int(row),
                    values["content_sha256"],
                    values["parser_id"],
                    values["etag"],
                    values["doc_digest"],
                )
