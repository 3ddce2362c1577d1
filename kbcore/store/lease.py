"""The writer's lease: one run at a time, by flock, with a note of who holds it.

Correctness never rests on it (publishing is put-if-absent); it spares the second run its work.
"""

from __future__ import annotations

import fcntl
import getpass
import json
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from kbcore.errors import LockedError
from kbcore.store.layout import LEASE

LOOKING_SECONDS = 0.3


@contextmanager
def writer_lease(root: Path, *, run: str, since: str) -> Iterator[None]:
    """Hold the lease of the repository at ``root``; LockedError, naming the holder, if another run has it."""
    folder = root / LEASE
    folder.mkdir(parents=True, exist_ok=True)
    holder = folder / "holder.json"
    with open(folder / "lock", "a+b") as lock:
        if not _locked(lock):
            raise LockedError(
                f"another run is under way: {describe(holder)}", remedy="wait until it has ended, then run again"
            )
        holder.write_text(
            json.dumps({"run": run, "since": since, "pid": os.getpid(), "host": socket.gethostname(), "user": user()})
        )
        try:
            yield
        finally:
            holder.unlink(missing_ok=True)


def _locked(lock: BinaryIO) -> bool:
    """Whether the lock was to be had. One that only looks, as the doctor does, holds it for an instant."""
    deadline = time.monotonic() + LOOKING_SECONDS
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if time.monotonic() > deadline:
                return False
            time.sleep(0.02)


def is_held(root: Path) -> bool:
    """Whether a run holds the lease now; a note alone may be left by one that was killed."""
    try:
        with open(root / LEASE / "lock", "rb") as lock:
            # Shared, so that two that look at once do not take each other for a run.
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def describe(holder: Path) -> str:
    """Who holds the lease, in words; the note may be missing for a moment or left by a run that was killed."""
    try:
        note = json.loads(holder.read_text())
        return f"{note['run']}, started {note['since']} by {note['user']} on {note['host']}, process {note['pid']}"
    except (OSError, ValueError, KeyError, TypeError):
        return "its holder has not yet signed"


def user() -> str:
    """The name of the person or service that runs this process."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())
