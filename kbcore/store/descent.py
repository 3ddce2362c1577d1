"""The releases that a release descends from."""

from __future__ import annotations

from collections.abc import Iterator

from kbcore.errors import KbError
from kbcore.store.manifest import Manifest
from kbcore.store.repository import Repository


def descent(repository: Repository, manifest: Manifest) -> Iterator[Manifest]:
    """``manifest`` and those before it, each the parent of the one given last, back to the first that has none or whose
    parent does not read: expired and reclaimed, or damaged. What was before that is not told any more."""
    yield manifest
    while manifest.parent is not None:
        try:
            manifest = repository.manifest(manifest.parent)
        except KbError:
            return
        yield manifest
