"""More than a server can take: searches, connections, and clients that dawdle."""

from __future__ import annotations

import concurrent.futures
import time
from pathlib import Path

import httpx2

from tests.journeys.http_server import READER, Server, desk, read_all

SEARCH = "/v1/test/search"
CALM_MB = 50


def test_200_searches_at_once_are_answered_or_told_to_come_back(tmp_path: Path) -> None:
    _, config = desk(tmp_path)
    with Server(config, options=("--workers", "1", "--waiting", "4")) as server:
        headers = {"Authorization": f"Bearer {READER}"}
        limits = httpx2.Limits(max_connections=200)
        with httpx2.Client(base_url=server.url, headers=headers, timeout=60, limits=limits) as client, \
                concurrent.futures.ThreadPoolExecutor(200) as pool:  # fmt: skip
            got = list(pool.map(lambda _: client.post(SEARCH, json={"query": "lost phone", "k": 200}), range(200)))
        assert {entry.status_code for entry in got} == {200, 503}
        away = [entry for entry in got if entry.status_code == 503]
        assert all(entry.headers["retry-after"] == "1" and entry.json()["error"] == "Busy" for entry in away)
        assert server.post(SEARCH, {"query": "lost phone"}).status_code == 200
        assert f'kb_pool_turned_away_total{{pool="search"}} {float(len(away))}' in server.get("/metrics").text


def test_a_search_that_takes_too_long_is_given_up_and_says_so(tmp_path: Path) -> None:
    _, config = desk(tmp_path)
    with Server(config, options=("--workers", "1", "--waiting", "300", "--seconds", "0.1")) as server:
        # So many that a fast machine cannot answer the last of them in their time either.
        headers, limits = {"Authorization": f"Bearer {READER}"}, httpx2.Limits(max_connections=200)
        with httpx2.Client(base_url=server.url, headers=headers, timeout=60, limits=limits) as client, \
                concurrent.futures.ThreadPoolExecutor(200) as pool:  # fmt: skip
            sent = {"query": "vpn gateway phone badge password", "k": 200, "neighbours": 20, "fold": True}
            got = list(pool.map(lambda _: client.post(SEARCH, json=sent), range(300)))
        slow = [entry for entry in got if entry.status_code == 503]
        assert {entry.status_code for entry in got} <= {200, 503}
        assert slow
        assert all(entry.headers["retry-after"] for entry in slow)
        assert any("no answer within 0.1 s" in entry.json()["message"] for entry in slow)
        server.until(lambda: server.post(SEARCH, {"query": "lost phone", "mode": "keyword"}).status_code == 200)


def test_clients_that_dawdle_are_let_go(tmp_path: Path) -> None:
    _, config = desk(tmp_path)
    with Server(config) as server:
        head = f"POST {SEARCH} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {READER}\r\n".encode()
        silent, dripping, bodiless = (server.connected() for _ in range(3))
        bodiless.sendall(head + b"Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{")
        started = time.monotonic()
        for byte in head[:30]:
            if time.monotonic() - started > 9:
                break
            dripping.sendall(bytes([byte]))
            time.sleep(0.3)
        for connection, error in ((silent, b"the head of the request"), (dripping, b"the head of the request"),
                                  (bodiless, b"the body did not arrive")):  # fmt: skip
            connection.settimeout(20)
            got = read_all(connection)
            assert got.startswith(b"HTTP/1.1 408 "), got[:200]
            assert error in got
        assert time.monotonic() - started < 25
        assert server.get("/v1").status_code == 200


def test_a_thousand_silent_connections_keep_nobody_out(tmp_path: Path) -> None:
    _, config = desk(tmp_path)
    with Server(config, options=("--connections", "600")) as server:
        server.get("/v1")
        before = server.rss
        held = [server.connected() for _ in range(1_000)]
        try:
            for _ in range(5):
                got = httpx2.post(
                    server.url + SEARCH,
                    json={"query": "lost phone"},
                    headers={"Authorization": f"Bearer {READER}"},
                    timeout=30,
                )
                assert got.status_code == 200
            assert server.rss - before < CALM_MB * 1_000_000
        finally:
            for connection in held:
                connection.close()
        assert server.get("/v1").status_code == 200
