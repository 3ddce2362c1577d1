"""What a source of documents is."""

from __future__ import annotations

from typing import Protocol

from kbcore.types import Fetched, Listed, Listing


class Source(Protocol):
    """Lists what it holds, and fetches one item. Listing raises SourceError, fetching DocumentError."""

    name: str
    type: str

    def list(self, listed_at: str) -> Listing:
        """Everything the source holds now, in a fixed order."""

    def fetch(self, item: Listed, fetched_at: str) -> Fetched:
        """The bytes of one listed item."""
