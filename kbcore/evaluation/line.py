"""A line of releases, each made from the one before it, and a document's way through them under all its names."""

from __future__ import annotations

import difflib
from dataclasses import dataclass, field

from kbcore.differences import renames
from kbcore.errors import KbError, UsageError
from kbcore.store import layout
from kbcore.store.inventory import Inventory
from kbcore.store.manifest import Manifest
from kbcore.store.repository import Repository

EXPIRED = "it has expired"


@dataclass
class Line:
    """Releases from the oldest to the newest. ``manifests`` are those that read, ``passed_over`` says why of the others."""

    releases: list[str]
    manifests: dict[str, Manifest]
    passed_over: dict[str, str] = field(default_factory=dict)

    def readable(self) -> list[str]:
        return [name for name in self.releases if name not in self.passed_over]


def line_of(repository: Repository, newest: str, oldest: str | None = None) -> Line:
    """The releases that ``newest`` descends from, back to ``oldest`` (as far as they go).

    Where a manifest does not read, the line goes on with the next lower number: that was the head when it was made, but
    for one that had expired by then. UsageError where ``newest`` does not descend from ``oldest``.
    """
    expired = repository.expired()
    published = repository.releases()
    line = Line([], {})
    name: str | None = newest
    while name is not None:
        line.releases.append(name)
        try:
            manifest = repository.manifest(name)
        except KbError as error:
            line.passed_over[name] = error.message
            lower = [other for other in published if layout.release_number(other) < layout.release_number(name)]
            parent = lower[-1] if lower else None
        else:
            line.manifests[name] = manifest
            parent = manifest.parent
        if name in expired:
            line.passed_over[name] = EXPIRED
        name = None if name == oldest else parent
    line.releases.reverse()
    if oldest is not None and line.releases[0] != oldest:
        raise UsageError(
            f"{newest} does not descend from {oldest}: its line begins with {line.releases[0]}",
            remedy="see: kb releases",
        )
    return line


class Inventories:
    """The inventories of a line, as they are asked for. The newest few are kept: neighbours are looked at together."""

    KEPT = 3

    def __init__(self, repository: Repository, line: Line) -> None:
        self._repository = repository
        self._line = line
        self._known: dict[str, Inventory] = {}

    def of(self, release: str) -> Inventory | None:
        """None where the release cannot be read; the line passes it over from then on."""
        if release not in self._known:
            try:
                self._known[release] = Inventory(self._repository, release)
            except KbError as error:
                self._line.passed_over[release] = error.message
                return None
            while len(self._known) > self.KEPT:
                del self._known[next(iter(self._known))]
        return self._known[release]


def names_of(line: Line, inventories: Inventories, document: str) -> dict[str, str]:
    """By release the id under which it holds ``document`` (an id, or a URI that one source has); releases that do not are
    left out. Empty where none does.

    Starts at the newest release that knows the name, and follows renames with equal bytes from there in both directions.
    UsageError where a URI stands for several documents.
    """
    found: dict[str, str] = {}
    names = line.readable()
    anchor = None
    for at in range(len(names) - 1, -1, -1):
        inventory = inventories.of(names[at])
        if inventory is not None and (doc_id := _named(inventory, document)) is not None:
            anchor, found[names[at]] = at, doc_id
            break
    if anchor is None:
        return {}
    for side in (range(anchor - 1, -1, -1), range(anchor + 1, len(names))):
        doc_id, before = found[names[anchor]], names[anchor]
        for at in side:
            name = names[at]
            if line.manifests[name].content_digest == line.manifests[before].content_digest:
                there = found.get(before)
            else:
                here, last = inventories.of(name), inventories.of(before)
                if here is None or last is None:
                    continue
                there = _followed(doc_id, last, here, back=at < anchor)
            if there is not None:
                doc_id = found[name] = there
            before = name
    return found


def nearest(inventory: Inventory, document: str) -> str | None:
    """The id that was probably meant."""
    ends = [known for known in sorted(inventory.held) if known.endswith((f":{document}", f"/{document}"))]
    near = ends or difflib.get_close_matches(document, inventory.held, n=1)
    return near[0] if near else None


def _named(inventory: Inventory, document: str) -> str | None:
    if document in inventory.held:
        return document
    ids = inventory.with_uri(document)
    if len(ids) > 1:
        raise UsageError(f"{document} is in several sources", remedy=f"name one of: {', '.join(ids)}")
    return ids[0] if ids else None


def _followed(doc_id: str, last: Inventory, here: Inventory, *, back: bool) -> str | None:
    """What ``doc_id`` of ``last`` is called in its neighbour."""
    if doc_id in here.held:
        return doc_id
    if doc_id not in last.held:
        return None
    if back:
        return {new: old for old, new in renames(here, last).items()}.get(doc_id)
    return renames(last, here).get(doc_id)
