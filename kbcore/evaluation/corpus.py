"""What a candidate is made of, against the current release: figures of the data, without a question asked."""

from __future__ import annotations

import json
from dataclasses import dataclass

import pyarrow.compute as pc

from kbcore.differences import renames
from kbcore.store.inventory import Inventory
from kbcore.store.repository import Repository


@dataclass(frozen=True, slots=True)
class CorpusChange:
    """Counts of documents: ``removed`` leaves out renamed ones, ``failed`` could not be had, ``flagged`` have a doubtful
    text in the new release and had none in the old. ``characters`` is the length of all texts, ``kept_characters`` of those
    of documents that both releases hold, renamed ones too."""

    documents_before: int
    documents: int
    removed: int
    changed: int
    failed: int
    flagged: int
    characters_before: int
    characters: int
    kept_characters_before: int
    kept_characters: int


def against(repository: Repository, old: str, new: str) -> CorpusChange:
    """The figures of ``new`` against ``old``."""
    before, after = Inventory(repository, old), Inventory(repository, new)
    moved = renames(before, after)
    flags_before, lengths_before = _texts(before)
    flags, lengths = _texts(after)
    pairs = {doc_id: moved.get(doc_id, doc_id) for doc_id in before.held}
    kept = {old: new for old, new in pairs.items() if new in after.held}
    return CorpusChange(
        documents_before=len(before.held),
        documents=len(after.held),
        removed=sum(doc_id not in after.held and doc_id not in moved for doc_id in before.held),
        changed=sum(
            doc_id in after.held and after.held[doc_id].doc_digest != held.doc_digest
            for doc_id, held in before.held.items()
        ),
        failed=len(after.manifest.exceptions),
        flagged=len(flags - flags_before - {moved.get(doc_id, doc_id) for doc_id in flags_before}),
        characters_before=sum(lengths_before.values()),
        characters=sum(lengths.values()),
        kept_characters_before=sum(lengths_before[doc_id] for doc_id in kept),
        kept_characters=sum(lengths[doc_id] for doc_id in kept.values()),
    )


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
