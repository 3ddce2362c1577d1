"""A retriever that follows promotions: every question is answered from the release that is current when it is asked."""

from __future__ import annotations

import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Unpack

from kbcore.errors import KbError, KbUnavailableError
from kbcore.retrieval.context import UNTRUSTED, Context
from kbcore.retrieval.request import Where
from kbcore.retrieval.retriever import Options, Retriever
from kbcore.store.promotion import Promotion
from kbcore.store.repository import Repository
from kbcore.types import SearchResult

log = logging.getLogger("kbcore.retrieval")

LOOK_SECONDS = 0.25
WARM = 3
RETRY_SECONDS = 5.0


class LiveRetriever:
    """Answers from the current release, and from the next one once that is promoted; safe to share between threads.

    A question is answered whole by one release: what runs while readers are moved ends on the release it began with. The
    next release is opened beside the one that answers, which goes on until it is ready; the releases that were answered
    from last stay open (three in all), so that a rollback takes effect with the next question. Where a promoted release
    cannot be opened, the former one goes on answering and ``problem`` says why.
    """

    def __init__(self, repository: Repository, open_release: Callable[[Promotion], Retriever]) -> None:
        """``open_release`` opens the release of a promotion. Opens the current one; raises what that raises, and
        KbUnavailableError where none was promoted yet."""
        self._repository = repository
        self._open_release = open_release
        self._lock = threading.Lock()
        self._looked = float("-inf")
        self._warm: OrderedDict[str, Retriever] = OrderedDict()
        self._opening: threading.Thread | None = None
        self._failed: tuple[int, float] = (-1, 0.0)
        self.problem: str | None = None
        state = repository.state()
        self._current = self._opened(state)
        self._seq = state.seq

    def current(self) -> Retriever:
        """The retriever that answers now. Ask one several things, and they are of one release."""
        with self._lock:
            now = time.monotonic()
            if now - self._looked >= LOOK_SECONDS:
                self._looked = now
                self._look()
            return self._current

    @property
    def release(self) -> str:
        return self.current().release

    @property
    def opened(self) -> tuple[str, ...]:
        """The releases that are open, the one that was moved to last last."""
        with self._lock:
            return tuple(retriever.release for retriever in self._warm.values())

    def warm(self, release: str) -> Retriever | None:
        """The retriever of a release by its full name, where it is open."""
        with self._lock:
            return next((retriever for retriever in self._warm.values() if retriever.release == release), None)

    def search(self, query: str, k: int | None = None, **options: Unpack[Options]) -> SearchResult:
        """See ``Retriever.search``."""
        return self.current().search(query, k, **options)

    def search_many(
        self, queries: Sequence[str], k: int | None = None, **options: Unpack[Options]
    ) -> list[SearchResult]:
        """See ``Retriever.search_many``: all of one release."""
        return self.current().search_many(queries, k, **options)

    async def asearch(self, query: str, k: int | None = None, **options: Unpack[Options]) -> SearchResult:
        """See ``Retriever.asearch``."""
        return await self.current().asearch(query, k, **options)

    def context(
        self, query: str, max_tokens: int, k: int | None = None, *, note: str = UNTRUSTED, **options: Unpack[Options]
    ) -> tuple[SearchResult, Context]:
        """See ``Retriever.context``: searched and packed by one release."""
        return self.current().context(query, max_tokens, k, note=note, **options)

    def lookup(self, key: str, k: int | None = None, *, where: Where = None) -> SearchResult:
        """See ``Retriever.lookup``."""
        return self.current().lookup(key, k, where=where)

    def _look(self) -> None:
        """With the lock held: has anybody moved readers?"""
        try:
            state = self._repository.state()
        except (KbError, OSError) as error:
            # The log cannot be read right now: what is open goes on answering.
            self.problem = str(error)
            return
        if state.seq == self._seq or state.release is None:
            self.problem = None
            return
        warm = self._warm.get(_key(state))
        if warm is not None:
            self._take(state, warm)
            return
        recently = self._failed[0] == state.seq and time.monotonic() - self._failed[1] < RETRY_SECONDS
        if self._opening is None and not recently:
            self._opening = threading.Thread(target=self._open_beside, args=(state,), name="kb-open", daemon=True)
            self._opening.start()

    def _open_beside(self, state: Promotion) -> None:
        try:
            retriever = self._opened(state)
        except Exception as error:
            log.warning("%s was promoted and cannot be opened: %s", state.release, error)
            with self._lock:
                self._failed = state.seq, time.monotonic()
                self.problem = f"{state.release} was promoted and cannot be opened: {error}"
                self._opening = None
            return
        with self._lock:
            self._opening = None
            try:
                now = self._repository.state()
            except (KbError, OSError):
                return  # it stays warm, and the next look reads the log again
            if _key(now) == _key(state):
                self._take(now, retriever)
            # Else somebody moved readers on while it was opened: it stays warm, and the next look sees where they are.

    def _take(self, state: Promotion, retriever: Retriever) -> None:
        self._warm[_key(state)] = retriever
        self._warm.move_to_end(_key(state))
        while len(self._warm) > WARM:
            self._warm.popitem(last=False)
        if self._current is not retriever:
            log.info("answering from %s, before from %s", retriever.release, self._current.release)
        self._current, self._seq, self.problem = retriever, state.seq, None

    def _opened(self, state: Promotion) -> Retriever:
        if state.release is None:
            raise KbUnavailableError("no release is current yet", remedy="publish one with: kb refresh")
        retriever = self._open_release(state)
        if "vector" in retriever.snapshot.parts:
            _ = retriever.embedder  # loaded and checked before the first question waits for it
        if retriever.settings.reranker is not None:
            retriever.settings.reranker.load()
        self._warm.setdefault(_key(state), retriever)
        return retriever


def _key(state: Promotion) -> str:
    """A release by the manifest its promotion names."""
    return f"{state.release}:{state.manifest_digest}"
