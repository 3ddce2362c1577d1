"""A git repository."""

from __future__ import annotations

import re
from typing import Literal
from urllib.parse import urlsplit

from pydantic import Field, field_validator, model_validator

from kbcore.config.sources.source import FILES, Globs, SourceSection
from kbcore.errors import ConfigError

# host:path, user@host:path and helper::address; a local path with a colon in it is written ./like:this.
_OTHER_HOST = re.compile(r"[^/]+:")
# What git allows in the name of a ref. Ranges, HEAD~2, main@{1} and main:path are no names.
_REF = re.compile(r"(?![-./])(?!.*(?:\.\.|@\{|//|/\.|\.lock(?:/|$)))[^\x00-\x20\x7f~^:?*\[\\]+(?<![/.])")


class GitSection(SourceSection):
    """Files of one commit of a git repository: a local path or an https URL, and a branch, tag or commit.

    ``folder`` is the part of the repository that counts; URIs are relative to it. ``token_env`` names the environment
    variable with the token that an https server wants; a user in the URL is sent with it. ``depth`` is how many commits
    of history are fetched, 0 for all: with fewer, the time of the last change is unknown where it lies further back.
    ``timeout_seconds`` bounds each call of the git program.
    """

    type: Literal["git"]
    url: str
    ref: str = "HEAD"
    folder: str = ""
    include: Globs = FILES
    exclude: Globs = ()
    token_env: str | None = Field(None, pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")
    depth: int = Field(0, ge=0)
    timeout_seconds: int = Field(600, ge=1)

    @property
    def is_remote(self) -> bool:
        return self.url.startswith("https://")

    @field_validator("url")
    @classmethod
    def _url(cls, value: str) -> str:
        scheme, separator, rest = value.partition("://")
        if separator and ("@" in rest.partition("/")[0] and ":" in rest.partition("@")[0]):
            # Not a ValueError: that one would be shown with the value, and so with the password.
            raise ConfigError(
                "the url of a git source has a password in it",
                remedy="take it out, put it into an environment variable and name that one as token_env",
            )
        if value.startswith("-") or not value.strip() or any(ord(c) < 32 or ord(c) == 127 for c in value):
            raise ValueError("a url is a local path or begins with https://")
        if separator and scheme not in ("https", "file"):
            raise ValueError("only local paths and https:// are read; clone the repository, or name its https url")
        if not separator and _OTHER_HOST.match(value):
            raise ValueError("only local paths and https:// are read, not ssh or a remote helper")
        if scheme == "https" and separator and ("?" in rest or "#" in rest or not urlsplit(value).hostname):
            raise ValueError("an https url of a repository has a host and no query or fragment")
        return value

    @field_validator("ref")
    @classmethod
    def _ref(cls, value: str) -> str:
        if not _REF.fullmatch(value):
            raise ValueError("a ref is the name of a branch or tag, or the id of a commit")
        return value

    @field_validator("folder")
    @classmethod
    def _folder(cls, value: str) -> str:
        parts = value.strip("/").split("/") if value.strip("/") else []
        if "\0" in value or any(part in ("", ".", "..") for part in parts):
            raise ValueError("a folder is a path inside the repository, such as docs/handbook")
        return "/".join(parts)

    @model_validator(mode="after")
    def _user(self) -> GitSection:
        if self.token_env and not self.is_remote:
            raise ValueError("token_env is for an https url")
        if self.is_remote and urlsplit(self.url).username is not None and not self.token_env:
            # Often that is a token, so it is not shown either.
            raise ConfigError(
                f"source {self.name!r}: the url of a git source has a user in it, and there is no token_env",
                remedy="name the environment variable with the token as token_env; a token never stands in the url",
            )
        return self
