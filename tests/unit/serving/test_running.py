"""Callers that are slow on purpose keep no places of others."""

from __future__ import annotations

import os
import resource
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from kbcore.errors import UsageError
from kbcore.serving.running import (
    RESERVED_DESCRIPTORS,
    Patience,
    bound,
    connections,
    most_connections,
    url_of,
)
from tests.support import ROOT

SERVER = """
import sys
from kbcore.serving import running
async def app(scope, receive, send):
    while scope["type"] == "lifespan":
        message = await receive()
        await send({"type": message["type"] + ".complete"})
        if message["type"] == "lifespan.shutdown":
            return
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})
listener = running.bound("127.0.0.1", 0)
started = lambda most: print(listener.getsockname()[1], flush=True)
running.run(app, listener, started, running.Patience(head=1.0, connections=20))
"""


@pytest.fixture
def port() -> Iterator[int]:
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen([sys.executable, "-c", SERVER], env=env, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    yield int(process.stdout.readline())
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=30)
    assert process.returncode == 0  # an end that was asked for is no failure


def ask(port: int, connection: socket.socket | None = None) -> bytes:
    """The status line of a request, on a connection that is kept."""
    with connection or socket.create_connection(("127.0.0.1", port), timeout=20) as asked:
        asked.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        return asked.recv(4096).split(b"\r\n")[0]


def drained(connection: socket.socket) -> bytes:
    """What comes until the server closes."""
    got = b""
    try:
        while part := connection.recv(4096):
            got += part
    except ConnectionResetError:
        pass
    connection.close()
    return got


def test_connections_without_a_request_are_closed_and_their_places_are_free_again(port: int) -> None:
    assert b"200" in ask(port)
    held = [socket.create_connection(("127.0.0.1", port), timeout=20) for _ in range(40)]
    for connection in held:
        connection.sendall(b"GET / HTTP/1.1\r\nHost: loc")
    began = time.monotonic()
    assert b"200" in ask(port)  # whoever waits longest without asking makes room
    said = [drained(connection) for connection in held]
    assert time.monotonic() - began < 15
    assert any(b"408" in answer.split(b"\r\n")[0] for answer in said)
    assert not any(b"200" in answer for answer in said)
    assert b"200" in ask(port)


def test_a_second_request_that_dribbles_is_closed_too(port: int) -> None:
    with socket.create_connection(("127.0.0.1", port), timeout=20) as kept:
        kept.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        answer = b""
        while not answer.endswith(b"ok"):
            answer += kept.recv(4096)
        assert b"200" in answer
        began = time.monotonic()
        kept.sendall(b"GET / HTTP/1.1\r\nHost: loc")
        assert b"408" in drained(kept).split(b"\r\n")[0]
        assert time.monotonic() - began < 15


def test_a_port_that_is_taken_is_said_and_so_is_an_address_that_is_none() -> None:
    with bound("127.0.0.1", 0) as taken:
        taken.listen()
        assert url_of(taken).startswith("http://127.0.0.1:")
        with pytest.raises(UsageError, match="is taken"):
            bound("127.0.0.1", taken.getsockname()[1])
    with pytest.raises(UsageError, match="no address of this machine"):
        bound("no.such.host.invalid", 0)


@pytest.mark.parametrize(
    ("soft", "hard", "wanted", "most", "raised"),
    [
        (20_000, 20_000, 2_000, 2_000, None),
        (1_024, 1_024, 2_000, 1_024 - RESERVED_DESCRIPTORS, None),
        (1_024, 4_096, 2_000, 2_000, 2_000 + RESERVED_DESCRIPTORS),
        (1_024, 2_000, 2_000, 2_000 - RESERVED_DESCRIPTORS, 2_000),
        (256, 256, 2_000, 16, None),
        (resource.RLIM_INFINITY, resource.RLIM_INFINITY, 2_000, 2_000, None),
    ],
)
def test_as_many_connections_as_files_may_be_open_and_the_bound_is_raised_where_it_may_be(
    monkeypatch: pytest.MonkeyPatch, soft: int, hard: int, wanted: int, most: int, raised: int | None
) -> None:
    asked: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: (soft, hard))
    monkeypatch.setattr(resource, "setrlimit", lambda _, limits: asked.append(limits))
    assert most_connections(wanted) == most
    assert [limits[0] for limits in asked] == ([] if raised is None else [raised])


def test_each_server_has_a_list_of_its_own_of_those_that_wait() -> None:
    one, two = connections(Patience()), connections(Patience())
    assert one.idle is not two.idle
