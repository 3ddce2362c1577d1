"""Digests and identities: everything here is a function of its arguments alone.

All digests are sha256 in lower-case hexadecimal. JSON is hashed in canonical form: keys sorted by code point, no
blanks, UTF-8, no NaN, so that equal values have equal bytes on every machine.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

ID_LENGTH = 32


def canonical(value: Any) -> bytes:
    """Canonical JSON of ``value`` in UTF-8. Raises ValueError on NaN, infinities and lone surrogates."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode("utf-8")


def sha256(data: bytes | bytearray | memoryview) -> str:
    return hashlib.sha256(data).hexdigest()


def text_sha256(text: str) -> str:
    return sha256(text.encode("utf-8"))


def short_id(value: Any) -> str:
    """First 32 hex of the sha256 of the canonical JSON of ``value``: an identity of settings."""
    return sha256(canonical(value))[:ID_LENGTH]


def chunk_ids(doc_id: str, text_digests: Sequence[str]) -> list[str]:
    """Ids of a document's chunks in order: sha256 of (doc_id, text digest, occurrence), 32 hex.

    ``occurrence`` counts equal texts within the document from 0, so a chunk whose text is unchanged keeps its id
    wherever it moves to, and two equal chunks of one document have different ids.
    """
    seen: Counter[str] = Counter()
    ids = []
    for digest in text_digests:
        ids.append(short_id([doc_id, digest, seen[digest]]))
        seen[digest] += 1
    return ids


def doc_digest(
    *,
    doc_id: str,
    content_sha256: str,
    parser_id: str,
    metadata: Mapping[str, Any],
    text_digest: str,
    chunks: Iterable[tuple[int, int, str]],
) -> str:
    """Digest of one document as a release holds it; ``chunks`` are (start, end, text digest) in order.

    Times, validators, flags, vectors and places on disk are left out: they may differ between two builds of the same
    content.
    """
    spans = [[start, end, digest] for start, end, digest in chunks]
    return sha256(canonical([doc_id, content_sha256, parser_id, dict(metadata), text_digest, spans]))


def content_digest(*, chunker_id: str, analyzer_id: str, embedder_id: str, doc_digests: Iterable[str]) -> str:
    """Digest of a release's content, whatever the segments it is laid out in."""
    return sha256(canonical([chunker_id, analyzer_id, embedder_id, sorted(doc_digests)]))
