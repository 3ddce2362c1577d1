"""The contents of files in a git repository, by the id of their blob."""

from __future__ import annotations

import hashlib
import subprocess
import threading

from kbcore.errors import DocumentError
from kbcore.sources.git.program import Git, Stream, end


class DamagedBlobError(DocumentError):
    """A blob is not in the repository, or is not what its id says."""


class Blobs:
    """Reads blobs through one ``git cat-file`` that runs until it is closed: many small files are read in one process.

    Threads take turns.
    """

    def __init__(self, git: Git) -> None:
        self._git = git
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._stream: Stream | None = None

    def read(self, blob: str, most: int) -> bytes:
        """Exactly the bytes that ``blob`` names. DocumentError where they are more than ``most``, not there, or not
        the bytes of that id."""
        with self._lock:
            try:
                return self._read(blob, most)
            except BaseException:
                # The rest of an answer may still be on its way: the next one is asked in a new process.
                self._end()
                raise

    def close(self) -> None:
        with self._lock:
            self._end()

    def _read(self, blob: str, most: int) -> bytes:
        if self._process is None or self._stream is None:
            self._process = self._git.start("cat-file", "--batch")
            assert self._process.stdout is not None
            self._stream = Stream(self._process.stdout, self._git.seconds)
        assert self._process.stdin is not None
        self._stream.restart()
        try:
            self._process.stdin.write(f"{blob}\n".encode())
            self._process.stdin.flush()
            head = self._stream.until(b"\n")
            if head is None:
                raise DocumentError("cannot be read: git cat-file ended early", transient=True)
            found = head.decode().split(" ")
            if len(found) != 3 or found[1] != "blob":
                raise DamagedBlobError(f"its blob {blob[:12]} is not in the repository (is it a partial clone?)")
            size = int(found[2])
            if size > most:
                raise DocumentError(f"has {size} bytes, more than max_bytes ({most})")
            data = self._stream.exactly(size)
            if data is None or self._stream.exactly(1) is None:
                raise DocumentError("cannot be read: git cat-file ended early", transient=True)
        except TimeoutError:
            raise DocumentError(f"git cat-file gave nothing in {self._git.seconds:g} s", transient=True) from None
        except OSError as error:
            raise DocumentError(f"cannot be read: {error.strerror}", transient=True) from error
        if blob_id(data, len(blob)) != blob:
            raise DamagedBlobError(f"its blob {blob[:12]} is damaged; run git fsck on the repository")
        return data

    def _end(self) -> None:
        if self._stream is not None:
            self._stream.close()
        if self._process is not None:
            end(self._process)
        self._process = self._stream = None


def blob_id(data: bytes, digits: int) -> str:
    """The id git gives these bytes, in a repository with ids of 40 (SHA-1) or 64 (SHA-256) digits."""
    digest = hashlib.sha256() if digits == 64 else hashlib.sha1(usedforsecurity=False)
    digest.update(b"blob %d\0" % len(data))
    digest.update(data)
    return digest.hexdigest()
