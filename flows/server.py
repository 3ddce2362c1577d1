"""A Prefect server on this machine, for those who have none: its database is on disk, in PREFECT_HOME."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager

from prefect.settings import PREFECT_API_URL, temporary_settings

START_SECONDS = 180


class ServerDidNotStart(Exception):
    """The local server ended, or did not answer in time."""


@contextmanager
def local_server(port: int | None = None) -> Iterator[str]:
    """The URL of the server to use: the one that PREFECT_API_URL names, else one on loopback that ends with this."""
    configured = PREFECT_API_URL.value()
    if configured:
        yield str(configured)
        return
    port = port or _free(4200)
    url = f"http://127.0.0.1:{port}/api"
    command = [sys.executable, "-m", "prefect", "server", "start", "--host", "127.0.0.1", "--port", str(port)]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        _wait(server, url)
        print(f"a Prefect server is at http://127.0.0.1:{port}; it ends with this command", flush=True)
        # Runs are processes of their own, which read it from the environment.
        before = os.environ.get("PREFECT_API_URL")
        os.environ["PREFECT_API_URL"] = url
        try:
            with temporary_settings({PREFECT_API_URL: url}):
                yield url
        finally:
            if before is None:
                del os.environ["PREFECT_API_URL"]
            else:
                os.environ["PREFECT_API_URL"] = before
    finally:
        server.terminate()
        try:
            server.wait(15)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


def _free(preferred: int) -> int:
    """``preferred``, or any port that nobody listens on."""
    for port in (preferred, 0):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return int(probe.getsockname()[1])
    return preferred


def _wait(server: subprocess.Popen[bytes], url: str) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if server.poll() is not None:
            raise ServerDidNotStart(f"prefect server start ended with {server.returncode}")
        try:
            with urllib.request.urlopen(f"{url}/health", timeout=2) as answer:
                if answer.status == 200:
                    return
        except (urllib.error.URLError, OSError):
            time.sleep(0.5)
    raise ServerDidNotStart(f"no answer from {url} within {START_SECONDS} seconds")
