"""``[[sources]]``: where documents come from, one section for each type of source."""

from __future__ import annotations

import re
from ipaddress import ip_network
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import Discriminator, Field, Tag, field_validator, model_validator
from pydantic_core import PydanticCustomError

from kbcore.config.section import Section

_DURATION = re.compile(r"(\d+)\s*([smhdw])")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
FILES = ("**/*.md", "**/*.markdown", "**/*.html", "**/*.htm", "**/*.txt", "**/*.pdf")


class GuardSection(Section):
    """Removals of one source in one run beyond these bounds are withheld until a person approves them."""

    removals: int = Field(3, ge=0)
    removals_percent: float = Field(25.0, ge=0, le=100)
    removals_most: int = Field(500, ge=0)


class SourceSection(Section):
    """What every source has, whatever its type."""

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9._-]{0,63}$")
    type: str
    max_bytes: int = Field(50_000_000, ge=1)
    freshness_target: str | None = None
    guard: GuardSection = GuardSection()

    @field_validator("freshness_target")
    @classmethod
    def _duration(cls, value: str | None) -> str | None:
        if value is not None and not _DURATION.fullmatch(value):
            raise ValueError("a duration looks like 12h, 7d or 2w")
        return value

    @property
    def freshness_days(self) -> float | None:
        """The freshness target in days, or None."""
        match = _DURATION.fullmatch(self.freshness_target or "")
        return int(match[1]) * _SECONDS[match[2]] / 86_400 if match else None


class DirectorySection(SourceSection):
    """Files below a folder."""

    type: Literal["directory"] = "directory"
    path: str
    include: tuple[str, ...] = FILES
    exclude: tuple[str, ...] = ()


class GitSection(SourceSection):
    """Files of one commit of a git repository: a local path or an https URL, and a branch, tag or commit."""

    type: Literal["git"]
    url: str
    ref: str = "HEAD"
    folder: str = ""
    include: tuple[str, ...] = FILES
    exclude: tuple[str, ...] = ()


class WebSection(SourceSection):
    """Pages of one site: those its sitemaps list, and those that links lead to from ``start_urls``.

    Nothing outside of ``prefix`` is taken for a page (default: the folder of the first URL). Globs match the path of a
    URL: ``include`` says what is a document, ``exclude`` what is not even asked for. ``allow_hosts`` are further hosts
    that redirects and sitemaps may lead to, ``allow_private`` networks that are not public and may be reached all the
    same. ``token_env`` names the environment variable with the bearer token. Times are in seconds.
    """

    type: Literal["web"]
    start_urls: tuple[str, ...] = ()
    sitemaps: tuple[str, ...] = ()
    prefix: str | None = None
    include: tuple[str, ...] = ("**",)
    exclude: tuple[str, ...] = ()
    max_pages: int = Field(1000, ge=1, le=100_000)
    max_depth: int = Field(10, ge=0)
    delay_seconds: float = Field(0.5, ge=0)
    request_seconds: float = Field(30.0, gt=0)
    total_seconds: float = Field(1800.0, gt=0)
    user_agent: str = Field("kbcore/0.1", pattern=r"^[!-~][ -~]{0,199}$")
    allow_hosts: tuple[str, ...] = ()
    allow_private: tuple[str, ...] = ()
    ports: tuple[Annotated[int, Field(ge=1, le=65_535)], ...] = (80, 443)
    token_env: str | None = Field(None, pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")

    @field_validator("start_urls", "sitemaps", "prefix")
    @classmethod
    def _urls(cls, value: tuple[str, ...] | str | None) -> tuple[str, ...] | str | None:
        for url in (value,) if isinstance(value, str) else value or ():
            if "@" in urlsplit(url).netloc:
                raise PydanticCustomError("secret", "a URL holds no user name or password; use token_env")
            if not url.startswith(("http://", "https://")):
                raise ValueError("a URL begins with http:// or https://")
        return value

    @field_validator("allow_private")
    @classmethod
    def _networks(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for network in value:
            ip_network(network, strict=False)
        return value

    @model_validator(mode="after")
    def _somewhere(self) -> WebSection:
        if not self.start_urls and not self.sitemaps:
            raise PydanticCustomError("no_url", "a web source needs start_urls or sitemaps")
        urls = [*self.start_urls, *self.sitemaps, self.prefix or ""]
        if self.token_env and not self.allow_private and any(url.startswith("http://") for url in urls):
            raise PydanticCustomError("clear_text", "token_env goes with https only, or with allow_private")
        return self


def type_of(value: Any) -> Any:
    """The type of a source as it was written; a folder where nothing is said."""
    return value.get("type", "directory") if isinstance(value, dict) else getattr(value, "type", None)


AnySource = Annotated[
    Annotated[DirectorySection, Tag("directory")]
    | Annotated[GitSection, Tag("git")]
    | Annotated[WebSection, Tag("web")],
    Discriminator(type_of, custom_error_type="unknown_type", custom_error_message="there is no source of this type"),
]
SECTION_OF: dict[str, type[SourceSection]] = {"directory": DirectorySection, "git": GitSection, "web": WebSection}
