"""Work beside the event loop: so many threads, so many requests that wait for one, so many seconds."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from kbcore.serving.failures import busy, too_slow

T = TypeVar("T")


class Pool:
    """Threads of one kind of work. A call that was given up after its time goes on to its end, and keeps its place until
    then: what is running is never more than the threads, whatever callers do."""

    def __init__(self, name: str, *, threads: int, waiting: int, seconds: float | None) -> None:
        """``seconds`` count from the call on, waiting included; None where a call must be seen to its end."""
        self.name = name
        self.limit = threads + waiting
        self.pending = 0
        self.turned_away = 0
        self._seconds = seconds
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix=f"kb-{name}")

    async def run(self, call: Callable[..., T], *arguments: Any) -> T:
        """What ``call`` gives. Raises what it raises, and Refusal (503) where too many wait, or after the time."""
        if self.pending >= self.limit:
            self.turned_away += 1
            raise busy(self.pending)
        loop = asyncio.get_running_loop()
        future = self._threads.submit(contextvars.copy_context().run, call, *arguments)
        self.pending += 1

        def ended(_: object) -> None:
            with contextlib.suppress(RuntimeError):  # the loop has ended before the call
                loop.call_soon_threadsafe(self._ended)

        future.add_done_callback(ended)
        waited = asyncio.wrap_future(future)
        done, _ = await asyncio.wait({waited}, timeout=self._seconds)
        if done:
            return waited.result()
        future.cancel()  # one that no thread has taken up yet
        waited.add_done_callback(_look_away)
        raise too_slow(self._seconds or 0.0)

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _ended(self) -> None:
        self.pending -= 1


def _look_away(future: asyncio.Future[Any]) -> None:
    """Nobody waits for it any more: what it raised is no news."""
    if not future.cancelled():
        future.exception()
