"""A knowledge-base system behind a REST API as a source of documents: a wiki, a help center.

What to ask and what the answers mean stands in a recipe (``rest_recipe``). Every refresh reads the whole list, since
feeds of changes do not show what was deleted; bodies are read only where the revision is another one. An item's URI
is ``page/<id>``: a page that is renamed stays the same document, and its new title comes with its text. Its validator
is the revision, and a digest of the title, the address and the recipe.
"""

from __future__ import annotations

import html
import json
import os
import tempfile
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from kbcore.clock import iso
from kbcore.config.sources import RestSection
from kbcore.errors import ConfigError, DocumentError, SkippedDocumentError, SourceError
from kbcore.fingerprint import short_id
from kbcore.globs import glob_pattern
from kbcore.sources.rest.access import check_addresses, secrets_of
from kbcore.sources.rest.recipe import expand, load_recipe
from kbcore.sources.secrets import ENVIRONMENT, Secrets
from kbcore.types import Fetched, Listed, Listing

if TYPE_CHECKING:
    from kbcore.sources.rest.client import Client

LISTING = "(listing)"
_SPOOL_BYTES = 64_000_000
_PAGE_BYTES = 64_000_000


@dataclass(frozen=True, slots=True)
class _Item:
    """One listed item: what its body's address is made of, and where the body lies if the list held it."""

    listed: Listed
    fields: Mapping[str, str]
    revision: str
    url: str
    place: tuple[int, int] | None = None


