"""Small segments become one, so that a release of many refreshes opens as fast as a fresh one.

A release that is published anyway takes the documents of many small segments along into its own new segment, as they
are: nothing is parsed, cut or embedded again, and answers and digests stay the same. The old segments stay on disk for
the releases that use them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kbcore.arrays import Vectors
from kbcore.ingest.cutting import terms_of
from kbcore.ingest.plan import Plan
from kbcore.store import layout
from kbcore.store.rows import ChunkRow, DocumentRow
from kbcore.store.segment import Segment

SMALL_CHUNKS = 8_192
MOST_SMALL = 16
DEAD_SHARE = 0.5


def to_fold(plan: Plan, left_out: Sequence[frozenset[int]]) -> list[int]:
    """The numbers of the base's segments that the next release takes into its own: all small ones, once there are 16 of
    them, and those of which more than half is dead. None where the plan writes no segment or rewrites all."""
    if plan.rebuild or not plan.rows:
        return []
    live = []
    for segment, dead in zip(plan.base.segments, left_out, strict=True):
        counts = np.asarray(segment.documents(["chunk_count"]).column("chunk_count").to_numpy())
        alive = np.ones(len(counts), dtype=bool)
        alive[list(dead)] = False
        live.append(int(counts[alive].sum()))
    small = [number for number, chunks in enumerate(live) if 0 < chunks <= SMALL_CHUNKS]
    fold = set(small) if len(small) >= MOST_SMALL else set()
    for number, chunks in enumerate(live):
        total = plan.base.segments[number].ref.chunks
        if 0 < chunks < total * (1 - DEAD_SHARE) and total > SMALL_CHUNKS:
            fold.add(number)
    return sorted(fold)


def folded(segment: Segment, left_out: frozenset[int]) -> tuple[list[DocumentRow], list[str], Vectors]:
    """The live documents of a segment as they were written, the digests of their embedded texts, and their vectors in
    that order."""
    documents = segment.documents().to_pylist()
    chunks = segment.chunks().to_pylist()
    rows: list[DocumentRow] = []
    kept: list[int] = []
    for number, values in enumerate(documents):
        first, count = values.pop("first_chunk"), values.pop("chunk_count")
        if number in left_out:
            continue
        kept += range(first, first + count)
        rows.append(
            DocumentRow(**values, chunks=[_chunk(chunks[at], values["title"]) for at in range(first, first + count)])
        )
    vectors = segment.vectors()[kept]
    segment.drop(layout.VECTORS_FILE)
    return rows, [chunks[at]["embedded_sha256"] for at in kept], vectors


def _chunk(values: dict[str, object], title: str) -> ChunkRow:
    stored = {name: value for name, value in values.items() if name not in ("document_row", "length")}
    text, heading = str(values["text"]), str(values["heading"])
    # What was embedded is known by its digest alone, and is not embedded again.
    return ChunkRow(**stored, embedded=text, terms=terms_of(title, heading, text))  # type: ignore[arg-type]
