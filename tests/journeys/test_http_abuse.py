"""Requests made to break a server: each gets a documented 4xx (or 503), and the next caller is answered."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.journeys.http_server import OPERATOR, READER, Server, desk, read_all

SEARCH = "/v1/test/search"
JSON = {"Content-Type": "application/json"}
CALM_MB = 50


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    _, config = desk(tmp_path_factory.mktemp("abuse"))
    with Server(config) as server:
        for _ in range(20):
            server.post(SEARCH, {"query": "warm", "k": 200})
        yield server


def body(**parts: Any) -> dict[str, Any]:
    return {"json": {"query": "vpn", **parts}}


def raw(text: str | bytes, **headers: str) -> dict[str, Any]:
    return {"content": text, "headers": {**JSON, **headers}}


def endless(chunks: int, size: int = 65_536) -> Iterator[bytes]:
    yield b'{"query":"'
    for _ in range(chunks):
        yield b"x" * size


QUERIES = [
    ("empty", body(query=""), {200}),
    ("one character", body(query="a"), {200}),
    ("punctuation", body(query="?!.,;:" * 50), {200}),
    ("NUL", body(query="vpn\x00vpn"), {200}),
    ("right-to-left override", body(query="\u202evpn"), {200}),
    ("8,000 characters", body(query="a" * 8_000), {422}),
    ("a million characters", body(query="a" * 1_000_000), {413}),
    ("65 distinct terms", body(query=" ".join(f"w{n}" for n in range(65))), {422}),
    ("10,000 distinct terms", body(query=" ".join(f"w{n}" for n in range(10_000))), {422}),
    ("half a surrogate pair", raw('{"query": "\\ud800"}'), {400}),
    ("a number", body(query=5), {422}),
    ("nothing", body(query=None), {422}),
]
NUMBERS = [
    *((f"k {k!r}", body(k=k), {422}) for k in (0, -1, 201, 10**9, "5", 1.5, True, [])),
    ("k NaN", raw('{"query": "vpn", "k": NaN}'), {400}),
    ("k of 5,000 digits", raw('{"query": "vpn", "k": ' + "9" * 5_000 + "}"), {400}),
    ("alpha NaN", raw('{"query": "vpn", "alpha": NaN}'), {400}),
    ("alpha Infinity", raw('{"query": "vpn", "alpha": -Infinity}'), {400}),
    ("alpha 1e999", raw('{"query": "vpn", "alpha": 1e999}'), {400}),
    ("alpha 2", body(alpha=2), {422}),
    ("neighbours 10^6", body(neighbours=10**6), {422}),
]
NAMES = [
    ("unknown mode", body(mode="psychic"), {422}),
    ("unknown fusion", body(fusion="nuclear"), {422}),
    ("unknown part", body(model="/etc/passwd"), {422}),
    ("release that climbs", body(release="../../x"), {422}),
    ("release with NUL", body(release="r000001\x00"), {422}),
    ("release of 10,000 characters", body(release="r" * 10_000), {422}),
    ("release that is not there", body(release="r999999"), {404}),
]
FILTERS = [
    ("10,000 clauses", body(where={"any": [{"source": "a"}] * 10_000}), {400}),
    ("nested 1,000 deep", raw('{"query":"vpn","where":' + '{"not":' * 1_000 + "{}" + "}" * 1_000 + "}"), {400}),
    ("nested 20 deep", raw('{"query":"vpn","where":' + '{"not":' * 20 + '{"source":"a"}' + "}" * 20 + "}"), {400}),
    ("1 MB", body(where={"uri": "x" * 1_000_000}), {413}),
    ("900 kB", body(where={"uri": "x" * 900_000}), {400}),
    ("unknown field", body(where={"password": "x"}), {400}),
    ("code", body(where="__import__('os').system('id')"), {400}),
    ("65 lines", body(where=["source=a"] * 65), {422}),
]
BODIES = [
    ("none", raw(b""), {400}),
    ("not JSON", raw("query=vpn"), {400}),
    ("not UTF-8", raw(b'{"query": "\xff"}'), {400}),
    ("a list", raw('["vpn"]'), {400}),
    ("duplicate keys", raw('{"query": "a", "query": "b"}'), {400}),
    ("100,000 deep", raw('{"query":' + "[" * 100_000 + "]" * 100_000 + "}"), {400}),
    ("10 MB", raw(b" " * 10_000_000), {413}),
    ("chunked without an end in sight", {"content": endless(200), "headers": JSON}, {413}),
    ("gzip bomb", raw(gzip.compress(b" " * 50_000_000), **{"Content-Encoding": "gzip"}), {413, 415}),
    ("text", {"content": "vpn", "headers": {"Content-Type": "text/plain"}}, {415}),
    ("UTF-16", {"content": "{}", "headers": {"Content-Type": "application/json; charset=utf-16"}}, {415}),
    ("no type", {"content": '{"query":"vpn"}'}, {415}),
    ("form", {"data": {"query": "vpn"}}, {415}),
    ("multipart of 10,000 parts", {"files": [(f"f{n}", b"x") for n in range(10_000)]}, {415}),
]
ABUSE = [
    *((f"query: {name}", sent, codes) for name, sent, codes in QUERIES),
    *((f"number: {name}", sent, codes) for name, sent, codes in NUMBERS),
    *((f"name: {name}", sent, codes) for name, sent, codes in NAMES),
    *((f"filter: {name}", sent, codes) for name, sent, codes in FILTERS),
    *((f"body: {name}", sent, codes) for name, sent, codes in BODIES),
]


def test_every_abuse_of_a_search_is_answered_as_documented_and_costs_nothing(server: Server) -> None:
    before = server.rss
    for name, sent, codes in ABUSE:
        got = server.ask("POST", SEARCH, **sent)
        assert got.status_code in codes, (name, got.status_code, got.text[:300])
        _documented(got, name)
        after = server.post(SEARCH, {"query": "lost phone", "k": 1})
        assert after.status_code == 200, name
    assert server.rss - before < CALM_MB * 1_000_000
    assert not any("traceback" in line for line in server.lines())


ADDRESSES = [
    ("k=10^9", {"query": "vpn", "k": 10**9}, 422),
    ("k=nan", {"query": "vpn", "k": "nan"}, 422),
    ("alpha=nan", {"query": "vpn", "alpha": "nan"}, 422),
    ("alpha=inf", {"query": "vpn", "alpha": "inf"}, 422),
    ("no query", {"k": 1}, 422),
    ("unknown part", {"query": "vpn", "sql": "select 1"}, 422),
    ("long query", {"query": "a" * 2_001}, 422),
    ("release with NUL", {"query": "vpn", "release": "r000001\x00"}, 422),
    ("token", {"query": "vpn", "token": "x"}, 400),
    ("access_token", {"query": "vpn", "access_token": "x"}, 400),
    ("a real token under another name", {"query": READER}, 400),
]


@pytest.mark.parametrize(("name", "parameters", "status"), ADDRESSES, ids=[entry[0] for entry in ADDRESSES])
def test_an_address_is_held_to_the_same_limits(
    server: Server, name: str, parameters: dict[str, Any], status: int
) -> None:
    got = server.get(SEARCH, params=parameters)
    assert got.status_code == status, got.text
    _documented(got, name)


@pytest.mark.parametrize(
    "path", ["/v1/test/releases/..%2F..%2Fx", "/v1/test/releases/r000001%00", "/v1/..%2f..", "//v1", "/v1/"]
)
def test_an_address_that_climbs_leads_nowhere(server: Server, path: str) -> None:
    sent = f"GET {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {READER}\r\nConnection: close\r\n\r\n"
    assert _spoken(server, sent.encode()).split(b" ", 2)[1] in (b"404", b"422")


HEADS = [
    ("foreign Host", {"Host": "evil.example"}, 421),
    ("Host that begins well", {"Host": "localhost.evil.example"}, 421),
    ("Host that ends well", {"Host": "evil.example:localhost"}, 421),
    ("foreign Origin", {"Origin": "https://evil.example"}, 403),
    ("Origin null", {"Origin": "null"}, 403),
    ("Origin with our name as user", {"Origin": "http://127.0.0.1@evil.example"}, 403),
    ("Origin of another port", {"Origin": "http://127.0.0.1:1"}, 403),
    ("no token", {"Authorization": ""}, 401),
    ("wrong token", {"Authorization": "Bearer " + "x" * 24}, 401),
    ("a token cut short", {"Authorization": f"Bearer {READER[:-1]}"}, 401),
    ("basic", {"Authorization": "Basic cmVhZGVyOng="}, 401),
]
EVERY_ROUTE = [
    ("GET", "/v1"), ("GET", "/v1/test"), ("POST", SEARCH), ("GET", f"{SEARCH}?query=x"), ("GET", "/v1/test/lookup?key=x"),
    ("POST", "/v1/test/explain"), ("POST", "/v1/test/context"), ("POST", "/v1/test/cite"), ("GET", "/v1/test/releases"),
    ("GET", "/v1/test/releases/current"), ("GET", "/v1/test/diff"), ("GET", "/v1/test/history"), ("GET", "/v1/test/evals"),
    ("POST", "/v1/test/promote"), ("POST", "/v1/test/rollback"), ("POST", "/v1/test/hold"), ("GET", "/metrics"),
    ("GET", "/openapi.json"), ("GET", "/health/live"), ("GET", "/health/ready"), ("GET", "/nowhere"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "headers", "status"), HEADS, ids=[entry[0] for entry in HEADS])
def test_every_route_looks_at_host_origin_and_token(
    server: Server, name: str, headers: dict[str, str], status: int
) -> None:
    for method, path in EVERY_ROUTE:
        if status == 401 and path.startswith("/health/"):
            continue
        got = server.ask(method, path, json={"query": "x"} if method == "POST" else None, headers=headers)
        assert got.status_code == status, (name, path)
        _documented(got, name)


def test_a_page_of_our_own_origin_is_answered(server: Server) -> None:
    assert server.get("/v1", headers={"Origin": server.url}).status_code == 200


SPOKEN: list[tuple[str, bytes, bytes]] = [
    ("no HTTP", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", b"400"),
    ("negative length", b"POST /v1 HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n", b"400"),
    ("two lengths", b"POST /v1 HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab", b"400"),
    ("a head of 1 MB", b"GET /v1 HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 1_000_000 + b"\r\n\r\n", b"400"),
    ("no Host", b"GET /v1 HTTP/1.1\r\n\r\n", b"400"),
    ("two Hosts", b"GET /v1 HTTP/1.1\r\nHost: localhost\r\nHost: evil\r\n\r\n", b"400"),
    ("HTTP/1.0 without a Host", b"GET /v1 HTTP/1.0\r\n\r\n", b"421"),
    ("a GET with a body", b"GET /v1 HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer "
     + READER.encode() + b"\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n", b"400"),
    ("a length that lies", b"POST /v1/test/search HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
     b"Authorization: Bearer " + READER.encode() + b"\r\nContent-Length: 999999999999\r\n\r\n{", b"413"),
    ("10,000 ranges", b"GET /v1 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: Bearer " + READER.encode()
     + b"\r\nRange: bytes=" + b",".join(b"0-1" for _ in range(10_000)) + b"\r\n\r\n", b"200"),
    ("a WebSocket", b"GET /v1 HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n", b"401"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "sent", "status"), SPOKEN, ids=[entry[0] for entry in SPOKEN])
def test_what_is_hardly_http_is_answered_and_ended(server: Server, name: str, sent: bytes, status: bytes) -> None:
    got = _spoken(server, sent)
    assert got.split(b" ", 2)[1] == status, got[:300]
    assert server.get("/v1").status_code == 200


def test_hostile_text_of_documents_is_data_in_answers_and_one_line_in_logs(tmp_path: Path) -> None:
    from tests.support import refreshed, write

    base, config = desk(tmp_path)
    write(
        tmp_path / "docs",
        {"evil.md": '# <script>alert(1)</script> \x1b[31m =HYPERLINK("x")\n\njavascript:void \u202e\n'},
    )
    refreshed(base)
    with Server(config) as server:
        got = server.post(SEARCH, {"query": "script alert hyperlink", "k": 1, "mode": "keyword"})
        assert got.headers["content-type"] == "application/json"
        assert got.headers["x-content-type-options"] == "nosniff"
        assert "<script>alert(1)</script>" in got.json()["hits"][0]["text"]
        sent = f"GET /v1/%0d%0a%1b[31m%e2%80%ae HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {READER}\r\n\r\n"
        with server.connected() as connection:
            connection.sendall(sent.encode())
            connection.settimeout(10)
            assert connection.recv(100).startswith(b"HTTP/1.1 404 ")
        server.until(lambda: any("\x1b" in line["path"] for line in server.lines()))
        text = server.log.read_text()
        assert "\x1b" not in text
        assert "\u202e" not in text


def _documented(got: httpx2.Response, name: str) -> None:
    if got.status_code >= 400:
        assert set(got.json()) == {"error", "message", "remedy"}, name
        assert got.json()["message"], name
        assert len(got.content) < 2_000, name
        assert "Traceback" not in got.text, name
        assert OPERATOR not in got.text, name


def _spoken(server: Server, sent: bytes) -> bytes:
    """Everything that comes back; the far end closes, or is given ten seconds."""
    with server.connected() as connection:
        try:
            connection.sendall(sent)
        except OSError:
            pass  # it was answered before all was sent
        connection.settimeout(10)
        return read_all(connection, enough=lambda got: b'"remedy"' in got)
