"""A bucket of an object store."""

from __future__ import annotations

import re
from typing import Literal, Self

from pydantic import Field, field_validator, model_validator

from kbcore.config.sources.source import FILES, Globs, SourceSection

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
