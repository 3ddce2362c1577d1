"""A release opened for search: its live rows, its two indexes, and what each row says of itself.

All files that are used are read and checked when it opens; later nothing depends on them any more. Rows are numbered
through all segments in the manifest's order: a segment's offset plus the chunk row.
"""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kbcore.arrays import Mask
from kbcore.errors import CorruptReleaseError, KbUnavailableError
from kbcore.filters import Filter
from kbcore.index.dense import DenseIndex, DensePart, from_index_bytes
from kbcore.index.lexical import StoredBM25
from kbcore.store import layout
from kbcore.store.manifest import Manifest
from kbcore.store.repository import ErasedIds, Repository
from kbcore.store.segment import Segment
from kbcore.tokenization import ANALYZER_ID
from kbcore.types import Json

Part = Literal["vector", "keyword"]
SELECTIONS_KEPT = 32
DOCUMENT_COLUMNS = (
    "doc_id", "source", "uri", "title", "media_type", "content_sha256", "fetched_at", "modified_at", "metadata",
)  # fmt: skip
CHUNK_COLUMNS = ("document_row", "ordinal", "start", "end", "page_start", "page_end", "heading", "text", "text_sha256")


@dataclass(frozen=True, slots=True, eq=False)
class Selection:
    """What a filter leaves: bool [all rows], and how many documents passed."""

    rows: Mask
    documents: int


