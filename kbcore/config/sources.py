"""``[[sources]]``: where documents come from, one section for each type of source."""

from __future__ import annotations

import re
from ipaddress import ip_network
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, Discriminator, Field, Tag, field_validator, model_validator
from pydantic_core import PydanticCustomError

from kbcore.config.section import Section
from kbcore.globs import glob_pattern

_DURATION = re.compile(r"(\d+)\s*([smhdw])")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}


def _compiles(pattern: str) -> str:
    try:
        glob_pattern(pattern)
    except re.error as error:
        raise ValueError(f"is not a pattern: {error}") from None
    return pattern


Globs = tuple[Annotated[str, AfterValidator(_compiles)], ...]
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
    include: Globs = FILES
    exclude: Globs = ()


class GitSection(SourceSection):
    """Files of one commit of a git repository: a local path or an https URL, and a branch, tag or commit."""

    type: Literal["git"]
    url: str
    ref: str = "HEAD"
    folder: str = ""
    include: Globs = FILES
    exclude: Globs = ()


_OBJECT_URL = re.compile(r"(s3|gs|az)://([A-Za-z0-9$][A-Za-z0-9._-]{1,221})(?:/(.*))?", re.DOTALL)
_SERVER = re.compile(r"https?://(\[[0-9A-Fa-f:]+\]|[A-Za-z0-9.-]+)(:\d{1,5})?(/[A-Za-z0-9._~/-]*)?")
_VARIABLE = r"^[A-Z_][A-Z0-9_]*$"


class ObjectStoreSection(SourceSection):
    """Objects below a prefix of a bucket: Amazon S3 and stores that speak its protocol, Google Cloud Storage, Azure.

    The prefix is a folder. Credentials come from the environment: the standard variables and chain of the cloud, or
    the variables named here. What they hold: for ``s3://`` the three parts of a key; for ``gs://`` ``secret_key_env``
    the JSON of a service account; for ``az://`` ``secret_key_env`` the key of the account, or ``session_token_env`` a
    shared access signature.
    """

    type: Literal["object_store"]
    url: str
    include: Globs = FILES
    exclude: Globs = ()
    region: str | None = Field(None, pattern=r"^[a-z0-9-]+$")
    endpoint: str | None = None
    account: str | None = Field(None, pattern=r"^[a-z0-9]{3,24}$")
    allow_http: bool = False
    anonymous: bool = False
    access_key_env: str | None = Field(None, pattern=_VARIABLE)
    secret_key_env: str | None = Field(None, pattern=_VARIABLE)
    session_token_env: str | None = Field(None, pattern=_VARIABLE)

    @field_validator("url")
    @classmethod
    def _bucket_and_folder(cls, value: str) -> str:
        match = _OBJECT_URL.fullmatch(value)
        if match is None:
            raise ValueError("looks like s3://bucket/prefix, gs://bucket/prefix or az://container/prefix")
        parts = (match[3] or "").rstrip("/").split("/")
        if parts != [""] and (any(part in ("", ".", "..") for part in parts) or not (match[3] or "").isprintable()):
            raise ValueError("the prefix is a folder such as team/handbook, without empty parts, '.' or '..'")
        return value

    @field_validator("endpoint")
    @classmethod
    def _server(cls, value: str | None) -> str | None:
        if value is not None and not _SERVER.fullmatch(value):
            raise ValueError("is a server such as https://storage.example.org, without a name, a password or a query")
        return value

    @model_validator(mode="after")
    def _fits_the_store(self) -> Self:
        named = [self.access_key_env, self.secret_key_env, self.session_token_env]
        if self.anonymous and any(named):
            raise ValueError("anonymous = true and the name of a variable with a key exclude each other")
        if self.endpoint and self.endpoint.startswith("http:") and not self.allow_http:
            raise ValueError("an endpoint without TLS needs allow_http = true")
        if self.scheme != "s3" and (self.region or self.access_key_env):
            raise ValueError("region and access_key_env are settings of s3:// only")
        if self.scheme != "az" and self.account:
            raise ValueError("account is a setting of az:// only")
        if self.scheme == "s3" and any(named) and not (self.access_key_env and self.secret_key_env):
            raise ValueError("access_key_env and secret_key_env go together")
        if self.scheme == "gs" and (self.endpoint or self.session_token_env):
            raise ValueError("gs:// has no endpoint and no session_token_env")
        if self.scheme == "az" and self.secret_key_env and self.session_token_env:
            raise ValueError("name one of secret_key_env (account key) and session_token_env (shared access signature)")
        return self

    @property
    def scheme(self) -> str:
        return self.url.partition("://")[0]

    @property
    def bucket(self) -> str:
        return self.url.partition("://")[2].partition("/")[0]

    @property
    def prefix(self) -> str:
        """The folder inside the bucket, without a slash at its end; "" for the whole bucket."""
        return self.url.partition("://")[2].partition("/")[2].rstrip("/")


class RestSection(SourceSection):
    """Articles of a knowledge-base system, read through its REST API as a recipe says.

    ``recipe`` is the name of a shipped recipe (mediawiki, zendesk, confluence, servicenow) or the path of a TOML file,
    relative to the working directory; ``parameters`` fill its placeholders. ``token_env`` and ``user_env`` are names of
    environment variables, never the secrets themselves. ``include`` and ``exclude`` are globs over titles.
    """

    type: Literal["rest"]
    recipe: str
    base_url: str
    parameters: dict[str, str] = Field(default_factory=dict)
    token_env: str = ""
    user_env: str = ""
    include: Globs = ("**",)
    exclude: Globs = ()
    allow_http: bool = False
    parallel: int = Field(4, ge=1, le=32)


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
    include: Globs = ("**",)
    exclude: Globs = ()
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
    | Annotated[ObjectStoreSection, Tag("object_store")]
    | Annotated[RestSection, Tag("rest")]
    | Annotated[WebSection, Tag("web")],
    Discriminator(type_of, custom_error_type="unknown_type", custom_error_message="there is no source of this type"),
]
SECTION_OF: dict[str, type[SourceSection]] = {
    "directory": DirectorySection,
    "git": GitSection,
    "object_store": ObjectStoreSection,
    "rest": RestSection,
    "web": WebSection,
}
