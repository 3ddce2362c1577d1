"""The local log of searches: who asked which release what, one JSON line an answer, one file a day. Off by default.

A line is ``time``, ``kb``, ``release``, ``consumer``, ``mode``, ``k``, ``outcome``, ``hits``, ``latency_ms``, and, where
payloads are allowed, ``question`` and ``chunk_ids``. DuckDB reads the files as they are: ``read_json('searches-*.jsonl')``.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import logging
import os
import threading
from collections.abc import Iterator
from contextvars import ContextVar
from datetime import UTC, datetime, timedelta
from pathlib import Path

from kbcore.clock import Clock, system_clock
from kbcore.types import SearchResult

log = logging.getLogger("kbcore.search_log")

PREFIX, SUFFIX = "searches-", ".jsonl"
LABEL = 200
UNNAMED = "python"
_consumer: ContextVar[str | None] = ContextVar("kbcore_consumer", default=UNNAMED)


@contextlib.contextmanager
def asked_by(consumer: str | None) -> Iterator[None]:
    """Searches within are logged under this label (at most 200 characters); None: they are not logged, as of a check of
    health. It holds for this thread or task and what it starts with a copy of its context (``asyncio.to_thread``)."""
    token = _consumer.set(None if consumer is None else consumer[:LABEL] or UNNAMED)
    try:
        yield
    finally:
        _consumer.reset(token)


class SearchLog:
    """Appends to the file of the day; safe to share between threads, and several processes may write to one folder.

    A log that cannot be written never fails a search: a warning says so. ``keep_days`` is how many days are kept, today's
    among them; older files go when a new day begins.
    """

    def __init__(
        self, folder: str | Path, *, payloads: bool = False, keep_days: int = 30, clock: Clock = system_clock
    ) -> None:
        self.folder = Path(folder)
        self.payloads = payloads
        self.keep_days = keep_days
        self._clock = clock
        self._lock = threading.Lock()
        self._day = ""
        self._failing = False

    def wrote(self, kb: str, result: SearchResult, k: int, seconds: float) -> None:
        """Append one answer, unless its caller asked not to be logged."""
        consumer = _consumer.get()
        if consumer is None:
            return
        now = self._clock().astimezone(UTC)
        line = {
            "time": now.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
            "kb": kb,
            "release": result.release,
            "consumer": consumer,
            "mode": result.mode,
            "k": k,
            "outcome": result.outcome,
            "hits": len(result.hits),
            "latency_ms": round(seconds * 1000, 3),
        }
        if self.payloads:
            line["question"] = result.query
            line["chunk_ids"] = [hit.chunk_id for hit in result.hits]
        # ASCII alone: whatever a question holds, the line is one line to every reader.
        data = json.dumps(line).encode("ascii") + b"\n"
        try:
            with self._lock:
                self._append(now.strftime("%Y-%m-%d"), data)
            self._failing = False
        except OSError as error:
            if not self._failing:
                log.warning("searches are not logged: %s", error)
            self._failing = True

    def _append(self, day: str, data: bytes) -> None:
        if day != self._day:
            self._make_folder()
            self._expire(day)
            self._day = day
        try:
            descriptor = self._open(day)
        except FileNotFoundError:
            self._make_folder()  # it was moved away since: whoever archives a log does not end it
            descriptor = self._open(day)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            before = os.fstat(descriptor).st_size
            try:
                written = os.write(descriptor, data)
            except OSError:
                written = 0
                raise
            finally:
                if written < len(data):
                    os.ftruncate(descriptor, before)  # half a line would spoil the next one
            if written < len(data):
                raise OSError(f"only {written} of {len(data)} bytes could be written to the log of the day")
        finally:
            os.close(descriptor)

    def _make_folder(self) -> None:
        # Questions are nobody else's business.
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)

    def _open(self, day: str) -> int:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        return os.open(self.folder / f"{PREFIX}{day}{SUFFIX}", flags, 0o600)

    def _expire(self, today: str) -> None:
        first = (datetime.fromisoformat(today) - timedelta(days=self.keep_days - 1)).strftime("%Y-%m-%d")
        for file in files(self.folder):
            if file.name[len(PREFIX) : -len(SUFFIX)] < first:
                file.unlink(missing_ok=True)


def files(folder: str | Path) -> list[Path]:
    """The files of a log, oldest day first; none where the folder is not there."""
    return sorted(Path(folder).glob(f"{PREFIX}[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]{SUFFIX}"))
