"""The form of every JSON file in a repository: its body, and the digest of that body beside it; and reading checked.

A file is exactly ``{"body":<canonical JSON>,"sha256":"<digest of the body's bytes>"}`` and a line feed. Reading
rebuilds those bytes and compares them all, so that any flipped bit, added byte, duplicate key or other spelling is
found, also outside the body.
"""

from __future__ import annotations

import json
from typing import Any

from kbcore.errors import CorruptReleaseError
from kbcore.fingerprint import canonical, sha256
from kbcore.store.objects import ObjectStore
from kbcore.types import Json

MAX_BYTES = 64 * 1024 * 1024
REMEDY = "restore the file from a copy, or roll back to a release that does not use it: kb verify --all"


def seal(body: Json) -> bytes:
    """The bytes of the file that holds ``body``."""
    inner = canonical(body)
    return b'{"body":' + inner + b',"sha256":"' + sha256(inner).encode() + b'"}\n'


def digest(body: Json) -> str:
    """The digest that ``seal`` writes beside ``body``: what other records name it by."""
    return sha256(canonical(body))


def unseal(data: bytes, *, file: str) -> Json:
    """The body of a sealed file. Raises CorruptReleaseError, naming ``file``, unless every byte is as ``seal`` wrote it."""
    if len(data) > MAX_BYTES:
        raise CorruptReleaseError(f"{len(data)} bytes is more than a record may have", file=file, remedy=REMEDY)
    try:
        wrapper: Any = json.loads(data.decode("utf-8"))
        body = wrapper["body"]
        whole = isinstance(body, dict) and seal(body) == data
    except (ValueError, TypeError, KeyError, RecursionError):
        whole = False
    if not whole:
        raise CorruptReleaseError("is not as it was written (damaged or edited)", file=file, remedy=REMEDY)
    return dict(body)


def read_sealed(store: ObjectStore, file: str, *, release: str | None = None) -> Json:
    """The body of a sealed JSON file; a missing one is as corrupt as a damaged one where a release names it."""
    try:
        return unseal(store.get(file), file=file)
    except FileNotFoundError:
        raise CorruptReleaseError("is missing", file=file, release=release, remedy=REMEDY) from None
    except CorruptReleaseError as error:
        raise (error.in_release(release) if release else error) from None


def read_checked(
    store: ObjectStore, file: str, digest: str, *, size: int | None = None, release: str | None = None
) -> bytes:
    """Bytes of a file whose digest is known; CorruptReleaseError if they are others, or missing."""
    try:
        data = store.get(file)
    except FileNotFoundError:
        raise CorruptReleaseError("is missing", file=file, release=release, remedy=REMEDY) from None
    if (size is not None and len(data) != size) or sha256(data) != digest:
        raise CorruptReleaseError(
            f"is not as it was written ({len(data)} bytes, digest differs)",
            file=file,
            release=release,
            remedy=REMEDY,
        )
    return data
