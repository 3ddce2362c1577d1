"""A recipe says as data how one kind of knowledge-base system is listed and read: one TOML file for each.

Shipped recipes lie beside this module (``config/recipes`` of the project leads there) and are named without their ending; a
value with a ``/`` or that ends
in ``.toml`` is the path of a file of one's own. ``{name}`` in a path, query or URL stands for a parameter; in ``body``
and ``list.url`` also for ``id``, ``title`` and what ``list.fields`` names. JSON paths are those of jsonpath-ng.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Literal, Self
from urllib.parse import quote

from pydantic import Field, ValidationError, model_validator

from kbcore.config.section import Section
from kbcore.errors import ConfigError
from kbcore.fingerprint import short_id

SHIPPED = Path(__file__).with_name("recipes")
_PLACEHOLDER = re.compile(r"\{([a-z_][a-z0-9_]*)\}")
Scalar = bool | int | float | str


class Pages(Section):
    """How one page of the list leads to the next.

    ``single``: there is one. ``continue``: ``path`` is an object whose members are added to the query (MediaWiki).
    ``cursor``: ``path`` is a cursor for the query ``parameter``. ``link``: ``path`` is the next URL. ``header_link``:
    the Link header has it. ``offset``: ``parameter`` counts items, ``size_parameter`` is the page size. ``page``:
    ``parameter`` counts pages from ``first``. ``more`` is a JSON path to whether there is a next page.
    """

    kind: Literal["single", "continue", "cursor", "link", "header_link", "offset", "page"]
    path: str = ""
    parameter: str = ""
    size_parameter: str = ""
    more: str = ""
    first: int = 0

    @model_validator(mode="after")
    def _needs(self) -> Self:
        needed = {"continue": ["path"], "cursor": ["path", "parameter"], "link": ["path"]}
        needed |= {"offset": ["parameter", "size_parameter"], "page": ["parameter"]}
        for name in needed.get(self.kind, []):
            if not getattr(self, name):
                raise ValueError(f"paging of kind {self.kind!r} needs {name}")
        return self


class ListPart(Section):
    """How the items are listed. ``revision`` are the paths whose values change whenever the body may have changed.

    ``empty_if``: where ``items`` is missing, one of these paths says that there are none. ``only`` keeps items whose
    value is among those given, ``leave_out`` drops them. ``count`` (a path) or ``count_header`` is the number of items
    the server says it has.
    """

    path: str
    query: dict[str, str] = Field(default_factory=dict)
    items: str
    empty_if: tuple[str, ...] = ()
    id: str
    title: str
    revision: tuple[str, ...] = Field(min_length=1)
    modified: str = ""
    fields: dict[str, str] = Field(default_factory=dict)
    url: str = ""
    only: dict[str, tuple[Scalar, ...]] = Field(default_factory=dict)
    leave_out: dict[str, tuple[Scalar, ...]] = Field(default_factory=dict)
    count: str = ""
    count_header: str = ""
    pages: Pages


class BodyPart(Section):
    """Where an item's body is: below ``path``, or in the listed item itself where there is no ``path``.

    ``revision`` is where the body's answer says the first of the listed revisions again.
    """

    path: str = ""
    query: dict[str, str] = Field(default_factory=dict)
    content: str
    revision: str = ""
    media_type: Literal["text/html", "text/markdown", "text/plain"] = "text/html"


class AuthPart(Section):
    """``bearer``: the token. ``basic``: user (with ``user_suffix``) and token as the password. ``header``: the token in
    the header of that name. ``oauth``: user and token are client id and secret, traded for a token at ``token_path``."""

    kind: Literal["none", "bearer", "basic", "header", "oauth"] = "none"
    header: str = ""
    user_suffix: str = ""
    token_path: str = ""
    required: bool = True

    @model_validator(mode="after")
    def _needs(self) -> Self:
        if self.kind == "header" and not self.header:
            raise ValueError("auth of kind 'header' needs header")
        if self.kind == "oauth" and not self.token_path:
            raise ValueError("auth of kind 'oauth' needs token_path")
        return self

    @property
    def needs_user(self) -> bool:
        return self.kind in ("basic", "oauth")


class RestRecipe(Section):
    """A whole recipe. ``parameters`` are the defaults of its placeholders, ``required`` those that have none.
    ``error`` is where the server says what was wrong."""

    error: str = ""
    requests_per_minute: float = Field(0, ge=0)
    required: tuple[str, ...] = ()
    parameters: dict[str, str] = Field(default_factory=dict)
    list: ListPart
    body: BodyPart
    auth: AuthPart = AuthPart()

    @model_validator(mode="after")
    def _placeholders(self) -> Self:
        parameters = {*self.parameters, *self.required}
        of_items = {"id", "title", *self.list.fields}
        for texts, known in (
            ((self.list.path, *self.list.query.values()), parameters),
            ((self.list.url, self.body.path, *self.body.query.values()), parameters | of_items),
        ):
            for name in (name for text in texts for name in _PLACEHOLDER.findall(text)):
                if name not in known:
                    raise ValueError(f"{{{name}}} is neither a parameter nor a field")
        if self.list.pages.kind in ("offset", "page") and "page_size" not in parameters:
            raise ValueError(f"paging of kind {self.list.pages.kind!r} needs a parameter page_size")
        return self

    def paths(self) -> Iterator[str]:
        """Every JSON path of the recipe."""
        listed, pages = self.list, self.list.pages
        named = (self.error, listed.items, listed.id, listed.title, listed.modified, listed.count, self.body.content)
        yield from (path for path in (*named, self.body.revision, pages.path, pages.more) if path)
        for group in (listed.empty_if, listed.revision, listed.fields.values(), listed.only, listed.leave_out):
            yield from group

    def filled(self, given: Mapping[str, str]) -> dict[str, str]:
        """The parameters: the defaults and what was given over them. ConfigError for one that is unknown or missing."""
        known = sorted({*self.parameters, *self.required})
        for name in sorted(given):
            if name not in known:
                raise ConfigError(f"the recipe has no parameter {name!r}; known: {', '.join(known) or 'none'}")
        filled = {**self.parameters, **given}
        missing = [name for name in self.required if not filled.get(name)]
        if missing:
            raise ConfigError(f"parameters.{missing[0]} is missing", remedy="the head of the recipe shows an example")
        if not filled.get("page_size", "1").isdecimal() or int(filled.get("page_size", "1")) < 1:
            raise ConfigError("parameters.page_size is not a number of items")
        return filled

    def digest(self, parameters: Mapping[str, str]) -> str:
        """What the bytes of a document depend on besides the item: 12 hex digits."""
        shaping = {name: value for name, value in parameters.items() if name != "page_size"}
        listed = self.list.model_dump(mode="json", exclude={"pages", "query", "path", "count", "count_header"})
        return short_id([1, listed, self.body.model_dump(mode="json"), shaping])[:12]


def expand(template: str, values: Mapping[str, str], *, trusted: Mapping[str, str] | None = None) -> str:
    """``template`` with its placeholders filled. With ``trusted`` it is a path of a URL: values are quoted, and only
    those of ``trusted`` may hold a ``/``."""

    def fill(match: re.Match[str]) -> str:
        name = match[1]
        if trusted is None:
            return values[name]
        return quote(trusted[name], safe="/") if name in trusted else quote(values[name], safe="")

    return _PLACEHOLDER.sub(fill, template)


def load_recipe(name: str) -> RestRecipe:
    """The recipe of that name or file. ConfigError where it is not there or says something that is none."""
    folder = SHIPPED
    if "/" in name or name.endswith(".toml"):
        file = Path(name)
        try:
            text = file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "is not UTF-8"
            raise ConfigError(f"the recipe {file} cannot be read: {reason}") from None
    else:
        shipped = sorted(entry.name.removesuffix(".toml") for entry in folder.iterdir() if entry.name.endswith(".toml"))
        if name not in shipped:
            raise ConfigError(
                f"there is no recipe {name!r}; shipped: {', '.join(shipped)}",
                remedy="name one of these, or the path of a .toml file",
            )
        text = (folder / f"{name}.toml").read_text(encoding="utf-8")
    try:
        return RestRecipe.model_validate(tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"the recipe {name} is not valid TOML: {error}") from None
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        what = first["msg"].removeprefix("Value error, ")
        raise ConfigError(f"the recipe {name}: {where + ': ' if where else ''}{what}") from None
