"""The rows of a segment's tables: documents, chunks and vectors, as they are written and as Arrow holds them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from kbcore.arrays import Vectors

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
    """One chunk as it is written; ``terms`` are its BM25 tokens, ``embedded`` is the exact text that is embedded for it
    (``text`` itself, or with a context before it), of which only the digest is stored."""

    chunk_id: str
    ordinal: int
    start: int
    end: int
    page_start: int | None
    page_end: int | None
    heading: str
    text: str
    text_sha256: str
    embedded: str
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


def documents_table(documents: Sequence[DocumentRow]) -> pa.Table:
    columns: dict[str, list[Any]] = {
        name: [getattr(document, name) for document in documents]
        for name in DOCUMENTS.names
        if name not in ("first_chunk", "chunk_count")
    }
    counts = [len(document.chunks) for document in documents]
    columns["first_chunk"] = [0, *np.cumsum(counts)[:-1].tolist()] if counts else []
    columns["chunk_count"] = list(counts)
    return pa.table(columns, schema=DOCUMENTS)


def chunks_table(chunks: Iterable[tuple[int, ChunkRow]]) -> pa.Table:
    rows = list(chunks)
    columns: dict[str, list[Any]] = {
        name: [getattr(chunk, name) for _, chunk in rows]
        for name in CHUNKS.names
        if name not in ("document_row", "length")
    }
    columns["document_row"] = [row for row, _ in rows]
    columns["length"] = [len(chunk.terms) for _, chunk in rows]
    return pa.table(columns, schema=CHUNKS)


def vectors_table(vectors: Vectors) -> pa.Table:
    flat = pa.array(np.ascontiguousarray(vectors, dtype=np.float32).reshape(-1))
    return pa.table({"vector": pa.FixedSizeListArray.from_arrays(flat, vectors.shape[1])})


def vectors_array(table: pa.Table, dimension: int) -> Vectors:
    column = table.column("vector").combine_chunks()
    flat: Vectors = column.flatten().to_numpy().reshape(-1, dimension)
    return flat
