"""What every request passes before a route sees it: Host, Origin, tokens, and a body that is small, JSON and in time."""

from __future__ import annotations

import asyncio
import contextlib
import re
import urllib.parse
from collections.abc import Callable, Collection, Iterable
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from kbcore.errors import UsageError
from kbcore.search_log import asked_by
from kbcore.serving.access import Access, is_loopback
from kbcore.serving.failures import RETRY_SECONDS, Refusal, body_of, busy, response
from kbcore.serving.strict_json import read_object

MAX_BODY = 1_000_000
BODY_SECONDS = 10.0
AT_ONCE = 64
LINGER_SECONDS, LINGER_BYTES = 1.0, 64 * 1024 * 1024
LARGE = 65_536
SMALL, MAX_HELD = 16_384, 8_000_000
"""Bytes of a body that there is always room for, and how many more the bodies of all requests may hold together."""
LOOPBACK_NAMES = ("localhost", "127.0.0.1", "[::1]")
_ALLOWED = re.compile(r"[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\]")
Headers = list[tuple[bytes, bytes]]


class Guard:
    """Middleware around the whole application of a server.

    A request names one of ``hosts`` in its Host header (421) and comes from no page of another origin (403). It carries one
    of the tokens where there are any (401), an operator's where it moves readers (403), and none in its address (400). A
    body is JSON in UTF-8 (415, 400), of at most a million bytes (413), and arrives within ten seconds (408). Beyond
    ``at_once`` requests, and ``held`` bytes of large bodies, callers are asked to come again (503). The caller stands in
    ``scope["state"]["caller"]``; searches within are logged under its label, those of ``open_paths``, which need no token,
    not at all.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        access: Access,
        hosts: Iterable[str] = LOOPBACK_NAMES,
        protocol: str = "http",
        open_paths: Collection[str] = (),
        needs_operator: Callable[[str, str], bool] = lambda method, path: False,
        at_once: int = AT_ONCE,
        body_seconds: float = BODY_SECONDS,
        held: int = MAX_HELD,
    ) -> None:
        """``hosts`` are names without a port; ``needs_operator`` says it of a method and a path."""
        self.app = app
        self.access = access
        self.hosts = frozenset(name.lower() for name in hosts)
        self.protocol = protocol
        self.open_paths = open_paths
        self.needs_operator = needs_operator
        self.body_seconds = body_seconds
        self._at_once = at_once
        self._running = 0
        self._room = held

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
            return
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        taken = 0

        def take(size: int) -> None:
            nonlocal taken
            wanted = max(size - SMALL, 0) - taken
            if wanted > self._room:
                raise _no_room()
            self._room -= wanted
            taken += wanted

        try:
            await self._answer(scope, receive, send, take)
        finally:
            self._room += taken

    async def _answer(self, scope: Scope, receive: Receive, send: Send, take: Callable[[int], None]) -> None:
        """``take`` is told how large the body is so far, and raises where there is no room for it."""
        headers: Headers = scope["headers"]
        state = scope.setdefault("state", {})
        try:
            self._check_host(headers)
            self._check_origin(scope["method"], headers)
            consumer = self._admit(scope, headers)
            body = await self._body(scope["method"], headers, receive, take)
            if self._running >= self._at_once:
                raise busy(self._running)
        except Refusal as refusal:
            state["error"] = refusal.error
            refusal.__traceback__ = None  # its frames hold what was read of the body
            await _refuse(refusal, scope, receive, send)
            return
        self._running += 1
        try:
            with asked_by(consumer):
                await self.app(scope, _replayed(body, receive), send)
        finally:
            self._running -= 1

    def _admit(self, scope: Scope, headers: Headers) -> str | None:
        """The label of the caller in the log of searches; None where nobody needs to say who it is."""
        self.access.refuse_in_query(scope["query_string"])
        if scope["path"] in self.open_paths:
            return None
        caller = self.access.caller(headers, scope["client"][0] if scope.get("client") else None)
        if self.needs_operator(scope["method"], scope["path"]):
            self.access.require_operator(caller)
        scope["state"]["caller"] = caller
        return f"{self.protocol}:{caller.label}"

    def _check_host(self, headers: Headers) -> None:
        """A page that made its own name point to this machine still calls us by that name."""
        given = [value.decode("latin-1") for name, value in headers if name == b"host"]
        if len(given) != 1 or _name(given[0]) not in self.hosts:
            raise Refusal(
                421,
                "WrongHost",
                f"this server does not answer to {given[0][:100]!r}" if given else "the Host header is missing",
                "call it by a name it was started with, or start it with --allow-host NAME",
            )

    def _check_origin(self, method: str, headers: Headers) -> None:
        """No page of another origin reads or moves anything: there is no CORS here, and a foreign Origin is refused."""
        found = dict(headers)
        origins = [value.decode("latin-1") for name, value in headers if name == b"origin"]
        if not all(_same_origin(origin, found[b"host"].decode("latin-1")) for origin in origins):
            raise Refusal(403, "ForeignOrigin", "pages of another origin are not answered", "call from a program")
        site = found.get(b"sec-fetch-site", b"none")
        if site not in (b"none", b"same-origin") and (method != "GET" or found.get(b"sec-fetch-mode") != b"navigate"):
            raise Refusal(403, "ForeignOrigin", "pages of another site are not answered", "call from a program")

    async def _body(self, method: str, headers: Headers, receive: Receive, take: Callable[[int], None]) -> bytes:
        found = dict(headers)
        length = found.get(b"content-length", b"0")
        if method != "POST":
            if b"transfer-encoding" in found or length != b"0":
                raise Refusal(400, "UnexpectedBody", f"a {method[:20]} request has no body here", close=True)
            return b""
        _check_type(found)
        if not length.isdigit() or int(length[:20]) > MAX_BODY:
            raise _too_large()
        try:
            async with asyncio.timeout(self.body_seconds):
                data = await _read(receive, take)
        except TimeoutError:
            raise Refusal(
                408, "TooSlow", f"the body did not arrive within {self.body_seconds:g} s", "try again", close=True
            ) from None
        # A large body is read beside the event loop, which answers others meanwhile.
        await asyncio.to_thread(read_object, data) if len(data) > LARGE else read_object(data)
        return data


def _check_type(headers: dict[bytes, bytes]) -> None:
    kind, _, parameters = headers.get(b"content-type", b"").decode("latin-1").lower().partition(";")
    charset = parameters.strip().removeprefix("charset=").strip('"')
    if kind.strip() != "application/json" or charset not in ("", "utf-8", "utf8"):
        raise Refusal(
            415,
            "UnsupportedMediaType",
            f"a body is JSON in UTF-8 here, not {kind[:60] or 'of no type'!r}",
            "send it with Content-Type: application/json",
            close=True,
        )
    if headers.get(b"content-encoding", b"identity").lower() != b"identity":
        raise Refusal(
            415, "UnsupportedMediaType", "a body is not packed here", "send it without Content-Encoding", close=True
        )


def _too_large() -> Refusal:
    return Refusal(
        413,
        "TooLarge",
        f"a body has at most {MAX_BODY:,} bytes",
        "ask a shorter question, or a smaller filter",
        close=True,
    )


def _no_room() -> Refusal:
    return Refusal(
        503,
        "Busy",
        "many large bodies are being read already",
        "try again after the seconds in Retry-After",
        headers={"retry-after": str(RETRY_SECONDS)},
        close=True,
        transient=True,
    )


async def _read(receive: Receive, take: Callable[[int], None]) -> bytes:
    """Counted while it arrives, whatever its headers said."""
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Refusal(400, "Disconnected", "the caller went away before its request was whole", close=True)
        part = message.get("body", b"")
        size += len(part)
        if size > MAX_BODY:
            raise _too_large()
        take(size)
        parts.append(part)
        if not message.get("more_body", False):
            return b"".join(parts)


def _replayed(body: bytes, receive: Receive) -> Receive:
    given = False

    async def again() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again


async def _refuse(refusal: Refusal, scope: Scope, receive: Receive, send: Send) -> None:
    """Say why; where the connection ends, read on for a moment, or a caller who is still sending would never see it."""
    if "connection" not in refusal.headers:
        await response(refusal)(scope, receive, send)
        return
    body = body_of(refusal)
    start = response(refusal)
    await send({"type": "http.response.start", "status": refusal.status, "headers": start.raw_headers})
    await send({"type": "http.response.body", "body": body, "more_body": True})
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(LINGER_SECONDS):
            await _discard(receive)
    await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _discard(receive: Receive) -> None:
    size = 0
    while size < LINGER_BYTES:
        message: Any = await receive()
        size += len(message.get("body", b""))
        if message["type"] == "http.disconnect" or not message.get("more_body", False):
            return


def names_of(bound_to: str, allowed: Iterable[str] = ()) -> list[str]:
    """The names a server may be called by: the address it is bound to, those of the loopback where it is reached by them,
    and those that were allowed. UsageError where one of these is none that a Host header could say."""
    allowed = list(allowed)
    for name in allowed:
        if not _ALLOWED.fullmatch(name):
            raise UsageError(
                f"--allow-host {name[:100]!r}: no client calls a server by that",
                remedy="give a name or an address alone, without scheme, port, path or *: kb.example.org, 10.0.0.5, [fd00::5]",
            )
    own = f"[{bound_to.strip('[]')}]" if ":" in bound_to else bound_to
    # Whoever listens everywhere goes by no name of his own.
    named = [] if own in ("0.0.0.0", "[::]", "") else [own]
    return [*dict.fromkeys([*named, *(LOOPBACK_NAMES if is_loopback(bound_to) or not named else ()), *allowed])]


def _name(host: str) -> str:
    """A Host header without its port; nothing where what follows the name is no port."""
    host = host.strip().lower()
    if host.startswith("["):
        name, closed, port = host.partition("]")
        return f"{name}]" if closed and (not port or (port[0] == ":" and _digits(port[1:]))) else ""
    name, colon, port = host.partition(":")
    return name if not colon or _digits(port) else ""


def _digits(port: str) -> bool:
    return port.isascii() and port.isdigit()


def _same_origin(origin: str, host: str) -> bool:
    try:
        parts = urllib.parse.urlsplit(origin)
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and parts.netloc.lower() == host.strip().lower()
