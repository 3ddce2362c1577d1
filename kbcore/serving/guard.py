"""What stands before every request over HTTP: Host, Origin, token, size and time of the body."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Collection, MutableMapping
from typing import Any
from urllib.parse import urlsplit

from kbcore.serving.access import Tokens, is_loopback

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

LOOPBACK_NAMES = ("localhost", "127.0.0.1", "[::1]")
MAX_BODY = 1_000_000
BODY_SECONDS = 10.0
REQUESTS = 64


class Guard:
    """An ASGI application around another.

    A request must name one of ``hosts`` in its Host header (421), so that a page whose name was pointed at this machine
    reaches nothing; where a browser says where it comes from, that must be this server itself (403). Where tokens are
    set, each request carries one in its Authorization header (401); the role stands in ``scope["state"]["role"]``.
    Bodies end at a million bytes (413) and after ten seconds (408); beyond 64 requests at once callers are asked to come
    again (503). What is refused is said as JSON.
    """

    def __init__(
        self,
        app: App,
        *,
        hosts: Collection[str],
        tokens: Tokens,
        max_body: int = MAX_BODY,
        body_seconds: float = BODY_SECONDS,
        requests: int = REQUESTS,
    ) -> None:
        self._app = app
        self._hosts = frozenset(host.lower() for host in hosts)
        self._tokens = tokens
        self._max_body = max_body
        self._body_seconds = body_seconds
        self._free = requests

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return
        headers: dict[str, list[str]] = {}
        for name, value in scope["headers"]:
            headers.setdefault(name.decode("latin-1").lower(), []).append(value.decode("latin-1"))
        refusal = self._refusal(scope, headers)
        if refusal is not None:
            await _refuse(send, *refusal)
            return
        try:
            async with asyncio.timeout(self._body_seconds):
                body = await self._body(headers, receive)
        except TimeoutError:
            await _refuse(send, 408, f"the body did not arrive within {self._body_seconds:g} s", "send it at once")
            return
        if body is None:
            await _refuse(send, 413, f"a body has at most {self._max_body:,} bytes", "send a smaller one")
            return
        if not self._free:
            await _refuse(send, 503, "too many requests at once", "ask again in a second")
            return
        self._free -= 1
        try:
            await self._app(scope, _replayed(body, receive), send)
        finally:
            self._free += 1

    def _refusal(self, scope: Scope, headers: dict[str, list[str]]) -> tuple[int, str, str] | None:
        host = headers.get("host", [])
        if len(host) != 1 or _name(host[0]) not in self._hosts:
            return (
                421,
                "this server does not go by that Host",
                "name it as it was started, or allow the name: --allow-host",
            )
        if any(not _same_origin(origin, host[0]) for origin in headers.get("origin", [])):
            return 403, "requests of other web pages are refused", "call this server from a program, not from a page"
        role = None
        if self._tokens.required:
            given = headers.get("authorization", [])
            role = self._tokens.role(given[0]) if len(given) == 1 else None
            if role is None:
                return 401, "a token is needed", "send the header Authorization: Bearer <token>"
        scope.setdefault("state", {})["role"] = role or "reader"
        return None

    async def _body(self, headers: dict[str, list[str]], receive: Receive) -> bytes | None:
        """The whole body; None where it is too large."""
        declared = headers.get("content-length", ["0"])[0]
        if declared.isdecimal() and (len(declared) > 18 or int(declared) > self._max_body):
            return None
        body = bytearray()
        while True:
            message = await receive()
            if message["type"] != "http.request":
                return bytes(body)
            body += message.get("body", b"")
            if len(body) > self._max_body:
                return None
            if not message.get("more_body", False):
                return bytes(body)


def names_of(host: str, allowed: Collection[str] = ()) -> list[str]:
    """The names that a server listening on ``host`` goes by: its own, those that are allowed, and the loopback ones."""
    own = f"[{host.strip('[]')}]" if ":" in host else host
    # Whoever listens everywhere goes by no name of his own.
    named = [] if own in ("0.0.0.0", "[::]") else [own]
    return [*dict.fromkeys([*named, *(LOOPBACK_NAMES if is_loopback(host) or not named else ()), *allowed])]


def _name(host: str) -> str:
    """A Host header without its port."""
    host = host.strip().lower()
    if host.startswith("["):
        name, closed, port = host.partition("]")
        return f"{name}]" if closed and (not port or (port[0] == ":" and port[1:].isdecimal())) else ""
    name, colon, port = host.partition(":")
    return name if not colon or port.isdecimal() else ""


def _same_origin(origin: str, host: str) -> bool:
    try:
        parts = urlsplit(origin)
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and parts.netloc.lower() == host.strip().lower()


def _replayed(body: bytes, receive: Receive) -> Receive:
    given = False

    async def again() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again


async def _refuse(send: Send, status: int, message: str, remedy: str) -> None:
    body = json.dumps({"error": {"code": status, "message": message, "remedy": remedy}}).encode()
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        (b"x-content-type-options", b"nosniff"),
        # What is left of a body that nobody reads would be taken for the next request.
        (b"connection", b"close"),
    ]
    if status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    if status == 503:
        headers.append((b"retry-after", b"1"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
