"""A bucket of an object store: the one place where obstore is used by a source. Every failure is an ObjectFailure.

obstore hides two things of a key. It takes the slash off a "folder" key, so that an empty object may be one. And it
cannot name a key with an empty part, ``.``, ``..`` or control characters: one such key ends a listing of everything,
which is why there is a second way of listing, folder by folder.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from kbcore.config.sources import ObjectStoreSection
from kbcore.errors import ConfigError
from kbcore.sources.object_store.failures import ObjectChanged, ObjectFailure, ObjectGone, explain
from kbcore.sources.secrets import ENVIRONMENT, Secrets

PAGE = 1000  # keys in a page of a listing, or a divisor of it, in all three clouds
READ_AT_ONCE = 1 << 20  # bytes

# A refresh tries again itself, with longer waits, so obstore needs only get over a connection that was closed.
_RETRY = {
    "max_retries": 1,
    "retry_timeout": timedelta(seconds=60),
    "backoff": {"init_backoff": timedelta(milliseconds=100), "max_backoff": timedelta(seconds=1), "base": 2},
}
_TIMEOUTS = {"connect_timeout": "5s", "read_timeout": "30s", "timeout": "300s"}

Meta = Mapping[str, Any]
"""What a store says of an object: path, last_modified, size, e_tag and version (the last two may be None)."""


@dataclass(frozen=True, slots=True)
class Got:
    """The bytes of an object with what the same answer said of them; ``headers`` has Content-Type and the like."""

    data: bytes
    meta: Meta
    headers: Mapping[str, str]


class Bucket:
    """Reads one bucket, from several threads if need be. Nothing is connected before the first question."""

    def __init__(self, section: ObjectStoreSection, secrets: Secrets = ENVIRONMENT) -> None:
        try:
            import obstore
            import obstore.store
        except ImportError as error:
            raise ConfigError(
                f"source {section.name!r} is in an object store, and obstore is not installed",
                remedy="pip install 'kbcore[objects]'",
            ) from error
        self.section = section
        self._secrets = secrets
        self._obstore: Any = obstore
        self._opening = threading.Lock()
        self._opened: Any = None

    def objects(self, skips: Callable[[str], bool]) -> tuple[list[Meta], list[str]]:
        """All objects below the prefix, all pages of them, and the folders that could not be listed because they hold
        a key that obstore cannot name. ``skips`` says of a folder (a key without a slash at its end) whether it may be
        passed over; it is asked only where there is such a key."""
        unnamed: list[str] = []
        with self._explained() as store:
            try:
                pages = self._obstore.list(store, self.section.prefix or None, chunk_size=PAGE)
                found: list[Meta] = [meta for page in pages for meta in page]
            except self._obstore.exceptions.InvalidPathError:
                found, unnamed = self._folder_by_folder(store, skips)
            below = self._below("")
            found = [meta for meta in found if meta["path"].startswith(below)]
            if len(found) % PAGE == 0:
                self._confirm_end(store)
        return found, unnamed

    def holds_objects(self) -> bool:
        """Whether there is anything below the prefix: one page is asked for."""
        with self._explained() as store:
            try:
                if next(iter(self._obstore.list(store, self.section.prefix or None, chunk_size=1)), None):
                    return True
            except self._obstore.exceptions.InvalidPathError:
                return True
            self._confirm_end(store)
        return False

    def has(self, key: str) -> bool:
        with self._explained() as store:
            try:
                self._obstore.head(store, key)
            except FileNotFoundError:
                return False
        return True

    def get(self, key: str, *, if_match: str | None, most: int) -> Got:
        """One object, whole. ObjectChanged where it is not the one of the ETag ``if_match``, ObjectGone where there is
        none, another ObjectFailure where it has more than ``most`` bytes; no more than about that is read."""
        with self._explained() as store:
            try:
                result = self._obstore.get(store, key, options={"if_match": if_match} if if_match else {})
            except self._obstore.exceptions.PreconditionError:
                raise ObjectChanged("was changed since it was listed", transient=True) from None
            except FileNotFoundError:
                raise ObjectGone(
                    "is not there any more", "or its key begins or ends with /, which cannot be read"
                ) from None
            meta = result.meta
            if meta["size"] > most:
                raise ObjectFailure(f"has {meta['size']} bytes, more than max_bytes ({most})")
            data = bytearray()
            try:
                for part in result.stream(READ_AT_ONCE):
                    data += part
                    if len(data) > most:
                        raise ObjectFailure(f"grew over max_bytes ({most}) while it was read")
            except self._obstore.exceptions.BaseError:  # also where obstore could not go on from where it broke off
                raise ObjectFailure("broke off while it was read", "try again later", transient=True) from None
            if len(data) != meta["size"]:
                raise ObjectFailure(f"came with {len(data)} of {meta['size']} bytes", transient=True)
            return Got(bytes(data), meta, {str(k): str(v) for k, v in result.attributes.items()})

    def _folder_by_folder(self, store: Any, skips: Callable[[str], bool]) -> tuple[list[Meta], list[str]]:
        found: list[Meta] = []
        unnamed: list[str] = []
        folders = [self.section.prefix]
        while folders:
            folder = folders.pop()
            try:
                page = self._obstore.list_with_delimiter(store, folder or None)
            except self._obstore.exceptions.InvalidPathError:
                unnamed.append(folder)
                continue
            found += page["objects"]
            folders += [each for each in page["common_prefixes"] if not skips(each)]
        return found, unnamed

    def _confirm_end(self, store: Any) -> None:
        """Whoever answers must know that an object is not there.

        An answer without keys counts as the last page, and a page that some gateway puts in front of the store (log in
        first) has none. Such a gateway answers a request for an object too. Only a listing that is empty or ends with
        a full page can have lost its rest this way.
        """
        try:
            self._obstore.get(store, self._below("kbcore-asks-for-what-is-not-there"))
        except FileNotFoundError:
            return
        raise ObjectFailure(
            f"what answers in place of {self.section.url} is no object store",
            "see to the endpoint, the proxy and the network; nothing is taken for removed meanwhile",
            transient=True,
        )

    def _below(self, name: str) -> str:
        return f"{self.section.prefix}/{name}" if self.section.prefix else name

    @contextmanager
    def _explained(self) -> Iterator[Any]:
        """The store, made once with the variables as they are then, and its errors as ObjectFailure. They are not
        chained, since their text may hold what must not be shown."""
        section = self.section
        try:
            with self._opening:
                if self._opened is None:
                    self._opened = _store(self._obstore.store, section, self._secrets)
            yield self._opened
        except ObjectFailure:
            raise
        except Exception as error:
            raise explain(
                error,
                scheme=section.scheme,
                bucket=section.bucket,
                where=section.endpoint or "",
                region=section.region,
            ) from None


def _store(stores: Any, section: ObjectStoreSection, secrets: Secrets) -> Any:
    """The store of a section. A key that is named goes in as a whole, so that none of the standard variables (a
    session token of somebody else) is mixed into it."""
    options: dict[str, Any] = {
        "client_options": {**_TIMEOUTS, "allow_http": section.allow_http},
        "retry_config": _RETRY,
    }
    if section.anonymous:
        options["skip_signature"] = True
    key = _secret(section.access_key_env, secrets)
    secret = _secret(section.secret_key_env, secrets)
    token = _secret(section.session_token_env, secrets)
    match section.scheme:
        case "s3":
            if secret:
                held = {"access_key_id": key, "secret_access_key": secret, "token": token, "expires_at": None}
                options["credential_provider"] = lambda: held
            options |= {k: v for k, v in (("region", section.region), ("endpoint", section.endpoint)) if v}
            return stores.S3Store(section.bucket, **options)
        case "gs":
            if secret:
                options["service_account_key"] = secret
            return stores.GCSStore(section.bucket, **options)
        case _:
            if secret:
                options["credential_provider"] = lambda: {"access_key": secret, "expires_at": None}
            elif token:
                options["credential_provider"] = lambda: {"sas_token": token, "expires_at": None}
            options |= {k: v for k, v in (("account_name", section.account), ("endpoint", section.endpoint)) if v}
            return stores.AzureStore(section.bucket, **options)


def _secret(variable: str | None, secrets: Secrets) -> str | None:
    if variable is None:
        return None
    value = secrets.get(variable)
    if not value:
        raise ObjectFailure(secrets.missing(variable), secrets.remedy(variable))
    return value
