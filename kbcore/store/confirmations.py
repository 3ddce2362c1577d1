"""What the sources last said of the documents of a release."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kbcore.store.manifest import Manifest
from kbcore.store.repository import Repository


@dataclass(frozen=True)
class Confirmations:
    """``sources``: name to the time of the last complete listing that had this release as its head, None for never.
    ``failed``: documents that could not be had since, with the reason and since when. ``withheld``: documents that their
    source no longer lists, and whose removal waits for a person."""

    sources: Mapping[str, str | None] = field(default_factory=dict)
    failed: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    withheld: frozenset[str] = frozenset()

    @classmethod
    def of(cls, repository: Repository, manifest: Manifest) -> Confirmations:
        """From the newest check of a run that left ``manifest`` as the head; from the manifest where there is none."""
        check = repository.last_check(manifest.release)
        sources = check["sources"] if check else manifest.sources
        exceptions = check["exceptions"] if check else manifest.exceptions
        withheld = check["withheld"] if check else [entry["doc_id"] for entry in manifest.withheld]
        return cls(
            {entry["name"]: entry.get("confirmed_at") for entry in sources},
            {entry["doc_id"]: (entry["reason"], entry["since"]) for entry in exceptions},
            frozenset(withheld),
        )

    def of_document(self, doc_id: str, source: str, fetched_at: str) -> tuple[str, bool]:
        """When its source last said that the version held is its current one, and whether it is served although the
        source has another one, or none, by now."""
        if doc_id in self.failed or doc_id in self.withheld:
            return fetched_at, True
        return self.sources.get(source) or fetched_at, False
