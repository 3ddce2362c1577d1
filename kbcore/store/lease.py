"""The writer's lease: one run at a time, on one machine or several, with a note of who holds it.

On one machine ``flock`` decides, so that a run that died never blocks the next. Between machines the note does: its
holder renews it while it works, and one that was not renewed for two minutes is taken over. Correctness never rests on
any of it (publishing is put-if-absent); it spares the second run its work.
"""

from __future__ import annotations

import fcntl
import getpass
import json
import logging
import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from kbcore.errors import LockedError
from kbcore.store.layout import LEASE
from kbcore.types import Json

log = logging.getLogger("kbcore.lease")

LOOKING_SECONDS = 0.3
BEAT_SECONDS = 20.0
EXPIRY_SECONDS = 120.0


@dataclass(frozen=True, slots=True)
class Lease:
    """``took_over`` says from whom and why, where a run before this one did not give its lease back."""

    run: str
    took_over: str | None = None


@contextmanager
def writer_lease(root: Path, *, run: str, since: str) -> Iterator[Lease]:
    """Hold the lease of the repository at ``root``; LockedError, naming the holder, if another run has it."""
    folder = root / LEASE
    folder.mkdir(parents=True, exist_ok=True)
    holder = folder / "holder.json"
    with open(folder / "lock", "a+b") as lock:
        if not _locked(lock):
            raise _busy(holder)
        took_over = _left_by(holder, lock)
        note = {"run": run, "since": since, "pid": os.getpid(), "host": socket.gethostname(), "user": user()}
        _write(holder, note)
        if took_over:
            log.warning("lease of %s taken over by %s: %s", root, run, took_over)
        ended = threading.Event()
        beating = threading.Thread(target=_beat, args=(holder, note, ended), name=f"lease-{run}", daemon=True)
        beating.start()
        try:
            yield Lease(run, took_over)
        finally:
            ended.set()
            beating.join()
            if (_read(holder) or {}).get("run") == run:
                holder.unlink(missing_ok=True)


def is_held(root: Path) -> bool:
    """Whether a run holds the lease now; a note alone may be left by one that was killed."""
    holder = root / LEASE / "holder.json"
    try:
        with open(root / LEASE / "lock", "rb") as lock:
            # Shared, so that two that look at once do not take each other for a run.
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
            note = _read(holder)
            return note is not None and _is_elsewhere(note) and time.time() - holder.stat().st_mtime < EXPIRY_SECONDS
    except BlockingIOError:
        return True
    except OSError:
        return False


def describe(holder: Path) -> str:
    """Who holds the lease, in words; the note may be missing for a moment or left by a run that was killed."""
    note = _read(holder)
    if note is None:
        return "its holder has not yet signed"
    return f"{note['run']}, started {note['since']} by {note['user']} on {note['host']}, process {note['pid']}"


def user() -> str:
    """The name of the person or service that runs this process."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())


def _busy(holder: Path) -> LockedError:
    return LockedError(
        f"another run is under way: {describe(holder)}", remedy="wait until it has ended, then run again"
    )


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


def _left_by(holder: Path, lock: BinaryIO) -> str | None:
    """Why the lease may be taken although a note lies there, None where none does. LockedError where it may not."""
    note = _read(holder)
    if note is None:
        return None
    who = describe(holder)
    if not _is_elsewhere(note):
        # Its process would hold the lock of this machine.
        return f"{who}: it has ended without giving the lease back"
    # Both times are the storage's own: the clocks of two machines may differ.
    os.utime(lock.fileno())
    silent = os.fstat(lock.fileno()).st_mtime - holder.stat().st_mtime
    if silent < EXPIRY_SECONDS:
        raise _busy(holder)
    return f"{who}: it has not been heard of for {silent:.0f} seconds"


def _is_elsewhere(note: Json) -> bool:
    return bool(note["host"] != socket.gethostname())


def _beat(holder: Path, note: Json, ended: threading.Event) -> None:
    """Renew the note until the run ends. A note of somebody else's stays: the lease was taken over."""
    while not ended.wait(BEAT_SECONDS):
        found = _read(holder)
        if found is not None and found["run"] != note["run"]:
            log.warning("the lease of %s was taken over by %s", note["run"], found["run"])
            return
        try:
            _write(holder, note)
        except OSError as error:
            # The run goes on: what it publishes does not rest on the lease.
            log.warning("the lease of %s could not be renewed: %s", note["run"], error)


def _write(holder: Path, note: Json) -> None:
    draft = holder.with_name(f"{note['run']}.{os.getpid()}.draft")
    draft.write_text(json.dumps(note))
    os.replace(draft, holder)


def _read(holder: Path) -> Json | None:
    """The note, None where there is none that reads."""
    try:
        note = json.loads(holder.read_text())
        return {key: note[key] for key in ("run", "since", "user", "host", "pid")}
    except (OSError, ValueError, KeyError, TypeError):
        return None
