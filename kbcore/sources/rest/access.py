"""Where a REST source may be asked, and with which secrets. No error quotes what it found: it may be a secret."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from kbcore.config.sources import RestSection
from kbcore.errors import ConfigError, SourceError
from kbcore.sources.rest.recipe import AuthPart
from kbcore.sources.secrets import Secrets

_VARIABLE = re.compile(r"[A-Z_][A-Z0-9_]*")


def check_addresses(section: RestSection) -> None:
    """ConfigError for a base URL or a name of an environment variable that cannot be one."""
    for key in ("token_env", "user_env"):
        if not _VARIABLE.fullmatch(getattr(section, key) or "_"):
            raise ConfigError(
                f"{key} is not the name of an environment variable (A to Z, digits and _)",
                remedy="put the secret into an environment variable and write its name here",
            )
    try:
        parts = urlsplit(section.base_url)
        usable = bool(parts.scheme in ("https", "http") and parts.hostname and (parts.port is None or parts.port > 0))
    except ValueError:
        usable = False
    if not usable:
        raise ConfigError("base_url is not an address like https://wiki.example.org/w")
    if parts.username or parts.password or parts.query or parts.fragment:
        raise ConfigError(
            "base_url holds a user, a password, a query or a fragment", remedy="name credentials by token_env, user_env"
        )
    if parts.scheme == "http" and not section.allow_http:
        raise ConfigError(
            "base_url is http, which anyone on the way can read", remedy="use https, or set allow_http = true"
        )


def secrets_of(section: RestSection, auth: AuthPart, secrets: Secrets) -> tuple[str, str, str]:
    """User, token, and the names of the variables they came from; all empty where nothing is to be sent.

    SourceError where a secret is not to be found, so that the other sources go on.
    """
    if auth.kind == "none" or (not auth.required and not section.token_env):
        return "", "", ""
    if not section.token_env or (auth.needs_user and not section.user_env):
        missing = "user_env" if section.token_env else "token_env"
        raise SourceError(
            "the recipe needs credentials", remedy=f"set {missing} to the name of an environment variable"
        )
    names = [section.user_env, section.token_env] if auth.needs_user else [section.token_env]
    values = []
    for name in names:
        value = secrets.get(name)
        if not value:
            raise SourceError(secrets.missing(name), remedy=secrets.remedy(name))
        if not value.isascii() or not value.isprintable():
            raise SourceError(f"the secret {name} holds characters that no header may hold")
        values.append(value)
    return values[0] if auth.needs_user else "", values[-1], ", ".join(names)