class Snapshot:
    """The live rows of ``manifest`` less what is ``erased``, with the indexes that ``parts`` ask for."""

    def __init__(
        self,
        repository: Repository,
        manifest: Manifest,
        *,
        erased: ErasedIds,
        parts: Sequence[Part] = ("vector", "keyword"),
        idf: Literal["lucene", "okapi"] = "lucene",
        k1: float = 1.5,
        b: float = 0.75,
        opened: Snapshot | None = None,
    ) -> None:
        self.manifest = manifest
        self.erased = erased
        self.parts = tuple(parts)
        self.weighting: dict[str, Any] = {"idf": idf, "k1": k1, "b": b}
        # Of the same release opened before, all that does not depend on what is erased is taken over.
        self.segments: list[Segment] = opened.segments if opened else repository.segments(manifest)
        self._dense: list[DensePart] = opened._dense if opened else []
        sizes = [segment.ref.chunks for segment in self.segments]
        self.offsets: NDArray[np.int64] = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        self.live_documents: list[Mask] = []
        self.live_chunks: list[Mask] = []
        for segment in self.segments:
            if segment.body["embedder_id"] != manifest.embedder_id:
                file = layout.segment_file(segment.name, layout.SEGMENT_FILE)
                raise CorruptReleaseError("was embedded by another embedder", file=file, release=manifest.release)
            documents = segment.live_documents(erased)
            self.live_documents.append(documents)
            self.live_chunks.append(segment.live_chunks(documents))
            # Read and checked now, decoded on first use.
            segment.buffer(layout.DOCUMENTS_FILE)
            segment.buffer(layout.CHUNKS_FILE)
        self._lock = threading.RLock()
        self._columns: dict[int, tuple[dict[str, pa.Array], dict[str, pa.Array]]] = {}
        self._owners: dict[int, NDArray[np.int32]] = {}
        self._texts: dict[int, pa.StringArray] = {}
        self._fields: dict[str, dict[str, list[Any]]] = {}
        self._selected: OrderedDict[bytes, Selection] = OrderedDict()
        self.dense: DenseIndex | None = self._open_dense() if "vector" in self.parts else None
        self.lexical: StoredBM25 | None = self._open_lexical() if "keyword" in self.parts else None
        ids = [segment.chunks(["chunk_id"]).column("chunk_id").combine_chunks() for segment in self.segments]
        self.chunk_ids: pa.StringArray = pa.concat_arrays(ids) if ids else pa.array([], pa.string())

    @cached_property
    def rows(self) -> int:
        """Live chunks."""
        return int(sum(mask.sum() for mask in self.live_chunks))

    @cached_property
    def documents(self) -> int:
        """Live documents."""
        return int(sum(mask.sum() for mask in self.live_documents))

    def without(self, repository: Repository, erased: ErasedIds) -> Snapshot:
        """The same release with another erasure list; files that were read are not read again."""
        return Snapshot(repository, self.manifest, erased=erased, parts=self.parts, opened=self, **self.weighting)

    def ids(self, rows: NDArray[np.int64]) -> Sequence[str]:
        """Chunk ids of rows, in their order."""
        found: list[str] = self.chunk_ids.take(pa.array(rows)).to_pylist()
        return found

    def select(self, chosen: Filter) -> Selection:
        """The live rows whose documents pass a filter. The last few are kept: a service asks for the same ones."""
        with self._lock:
            known = self._selected.get(chosen.key)
            if known is not None:
                self._selected.move_to_end(chosen.key)
                return known
        masks: list[Mask] = [np.zeros(0, dtype=bool)]
        documents = 0
        for segment, live, chunks in zip(self.segments, self.live_documents, self.live_chunks, strict=True):
            passing = live.copy()
            for row in np.flatnonzero(live):
                passing[row] = chosen.matches(self._filterable(segment, int(row)))
            documents += int(passing.sum())
            masks.append(chunks & segment.live_chunks(passing))
        found = Selection(np.concatenate(masks), documents)
        with self._lock:
            self._selected[chosen.key] = found
            while len(self._selected) > SELECTIONS_KEPT:
                self._selected.popitem(last=False)
        return found

    def _filterable(self, segment: Segment, row: int) -> Json:
        with self._lock:
            if segment.name not in self._fields:
                table = segment.documents([*DOCUMENT_COLUMNS, "stats"])
                columns = {name: table.column(name).to_pylist() for name in table.column_names}
                columns["metadata"] = [json.loads(text) for text in columns["metadata"]]
                guesses = [json.loads(text).get("language_guess") for text in columns.pop("stats")]
                columns["language"] = list(map(_language, columns["metadata"], guesses))
                self._fields[segment.name] = columns
            return {name: values[row] for name, values in self._fields[segment.name].items()}

    def chunk(self, row: int) -> Json:
        """Everything stored of one chunk and its document, by global row."""
        number, local = self.place(row)
        with self._lock:
            if number not in self._columns:
                segment = self.segments[number]
                self._columns[number] = (
                    _arrays(segment.chunks(CHUNK_COLUMNS)),
                    _arrays(segment.documents(DOCUMENT_COLUMNS)),
                )
            chunks, documents = self._columns[number]
        found: Json = {name: array[local].as_py() for name, array in chunks.items()}
        document = {name: array[found["document_row"]].as_py() for name, array in documents.items()}
        metadata: Mapping[str, Any] = json.loads(document["metadata"])
        return {"chunk_id": self.chunk_ids[row].as_py(), **found, **document, "metadata": metadata}

    def same_document(self, a: int, b: int) -> bool:
        """Whether two global rows are chunks of one document."""
        (left, row), (right, other) = self.place(a), self.place(b)
        return left == right and self._document_rows(left)[row] == self._document_rows(right)[other]

    def neighbourhood(self, row: int, reach: int) -> tuple[int, int]:
        """The global rows of the first and the last of ``reach`` chunks before and after ``row`` in its document."""
        number, local = self.place(row)
        documents = self._document_rows(number)
        mine = documents[local]
        first = last = local
        while first > 0 and local - first < reach and documents[first - 1] == mine:
            first -= 1
        while last + 1 < len(documents) and last - local < reach and documents[last + 1] == mine:
            last += 1
        offset = int(self.offsets[number])
        return offset + first, offset + last

    def text(self, first: int, last: int) -> str:
        """The text from the first character of one chunk to the last of another of the same document: an exact slice."""
        parts = [self.chunk(row) for row in range(first, last + 1)]
        found = str(parts[0]["text"])
        end = parts[0]["end"]
        for part in parts[1:]:
            if part["start"] > end:
                # Blanks between two chunks belong to neither.
                return self.document_text(first)[parts[0]["start"] : parts[-1]["end"]]
            if part["end"] > end:
                found += str(part["text"])[end - part["start"] :]
                end = part["end"]
        return found

    def place(self, row: int) -> tuple[int, int]:
        """Segment number and chunk row of a global row."""
        number = int(np.searchsorted(self.offsets, row, side="right")) - 1
        return number, int(row - self.offsets[number])

    def _document_rows(self, number: int) -> NDArray[np.int32]:
        with self._lock:
            if number not in self._owners:
                table = self.segments[number].chunks(["document_row"])
                self._owners[number] = table.column("document_row").to_numpy()
            return self._owners[number]

    def document_text(self, row: int) -> str:
        """The whole text of the document that a global row is a chunk of."""
        number, local = self.place(row)
        with self._lock:
            if number not in self._texts:
                self._texts[number] = self.segments[number].documents(["text"]).column("text").combine_chunks()
        return str(self._texts[number][int(self._document_rows(number)[local])].as_py())

    def _open_dense(self) -> DenseIndex:
        for number, segment in enumerate(self.segments[len(self._dense) :], start=len(self._dense)):
            file = layout.segment_file(segment.name, layout.DENSE_FILE)
            try:
                index = from_index_bytes(
                    segment.buffer(layout.DENSE_FILE), dimension=segment.dimension, count=segment.ref.chunks, file=file
                )
            except CorruptReleaseError as error:
                raise error.in_release(self.manifest.release) from None
            segment.drop(layout.DENSE_FILE)
            self._dense.append(DensePart(index, offset=int(self.offsets[number]), file=file))
        parts = [
            replace(part, live=None if live.all() else live)
            for part, live in zip(self._dense, self.live_chunks, strict=True)
        ]
        return DenseIndex(parts, dimension=int(self.manifest.embedder["dimension"]))

    def _open_lexical(self) -> StoredBM25:
        if self.manifest.analyzer_id != ANALYZER_ID:
            raise KbUnavailableError(
                f"the words of {self.manifest.release} were split by {self.manifest.analyzer_id}, questions are split by "
                f"{ANALYZER_ID}: keyword search would miss what is there",
                remedy="search it with --mode vector, use the kbcore that built it, or publish a new release: kb refresh",
            )
        found = []
        for segment, live in zip(self.segments, self.live_chunks):
            found.append((segment.postings(), None if live.all() else live))
        return StoredBM25(found, **self.weighting)


def _language(metadata: Mapping[str, Any], guess: str | None) -> str | None:
    """What a document says of its language, without region or script ("de" of "de-AT"); else what its text looks like."""
    for key in ("language", "lang"):
        said = metadata.get(key)
        if isinstance(said, str) and said.strip():
            return said.strip().replace("_", "-").split("-")[0].lower()
    return guess


def _arrays(table: pa.Table) -> dict[str, pa.Array]:
    """Columns by name, each in one piece: a row of it is then found at once."""
    return {name: table.column(name).combine_chunks() for name in table.column_names}
