"""Objects below a prefix of a bucket as a source of documents: Amazon S3 and what speaks its protocol, Google, Azure."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from kbcore.clock import iso
from kbcore.config.sources import ObjectStoreSection
from kbcore.errors import DocumentError, SourceError
from kbcore.globs import glob_pattern
from kbcore.parsing.media import media_type_of
from kbcore.sources.object_store.bucket import Bucket, Meta
from kbcore.sources.object_store.failures import ObjectChanged, ObjectFailure
from kbcore.sources.secrets import ENVIRONMENT, Secrets
from kbcore.types import Fetched, Listed, Listing


class ObjectStoreSource:
    """Objects whose key below the prefix matches ``include`` and not ``exclude``.

    An item's URI is its key below the prefix in Unicode NFC. Its validator is the ETag, where the store has none the
    version, or else time and size. Items may be fetched from several threads.
    """

    type = "object_store"
    parallel = 8

    def __init__(self, section: ObjectStoreSection, *, cache: Path, secrets: Secrets = ENVIRONMENT) -> None:
        self.name = section.name
        self.section = section
        self.bucket = Bucket(section, secrets)
        self._include = [glob_pattern(pattern) for pattern in section.include]
        self._exclude = [glob_pattern(pattern) for pattern in section.exclude]
        self._folders_out = [glob_pattern(p.removesuffix("/**")) for p in section.exclude if p.endswith("/**")]
        self._keys: dict[str, str] = {}
        self._superseded: set[str] = set()

    def list(self, listed_at: str) -> Listing:
        """All objects, sorted by URI. SourceError where a page of the listing could not be had. A key that cannot be
        named makes its folder a problem and the listing incomplete."""
        try:
            found, unnamed = self.bucket.objects(self._is_excluded)
            metas = self._documents(found)
        except ObjectFailure as failure:
            raise self._error(failure) from None
        problems = [(self._folder(folder), UNNAMED) for folder in unnamed]
        keys: dict[str, str] = {}
        items: dict[str, Listed] = {}
        times = Counter(self._uri(meta["path"]) for meta in metas)
        for meta in metas:
            uri = self._uri(meta["path"])
            if not _is_printable(uri):
                problems.append((_printable(uri), "its key holds control characters or line ends; rename the object"))
            elif times[uri] == 1:
                keys[uri] = meta["path"]
                items[uri] = Listed(uri, validator(meta), iso(meta["last_modified"]), meta["size"])
        problems += [(uri, TWICE) for uri, count in times.items() if count > 1 and _is_printable(uri)]
        self._keys = keys
        self._superseded = set()
        ordered = [items[uri] for uri in sorted(items)]
        return Listing(self.name, listed_at, ordered, complete=not unnamed, problems=tuple(sorted(problems)))

    def fetch(self, item: Listed, fetched_at: str) -> Fetched:
        """The object as it was listed. DocumentError where it has more than ``max_bytes`` or went away; a transient
        one where it was changed since, and the next call then takes it as it is by then."""
        most = self.section.max_bytes
        if item.size is not None and item.size > most:
            raise DocumentError(f"has {item.size} bytes, more than max_bytes ({most})")
        expected = None if item.uri in self._superseded else item.etag
        key = self._keys.get(item.uri) or self._key(item.uri)
        try:
            got = self.bucket.get(key, if_match=expected if _is_etag(expected) else None, most=most)
            etag = validator(got.meta, like=expected)
            if expected and etag != expected:  # a store without If-Match, or a validator that is no ETag
                raise ObjectChanged("was changed since it was listed", transient=True)
        except ObjectFailure as failure:
            if isinstance(failure, ObjectChanged):
                self._superseded.add(item.uri)
            raise DocumentError(failure.message, remedy=failure.remedy, transient=failure.transient) from None
        encoding = got.headers.get("Content-Encoding", "").strip().lower()
        if encoding not in ("", "identity", "aws-chunked"):
            raise DocumentError(f"is stored with Content-Encoding {encoding}", remedy="store it without")
        media_type = None
        if media_type_of(item.uri, b"") is None:
            media_type = got.headers.get("Content-Type", "").partition(";")[0].strip().lower() or None
        return Fetched(got.data, etag, iso(got.meta["last_modified"]), fetched_at, media_type)

    def probe(self) -> str:
        try:
            holds = self.bucket.holds_objects()
        except ObjectFailure as failure:
            raise self._error(failure) from None
        return self.section.url if holds else f"{self.section.url}, where there is nothing yet"

    def _documents(self, found: Iterable[Meta]) -> Iterable[Meta]:
        """The objects that are wanted, sorted by key. An empty one with others below or under its name is a folder key
        (or blank, and would not be indexed either); of another empty one the store is asked whether it is one."""
        metas = sorted(found, key=lambda meta: str(meta["path"]))
        folders = {parent for meta in metas for parent in _parents(meta["path"])}
        folders |= {meta["path"] for meta in metas if meta["size"]}
        return [meta for meta in metas if self._is_wanted(meta) and not self._is_folder(meta, folders)]

    def _is_wanted(self, meta: Meta) -> bool:
        uri = self._uri(meta["path"])
        return any(p.fullmatch(uri) for p in self._include) and not any(p.fullmatch(uri) for p in self._exclude)

    def _is_folder(self, meta: Meta, folders: set[str]) -> bool:
        return meta["size"] == 0 and (meta["path"] in folders or not self.bucket.has(meta["path"]))

    def _is_excluded(self, folder: str) -> bool:
        return any(p.fullmatch(self._uri(folder)) for p in self._folders_out)

    def _uri(self, key: str) -> str:
        return unicodedata.normalize("NFC", key[len(self._key("")) :])

    def _key(self, below: str) -> str:
        return f"{self.section.prefix}/{below}" if self.section.prefix else below

    def _folder(self, key: str) -> str:
        return "." if key == self.section.prefix else self._uri(key)

    def _error(self, failure: ObjectFailure) -> SourceError:
        return SourceError(
            f"source {self.name!r}: {failure.message}", remedy=failure.remedy, transient=failure.transient
        )


UNNAMED = (
    "folder cannot be listed: a key in it has an empty part, '.', '..' or control characters; rename that object, or "
    "exclude the folder with 'folder/**'"
)
TWICE = "several keys have this name in Unicode NFC; rename all but one"


def validator(meta: Meta, like: str | None = None) -> str:
    """What changes when an object does: its ETag as it stands, or ``version:…``, or ``modified:<time>:<size>``.

    ``like`` is a validator whose kind is wanted: an answer with the bytes may say more than a listing does.
    """
    kind = None if like is None or _is_etag(like) else like.partition(":")[0]
    etag = meta["e_tag"]
    if kind is None and etag and not etag.startswith("W/"):  # a weak one does not promise equal bytes
        return str(etag)
    if kind != "modified" and meta["version"]:
        return f"version:{meta['version']}"
    return f"modified:{meta['last_modified'].timestamp():.6f}:{meta['size']}"


def _is_etag(text: str | None) -> bool:
    return text is not None and not text.startswith(("version:", "modified:"))


def _parents(key: str) -> Iterable[str]:
    while key := key.rpartition("/")[0]:
        yield key


def _is_printable(uri: str) -> bool:
    return not any(unicodedata.category(c) in ("Cc", "Zl", "Zp") for c in uri)


def _printable(uri: str) -> str:
    return "".join(c if _is_printable(c) else f"\\u{ord(c):04x}" for c in uri)
