"""Releases that were asked for by name, kept open for the next question: a few, however many are asked for."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable

from kbcore.retrieval.retriever import Retriever

KEPT = 2


class OpenReleases:
    """Opens releases one at a time and keeps the last ones used; safe to share between threads."""

    def __init__(self, open_release: Callable[[str], Retriever], kept: int = KEPT) -> None:
        self._open_release = open_release
        self._kept = kept
        self._lock = threading.Lock()
        # One opens at a time: a loop over releases takes the memory of one more than are kept, not of one a thread.
        self._opening = threading.Lock()
        self._open: OrderedDict[str, Retriever] = OrderedDict()

    def get(self, release: str) -> Retriever:
        """The retriever of a release, by its full name. Raises what opening it raises."""
        found = self._known(release)
        if found is not None:
            return found
        with self._opening:
            found = self._known(release)
            if found is not None:
                return found
            with self._lock:
                while len(self._open) >= self._kept:
                    self._open.popitem(last=False)  # before the next is opened, so that its memory is free by then
            opened = self._open_release(release)
            with self._lock:
                self._open[release] = opened
            return opened

    def names(self) -> tuple[str, ...]:
        """The releases that are open, the one used last last."""
        with self._lock:
            return tuple(self._open)

    def _known(self, release: str) -> Retriever | None:
        with self._lock:
            found = self._open.get(release)
            if found is not None:
                self._open.move_to_end(release)
            return found
