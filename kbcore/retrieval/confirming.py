"""What the sources last said of the documents of a release that is open."""

from __future__ import annotations

import threading
import time

from kbcore.store.confirmations import Confirmations
from kbcore.store.manifest import Manifest
from kbcore.store.repository import Repository
from kbcore.types import Json

CHECK_SECONDS = 0.5


class Confirming:
    """The newest check of a run that had the release as its head, followed while a retriever is open: a run that ends writes
    another check."""

    def __init__(self, repository: Repository, manifest: Manifest) -> None:
        self._repository = repository
        self._manifest = manifest
        self._lock = threading.Lock()
        self._file: str | None = ""
        self._looked = float("-inf")
        self._confirmations = Confirmations()

    def of(self, chunk: Json) -> tuple[str, bool]:
        """When its source last said that this version is its current one, and whether it is served although the source
        has another one, or none, by now."""
        with self._lock:
            if time.monotonic() - self._looked >= CHECK_SECONDS:
                self._look()
            seen = self._confirmations
        return seen.of_document(chunk["doc_id"], chunk["source"], chunk["fetched_at"])

    def _look(self) -> None:
        self._looked = time.monotonic()
        newest = self._repository.newest_check_file()
        if newest == self._file:
            return
        self._file = newest
        self._confirmations = Confirmations.of(self._repository, self._manifest)
