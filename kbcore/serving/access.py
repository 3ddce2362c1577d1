"""Who may ask: bearer tokens by role, and where a server may listen without one."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from kbcore.errors import ConfigError, UsageError

Role = Literal["reader", "operator"]
VARIABLES: dict[Role, str] = {"reader": "KB_READER_TOKENS", "operator": "KB_OPERATOR_TOKENS"}
MIN_CHARACTERS = 16


@dataclass(frozen=True, slots=True)
class Tokens:
    """The tokens a server takes, as sha256 digests: the texts themselves are not kept. An operator may all that a reader
    may. Where there is none at all, everybody on this machine is a reader."""

    digests: tuple[tuple[Role, bytes], ...] = ()

    @classmethod
    def of(cls, environ: Mapping[str, str] = os.environ) -> Tokens:
        """From KB_READER_TOKENS and KB_OPERATOR_TOKENS, several apart by commas or blanks. ConfigError where one has
        fewer than 16 characters; the message never holds it."""
        found: list[tuple[Role, bytes]] = []
        for role, variable in VARIABLES.items():
            given = [token for token in re.split(r"[,\s]+", environ.get(variable, "")) if token]
            for number, token in enumerate(given, start=1):
                if len(token) < MIN_CHARACTERS:
                    raise ConfigError(
                        f"{variable}: token {number} has {len(token)} characters; at least {MIN_CHARACTERS} are needed",
                        remedy="make one with: python -c 'import secrets; print(secrets.token_urlsafe(32))'",
                    )
                found.append((role, _digest(token)))
        return cls(tuple(found))

    @property
    def required(self) -> bool:
        return bool(self.digests)

    def role(self, authorization: str | None) -> Role | None:
        """Whose token an Authorization header carries; None where it carries none that is known. All tokens are compared,
        each in constant time, so that how long it takes tells nothing."""
        scheme, _, token = (authorization or "").strip().partition(" ")
        given = _digest(token.strip())
        matched: list[Role] = [role for role, known in self.digests if hmac.compare_digest(known, given)]
        if scheme.lower() != "bearer" or not matched:
            return None
        return "operator" if "operator" in matched else "reader"


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches a server that listens there."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def check_bind(host: str, tokens: Tokens, *, insecure: bool = False) -> None:
    """UsageError where other machines would reach a server without a token, or, unless ``insecure`` says that this is
    known, with tokens that travel in the clear: kbcore speaks no TLS itself."""
    if is_loopback(host):
        return
    if not tokens.required:
        raise UsageError(
            f"{host} is reached from other machines, and no token is set",
            remedy="set KB_READER_TOKENS (16 characters or more each), or listen on 127.0.0.1",
        )
    if not insecure:
        raise UsageError(
            f"{host} is reached from other machines, and tokens and answers would travel in the clear",
            remedy="put a proxy that speaks TLS before 127.0.0.1, or say --insecure where one does so already",
        )
