"""A segment: an immutable bundle of documents with their chunks, vectors, FAISS part and postings.

Row n of chunks, row n of vectors, label n of the FAISS part and ``chunk_row`` n of the postings are one chunk.
Nothing is ever taken out of a segment: a release that no longer holds a document names its row in a deletes file.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from kbcore.errors import CorruptReleaseError, EmbeddingFailedError
from kbcore.fingerprint import sha256
from kbcore.index.dense import to_index_bytes
from kbcore.index.lexical import Postings, build_postings
from kbcore.store import envelope, layout
from kbcore.store.objects import ObjectStore
from kbcore.types import Json

Vectors = NDArray[np.float32]
Mask = NDArray[np.bool_]
MAX_CHUNKS = 65_536

DOCUMENTS = pa.schema(
    [
        pa.field("doc_id", pa.string(), nullable=False),
        pa.field("source", pa.string(), nullable=False),
        pa.field("uri", pa.string(), nullable=False),
        pa.field("title", pa.string(), nullable=False),
        pa.field("media_type", pa.string(), nullable=False),
        pa.field("content_sha256", pa.string(), nullable=False),
        pa.field("parser_id", pa.string(), nullable=False),
        pa.field("etag", pa.string()),
        pa.field("modified_at", pa.string()),
        pa.field("fetched_at", pa.string(), nullable=False),
        pa.field("metadata", pa.string(), nullable=False),
        pa.field("headings", pa.string(), nullable=False),
        pa.field("pages", pa.list_(pa.int32()), nullable=False),
        pa.field("stats", pa.string(), nullable=False),
        pa.field("text", pa.string(), nullable=False),
        pa.field("text_sha256", pa.string(), nullable=False),
        pa.field("doc_digest", pa.string(), nullable=False),
        pa.field("first_chunk", pa.int32(), nullable=False),
        pa.field("chunk_count", pa.int32(), nullable=False),
    ]
)
CHUNKS = pa.schema(
    [
        pa.field("chunk_id", pa.string(), nullable=False),
        pa.field("document_row", pa.int32(), nullable=False),
        pa.field("ordinal", pa.int32(), nullable=False),
        pa.field("start", pa.int32(), nullable=False),
        pa.field("end", pa.int32(), nullable=False),
        pa.field("page_start", pa.int32()),
        pa.field("page_end", pa.int32()),
        pa.field("heading", pa.string(), nullable=False),
        pa.field("text", pa.string(), nullable=False),
        pa.field("text_sha256", pa.string(), nullable=False),
        pa.field("embedded_sha256", pa.string(), nullable=False),
        pa.field("token_count", pa.int32(), nullable=False),
        pa.field("length", pa.int32(), nullable=False),
    ]
)


@dataclass(frozen=True, slots=True)
class ChunkRow:
    """One chunk as it is written; ``terms`` are its BM25 tokens, ``embedded_sha256`` the digest of the text embedded."""

    chunk_id: str
    ordinal: int
    start: int
    end: int
    page_start: int | None
    page_end: int | None
    heading: str
    text: str
    text_sha256: str
    embedded_sha256: str
    token_count: int
    terms: Sequence[str]


@dataclass(frozen=True, slots=True)
class DocumentRow:
    """One document as it is written, with its chunks in order. ``metadata``, ``headings`` and ``stats`` are JSON."""

    doc_id: str
    source: str
    uri: str
    title: str
    media_type: str
    content_sha256: str
    parser_id: str
    etag: str | None
    modified_at: str | None
    fetched_at: str
    metadata: str
    headings: str
    pages: Sequence[int]
    stats: str
    text: str
    text_sha256: str
    doc_digest: str
    chunks: Sequence[ChunkRow]


@dataclass(frozen=True, slots=True)
class SegmentRef:
    """How a manifest names a segment: the digest of its segment.json, and which document rows do not count."""

    name: str
    sha256: str
    documents: int
    chunks: int
    deletes: str | None = None
    deletes_sha256: str | None = None
    deleted: int = 0

    def to_body(self) -> Json:
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @classmethod
    def from_body(cls, body: Json, *, file: str) -> SegmentRef:
        try:
            ref = cls(**body)
        except TypeError as error:
            raise CorruptReleaseError(f"a segment entry does not read: {error}", file=file) from error
        if not layout.is_segment(ref.name) or (ref.deletes is not None and not layout.is_deletes(ref.deletes)):
            raise CorruptReleaseError("a segment entry has a name that no run writes", file=file)
        return ref


def write_segment(
    store: ObjectStore,
    name: str,
    documents: Sequence[DocumentRow],
    vectors: Vectors,
    *,
    run: str,
    chunker_id: str,
    analyzer_id: str,
    embedder_id: str,
) -> tuple[SegmentRef, int]:
    """Write a segment, durable when this returns; gives its entry for a manifest and the bytes written.

    ``vectors`` is float32 of shape (chunks of all documents, dimension), rows in the order of the documents' chunks.
    """
    chunks = [(row, chunk) for row, document in enumerate(documents) for chunk in document.chunks]
    check_vectors(vectors, len(chunks))
    postings = build_postings(chunk.terms for _, chunk in chunks)
    files = {
        layout.DOCUMENTS_FILE: _parquet(_documents_table(documents), "zstd"),
        layout.CHUNKS_FILE: _parquet(_chunks_table(chunks), "zstd"),
        layout.VECTORS_FILE: _parquet(vectors_table(vectors), "none"),
        layout.DENSE_FILE: to_index_bytes(vectors),
        layout.TERMS_FILE: _parquet(pa.table({"term": postings.terms, "count": pa.array(postings.counts)}), "zstd"),
        layout.POSTINGS_FILE: _parquet(
            pa.table({"chunk_row": pa.array(postings.rows), "tf": pa.array(postings.frequencies)}), "none"
        ),
    }
    body: Json = {
        "format": layout.FORMAT,
        "segment": name,
        "run": run,
        "documents": len(documents),
        "chunks": len(chunks),
        "postings": len(postings.rows),
        "terms": len(postings.counts),
        "dimension": int(vectors.shape[1]),
        "chunker_id": chunker_id,
        "analyzer_id": analyzer_id,
        "embedder_id": embedder_id,
        "files": {file: {"bytes": len(data), "sha256": sha256(data)} for file, data in files.items()},
    }
    files[layout.SEGMENT_FILE] = envelope.seal(body)
    store.put_new({layout.segment_file(name, file): data for file, data in files.items()})
    ref = SegmentRef(name, envelope.digest(body), len(documents), len(chunks))
    return ref, sum(map(len, files.values()))


def write_deletes(store: ObjectStore, name: str, rows: Sequence[int]) -> tuple[str, int]:
    """Write the document rows of one segment that a release leaves out; gives the file's digest and its bytes."""
    data = _parquet(pa.table({"document_row": pa.array(sorted(rows), pa.int32())}), "zstd")
    store.put_new({layout.deletes_file(name): data})
    return sha256(data), len(data)


