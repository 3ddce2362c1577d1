"""How fast one host may be asked."""

from __future__ import annotations

import threading
import time
from datetime import UTC, datetime

from kbcore.errors import HttpError
from kbcore.sources.web.validators import moment

LONGEST_PAUSE = 120.0


class Pace:
    """Gives requests to one host a distance in time, over all threads; a host that asks for a pause gets it.

    Times are seconds of ``time.monotonic``.
    """

    def __init__(self, delay: float) -> None:
        self._delay = delay
        self._own: dict[str, float] = {}
        self._next: dict[str, float] = {}
        self._lock = threading.Lock()

    def wait(self, host: str, until: float | None = None) -> float:
        """Sleep until it is this request's turn; how long that took. HttpError (budget) where that is after ``until``."""
        with self._lock:
            now = time.monotonic()
            at = max(now, self._next.get(host, now))
            if until is not None and at > until:
                raise HttpError("budget", "no time was left to ask for it (total_seconds)")
            self._next[host] = at + max(self._delay, self._own.get(host, 0.0))
        time.sleep(max(0.0, at - now))
        return at - now

    def hold(self, host: str, retry_after: str) -> None:
        """No request to this host before what its Retry-After asks for, but for two minutes at most."""
        seconds = min(pause(retry_after), LONGEST_PAUSE)
        with self._lock:
            self._next[host] = max(self._next.get(host, 0.0), time.monotonic() + seconds)

    def slow(self, host: str, delay: float) -> None:
        """The distance that a host wants itself; it counts where it is longer."""
        with self._lock:
            self._own[host] = delay
            self._next[host] = max(self._next.get(host, 0.0), time.monotonic() + delay)


def pause(text: str) -> float:
    """Seconds that a Retry-After asks for (a number or a date), 0 for what is neither."""
    text = text.strip()
    if text.isdecimal():
        return float(text[:9])
    at = moment(text)
    return max(0.0, (at - datetime.now(UTC)).total_seconds()) if at else 0.0
