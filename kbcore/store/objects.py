"""Where bytes live: a small protocol, and a local folder that keeps its promises through power loss.

Names are relative, with ``/`` between parts. ``put_new`` is the only way anything is published: complete content
under a name nobody had, or ``FileExistsError``; when it returns, the content survives power loss.
"""

from __future__ import annotations

import builtins
import errno
import os
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from kbcore.errors import StorageFullError
from kbcore.fingerprint import sha256
from kbcore.store.layout import STAGING

FULL = {errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.EFBIG}


class ObjectStore(Protocol):
    """What a repository asks of its storage."""

    def put_new(self, files: Mapping[str, bytes]) -> None:
        """Create every file of ``files``, whole and durable. FileExistsError if a name is taken.

        Several files are not one step: a failure may leave some of them. Publish with one file alone.
        """

    def get(self, name: str) -> bytes:
        """The content. FileNotFoundError if there is none."""

    def list(self, prefix: str) -> builtins.list[str]:
        """All names below the folder ``prefix``, sorted."""

    def delete(self, name: str) -> None:
        """Remove a file; a name that is not there is no error."""

    def replace(self, name: str, data: bytes, *, if_version: str | None = None) -> str:
        """Write over a file at once; returns the new version. FileExistsError if the version is not ``if_version``.

        Only for what may be lost (cache, holder of the lease): never for what is published.
        """

    def local_path(self, name: str) -> Path | None:
        """The file's path where it is a local file, else None."""


class FileSystem:
    """The operations a LocalStore makes, one method each, so that a test can record, fail or cut them off."""

    def write(self, path: str, data: bytes) -> None:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(descriptor, view[: 1 << 30]) :]
        finally:
            os.close(descriptor)

    def fsync(self, path: str) -> None:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def link(self, source: str, target: str) -> None:
        os.link(source, target)

    def rename(self, source: str, target: str) -> None:
        os.rename(source, target)

    def unlink(self, path: str) -> None:
        os.unlink(path)

    def mkdir(self, path: str) -> None:
        os.mkdir(path)


class LocalStore:
    """A folder on a local file system with hard links (ext4, xfs, btrfs, APFS, tmpfs ...)."""

    def __init__(self, root: Path, fs: FileSystem | None = None) -> None:
        self.root = root
        self.fs = fs or FileSystem()

    def __repr__(self) -> str:
        return str(self.root.absolute())

    def put_new(self, files: Mapping[str, bytes]) -> None:
        with storage_errors(self.root):
            self.make_folder(self._path(STAGING))
            drafts = {name: self._draft() for name in files}
            try:
                for name, data in files.items():
                    self.fs.write(drafts[name], data)
                    self.fs.fsync(drafts[name])
                folders = {os.path.dirname(self._path(name)) for name in files}
                for folder in sorted(folders):
                    self.make_folder(folder)
                for name in files:
                    self._link(drafts[name], self._path(name))
                # A name is durable only once its folder is.
                for folder in sorted(folders):
                    self.fs.fsync(folder)
            finally:
                for draft in drafts.values():
                    self._forget(draft)

    def get(self, name: str) -> bytes:
        with storage_errors(self.root), open(self._path(name), "rb") as file:
            return file.read()

    def list(self, prefix: str) -> builtins.list[str]:
        names: builtins.list[str] = []
        for folder, _, files in os.walk(self._path(prefix), onerror=_unless_missing):
            relative = os.path.relpath(folder, self.root).replace(os.sep, "/")
            names.extend(f"{relative}/{file}" for file in files)
        return sorted(names)

    def delete(self, name: str) -> None:
        try:
            self.fs.unlink(self._path(name))
        except FileNotFoundError:
            pass

    def replace(self, name: str, data: bytes, *, if_version: str | None = None) -> str:
        with storage_errors(self.root):
            path = self._path(name)
            if if_version is not None:
                try:
                    found = sha256(self.get(name))
                except FileNotFoundError:
                    found = ""
                if found != if_version:
                    raise FileExistsError(errno.EEXIST, "another version is there", name)
            self.make_folder(self._path(STAGING))
            self.make_folder(os.path.dirname(path))
            draft = self._draft()
            try:
                self.fs.write(draft, data)
                self.fs.rename(draft, path)
            except BaseException:
                self._forget(draft)
                raise
            return sha256(data)

    def local_path(self, name: str) -> Path | None:
        return Path(self._path(name))

    def _path(self, name: str) -> str:
        return os.path.join(self.root, name)

    def _draft(self) -> str:
        return self._path(f"{STAGING}/draft-{os.getpid()}-{secrets.token_hex(8)}")

    def make_folder(self, path: str) -> None:
        """Make a folder and its missing parents below the root; each new name is made durable."""
        if os.path.isdir(path):
            return
        parent = os.path.dirname(path)
        self.make_folder(parent)
        try:
            self.fs.mkdir(path)
        except FileExistsError:
            # Another run made it just now; its name must be durable before ours below it counts.
            pass
        self.fs.fsync(parent)

    def _link(self, draft: str, path: str) -> None:
        try:
            self.fs.link(draft, path)
        except OSError:
            # A network file system may lose the reply to a link that it made: two names of the draft say so.
            try:
                made = os.stat(draft).st_nlink == 2 and os.path.samefile(draft, path)
            except OSError:
                made = False
            if not made:
                raise

    def _forget(self, draft: str) -> None:
        try:
            self.fs.unlink(draft)
        except OSError:
            pass


def _unless_missing(error: OSError) -> None:
    """A folder that is not there holds nothing; one that cannot be read must not be taken for empty."""
    if not isinstance(error, FileNotFoundError):
        raise error


@contextmanager
def storage_errors(root: Path) -> Iterator[None]:
    """Turns the errors of a storage, or a process, that has no room left into StorageFullError."""
    try:
        yield
    except OSError as error:
        if error.errno in FULL:
            files = error.errno in (errno.EMFILE, errno.ENFILE)
            remedy = "raise the limit of open files (ulimit -n)" if files else "free space or raise the quota"
            raise StorageFullError(
                f"{root}: {os.strerror(error.errno or 0)}",
                remedy=f"{remedy}, then run again: nothing that was published is touched",
            ) from error
        raise
