"""Listing and fetching, so that an interrupt never waits for a server: as many items at once as their source allows, given
back in the order of the listing."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

from kbcore.errors import DocumentError
from kbcore.ingest.retry import retried
from kbcore.sources import Source
from kbcore.types import Fetched, Listed, Listing

AHEAD = 2


def list_all(source: Source, at: str) -> Listing:
    """The listing of a source, tried again where that may help.

    In a thread of its own where the source can do with several: a client that waits for its server outside of Python
    keeps the main thread from hearing of an interrupt. Others end what they have started when they are interrupted.
    """
    if source.parallel < 2:
        return retried(lambda: source.list(at))
    thread = ThreadPoolExecutor(1, thread_name_prefix=f"list-{source.name}")
    try:
        listing = thread.submit(retried, lambda: source.list(at)).result()
    except BaseException as error:
        thread.shutdown(wait=not isinstance(error, KeyboardInterrupt), cancel_futures=True)
        raise
    thread.shutdown()
    return listing


def fetch_all(
    source: Source, items: Iterable[Listed], now: Callable[[], str]
) -> Iterator[tuple[Listed, Fetched | DocumentError]]:
    """Each item with its bytes, or with why they could not be had; ``now`` gives the time a fetch is recorded with."""

    def fetch(item: Listed) -> Fetched | DocumentError:
        try:
            return retried(lambda: source.fetch(item, now()))
        except DocumentError as error:
            return error

    if source.parallel < 2:
        for item in items:
            yield item, fetch(item)
        return
    waiting: deque[tuple[Listed, Future[Fetched | DocumentError]]] = deque()
    threads = ThreadPoolExecutor(source.parallel, thread_name_prefix=f"fetch-{source.name}")
    try:
        for item in items:
            waiting.append((item, threads.submit(fetch, item)))
            if len(waiting) >= AHEAD * source.parallel:
                first, future = waiting.popleft()
                yield first, future.result()
        while waiting:
            first, future = waiting.popleft()
            yield first, future.result()
    except BaseException as error:
        # Nobody waits for what is under way when the run is interrupted; otherwise the source is still in use by it.
        threads.shutdown(wait=not isinstance(error, KeyboardInterrupt), cancel_futures=True)
        raise
    threads.shutdown()
