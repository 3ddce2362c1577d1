"""What stands before every request: Host, Origin, token, size and time of the body."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from kbcore.errors import UsageError
from kbcore.search_log import _consumer
from kbcore.serving.access import Access
from kbcore.serving.guard import Guard, names_of

READER, OPERATOR = "reader-token-0123456789", "operator-token-0123456789"
HOST = ("host", "localhost")
JSON = ("content-type", "application/json")


class App:
    """Answers 200 with the body it was given, and remembers who asked."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.callers: list[str | None] = []
        self.consumers: list[str | None] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        message = await receive()
        self.bodies.append(message["body"])
        caller = scope["state"].get("caller")
        self.callers.append(caller.label if caller else None)
        self.consumers.append(_consumer.get())
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": message["body"]})


def scope_of(headers: list[tuple[str, str]], method: str = "GET", path: str = "/", query: str = "") -> dict[str, Any]:
    raw = [(name.encode(), value.encode("latin-1")) for name, value in headers]
    return {"type": "http", "method": method, "headers": raw, "path": path, "query_string": query.encode(),
            "client": ("127.0.0.1", 1)}  # fmt: skip


def ask(
    app: App,
    headers: list[tuple[str, str]],
    chunks: tuple[bytes, ...] = (b"",),
    *,
    method: str = "GET",
    path: str = "/",
    query: str = "",
    access: Access = Access(),  # noqa: B008
    slow: float = 0.0,
    **more: Any,
) -> tuple[int, Any]:
    """The status and the body of one request."""
    sent: list[Any] = []
    queue = [{"type": "http.request", "body": c, "more_body": n < len(chunks) - 1} for n, c in enumerate(chunks)]

    async def receive() -> Any:
        await asyncio.sleep(slow)
        return queue.pop(0) if queue else {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        sent.append(message)

    guard = Guard(app, hosts=names_of("127.0.0.1", ["kb.example.org"]), access=access, **more)
    asyncio.run(guard(scope_of(headers, method, path, query), receive, send))
    body = sent[1]["body"]
    return sent[0]["status"], json.loads(body) if sent[0]["status"] >= 400 else body


def post(app: App, headers: list[tuple[str, str]], *chunks: bytes, **more: Any) -> tuple[int, Any]:
    return ask(app, [HOST, *headers], chunks or (b"{}",), method="POST", **more)


@pytest.mark.parametrize("host", ["127.0.0.1:8765", "localhost", "LOCALHOST:1", "[::1]:8765", "kb.example.org"])
def test_a_server_answers_to_its_own_names(host: str) -> None:
    assert ask(App(), [("host", host)])[0] == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example", "127.0.0.1.evil.example", "localhost:80:80", "localhost:x", "kb.example.org.", "", "user@localhost",
        "[::1", "[::1]x", "169.254.169.254", "evil.example:localhost",
    ],
)  # fmt: skip
def test_a_foreign_host_is_refused_and_reaches_nothing(host: str) -> None:
    app = App()
    status, body = ask(app, [("host", host)])
    assert status == 421
    assert body["remedy"]
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


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_pages_of_another_site_are_refused_also_where_no_origin_is_sent(site: str) -> None:
    assert ask(App(), [HOST, ("sec-fetch-site", site)])[0] == 403
    assert ask(App(), [HOST, ("sec-fetch-site", site), ("sec-fetch-mode", "navigate")])[0] == 200
    assert post(App(), [JSON, ("sec-fetch-site", site), ("sec-fetch-mode", "navigate")])[0] == 403
    assert ask(App(), [HOST, ("sec-fetch-site", "same-origin")])[0] == 200


def test_where_tokens_are_set_each_request_needs_one() -> None:
    access = Access([READER])
    app = App()
    assert ask(app, [HOST], access=access)[0] == 401
    assert ask(app, [HOST, ("authorization", f"Bearer {READER}x")], access=access)[0] == 401
    twice = [("authorization", f"Bearer {READER}")] * 2
    assert ask(app, [HOST, *twice], access=access)[0] == 401
    assert ask(app, [HOST, twice[0]], access=access, query=f"x={READER}")[0] == 400
    assert app.bodies == []
    assert ask(app, [HOST, twice[0]], access=access)[0] == 200
    assert app.callers == ["reader 1"]


def test_what_moves_readers_needs_an_operator() -> None:
    access = Access([READER], [OPERATOR])
    acts = {"access": access, "needs_operator": lambda method, path: method == "POST" and path == "/move"}
    app = App()
    assert post(app, [JSON, ("authorization", f"Bearer {READER}")], path="/move", **acts)[0] == 403
    assert app.bodies == []
    assert post(app, [JSON, ("authorization", f"Bearer {READER}")], path="/look", **acts)[0] == 200
    assert post(app, [JSON, ("authorization", f"Bearer {OPERATOR}")], path="/move", **acts)[0] == 200


