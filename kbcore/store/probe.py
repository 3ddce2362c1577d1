"""Does the storage keep what a release rests on? Asked once at ``kb init`` and again by ``kb doctor``."""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import shutil
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from kbcore.errors import StorageUnsupportedError
from kbcore.store.layout import STAGING
from kbcore.store.objects import FULL, LocalStore, storage_errors

RACERS = 16
LOW_SPACE = 500_000_000


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """``ok`` is None where the finding is a remark, not a fault; ``denied`` says that this user may not write here."""

    name: str
    ok: bool | None
    detail: str
    denied: bool = False


class _Broken(Exception):
    """A promise the storage did not keep."""


def _expect(kept: bool, detail: str) -> None:
    if not kept:
        raise _Broken(detail)


def _denied(error: Exception) -> bool:
    # Not EPERM: a file system without hard links says that.
    return isinstance(error, OSError) and error.errno in (errno.EACCES, errno.EROFS)


def probe_storage(store: LocalStore) -> list[ProbeResult]:
    """Try every operation that publishing needs, in a scratch folder that is removed afterwards.

    StorageFullError where there is no room to try: that says nothing of what the storage keeps.
    """
    with storage_errors(store.root):
        return _probed(store)


def _probed(store: LocalStore) -> list[ProbeResult]:
    scratch = f"{STAGING}/probe-{secrets.token_hex(8)}"
    folder = os.path.join(store.root, scratch)
    results: list[ProbeResult] = []

    def attempt(name: str, check: Callable[[], str]) -> None:
        try:
            results.append(ProbeResult(name, True, check()))
        except (OSError, _Broken) as error:
            if isinstance(error, OSError) and error.errno in FULL:
                raise
            results.append(ProbeResult(name, False, str(error) or type(error).__name__, _denied(error)))

    try:
        store.root.mkdir(parents=True, exist_ok=True)
        # Not by make_folder: that syncs, which is to be tried on its own below.
        for path in (os.path.join(store.root, STAGING), folder):
            if not os.path.isdir(path):
                store.fs.mkdir(path)
    except OSError as error:
        if error.errno in FULL:
            raise
        return [ProbeResult("write", False, f"{folder} cannot be made: {error.strerror}", _denied(error))]
    first, second = os.path.join(folder, "first"), os.path.join(folder, "second")

    def write_and_sync() -> str:
        store.fs.write(first, b"first")
        store.fs.fsync(first)
        store.fs.fsync(folder)
        with open(first, "rb") as file:
            _expect(file.read() == b"first", "a file does not read as it was written")
        return "files and folders can be synced"

    def link() -> str:
        store.fs.link(first, second)
        _expect(os.stat(first).st_nlink == 2, f"a linked file counts {os.stat(first).st_nlink} names, not 2")
        return "hard links work"

    def link_exists() -> str:
        store.fs.write(os.path.join(folder, "third"), b"third")
        try:
            store.fs.link(os.path.join(folder, "third"), second)
        except OSError as error:
            if error.errno != errno.EEXIST:
                raise
        else:
            raise _Broken("linking onto a taken name went through")
        with open(second, "rb") as file:
            _expect(file.read() == b"first", "a taken name changed its content")
        return "a taken name stays what it is"

    def race() -> str:
        name = f"{scratch}/race"

        ready = threading.Barrier(RACERS)

        def put(number: int) -> bool:
            ready.wait()
            try:
                store.put_new({name: str(number).encode()})
            except FileExistsError:
                return False
            return True

        with ThreadPoolExecutor(RACERS) as pool:
            winners = [number for number, won in enumerate(pool.map(put, range(RACERS))) if won]
        _expect(len(winners) == 1, f"{len(winners)} of {RACERS} writers of one name were told that it is theirs")
        _expect(store.get(name) == str(winners[0]).encode(), "the name holds another writer's content")
        _expect(name in store.list(scratch), "a file that was just written is not listed")
        return f"of {RACERS} writers of one name, one wins"

    def lock() -> str:
        with open(first, "rb") as one, open(first, "rb") as two:
            fcntl.flock(one, fcntl.LOCK_EX | fcntl.LOCK_NB)
            try:
                fcntl.flock(two, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return "flock keeps a second writer out"
            raise _Broken("flock lets two writers in")

    try:
        attempt("sync", write_and_sync)
        attempt("link", link)
        attempt("link onto a taken name", link_exists)
        attempt("create race", race)
        attempt("lock", lock)
        free = shutil.disk_usage(store.root).free
        results.append(ProbeResult("free space", None if free < LOW_SPACE else True, f"{free / 1e9:.1f} GB are free"))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return results


def require_storage(store: LocalStore) -> None:
    """StorageUnsupportedError, naming every promise the storage does not keep."""
    broken = [result for result in probe_storage(store) if result.ok is False]
    if broken:
        raise StorageUnsupportedError(
            f"{store.root} cannot hold a repository: " + "; ".join(f"{r.name}: {r.detail}" for r in broken),
            remedy="choose a folder that this user may write to"
            if all(result.denied for result in broken)
            else "use a local file system with hard links (ext4, xfs, btrfs, APFS)",
        )
