"""A segment: an immutable bundle of documents with their chunks, vectors, FAISS part and postings.

Row n of chunks, row n of vectors, label n of the FAISS part and ``chunk_row`` n of the postings are one chunk.
Nothing is ever taken out of a segment: a release that no longer holds a document names its row in a deletes file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kbcore.arrays import Mask, Vectors
from kbcore.errors import CorruptReleaseError
from kbcore.index.lexical import Postings
from kbcore.store import envelope, layout
from kbcore.store.envelope import read_checked, read_sealed
from kbcore.store.objects import ObjectStore
from kbcore.store.parquet import read_parquet
from kbcore.store.rows import vectors_array
from kbcore.types import Json


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
        rows = frozenset(_read(data, None, path, self.release).column("document_row").to_pylist())
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
        table = _read(self.buffer(file), columns, path, self.release)
        if len(table) != rows:
            raise CorruptReleaseError(f"holds {len(table)} rows, not {rows}", file=path, release=self.release)
        return table


def _read(data: bytes, columns: Sequence[str] | None, file: str, release: str | None) -> pa.Table:
    try:
        return read_parquet(data, columns)
    except (OSError, pa.ArrowInvalid) as error:
        raise CorruptReleaseError(f"does not read: {error}", file=file, release=release) from error
