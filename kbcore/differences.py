"""What changed from one release to another, by document."""

from __future__ import annotations

import difflib
from collections import Counter
from dataclasses import asdict, dataclass, field

from kbcore.errors import UsageError
from kbcore.planning import pair_renames
from kbcore.store.descent import descent
from kbcore.store.inventory import Inventory
from kbcore.store.manifest import Manifest, changed_settings
from kbcore.store.repository import Repository
from kbcore.types import Json


@dataclass(frozen=True)
class Difference:
    """Documents by kind, each list sorted; ``changed`` says how many chunks were kept, are new and are gone.

    ``tombstones`` say of removed documents in which release they went, when and why, as far as the releases between the
    two still tell. Documents erased from all releases do not show. ``settings`` are chunker, analyzer and embedder where
    they differ.
    """

    old: str
    new: str
    added: list[str]
    removed: list[str]
    changed: list[Json]
    renamed: list[Json]
    unchanged: int
    carried_over: list[Json]
    withheld: list[str]
    settings: list[Json]
    tombstones: list[Json] = field(default_factory=list)
    totals: dict[str, Json] = field(default_factory=dict)

    @property
    def differs(self) -> bool:
        return bool(self.added or self.removed or self.changed or self.renamed or self.settings)

    def to_json(self) -> Json:
        return {**asdict(self), "differs": self.differs}


def compare_releases(repository: Repository, old: str, new: str) -> Difference:
    """What ``new`` has that ``old`` had not, and the reverse. A rename is a pair of ids with equal bytes."""
    return compare_inventories(repository, Inventory(repository, old), Inventory(repository, new))


def compare_inventories(repository: Repository, left: Inventory, right: Inventory) -> Difference:
    """The same of two releases whose documents were read already."""
    old, new = left.release, right.release
    renamed = renames(left, right)
    changed = []
    both = sorted(left.held.keys() & right.held.keys())
    for doc_id in both:
        if left.held[doc_id].doc_digest != right.held[doc_id].doc_digest:
            before, after = Counter(left.chunk_digests(doc_id)), Counter(right.chunk_digests(doc_id))
            kept = (before & after).total()
            changed.append({"doc_id": doc_id, "kept": kept, "new": after.total() - kept, "gone": before.total() - kept})
    removed = sorted(left.held.keys() - right.held.keys() - renamed.keys())
    return Difference(
        old=old,
        new=new,
        added=sorted(right.held.keys() - left.held.keys() - set(renamed.values())),
        removed=removed,
        changed=changed,
        renamed=[{"old": a, "new": b} for a, b in sorted(renamed.items())],
        unchanged=len(both) - len(changed),
        # Both are looked up among the live documents: the manifest was written before anything was erased.
        carried_over=[
            dict(entry)
            for entry in right.manifest.exceptions
            if entry["carried_over"] and entry["doc_id"] in right.held
        ],
        withheld=[entry["doc_id"] for entry in right.manifest.withheld if entry["doc_id"] in right.held],
        settings=changed_settings(left.manifest.settings, right.manifest.settings),
        tombstones=tombstones(repository, right.manifest, old, set(removed)),
        totals={old: left.manifest.totals, new: right.manifest.totals},
    )


def text_diff(repository: Repository, old: str, new: str, doc_id: str) -> str:
    """A unified diff of a document's text in both releases, empty where it is the same. UsageError if in neither.

    A document that was renamed with equal bytes in between is compared under both of its ids, whichever is given.
    """
    before, after = Inventory(repository, old), Inventory(repository, new)
    if doc_id not in before.held and doc_id not in after.held:
        near = [known for known in sorted(before.held.keys() | after.held.keys()) if known.endswith(f":{doc_id}")]
        near = near or difflib.get_close_matches(doc_id, before.held.keys() | after.held.keys(), n=1)
        raise UsageError(
            f"neither {old} nor {new} holds {doc_id!r}",
            remedy=f"did you mean {near[0]}?" if near else "see: kb documents",
        )
    renamed = renames(before, after)
    old_id = next((a for a, b in renamed.items() if b == doc_id), doc_id)
    new_id = renamed.get(doc_id, doc_id)
    left, right = before.text(old_id), after.text(new_id)
    # Split at line feeds alone, so that texts that differ in another line end or in the last one differ here too.
    lines = difflib.unified_diff(
        left.split("\n") if left is not None else [],
        right.split("\n") if right is not None else [],
        f"{old}/{old_id}",
        f"{new}/{new_id}",
        lineterm="",
    )
    return "\n".join(lines)


def tombstones(repository: Repository, newest: Manifest, oldest: str, wanted: set[str]) -> list[Json]:
    """When and why each of the wanted documents went, as far as the releases from ``newest`` back to ``oldest`` still
    tell; by document."""
    found: dict[str, Json] = {}
    for manifest in descent(repository, newest):
        if manifest.release == oldest or not wanted - found.keys():
            break
        for entry in manifest.removed:
            if entry["doc_id"] in wanted:
                found.setdefault(entry["doc_id"], {**entry, "release": manifest.release, "at": manifest.created_at})
    return [found[doc_id] for doc_id in sorted(found)]


def renames(left: Inventory, right: Inventory) -> dict[str, str]:
    """Old id to new id of documents that are under another id with equal bytes."""
    gone = [held for doc_id, held in sorted(left.held.items()) if doc_id not in right.held]
    fresh = {doc_id: held.content_sha256 for doc_id, held in sorted(right.held.items()) if doc_id not in left.held}
    return pair_renames(gone, fresh)
