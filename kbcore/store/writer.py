"""Writing a segment and its deletes: whole and durable, or not there."""

from __future__ import annotations

import io
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from kbcore.arrays import Vectors
from kbcore.errors import EmbeddingFailedError
from kbcore.fingerprint import sha256
from kbcore.index.dense import to_index_bytes
from kbcore.index.lexical import build_postings
from kbcore.store import envelope, layout
from kbcore.store.objects import ObjectStore
from kbcore.store.rows import DocumentRow, chunks_table, documents_table, vectors_table
from kbcore.store.segment import SegmentRef
from kbcore.types import Json

MAX_CHUNKS = 65_536


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
        layout.DOCUMENTS_FILE: _parquet(documents_table(documents), "zstd"),
        layout.CHUNKS_FILE: _parquet(chunks_table(chunks), "zstd"),
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


def _parquet(table: pa.Table, compression: str) -> bytes:
    sink = io.BytesIO()
    pq.write_table(table, sink, compression=compression, write_page_checksum=True, use_dictionary=False)
    return sink.getvalue()
