"""What a refresh has to do: the base's inventory against what the sources list. Pure; nothing is read or written here."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from kbcore.types import Listed

NOTHING_LEFT = "there is nothing to index in it any more"
"""How the reason begins why a document was removed that its source still lists."""


@dataclass(frozen=True, slots=True)
class Held:
    """A document of the base: where it lies (``segment`` number in the manifest's order, ``row``) and what it is."""

    doc_id: str
    source: str
    uri: str
    segment: int
    row: int
    content_sha256: str
    parser_id: str
    etag: str | None
    doc_digest: str


@dataclass(frozen=True, slots=True)
class Guard:
    """Removals of one source are withheld beyond: more than ``removals`` and more than ``percent`` % of what the base
    holds of it, or more than ``most``."""

    removals: int = 3
    percent: float = 25.0
    most: int = 500

    def withholds(self, removed: int, held: int) -> bool:
        return removed > self.most or (removed > self.removals and removed * 100 > self.percent * held)


def document_id(source: str, uri: str) -> str:
    return f"{source}:{uri}"


def is_confirmed(item: Listed, held: Held | None, *, etag: str | None, parser_id: str | None) -> bool:
    """True where the listing alone says that the base holds these bytes, parsed as they would be today.

    ``etag`` is the newest validator known for the document: the base's own, or a later one from the cache.
    """
    return held is not None and item.etag is not None and item.etag == etag and held.parser_id == parser_id


def removed(
    held: Iterable[Held], listed: Collection[str], complete_sources: Collection[str], kept: Collection[str]
) -> list[Held]:
    """Documents of completely listed sources that are not listed any more; ``kept`` were seen and failed."""
    return sorted(
        (h for h in held if h.source in complete_sources and h.doc_id not in listed and h.doc_id not in kept),
        key=lambda h: h.doc_id,
    )


def retry_hours(tries: int) -> int:
    """How long a document that failed ``tries`` times is left alone: 1, 2, 4, 8, 16 and then 24 hours."""
    return 24 if tries > 5 else 1 << max(tries - 1, 0)


def pair_renames(gone: Sequence[Held], new: Mapping[str, str]) -> dict[str, str]:
    """Old doc_id to new doc_id, of documents that are gone and new ones (doc_id to content digest) with equal bytes.

    Among several with the same bytes, the pair with the longest common path suffix goes first, then order of ids.
    """
    by_content: dict[str, list[str]] = defaultdict(list)
    for doc_id in sorted(new):
        by_content[new[doc_id]].append(doc_id)
    old_by_content: dict[str, list[str]] = defaultdict(list)
    for held in gone:
        if held.content_sha256 in by_content:
            old_by_content[held.content_sha256].append(held.doc_id)
    pairs: dict[str, str] = {}
    for content, old_ids in old_by_content.items():
        candidates = sorted(
            ((-common_suffix(old, new_id), old, new_id) for old in old_ids for new_id in by_content[content]),
        )
        taken: set[str] = set()
        for _, old, new_id in candidates:
            if old not in pairs and new_id not in taken:
                pairs[old] = new_id
                taken.add(new_id)
    return pairs


def common_suffix(a: str, b: str) -> int:
    """How many path parts two ids share at their end."""
    count = 0
    for left, right in zip(reversed(a.replace(":", "/", 1).split("/")), reversed(b.replace(":", "/", 1).split("/"))):
        if left != right:
            break
        count += 1
    return count
