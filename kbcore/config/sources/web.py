"""Pages of a web site."""

from __future__ import annotations

from ipaddress import ip_network
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import Field, field_validator, model_validator
from pydantic_core import PydanticCustomError

from kbcore.config.sources.source import Globs, SourceSection


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
