"""Bodies that a listing had to fetch, kept on disk until they are asked for, so that nothing is fetched twice."""

from __future__ import annotations

import shutil
import tempfile
import threading
import time
import weakref
from pathlib import Path

from kbcore.fingerprint import text_sha256

STALE_SECONDS = 86_400.0


class Spool:
    """A folder of its own below ``parent`` for each instance, made when the first body comes; it goes when the instance
    goes, and what a killed run left goes a day later. Keeps nothing where ``parent`` is None or cannot be written: that
    costs a second request."""

    def __init__(self, parent: Path | None) -> None:
        self._parent = parent
        self._folder: Path | None = None
        self._lock = threading.Lock()

    def put(self, name: str, data: bytes) -> None:
        try:
            folder = self._made()
            if folder is None:
                return
            with tempfile.NamedTemporaryFile(dir=folder, delete=False) as out:
                out.write(data)
            Path(out.name).replace(folder / text_sha256(name))
        except OSError:
            pass

    def take(self, name: str) -> bytes | None:
        """The bytes, once; None where they are not there."""
        if self._folder is None:
            return None
        path = self._folder / text_sha256(name)
        try:
            data = path.read_bytes()
            path.unlink()
        except OSError:
            return None
        return data

    def _made(self) -> Path | None:
        with self._lock:
            if self._folder is None and self._parent is not None:
                self._parent.mkdir(parents=True, exist_ok=True)
                for old in self._parent.glob("spool-*"):
                    if old.stat().st_mtime < time.time() - STALE_SECONDS:
                        shutil.rmtree(old, ignore_errors=True)
                self._folder = Path(tempfile.mkdtemp(dir=self._parent, prefix="spool-"))
                weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
            return self._folder
