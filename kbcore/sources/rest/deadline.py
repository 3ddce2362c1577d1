"""One time limit for the whole of an answer, also where it comes in drips.

A socket's own time-out counts from each piece to the next, and http.client goes on reading until it has as much as it
wants: a server that sends a byte now and then would be read for ever. So every read here gets what is left of the time.
"""

from __future__ import annotations

import http.client
import io
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

_running = threading.local()


@contextmanager
def deadline(seconds: float) -> Iterator[Callable[[], float]]:
    """What this thread reads from a pool that keeps to deadlines has to come within ``seconds``; a read after that is a
    TimeoutError. Gives a function that says how many seconds are left, below 0 once they are over."""
    before: float | None = getattr(_running, "until", None)
    until = time.monotonic() + seconds
    _running.until = until
    try:
        yield lambda: until - time.monotonic()
    finally:
        _running.until = before


def keep_to_deadline(pool: Any) -> Any:
    """A connection pool of urllib3 whose connections keep to the deadline of the thread that reads from them."""
    made = pool.ConnectionCls
    if getattr(made, "response_class", None) is not _TimedResponse:
        # Whatever kind it is: with or without TLS, straight or through a proxy.
        pool.ConnectionCls = type(f"Timed{made.__name__}", (made,), {"response_class": _TimedResponse})
    return pool


class _TimedResponse(http.client.HTTPResponse):
    def __init__(self, sock: socket.socket, *args: Any, **kwargs: Any) -> None:
        super().__init__(sock, *args, **kwargs)
        self.fp = io.BufferedReader(_TimedReads(sock, self.fp.detach()))


class _TimedReads(io.RawIOBase):
    """The reading end of a socket; no read takes longer than the socket's time-out or than what is left."""

    def __init__(self, sock: socket.socket, raw: io.RawIOBase) -> None:
        self._sock = sock
        self._raw = raw

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        until: float | None = getattr(_running, "until", None)
        if until is None:
            return self._raw.readinto(buffer)
        left = until - time.monotonic()
        if left <= 0:
            raise TimeoutError("the answer took too long")
        usual = self._sock.gettimeout()
        self._sock.settimeout(left if usual is None else min(usual, left))
        try:
            return self._raw.readinto(buffer)
        finally:
            if self._sock.fileno() >= 0:
                self._sock.settimeout(usual)

    def close(self) -> None:
        if not self.closed:
            self._raw.close()
        super().close()
