"""Callers that are slow on purpose keep no places of others."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from kbcore.errors import UsageError
from kbcore.serving.running import address, listening
from tests.support import ROOT

SERVER = """
import sys
from kbcore.serving import running
running.HEADER_SECONDS = 1.0
running.CONNECTIONS = 20
async def app(scope, receive, send):
    if scope["type"] != "http":
        return
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})
listener = running.listening("127.0.0.1", 0)
print(listener.getsockname()[1], flush=True)
running.run(app, listener)
"""


@pytest.fixture
def port() -> Iterator[int]:
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen([sys.executable, "-c", SERVER], env=env, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    yield int(process.stdout.readline())
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=30)


def ask(port: int, connection: socket.socket | None = None) -> bytes:
    """The status line of a request, on a connection that is kept."""
    with connection or socket.create_connection(("127.0.0.1", port), timeout=20) as asked:
        asked.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        return asked.recv(4096).split(b"\r\n")[0]


def test_connections_without_a_request_are_closed_and_their_places_are_free_again(port: int) -> None:
    assert b"200" in ask(port)
    held = [socket.create_connection(("127.0.0.1", port), timeout=20) for _ in range(40)]
    for connection in held:
        connection.sendall(b"GET / HTTP/1.1\r\nHost: loc")
    for connection in held:
        assert connection.recv(4096) == b""  # closed by the server
        connection.close()
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
        assert kept.recv(4096) == b""
        assert time.monotonic() - began < 15


def test_a_port_that_is_taken_is_said() -> None:
    with listening("127.0.0.1", 0) as taken:
        assert address(taken).startswith("http://127.0.0.1:")
        with pytest.raises(UsageError, match="cannot listen"):
            listening("127.0.0.1", taken.getsockname()[1])
    with pytest.raises(UsageError, match="cannot listen"):
        listening("no.such.host.invalid", 0)