def check_vectors(vectors: Vectors, count: int) -> None:
    """Refuse vectors that do not stand for ``count`` chunks: another number, not finite, or all zero."""
    if vectors.ndim != 2 or len(vectors) != count:
        raise EmbeddingFailedError(f"{count} chunks but vectors of shape {vectors.shape}: nothing is written")
    if not np.isfinite(vectors).all():
        row = int(np.flatnonzero(~np.isfinite(vectors).all(axis=1))[0])
        raise EmbeddingFailedError(f"the vector of chunk row {row} is not finite: nothing is written")
    if count and not vectors.any(axis=1).all():
        row = int(np.flatnonzero(~vectors.any(axis=1))[0])
        raise EmbeddingFailedError(f"the vector of chunk row {row} is all zero: nothing is written")


def vectors_table(vectors: Vectors) -> pa.Table:
    flat = pa.array(np.ascontiguousarray(vectors, dtype=np.float32).reshape(-1))
    return pa.table({"vector": pa.FixedSizeListArray.from_arrays(flat, vectors.shape[1])})


def vectors_array(table: pa.Table, dimension: int) -> Vectors:
    column = table.column("vector").combine_chunks()
    flat: Vectors = column.flatten().to_numpy().reshape(-1, dimension)
    return flat


class Segment:
    """A segment as one release sees it. Each file is read once, hashed, compared, and only then used."""

    def __init__(self, store: ObjectStore, ref: SegmentRef, *, release: str | None = None) -> None:
        self._store = store
        self._buffers: dict[str, bytes] = {}
        self.ref = ref
        self.release = release
        self.body = self._read_body()

    @property
    def name(self) -> str:
        return self.ref.name

    @property
    def dimension(self) -> int:
        return int(self.body["dimension"])

    def buffer(self, file: str) -> bytes:
        """A data file's bytes, checked against the size and digest in segment.json."""
        if file not in self._buffers:
            expected = self.body["files"].get(file)
            path = layout.segment_file(self.name, file)
            if expected is None:
                raise CorruptReleaseError("is not among the segment's files", file=path, release=self.release)
            self._buffers[file] = read_checked(
                self._store, path, expected["sha256"], size=expected["bytes"], release=self.release
            )
        return self._buffers[file]

    def drop(self, file: str) -> None:
        """Let go of a file's bytes once what was made of them is kept elsewhere."""
        self._buffers.pop(file, None)

    def documents(self, columns: Sequence[str] | None = None) -> pa.Table:
        return self._table(layout.DOCUMENTS_FILE, self.ref.documents, columns)

    def chunks(self, columns: Sequence[str] | None = None) -> pa.Table:
        return self._table(layout.CHUNKS_FILE, self.ref.chunks, columns)

    def vectors(self) -> Vectors:
        table = self._table(layout.VECTORS_FILE, self.ref.chunks, None)
        return vectors_array(table, self.dimension)

    def postings(self) -> Postings:
        terms = self._table(layout.TERMS_FILE, self.body["terms"], None)
        postings = self._table(layout.POSTINGS_FILE, self.body["postings"], None)
        lengths = self.chunks(["length"])
        return Postings(
            terms=terms.column("term").combine_chunks(),
            counts=terms.column("count").to_numpy(),
            rows=postings.column("chunk_row").to_numpy(),
            frequencies=postings.column("tf").to_numpy(),
            lengths=lengths.column("length").to_numpy(),
        )

    @cached_property
    def deleted_rows(self) -> frozenset[int]:
        """Document rows that this release leaves out."""
        if self.ref.deletes is None:
            return frozenset()
        path = layout.deletes_file(self.ref.deletes)
        data = read_checked(self._store, path, str(self.ref.deletes_sha256), release=self.release)
        rows = frozenset(_read_parquet(data, None, path, self.release).column("document_row").to_pylist())
        if len(rows) != self.ref.deleted or (rows and not 0 <= min(rows) <= max(rows) < self.ref.documents):
            raise CorruptReleaseError("does not hold the rows its manifest counts", file=path, release=self.release)
        return rows

    def live_documents(self, erased: Mapping[str, frozenset[str | None]] | None = None) -> Mask:
        """Mask over document rows: neither deleted by the release nor erased (by id, or by id and content)."""
        live = np.ones(self.ref.documents, dtype=bool)
        live[list(self.deleted_rows)] = False
        if erased:
            table = self.documents(["doc_id", "content_sha256"])
            ids = table.column("doc_id")
            hit = pc.is_in(ids, value_set=pa.array(list(erased), pa.string())).to_numpy(zero_copy_only=False)
            for row in np.flatnonzero(hit):
                contents = erased[ids[int(row)].as_py()]
                if None in contents or table.column("content_sha256")[int(row)].as_py() in contents:
                    live[row] = False
        return live

    def live_chunks(self, live_documents: Mask) -> Mask:
        """The same over chunk rows."""
        if live_documents.all():
            return np.ones(self.ref.chunks, dtype=bool)
        rows = self.chunks(["document_row"]).column("document_row").to_numpy()
        mask: Mask = live_documents[rows]
        return mask

    def verify(self) -> None:
        """Read every file in full and compare what they say of each other; CorruptReleaseError on the first finding."""
        path = layout.segment_file(self.name, layout.SEGMENT_FILE)
        for file in self.body["files"]:
            self.buffer(file)
        chunks = self.chunks()
        documents = self.documents(["first_chunk", "chunk_count"])
        counts = documents.column("chunk_count").to_numpy()
        expected_rows = np.repeat(np.arange(self.ref.documents), counts)
        expected_first = np.concatenate([[0], np.cumsum(counts)[:-1]]) if len(counts) else counts
        aligned = (
            np.array_equal(chunks.column("document_row").to_numpy(), expected_rows)
            and np.array_equal(documents.column("first_chunk").to_numpy(), expected_first)
            and len(self.vectors()) == self.ref.chunks
        )
        postings = self.postings()
        lengths = np.bincount(postings.rows, weights=postings.frequencies, minlength=self.ref.chunks)
        if not aligned or not np.array_equal(lengths[: self.ref.chunks], postings.lengths):
            raise CorruptReleaseError("rows of its files do not stand for each other", file=path, release=self.release)
        _ = self.deleted_rows

    def _read_body(self) -> Json:
        path = layout.segment_file(self.name, layout.SEGMENT_FILE)
        body = read_sealed(self._store, path, release=self.release)
        if envelope.digest(body) != self.ref.sha256:
            raise CorruptReleaseError("is not the file that the manifest names", file=path, release=self.release)
        if body.get("documents") != self.ref.documents or body.get("chunks") != self.ref.chunks:
            raise CorruptReleaseError("counts other rows than the manifest", file=path, release=self.release)
        return body

    def _table(self, file: str, rows: int, columns: Sequence[str] | None) -> pa.Table:
        path = layout.segment_file(self.name, file)
        table = _read_parquet(self.buffer(file), columns, path, self.release)
        if len(table) != rows:
            raise CorruptReleaseError(f"holds {len(table)} rows, not {rows}", file=path, release=self.release)
        return table