class RestSource:
    """The items a recipe lists at ``base_url``, whose titles match ``include`` and not ``exclude``.

    ConfigError where the recipe, its parameters or the section's addresses are wrong, or dlt is not installed.
    """

    type = "rest"

    def __init__(self, section: RestSection, *, cache: Path, secrets: Secrets = ENVIRONMENT) -> None:
        try:
            from kbcore.sources.rest import client
        except ImportError as error:
            raise ConfigError(
                f"source {section.name!r}: a source of type rest needs the package {error.name or 'dlt'}",
                remedy='pip install "kbcore[rest]"',
            ) from None
        self.name = section.name
        self.parallel = section.parallel
        self._section = section
        self._looked_up = secrets
        self._cache = cache
        self._rest = client
        self._include = [glob_pattern(pattern) for pattern in section.include]
        self._exclude = [glob_pattern(pattern) for pattern in section.exclude]
        self._items: dict[str, _Item] = {}
        self._spool: Any = None
        self._close_spool: Callable[[], Any] = lambda: None
        self._lock = threading.Lock()
        self._made: Client | None = None
        try:
            check_addresses(section)
            self.recipe = load_recipe(section.recipe)
            self._parameters = self.recipe.filled(section.parameters)
            self._find = {path: client.finder(path) for path in self.recipe.paths()}
            if section.token_env and self.recipe.auth.kind == "none":
                raise ConfigError("the recipe takes no credentials, but token_env is set")
        except ConfigError as error:
            raise ConfigError(f"source {self.name!r}: {error.message}", remedy=error.remedy) from None
        except ValueError as error:
            raise ConfigError(f"source {self.name!r}: the recipe {section.recipe}: {error}") from None
        self._digest = self.recipe.digest(self._parameters)

    def list(self, listed_at: str) -> Listing:
        """All items, sorted by URI. SourceError where any page of the list cannot be had or is not what the recipe
        says; incomplete where fewer came than the server says it has."""
        try:
            return self._list(listed_at)
        except self._rest.ApiError as error:
            raise self._source_error(error) from None

    def fetch(self, item: Listed, fetched_at: str) -> Fetched:
        """One document with its title on top. SkippedDocumentError where its body is blank."""
        known = self._items.get(item.uri)
        if known is None:
            raise DocumentError("was not listed")
        recipe = self.recipe.body
        etag = known.listed.etag
        try:
            if known.place is not None:
                body = self._spooled(known.place)
            else:
                path = expand(recipe.path, known.fields, trusted=self._parameters)
                query = {
                    name: expand(value, {**self._parameters, **known.fields}) for name, value in recipe.query.items()
                }
                answer = self._client().get(path, query)
                body = self._body(answer)
                # Another revision than the listed one: the next run has to look again.
                if recipe.revision and _word(self._value(recipe.revision, answer, "the body")) != known.revision:
                    etag = None
        except self._rest.ApiError as error:
            raise DocumentError(error.message, remedy=error.remedy, transient=error.transient) from None
        if not body.strip():
            raise SkippedDocumentError("blank")
        data = _document(known.fields["title"], known.url, body, recipe.media_type)
        if len(data) > self._section.max_bytes:
            raise DocumentError(f"has {len(data)} bytes, more than max_bytes ({self._section.max_bytes})")
        return Fetched(data, etag, known.listed.modified_at, fetched_at, recipe.media_type)

    def probe(self) -> str:
        try:
            page = next(self._pages())
            count = len(self._records(page.json))
        except self._rest.ApiError as error:
            raise self._source_error(error) from None
        return f"{self._section.base_url}, {count} items on its first page"

    def _list(self, listed_at: str) -> Listing:
        self._items = {}
        recipe = self.recipe.list
        records: dict[str, dict[str, Any]] = {}
        items: dict[str, _Item] = {}
        ids: set[str] = set()
        sizes: list[int] = []
        said: int | None = None
        spool = None if self.recipe.body.path else self._new_spool()
        for page in self._pages():
            found = self._records(page.json)
            sizes.append(len(found))
            for record in found:
                key = _word(self._value(recipe.id, record, "an item"))
                ids.add(key)
                if recipe.pages.kind == "continue":
                    # One item may come in several parts, each with some of its properties.
                    records[key] = {**records.get(key, {}), **record}
                else:
                    self._take(items, key, record, spool)
            said = self._said_count(page.json, page.headers, said)
        for key, record in records.items():
            self._take(items, key, record, spool)
        problems = []
        if said is not None and said != len(ids):
            problems.append((LISTING, f"the server says it has {said} items, but {len(ids)} came"))
        if recipe.pages.kind in ("offset", "page"):
            full = int(self._parameters["page_size"])
            # The next page starts a full page further on: what a short page left out would never be seen.
            if any(size < full and any(sizes[at + 1 :]) for at, size in enumerate(sizes)):
                problems.append((LISTING, f"a page of fewer than {full} items was not the last one"))
        self._items, self._spool = items, spool
        ordered = [items[uri].listed for uri in sorted(items)]
        return Listing(self.name, listed_at, ordered, not problems, tuple(problems))

    def _pages(self) -> Any:
        recipe = self.recipe.list
        return self._client().pages(
            expand(recipe.path, {}, trusted=self._parameters),
            {name: expand(value, self._parameters) for name, value in recipe.query.items()},
            recipe.pages,
            recipe.items,
            int(self._parameters.get("page_size", "1")),
        )

    def _records(self, answer: Any) -> Sequence[dict[str, Any]]:
        """The items of a page. An answer without any list of items is an error, never an empty page."""
        recipe = self.recipe.list
        found = self._find[recipe.items](answer)
        if not found:
            said = self._client().said(answer)
            if not said and any(self._find[path](answer) for path in recipe.empty_if):
                return []
            raise self._unlike(f"the list has no {recipe.items!r}", said)
        if not isinstance(found[0], list) or not all(isinstance(record, dict) for record in found[0]):
            raise self._unlike(f"{recipe.items!r} is not a list of objects")
        records: Sequence[dict[str, Any]] = found[0]
        return records

    def _take(self, items: dict[str, _Item], key: str, record: dict[str, Any], spool: Any) -> None:
        """Add one item to ``items``, unless the recipe or the section leaves it out. The same id again, at the edge of
        two pages, takes the place of the first."""
        recipe = self.recipe.list
        uri = "page/" + quote(key, safe="-._~")
        if not self._wanted(record):
            items.pop(uri, None)
            return
        untitled = self._find[recipe.title](record)[:1] == [None]
        title = key if untitled else " ".join(_word(self._value(recipe.title, record, f"item {key}")).split()) or key
        fields = {name: _word(self._value(path, record, f"item {key}")) for name, path in recipe.fields.items()}
        fields |= {"id": key, "title": title}
        if not any(p.fullmatch(title) for p in self._include) or any(p.fullmatch(title) for p in self._exclude):
            items.pop(uri, None)
            return
        revisions = [_word(self._value(path, record, f"item {key}")) for path in recipe.revision]
        url = expand(recipe.url, {**self._parameters, **fields})
        url = self._section.base_url.rstrip("/") + url if url.startswith("/") else url
        etag = "-".join([*revisions, short_id([title, url, self._digest])[:12]])
        modified = self._find[recipe.modified](record) if recipe.modified else []
        place = None
        if spool is not None:
            body = self._body(record).encode("utf-8", "replace")
            place = (spool.seek(0, os.SEEK_END), spool.write(body))
        listed = Listed(uri, etag, self._time(modified[0], key) if modified and modified[0] else None)
        items[uri] = _Item(listed, fields, revisions[0], url, place)

    def _wanted(self, record: dict[str, Any]) -> bool:
        for path, kept in self.recipe.list.only.items():
            if not _among(self._value(path, record, "an item"), kept):
                return False
        dropped = self.recipe.list.leave_out.items()
        return not any(_among(value, values) for path, values in dropped for value in self._find[path](record))

    def _body(self, answer: Any) -> str:
        path = self.recipe.body.content
        found = self._find[path](answer)
        if not found or not isinstance(found[0], str | None):
            raise self._unlike(f"the body has no text at {path!r}", self._client().said(answer))
        return found[0] or ""

    def _value(self, path: str, record: Any, what: str) -> Any:
        found = self._find[path](record)
        if not found or not isinstance(found[0], str | int | float):
            raise self._unlike(f"{what} has no {path!r}")
        return found[0]

    def _time(self, value: Any, key: str) -> str:
        try:
            moment = datetime.fromisoformat(value)
        except (TypeError, ValueError):
            raise self._unlike(f"item {key}: {self.recipe.list.modified!r} is not a time") from None
        return iso(moment if moment.tzinfo else moment.replace(tzinfo=UTC))

    def _said_count(self, answer: Any, headers: Mapping[str, str], before: int | None) -> int | None:
        recipe = self.recipe.list
        if not recipe.count and not recipe.count_header:
            return None
        found = self._find[recipe.count](answer) if recipe.count else [headers.get(recipe.count_header)]
        if not found or found[0] is None:
            return before
        try:
            return int(found[0])
        except (TypeError, ValueError):
            raise self._unlike("the count of items is not a number") from None

    def _unlike(self, message: str, said: str = "") -> Any:
        answer = f"the server says: {said}" if said else message
        return self._rest.ApiError(answer, remedy="check base_url, the credentials and the recipe")

    def _new_spool(self) -> Any:
        """A file for the bodies that a list holds, without a name; it goes with this source."""
        self._cache.mkdir(parents=True, exist_ok=True)
        spool = tempfile.SpooledTemporaryFile(max_size=_SPOOL_BYTES, dir=str(self._cache))  # noqa: SIM115
        self._close_spool()
        self._close_spool = weakref.finalize(self, spool.close)
        return spool

    def _spooled(self, place: tuple[int, int]) -> str:
        with self._lock:
            self._spool.seek(place[0])
            data: bytes = self._spool.read(place[1])
        return data.decode("utf-8")

    def _client(self) -> Client:
        with self._lock:
            if self._made is None:
                recipe = self.recipe
                self._made = self._rest.Client(
                    self._section.base_url,
                    recipe.auth,
                    self._rest.Credentials(*self._secrets()),
                    most_bytes=max(_PAGE_BYTES, 2 * self._section.max_bytes),
                    requests_per_minute=recipe.requests_per_minute,
                    error=self._find.get(recipe.error),
                )
            return self._made

    def _secrets(self) -> tuple[str, str, str]:
        try:
            return secrets_of(self._section, self.recipe.auth, self._looked_up)
        except SourceError as error:
            raise self._rest.ApiError(error.message, remedy=error.remedy) from None

    def _source_error(self, error: Any) -> SourceError:
        return SourceError(f"source {self.name!r}: {error.message}", remedy=error.remedy, transient=error.transient)


def _document(title: str, url: str, body: str, media_type: str) -> bytes:
    if media_type == "text/markdown":
        text = f"# {title}\n\n{body}"
    elif media_type == "text/plain":
        text = f"{title}\n\n{body}"
    else:
        shown = html.escape(title)
        link = f'<link rel="canonical" href="{html.escape(url)}">' if url else ""
        text = (
            f'<!DOCTYPE html>\n<html><head><meta charset="utf-8"><title>{shown}</title>{link}</head>\n'
            f"<body><h1>{shown}</h1>\n{body}\n</body></html>\n"
        )
    return text.encode("utf-8", "replace")


def _word(value: Any) -> str:
    """A JSON scalar as text that is valid UTF-8."""
    text = value if isinstance(value, str) else json.dumps(value)
    return text.encode("utf-8", "replace").decode()


def _among(value: Any, values: Any) -> bool:
    return any(type(value) is type(other) and value == other for other in values)
