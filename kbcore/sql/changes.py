"""The chunks in which two releases differ."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator

import pyarrow as pa

from kbcore.differences import compare_releases
from kbcore.store.repository import Repository
from kbcore.types import Json

CHANGES = pa.schema(
    [
        pa.field("for_old", pa.string()),
        pa.field("for_new", pa.string()),
        pa.field("change", pa.string()),
        pa.field("doc_id_old", pa.string()),
        pa.field("doc_id_new", pa.string()),
        pa.field("chunk_id_old", pa.string()),
        pa.field("chunk_id_new", pa.string()),
        pa.field("text_sha256", pa.string()),
        pa.field("text", pa.string()),
        pa.field("start_old", pa.int32()),
        pa.field("start_new", pa.int32()),
    ]
)
COLUMNS = ["doc_id", "chunk_id", "text_sha256", "text", "start"]
Key = tuple[str, str, int]


def chunk_changes(
    repository: Repository, old: str, new: str, before: Iterable[Json], after: Iterable[Json]
) -> Iterator[Json]:
    """Chunks that ``new`` has and ``old`` has not (added), the reverse (removed), and those that moved.

    ``before`` and ``after`` are the live chunks of the two with COLUMNS. Documents are followed over renames; equal
    texts of one document are paired in order, so a chunk has moved when its place in the text or its document's id is
    another. Added and moved ones come first, in the order of ``after``.
    """
    follow = {pair["old"]: pair["new"] for pair in compare_releases(repository, old, new).renamed}
    left = {(follow.get(doc_id, doc_id), digest, n): row for (doc_id, digest, n), row in _keyed(before)}
    for key, row in _keyed(after):
        other = left.pop(key, None)
        if other is None or (other["doc_id"], other["start"]) != (row["doc_id"], row["start"]):
            yield _change("added" if other is None else "moved", other, row)
    for row in left.values():
        yield _change("removed", row, None)


def _keyed(rows: Iterable[Json]) -> Iterator[tuple[Key, Json]]:
    """Each row under (document, text, occurrence)."""
    seen: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for row in rows:
        doc_id, digest = row["doc_id"], row["text_sha256"]
        yield (doc_id, digest, seen[doc_id][digest]), row
        seen[doc_id][digest] += 1


def _change(kind: str, old: Json | None, new: Json | None) -> Json:
    shown = new or old or {}
    return {
        "change": kind,
        **{f"{name}_old": old and old[name] for name in ("doc_id", "chunk_id", "start")},
        **{f"{name}_new": new and new[name] for name in ("doc_id", "chunk_id", "start")},
        "text_sha256": shown["text_sha256"],
        "text": shown["text"],
    }
