"""What a candidate is made of, against the current release: figures of the data, without a question asked."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass

import pyarrow.compute as pc

from kbcore.differences import tombstones
from kbcore.evaluation.causes import Releases
from kbcore.planning import NOTHING_LEFT
from kbcore.store.inventory import Inventory

EMPTIED = 10


@dataclass(frozen=True, slots=True)
class CorpusChange:
    """Counts of documents, each against the old release: ``removed`` leaves out renamed ones; ``emptied`` are still there
    at their source and lost nine tenths of their text or all of it; ``untitled`` had a title and have none; ``failed``
    could not be had that could before; ``flagged`` have a doubtful text that had none; ``copied`` are new and share half or
    more of their chunks with another document, ``copied_most`` most often this one. ``characters`` is the length of all
    texts, ``kept_characters`` of those of documents that both releases hold, renamed ones too."""

    documents_before: int
    documents: int
    removed: int
    changed: int
    emptied: int
    untitled: int
    failed: int
    flagged: int
    copied: int
    copied_most: str | None
    characters_before: int
    characters: int
    kept_characters_before: int
    kept_characters: int


def between(releases: Releases) -> CorpusChange:
    """The figures of the new release against the old."""
    before, after, moved = releases.old, releases.new, releases.renamed
    flags_before, lengths_before = _texts(before)
    flags, lengths = _texts(after)
    pairs = {doc_id: moved.get(doc_id, doc_id) for doc_id in before.held}
    kept = {doc_id: new_id for doc_id, new_id in pairs.items() if new_id in after.held}
    gone = set(before.held) - set(kept)
    skipped = [
        entry["doc_id"]
        for entry in tombstones(releases.repository, after.manifest, before.release, gone)
        if entry["reason"].startswith(NOTHING_LEFT)
    ]
    failed_before = {entry["doc_id"] for entry in before.manifest.exceptions}
    copied = _copies(after, set(after.held) - set(kept.values()))
    return CorpusChange(
        documents_before=len(before.held),
        documents=len(after.held),
        removed=len(gone),
        changed=sum(
            doc_id in after.held and after.held[doc_id].doc_digest != held.doc_digest
            for doc_id, held in before.held.items()
        ),
        emptied=len(skipped) + sum(lengths[b] * EMPTIED < lengths_before[a] for a, b in kept.items()),
        untitled=sum(bool(before.titles[a].strip()) and not after.titles[b].strip() for a, b in kept.items()),
        failed=sum(entry["doc_id"] not in failed_before for entry in after.manifest.exceptions),
        flagged=len(flags - flags_before - {moved.get(doc_id, doc_id) for doc_id in flags_before}),
        copied=copied.total(),
        copied_most=max(copied, key=lambda doc_id: (copied[doc_id], doc_id), default=None),
        characters_before=sum(lengths_before.values()),
        characters=sum(lengths.values()),
        kept_characters_before=sum(lengths_before[doc_id] for doc_id in kept),
        kept_characters=sum(lengths[doc_id] for doc_id in kept.values()),
    )


def _copies(inventory: Inventory, fresh: Collection[str]) -> Counter[str]:
    """Of the documents ``fresh`` those that repeat another one, counted by the document they repeat most of."""
    owners: dict[str, set[str]] = {}
    if fresh:
        for doc_id in inventory.held:
            for digest in inventory.chunk_digests(doc_id):
                owners.setdefault(digest, set()).add(doc_id)
    found: Counter[str] = Counter()
    for doc_id in fresh:
        digests = inventory.chunk_digests(doc_id)
        shared = [owners[digest] - {doc_id} for digest in digests if len(owners[digest]) > 1]
        if 2 * len(shared) >= max(1, len(digests)):
            # Copies repeat each other too: the one that was there before them is the one to name.
            others = Counter(other for documents in shared for other in documents)
            found[max(others, key=lambda other: (other not in fresh, others[other], other))] += 1
    return found


def _texts(inventory: Inventory) -> tuple[set[str], dict[str, int]]:
    """Documents whose text is flagged as doubtful, and the length of each text."""
    flagged: set[str] = set()
    characters: dict[str, int] = {}
    by_segment: dict[int, list[tuple[int, str]]] = {}
    for doc_id, held in inventory.held.items():
        by_segment.setdefault(held.segment, []).append((held.row, doc_id))
    for number, documents in by_segment.items():
        table = inventory.segments[number].documents(["stats", "text"])
        lengths = pc.utf8_length(table.column("text")).to_pylist()
        stats = table.column("stats").to_pylist()
        characters |= {doc_id: lengths[row] for row, doc_id in documents}
        flagged |= {doc_id for row, doc_id in documents if json.loads(stats[row]).get("flags")}
    return flagged, characters
