"""The documents that one release holds, looked up by id."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from kbcore.planning import Held
from kbcore.store.manifest import Manifest
from kbcore.store.repository import Repository
from kbcore.store.segment import Segment
from kbcore.types import Json

COLUMNS = ("doc_id", "source", "uri", "content_sha256", "parser_id", "etag", "doc_digest")
MORE = ("title", "text_sha256", "first_chunk", "chunk_count")


class Inventory:
    """The live documents of ``release``, erased ones left out. Texts and chunks are read when they are asked for."""

    def __init__(self, repository: Repository, release: str) -> None:
        self.manifest: Manifest = repository.manifest(release)
        self.segments: list[Segment] = repository.segments(self.manifest)
        self.held: dict[str, Held] = {}
        self.titles: dict[str, str] = {}
        self.text_digests: dict[str, str] = {}
        self._spans: dict[str, tuple[int, int]] = {}
        self._by_uri: dict[str, list[str]] = defaultdict(list)
        erased = repository.erased()
        for number, segment in enumerate(self.segments):
            rows = segment.documents([*COLUMNS, *MORE]).to_pylist()
            for row in np.flatnonzero(segment.live_documents(erased)):
                values = rows[row]
                doc_id = values["doc_id"]
                self.titles[doc_id] = values.pop("title")
                self.text_digests[doc_id] = values.pop("text_sha256")
                self._spans[doc_id] = values.pop("first_chunk"), values.pop("chunk_count")
                self._by_uri[values["uri"]].append(doc_id)
                self.held[doc_id] = Held(segment=number, row=int(row), **values)
        self._digests: dict[int, list[str]] = {}
        self._headings: dict[int, dict[str, list[object]]] = {}

    @property
    def release(self) -> str:
        return self.manifest.release

    def with_uri(self, uri: str) -> list[str]:
        """Ids of the documents with this URI, one a source that has it."""
        return sorted(self._by_uri.get(uri, ()))

    def chunk_digests(self, doc_id: str) -> list[str]:
        """Digests of the texts of a document's chunks, in order. KeyError where the release does not hold it."""
        number = self.held[doc_id].segment
        if number not in self._digests:
            self._digests[number] = self.segments[number].chunks(["text_sha256"]).column("text_sha256").to_pylist()
        first, count = self._spans[doc_id]
        return self._digests[number][first : first + count]

    def chunk_spans(self, doc_id: str) -> list[tuple[int, int]]:
        """Where a document's chunks lie in its text, in order, half open. KeyError where the release does not hold it."""
        segment = self.segments[self.held[doc_id].segment]
        first, count = self._spans[doc_id]
        rows = segment.chunks(["start", "end"]).slice(first, count).to_pylist()
        return [(row["start"], row["end"]) for row in rows]

    def text(self, doc_id: str) -> str | None:
        """The document's text, None where the release does not hold it."""
        return next((row["text"] for _, row in self.rows(["text"], [doc_id])), None)

    def rows(self, columns: Sequence[str], doc_ids: Iterable[str]) -> Iterator[tuple[str, Json]]:
        """Id and values of some documents, in the order in which they lie; those that the release does not hold are left
        out. Each segment is read once, whatever is asked of it: one call for many is cheaper than many calls."""
        by_segment: dict[int, list[tuple[int, str]]] = defaultdict(list)
        for doc_id in set(doc_ids) & self.held.keys():
            by_segment[self.held[doc_id].segment].append((self.held[doc_id].row, doc_id))
        for number, wanted in sorted(by_segment.items()):
            table = self.segments[number].documents(list(columns))
            wanted.sort()
            for (_, doc_id), values in zip(wanted, table.take([row for row, _ in wanted]).to_pylist(), strict=True):
                yield doc_id, values

    def texts(self, doc_ids: Iterable[str]) -> dict[str, str]:
        """The texts of several documents by id; what the release does not hold is left out."""
        return {doc_id: row["text"] for doc_id, row in self.rows(["text"], doc_ids)}

    def heading(self, doc_id: str, start: int, end: int) -> str:
        """What the chunk from ``start`` to ``end`` stands under in its document; empty where there is no such chunk."""
        held = self.held.get(doc_id)
        if held is None:
            return ""
        if held.segment not in self._headings:
            table = self.segments[held.segment].chunks(["start", "end", "heading"])
            self._headings[held.segment] = table.to_pydict()
        columns = self._headings[held.segment]
        first, count = self._spans[doc_id]
        for row in range(first, first + count):
            if (columns["start"][row], columns["end"][row]) == (start, end):
                return str(columns["heading"][row] or "")
        return ""
