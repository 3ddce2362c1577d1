"""What hits look like to a reader: title, heading and words, taken from the release itself at the time of reading."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from kbcore.store.inventory import Inventory

SHOWN = 300


@dataclass(frozen=True, slots=True)
class Excerpt:
    """``text`` is the chunk's, blanks folded and cut at 300 characters; None where the release does not hold the document
    (any more: a document that was erased shows nowhere)."""

    title: str
    heading: str
    text: str | None


class Excerpts:
    """The passages of one release. ``documents`` are those that will be asked for: their texts are read at once."""

    def __init__(self, inventory: Inventory, documents: Iterable[str]) -> None:
        self._inventory = inventory
        self._texts = inventory.texts(set(documents))

    def at(self, doc_id: str, start: int, end: int) -> Excerpt:
        text = self._texts.get(doc_id)
        if text is None:
            return Excerpt("", "", None)
        words = " ".join(text[start:end].split())
        shown = words if len(words) <= SHOWN else words[:SHOWN].rstrip() + " …"
        title = self._inventory.titles.get(doc_id, "")
        # A path of headings mostly begins with the title, which stands before it.
        path = self._inventory.heading(doc_id, start, end).split(" > ")
        return Excerpt(title, " > ".join(path[1:] if path[0] == title else path), shown)
