"""What a candidate is made of, against the current release: figures of the data, without a question asked."""

from __future__ import annotations

import json
from dataclasses import dataclass

import numpy as np
import pyarrow.compute as pc

from kbcore.differences import renames
from kbcore.store.inventory import Inventory
from kbcore.store.repository import Repository


@dataclass(frozen=True, slots=True)
class CorpusChange:
    """Counts of documents; ``removed`` leaves out renamed ones, ``failed`` are those that could not be had, ``flagged``
    have a doubtful text in the new release and had none in the old; ``characters`` is the length of all texts."""

    documents_before: int
    documents: int
    removed: int
    changed: int
    failed: int
    flagged: int
    characters_before: int
    characters: int


def against(repository: Repository, old: str, new: str) -> CorpusChange:
    """The figures of ``new`` against ``old``."""
    before, after = Inventory(repository, old), Inventory(repository, new)
    moved = renames(before, after)
    flags_before, characters_before = _texts(before)
    flags, characters = _texts(after)
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
        characters_before=characters_before,
        characters=characters,
    )


def _texts(inventory: Inventory) -> tuple[set[str], int]:
    """Documents whose text is flagged as doubtful, and the length of all texts."""
    flagged: set[str] = set()
    characters = 0
    by_segment: dict[int, list[tuple[int, str]]] = {}
    for doc_id, held in inventory.held.items():
        by_segment.setdefault(held.segment, []).append((held.row, doc_id))
    for number, documents in by_segment.items():
        table = inventory.segments[number].documents(["stats", "text"])
        lengths = pc.utf8_length(table.column("text")).to_numpy()
        stats = table.column("stats").to_pylist()
        characters += int(lengths[np.array([row for row, _ in documents])].sum())
        flagged |= {doc_id for row, doc_id in documents if json.loads(stats[row]).get("flags")}
    return flagged, characters
