"""Who may do what: bearer tokens with a role each, read from the environment and kept as hashes."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import urllib.parse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from kbcore.errors import ConfigError
from kbcore.serving.http.failures import Refusal

Role = Literal["reader", "operator"]
VARIABLES: dict[Role, str] = {"reader": "KB_READER_TOKENS", "operator": "KB_OPERATOR_TOKENS"}
MIN_CHARACTERS = 16
OPERATOR_ACTS = frozenset({"promote", "rollback", "hold"})
OPEN_PATHS = frozenset({"/health/live", "/health/ready"})
TOKEN_PARAMETERS = frozenset({"token", "access_token", "auth_token", "bearer", "authorization", "api_key", "apikey"})
FORWARDED = frozenset({b"forwarded", b"x-forwarded-for", b"x-real-ip"})
HOW = "set {variable} to one or more secrets of at least 16 characters, separated by commas, and start the server again"


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks: a role, and the name that logs and the promotion log know it by. No token leads back from either."""

    role: Role
    name: str


class Access:
    """The tokens of one server. Without any, callers on this machine read and nobody operates."""

    def __init__(self, readers: Sequence[str] = (), operators: Sequence[str] = (), *, anyone: bool = False) -> None:
        """``anyone``: without tokens, callers on other machines read too."""
        self._known: list[tuple[bytes, Caller]] = []
        self._anyone = anyone
        roles: dict[Role, Sequence[str]] = {"operator": operators, "reader": readers}
        for role, tokens in roles.items():
            for number, token in enumerate(tokens, start=1):
                _check(token, VARIABLES[role], number)
                self._known.append((_digest(token), Caller(role, f"{role} {number} over HTTP")))

    @classmethod
    def of(cls, environment: Mapping[str, str], *, anyone: bool = False) -> Access:
        """From KB_READER_TOKENS and KB_OPERATOR_TOKENS. ConfigError says which token is too short, never what it is."""
        given = {
            role: [part.strip() for part in environment.get(variable, "").split(",") if part.strip()]
            for role, variable in VARIABLES.items()
        }
        return cls(given["reader"], given["operator"], anyone=anyone)

    @property
    def configured(self) -> bool:
        return bool(self._known)

    @property
    def operable(self) -> bool:
        """Whether anybody may promote, roll back and hold."""
        return any(caller.role == "operator" for _, caller in self._known)

    def admit(
        self, method: str, path: str, query: bytes, headers: Sequence[tuple[bytes, bytes]], client: str | None
    ) -> Caller | None:
        """The caller of a request; None where nobody needs to say who it is. Refusal (400, 401, 403) says what is missing."""
        self._refuse_in_query(query)
        if path in OPEN_PATHS:
            return None
        caller = self._caller(headers, client)
        if needs_operator(method, path) and caller.role != "operator":
            raise self._not_an_operator()
        return caller

    def _caller(self, headers: Sequence[tuple[bytes, bytes]], client: str | None) -> Caller:
        given = [value for name, value in headers if name == b"authorization"]
        if not self._known:
            if given:
                raise Refusal(401, "Unauthorized", "a token was sent, and this server knows none", challenge("reader"))
            forwarded = any(name in FORWARDED for name, _ in headers)
            if self._anyone or (is_loopback(client) and not forwarded):
                return Caller("reader", "a caller without a token")
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

    def _refuse_in_query(self, query: bytes) -> None:
        """A token in an address ends up in logs, histories and referrers: it is refused, so that nobody relies on it."""
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

    def _not_an_operator(self) -> Refusal:
        if self.operable:
            return Refusal(403, "Forbidden", "this takes an operator's token", challenge("operator"))
        return Refusal(
            403,
            "Forbidden",
            "nobody may promote, roll back or hold through this server: it has no operator tokens",
            HOW.format(variable=VARIABLES["operator"]),
        )


def needs_operator(method: str, path: str) -> bool:
    """Whether a request moves readers."""
    parts = path.strip("/").split("/")
    return method == "POST" and len(parts) == 3 and parts[0] == "v1" and parts[2] in OPERATOR_ACTS


def challenge(role: Role) -> str:
    return f"send Authorization: Bearer TOKEN with one of the server's {VARIABLES[role]}"


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
