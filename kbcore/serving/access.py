"""Who may do what: bearer tokens with a role each, read from the environment and kept as hashes."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import os
import urllib.parse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from kbcore.errors import ConfigError, UsageError
from kbcore.serving.failures import Refusal

Role = Literal["reader", "operator"]
VARIABLES: dict[Role, str] = {"reader": "KB_READER_TOKENS", "operator": "KB_OPERATOR_TOKENS"}
MIN_CHARACTERS = 16
TOKEN_PARAMETERS = frozenset({"token", "access_token", "auth_token", "bearer", "authorization", "api_key", "apikey"})
FORWARDED = frozenset({b"forwarded", b"x-forwarded-for", b"x-real-ip"})
HOW = "set {variable} to one or more secrets of at least 16 characters, separated by commas, and start the server again"


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks: a role, and which token of that role, counted from 1; 0 is a caller without one. Logs and the promotion log
    know it by ``name``; no token leads back from that."""

    role: Role
    number: int = 0

    @property
    def label(self) -> str:
        return f"{self.role} {self.number}" if self.number else "no token"

    @property
    def name(self) -> str:
        return f"{self.label} over HTTP" if self.number else "a caller without a token"


class Access:
    """The tokens of one server. Without any, callers on this machine read and nobody operates."""

    def __init__(self, readers: Sequence[str] = (), operators: Sequence[str] = ()) -> None:
        self._known: list[tuple[bytes, Caller]] = []
        roles: dict[Role, Sequence[str]] = {"operator": operators, "reader": readers}
        for role, tokens in roles.items():
            for number, token in enumerate(tokens, start=1):
                _check(token, VARIABLES[role], number)
                self._known.append((_digest(token), Caller(role, number)))

    @classmethod
    def of(cls, environment: Mapping[str, str] = os.environ) -> Access:
        """From KB_READER_TOKENS and KB_OPERATOR_TOKENS. ConfigError says which token is too short, never what it is."""
        given = {
            role: [part.strip() for part in environment.get(variable, "").split(",") if part.strip()]
            for role, variable in VARIABLES.items()
        }
        return cls(given["reader"], given["operator"])

    @property
    def configured(self) -> bool:
        return bool(self._known)

    @property
    def operable(self) -> bool:
        """Whether anybody may promote, roll back and hold."""
        return any(caller.role == "operator" for _, caller in self._known)

    def caller(self, headers: Sequence[tuple[bytes, bytes]], client: str | None) -> Caller:
        """Who sends a request with these headers (names in lower case) from this address. Refusal (401, 403) says what is
        missing."""
        given = [value for name, value in headers if name == b"authorization"]
        if not self._known:
            if given:
                raise Refusal(401, "Unauthorized", "a token was sent, and this server knows none", challenge("reader"))
            forwarded = any(name in FORWARDED for name, _ in headers)
            if is_loopback(client) and not forwarded:
                return Caller("reader")
            raise Refusal(
                403,
                "Forbidden",
                "without tokens only callers on this machine are answered"
                + (", and this request was forwarded for another" if forwarded else ""),
                HOW.format(variable=VARIABLES["reader"]),
            )
        if len(given) != 1 or not given[0].lower().startswith(b"bearer "):
            said = "a token is needed" if not given else "one header Authorization: Bearer TOKEN is needed"
            raise Refusal(401, "Unauthorized", said, challenge("reader"), headers={"www-authenticate": "Bearer"})
        digest = _digest(given[0][7:].strip().decode("latin-1"))
        found: Caller | None = None
        # All are compared, whichever it is: how long this takes says nothing.
        for known, caller in self._known:
            if hmac.compare_digest(known, digest) and found is None:
                found = caller
        if found is None:
            raise Refusal(
                401,
                "Unauthorized",
                "the token is not known here",
                challenge("reader"),
                headers={"www-authenticate": 'Bearer error="invalid_token"'},
            )
        return found

    def refuse_in_query(self, query: bytes) -> None:
        """A token in an address ends up in logs, histories and referrers: it is refused (400), so that nobody relies on it."""
        if not query:
            return
        for name, value in urllib.parse.parse_qsl(query.decode("latin-1"), keep_blank_values=True):
            digest = _digest(value)
            if name.lower() in TOKEN_PARAMETERS or any(hmac.compare_digest(known, digest) for known, _ in self._known):
                raise Refusal(
                    400,
                    "TokenInAddress",
                    "a token does not belong in an address, where logs keep it",
                    "send it as a header, Authorization: Bearer TOKEN, and replace it if it was a real one",
                )

    def require_operator(self, caller: Caller) -> None:
        """Refusal (403) for anybody else."""
        if caller.role == "operator":
            return
        if self.operable:
            raise Refusal(403, "Forbidden", "this takes an operator's token", challenge("operator"))
        raise Refusal(
            403,
            "Forbidden",
            "nobody may promote, roll back or hold through this server: it has no operator tokens",
            HOW.format(variable=VARIABLES["operator"]),
        )


def challenge(role: Role) -> str:
    return f"send Authorization: Bearer TOKEN with one of the server's {VARIABLES[role]}"


def check_bind(host: str, access: Access, *, insecure: bool = False) -> None:
    """UsageError where other machines would reach a server without a token, or, unless ``insecure`` says that this is
    known, with tokens that travel in the clear: kbcore speaks no TLS itself."""
    if is_loopback(host):
        return
    if not access.configured:
        raise UsageError(
            f"{host} can be reached from other machines, and no tokens are set",
            remedy=f"set {VARIABLES['reader']} (16 characters or more each), or listen at 127.0.0.1",
        )
    if not insecure:
        raise UsageError(
            f"{host} can be reached from other machines, and tokens and answers would travel in the clear",
            remedy="put a proxy that speaks TLS before 127.0.0.1, or say --insecure where one stands there already",
        )


def is_loopback(host: str | None) -> bool:
    """Whether an address is one of this machine alone."""
    if host is None:
        return False
    if host == "localhost":
        return True
    try:
        address = ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return bool((mapped or address).is_loopback)


def _check(token: str, variable: str, number: int) -> None:
    if len(token) < MIN_CHARACTERS:
        raise ConfigError(
            f"token {number} of {variable} has {len(token)} characters; at least {MIN_CHARACTERS} are needed",
            remedy="make one with: openssl rand -hex 24",
        )
    if not all("!" <= letter <= "~" for letter in token):
        raise ConfigError(
            f"token {number} of {variable} holds a blank or a letter that no header carries",
            remedy="make one with: openssl rand -hex 24",
        )


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()
