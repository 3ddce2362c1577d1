"""What a source of documents is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, runtime_checkable

from kbcore.types import Fetched, Listed, Listing


class Source(Protocol):
    """Lists what it holds, and fetches one item. Listing raises SourceError, fetching DocumentError; either says by
    ``transient`` whether trying again may help.

    ``parallel`` is how many items may be fetched at once, from as many threads.
    """

    name: str
    type: str
    parallel: int

    def list(self, listed_at: str) -> Listing:
        """Everything the source holds now, in a fixed order."""

    def fetch(self, item: Listed, fetched_at: str) -> Fetched:
        """The bytes of one listed item."""

    def probe(self) -> str:
        """Whether the source can be reached, without listing all of it: what was seen, in a few words. SourceError,
        with its remedy, where it cannot."""


@runtime_checkable
class Conditional(Protocol):
    """A source that can ask whether what is held still holds, instead of having it sent again."""

    def known(self, validators: Mapping[str, str | None]) -> None:
        """Told before each listing: URI to the validator of the version held, for all that is held; None where it has to
        be sent again all the same. An item listed with the same validator is taken for unchanged."""
