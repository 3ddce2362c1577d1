"""What stands before every request: Host, Origin, token, size and time of the body."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from kbcore.serving.access import Tokens
from kbcore.serving.guard import Guard, names_of

READER = "reader-token-0123456789"


class App:
    """Answers 200 with the body it was given, and remembers that it was asked."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.roles: list[str] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        message = await receive()
        self.bodies.append(message["body"])
        self.roles.append(scope["state"]["role"])
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": message["body"]})


def ask(
    app: App,
    headers: list[tuple[str, str]],
    chunks: tuple[bytes, ...] = (b"",),
    *,
    tokens: Tokens = Tokens(),  # noqa: B008
    slow: float = 0.0,
    **limits: Any,
) -> tuple[int, Any]:
    """The status and the body of one request."""
    sent: list[Any] = []
    queue = [{"type": "http.request", "body": c, "more_body": n < len(chunks) - 1} for n, c in enumerate(chunks)]

    async def receive() -> Any:
        await asyncio.sleep(slow)
        return queue.pop(0)

    async def send(message: Any) -> None:
        sent.append(message)

    guard = Guard(app, hosts=names_of("127.0.0.1", ["kb.example.org"]), tokens=tokens, **limits)
    raw = [(name.encode(), value.encode("latin-1")) for name, value in headers]
    asyncio.run(guard({"type": "http", "headers": raw, "path": "/"}, receive, send))
    body = sent[1]["body"]
    return sent[0]["status"], json.loads(body) if sent[0]["status"] >= 400 else body


@pytest.mark.parametrize("host", ["127.0.0.1:8765", "localhost", "LOCALHOST:1", "[::1]:8765", "kb.example.org"])
def test_a_server_answers_to_its_own_names(host: str) -> None:
    assert ask(App(), [("host", host)])[0] == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example", "127.0.0.1.evil.example", "localhost:80:80", "localhost:x", "kb.example.org.", "", "user@localhost",
        "[::1", "[::1]x", "169.254.169.254",
    ],
)  # fmt: skip
def test_a_foreign_host_is_refused_and_reaches_nothing(host: str) -> None:
    app = App()
    status, body = ask(app, [("host", host)])
    assert status == 421
    assert body["error"]["remedy"]
    assert app.bodies == []


def test_no_host_and_two_hosts_are_refused() -> None:
    assert ask(App(), [])[0] == 421
    assert ask(App(), [("host", "localhost"), ("host", "localhost")])[0] == 421


@pytest.mark.parametrize(
    "origin",
    [
        "http://evil.example",
        "null",
        "http://localhost:3000",
        "file://",
        "http://127.0.0.1:8765@evil.example",
        "http://[",
    ],
)
def test_a_foreign_origin_is_refused(origin: str) -> None:
    app = App()
    assert ask(app, [("host", "127.0.0.1:8765"), ("origin", origin)])[0] == 403
    assert app.bodies == []


def test_pages_of_the_server_itself_may_ask() -> None:
    assert ask(App(), [("host", "127.0.0.1:8765"), ("origin", "http://127.0.0.1:8765")])[0] == 200


def test_where_tokens_are_set_each_request_needs_one() -> None:
    tokens = Tokens.of({"KB_READER_TOKENS": READER})
    app = App()
    host = ("host", "localhost")
    assert ask(app, [host], tokens=tokens)[0] == 401
    assert ask(app, [host, ("authorization", f"Bearer {READER}x")], tokens=tokens)[0] == 401
    twice = [("authorization", f"Bearer {READER}")] * 2
    assert ask(app, [host, *twice], tokens=tokens)[0] == 401
    assert app.bodies == []
    assert ask(app, [host, twice[0]], tokens=tokens)[0] == 200
    assert app.roles == ["reader"]


def test_a_body_arrives_whole() -> None:
    assert ask(App(), [("host", "localhost")], (b"one ", b"two"))[1] == b"one two"


def test_large_bodies_are_refused_declared_or_not() -> None:
    app = App()
    host = ("host", "localhost")
    assert ask(app, [host, ("content-length", "11")], (b"",), max_body=10)[0] == 413
    assert ask(app, [host, ("content-length", "9" * 5000)], (b"",))[0] == 413
    assert ask(app, [host], (b"123456", b"7890a"), max_body=10)[0] == 413
    assert app.bodies == []


def test_a_body_that_does_not_come_is_given_up() -> None:
    assert ask(App(), [("host", "localhost")], slow=1.0, body_seconds=0.05)[0] == 408


def test_a_server_that_listens_everywhere_has_no_name_of_its_own() -> None:
    assert "0.0.0.0" not in names_of("0.0.0.0", ["kb.example.org"])
    assert "kb.example.org" in names_of("0.0.0.0", ["kb.example.org"])
    assert names_of("10.0.0.5") == ["10.0.0.5"]


def test_beyond_so_many_requests_at_once_callers_are_asked_to_come_again() -> None:
    statuses: list[int] = []
    free = asyncio.Event()

    async def slow(scope: Any, receive: Any, send: Any) -> None:
        await free.wait()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    async def receive() -> Any:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        if "status" in message:
            statuses.append(message["status"])
            if message["status"] == 503:
                assert (b"retry-after", b"1") in message["headers"]

    async def work() -> None:
        guard = Guard(slow, hosts=["localhost"], tokens=Tokens(), requests=2)
        asked = [
            asyncio.create_task(guard({"type": "http", "headers": [(b"host", b"localhost")]}, receive, send))
            for _ in range(3)
        ]
        await asyncio.sleep(0.05)
        assert statuses == [503]
        free.set()
        await asyncio.gather(*asked)
        await guard({"type": "http", "headers": [(b"host", b"localhost")]}, receive, send)

    asyncio.run(work())
    assert statuses == [503, 200, 200, 200]
