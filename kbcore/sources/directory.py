"""A folder of files as a source of documents.

Symbolic links, devices, pipes and sockets are not followed or opened. A file that changes while it is read, or that
changed a moment ago, gets no validator, so that the next run reads it again.
"""

from __future__ import annotations

import errno
import os
import stat
import unicodedata
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from kbcore.clock import iso, parse
from kbcore.errors import DocumentError, SourceError
from kbcore.globs import glob_pattern
from kbcore.types import Fetched, Listed, Listing

# A file system may stamp two changes within this time with the same modification time.
RACY_SECONDS = 2.0


class DirectorySource:
    """Files below ``path`` that match ``include`` and not ``exclude``; ``**`` spans folders, as in pathlib.

    An item's URI is its path below the folder in Unicode NFC with ``/``. Its validator is size, times and inode.
    """

    type = "directory"
    parallel = 1

    def __init__(
        self, name: str, path: str, include: Sequence[str], exclude: Sequence[str] = (), max_bytes: int = 50_000_000
    ) -> None:
        self.name = name
        self.path = Path(path)
        self.max_bytes = max_bytes
        self._include = [glob_pattern(pattern) for pattern in include]
        self._exclude = [glob_pattern(pattern) for pattern in exclude]
        self._paths: dict[str, str] = {}

    def list(self, listed_at: str) -> Listing:
        """All files, sorted by URI. SourceError where the folder is not there; an unreadable folder below it makes
        the listing incomplete."""
        self.probe()
        items: dict[str, Listed] = {}
        problems: list[tuple[str, str]] = []
        unseen: list[str] = []
        complete = True
        failed: list[OSError] = []
        for folder, folders, files in os.walk(self.path, onerror=failed.append):
            folders.sort()
            for linked in [name for name in folders if os.path.islink(os.path.join(folder, name))]:
                # Not entered, and no proof that what lay below a folder of this name is gone.
                where = os.path.relpath(os.path.join(folder, linked), self.path).replace(os.sep, "/")
                below = unicodedata.normalize("NFC", where) + "/"
                unseen.append(below)
                if not any(
                    pattern.fullmatch(name) for pattern in self._exclude for name in (below[:-1], below + "any")
                ):
                    problems.append((_shown(where), "is a symbolic link to a folder, which is not followed"))
            for file in sorted(files):
                full = os.path.join(folder, file)
                relative = os.path.relpath(full, self.path).replace(os.sep, "/")
                uri = unicodedata.normalize("NFC", relative)
                if not self._wanted(uri):
                    continue
                try:
                    uri.encode("utf-8")
                    info = os.lstat(full)
                except UnicodeEncodeError:
                    problems.append((_shown(uri), "its name is not valid UTF-8"))
                    continue
                except OSError as error:
                    complete = False
                    problems.append((uri, f"cannot be read: {error.strerror}"))
                    continue
                if not stat.S_ISREG(info.st_mode):
                    problems.append((uri, f"is {_kind(info.st_mode)}, not a regular file"))
                elif uri in items:
                    # Reported under the name as it is spelled on disk: the other file has the id.
                    problems.append((f"{relative} ({relative!a})", f"has the same name in Unicode NFC as {uri}"))
                else:
                    self._paths[uri] = full
                    items[uri] = Listed(uri, _validator(info, parse(listed_at).timestamp()), _time(info), info.st_size)
        for failure in failed:
            complete = False
            where = os.path.relpath(str(failure.filename), self.path) if failure.filename else "?"
            problems.append((_shown(where), f"folder cannot be read: {failure.strerror}"))
        ordered = [items[uri] for uri in sorted(items)]
        return Listing(self.name, listed_at, ordered, complete, tuple(problems), unseen=tuple(unseen))

    def fetch(self, item: Listed, fetched_at: str) -> Fetched:
        """Read one file. DocumentError where it went away, grew over ``max_bytes``, or changed while it was read."""
        path = self._paths.get(item.uri, str(self.path / item.uri))
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError as error:
            reason = "is a symbolic link" if error.errno == errno.ELOOP else f"cannot be opened: {error.strerror}"
            raise DocumentError(reason) from error
        try:
            before = os.fstat(descriptor)
            if not stat.S_ISREG(before.st_mode):
                raise DocumentError(f"is {_kind(before.st_mode)}, not a regular file")
            if before.st_size > self.max_bytes:
                raise DocumentError(f"has {before.st_size} bytes, more than max_bytes ({self.max_bytes})")
            data = _read(descriptor, self.max_bytes)
            after = os.fstat(descriptor)
        except OSError as error:
            raise DocumentError(f"cannot be read: {error.strerror}") from error
        finally:
            os.close(descriptor)
        if len(data) > self.max_bytes:
            raise DocumentError(f"grew over max_bytes ({self.max_bytes}) while it was read")
        if _identity(before) != _identity(after) or len(data) != after.st_size:
            raise DocumentError("changed while it was read")
        return Fetched(data, _validator(after, parse(fetched_at).timestamp()), _time(after), fetched_at)

    def probe(self) -> str:
        if not self.path.is_dir():
            what = "is not a folder" if self.path.exists() else "does not exist"
            raise SourceError(
                f"source {self.name!r}: {self.path.absolute()} {what}",
                remedy="mount it or mend [[sources]] path; nothing is taken for removed meanwhile",
            )
        try:
            with os.scandir(self.path) as entries:
                next(entries, None)
        except OSError as error:
            raise SourceError(
                f"source {self.name!r}: {self.path} cannot be read: {error.strerror}",
                remedy=f"chmod u+rx {self.path}",
            ) from error
        return str(self.path)

    def _wanted(self, uri: str) -> bool:
        return any(p.fullmatch(uri) for p in self._include) and not any(p.fullmatch(uri) for p in self._exclude)


def _read(descriptor: int, most: int) -> bytes:
    parts = []
    left = most + 1
    while left > 0 and (part := os.read(descriptor, min(left, 1 << 20))):
        parts.append(part)
        left -= len(part)
    return b"".join(parts)


def _identity(info: os.stat_result) -> tuple[int, ...]:
    return (info.st_ino, info.st_size, info.st_mtime_ns, info.st_ctime_ns)


def _validator(info: os.stat_result, now: float) -> str | None:
    changed = max(info.st_mtime_ns, info.st_ctime_ns) / 1e9
    if changed > now - RACY_SECONDS:
        return None
    return "-".join(f"{value:x}" for value in _identity(info))


def _time(info: os.stat_result) -> str:
    return iso(datetime.fromtimestamp(max(0.0, min(info.st_mtime, 253_402_300_799.0)), UTC))


def _shown(name: str) -> str:
    """A name as it can be written down; bytes that are not UTF-8 become question marks."""
    return name.encode("utf-8", "replace").decode()


def _kind(mode: int) -> str:
    names = {
        stat.S_IFLNK: "a symbolic link",
        stat.S_IFIFO: "a pipe",
        stat.S_IFSOCK: "a socket",
        stat.S_IFDIR: "a folder",
    }
    return names.get(stat.S_IFMT(mode), "a device")