def test_searches_within_are_logged_under_the_caller_and_those_of_open_paths_are_not() -> None:
    app, access = App(), Access([READER])
    authorized = ("authorization", f"Bearer {READER}")
    ask(app, [HOST, authorized], access=access)
    ask(app, [HOST, authorized], access=access, protocol="mcp")
    ask(app, [HOST])
    assert ask(app, [HOST], access=access, path="/health", open_paths={"/health"})[0] == 200
    assert app.consumers == ["http:reader 1", "mcp:reader 1", "http:no token", None]


def test_a_body_arrives_whole() -> None:
    assert post(App(), [JSON], b'{"a": "one ', b'two"}')[1] == b'{"a": "one two"}'


def test_a_body_is_json_in_utf_8_and_stands_in_a_post() -> None:
    app = App()
    assert post(app, [])[0] == 415
    assert post(app, [("content-type", "text/plain")])[0] == 415
    assert post(app, [("content-type", "application/json; charset=utf-16")])[0] == 415
    assert post(app, [JSON, ("content-encoding", "gzip")])[0] == 415
    assert post(app, [JSON], b"no")[0] == 400
    assert ask(app, [HOST, ("content-length", "2")], (b"{}",))[0] == 400
    assert app.bodies == []
    assert post(app, [("content-type", 'application/json; charset="utf-8"')])[0] == 200


def test_large_bodies_are_refused_declared_or_not() -> None:
    app = App()
    assert post(app, [JSON, ("content-length", "1000001")])[0] == 413
    assert post(app, [JSON, ("content-length", "9" * 5000)])[0] == 413
    assert post(app, [JSON], b" " * 600_000, b" " * 600_000)[0] == 413
    assert app.bodies == []


def test_a_body_that_does_not_come_is_given_up() -> None:
    assert post(App(), [JSON], slow=1.0, body_seconds=0.05)[0] == 408


def test_a_server_that_listens_everywhere_has_no_name_of_its_own() -> None:
    assert "0.0.0.0" not in names_of("0.0.0.0", ["kb.example.org"])
    assert "kb.example.org" in names_of("0.0.0.0", ["kb.example.org"])
    assert names_of("10.0.0.5") == ["10.0.0.5"]


@pytest.mark.parametrize(
    "name",
    ["https://kb.example.org", "kb.example.org:8443", "kb.example.org/kb", "*.example.org", "*", "fd00::5", "", " kb"],
)
def test_a_name_that_no_host_header_says_is_refused_at_the_start(name: str) -> None:
    """It would allow nothing, and every request would be answered 421."""
    with pytest.raises(UsageError, match="no client calls a server by that") as refused:
        names_of("127.0.0.1", ["kb.example.org", name])
    assert "without scheme, port" in refused.value.remedy


def test_names_and_addresses_are_allowed_as_host_headers_say_them() -> None:
    given = ["kb.example.org", "KB_api", "10.0.0.5", "[fd00::5]"]
    assert names_of("127.0.0.1", given)[-4:] == given


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
        guard = Guard(slow, access=Access(), at_once=2)
        asked = [asyncio.create_task(guard(scope_of([HOST]), receive, send)) for _ in range(3)]
        await asyncio.sleep(0.05)
        assert statuses == [503]
        free.set()
        await asyncio.gather(*asked)
        await guard(scope_of([HOST]), receive, send)

    asyncio.run(work())
    assert statuses == [503, 200, 200, 200]


def test_large_bodies_together_hold_so_much_and_small_ones_are_read_all_the_same() -> None:
    statuses: dict[str, int] = {}
    whole = asyncio.Event()
    guard = Guard(App(), access=Access(), held=1_500_000)

    async def post_slowly(name: str, size: int) -> None:
        """All of the body but its end, which comes when ``whole`` is set."""
        sent = [b'{"query": "' + b"x" * size, b'"}']

        async def receive() -> Any:
            if len(sent) == 1:
                await whole.wait()
            return (
                {"type": "http.request", "body": sent.pop(0), "more_body": bool(sent)}
                if sent
                else {"type": "http.disconnect"}
            )

        async def send(message: Any) -> None:
            if "status" in message:
                statuses[name] = message["status"]
                assert message["status"] == 200 or (b"retry-after", b"1") in message["headers"]

        await guard(scope_of([HOST, JSON], "POST"), receive, send)

    async def work() -> None:
        first = asyncio.create_task(post_slowly("first", 900_000))
        await asyncio.sleep(0.05)
        second = asyncio.create_task(post_slowly("second", 900_000))
        small = asyncio.create_task(post_slowly("small", 2_000))
        await asyncio.sleep(0.05)
        assert statuses == {"second": 503}
        whole.set()
        await asyncio.gather(first, second, small)
        await post_slowly("again", 900_000)

    asyncio.run(work())
    assert statuses == {"second": 503, "first": 200, "small": 200, "again": 200}


def test_a_web_socket_is_closed_and_the_start_of_a_server_passes() -> None:
    seen: list[str] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        seen.append(scope["type"])

    async def send(message: Any) -> None:
        seen.append(message["type"])

    async def work() -> None:
        guard = Guard(app, access=Access())
        await guard({"type": "websocket"}, None, send)  # type: ignore[arg-type]
        await guard({"type": "lifespan"}, None, send)  # type: ignore[arg-type]

    asyncio.run(work())
    assert seen == ["websocket.close", "lifespan"]