def read_sealed(store: ObjectStore, file: str, *, release: str | None = None) -> Json:
    """The body of a sealed JSON file; a missing one is as corrupt as a damaged one where a release names it."""
    try:
        return envelope.unseal(store.get(file), file=file)
    except FileNotFoundError:
        raise CorruptReleaseError("is missing", file=file, release=release, remedy=envelope.REMEDY) from None
    except CorruptReleaseError as error:
        raise (error.in_release(release) if release else error) from None


def read_checked(
    store: ObjectStore, file: str, digest: str, *, size: int | None = None, release: str | None = None
) -> bytes:
    """Bytes of a file whose digest is known; CorruptReleaseError if they are others, or missing."""
    try:
        data = store.get(file)
    except FileNotFoundError:
        raise CorruptReleaseError("is missing", file=file, release=release, remedy=envelope.REMEDY) from None
    if (size is not None and len(data) != size) or sha256(data) != digest:
        raise CorruptReleaseError(
            f"is not as it was written ({len(data)} bytes, digest differs)",
            file=file,
            release=release,
            remedy=envelope.REMEDY,
        )
    return data


def _documents_table(documents: Sequence[DocumentRow]) -> pa.Table:
    columns: dict[str, list[Any]] = {
        name: [getattr(document, name) for document in documents]
        for name in DOCUMENTS.names
        if name not in ("first_chunk", "chunk_count")
    }
    counts = [len(document.chunks) for document in documents]
    columns["first_chunk"] = [0, *np.cumsum(counts)[:-1].tolist()] if counts else []
    columns["chunk_count"] = list(counts)
    return pa.table(columns, schema=DOCUMENTS)


def _chunks_table(chunks: Iterable[tuple[int, ChunkRow]]) -> pa.Table:
    rows = list(chunks)
    columns: dict[str, list[Any]] = {
        name: [getattr(chunk, name) for _, chunk in rows]
        for name in CHUNKS.names
        if name not in ("document_row", "length")
    }
    columns["document_row"] = [row for row, _ in rows]
    columns["length"] = [len(chunk.terms) for _, chunk in rows]
    return pa.table(columns, schema=CHUNKS)


def _parquet(table: pa.Table, compression: str) -> bytes:
    sink = io.BytesIO()
    pq.write_table(table, sink, compression=compression, write_page_checksum=True, use_dictionary=False)
    return sink.getvalue()


def _read_parquet(data: bytes, columns: Sequence[str] | None, file: str, release: str | None) -> pa.Table:
    try:
        return pq.read_table(
            pa.BufferReader(data),
            columns=None if columns is None else list(columns),
            page_checksum_verification=True,
            use_threads=False,
        )
    except (OSError, pa.ArrowInvalid) as error:
        raise CorruptReleaseError(f"does not read: {error}", file=file, release=release) from error
