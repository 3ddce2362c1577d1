"""A server as people run it: ``kb serve`` in a process of its own, on a free port of the loopback."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import httpx2
import psutil

from kbcore.knowledge_base import KnowledgeBase
from tests.support import DOCUMENTS, ROOT, knowledge_base, refreshed, write

READER, OPERATOR = "reader-token-0123456789", "operator-token-0123456789"
TOKENS = {"KB_READER_TOKENS": READER, "KB_OPERATOR_TOKENS": OPERATOR}
SECOND = {"vpn.md": "# VPN\n\nThe profile is called *Remote* now. ERR-4012 is gone.\n"}


def desk(root: Path, name: str = "test") -> tuple[KnowledgeBase, Path]:
    """A knowledge base of two releases, the second one current, and its configuration file."""
    config = root / f"{name}.toml"
    config.write_text(
        f'[kb]\nname = "{name}"\nrepository = "{root}/releases"\n'
        f'[[sources]]\nname = "docs"\npath = "{root}/docs"\n[embedder]\nprovider = "hashing"\ndimension = 64\n'
    )
    base = knowledge_base(root, DOCUMENTS, kb={"name": name, "repository": str(root / "releases")})
    refreshed(base)
    write(root / "docs", SECOND)
    refreshed(base)
    return base, config


class Server:
    """``with Server(config) as server: server.get("/v1")``; the reader's token goes along unless another is given."""

    def __init__(
        self, *configs: Path, options: tuple[str, ...] = (), tokens: Mapping[str, str] = TOKENS, port: int = 0
    ) -> None:
        arguments = [part for config in configs for part in ("-c", str(config))]
        environment = {key: value for key, value in os.environ.items() if not key.startswith("KB_")}
        self.log = configs[0].with_suffix(".log")
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "kbcore.cli", "serve", *arguments, "--port", str(port), "--json", *options],
                cwd=ROOT,
                env={**environment, **tokens},
                stdout=subprocess.PIPE,
                stderr=log,
            )
        self.tokens = tokens

    def __enter__(self) -> Server:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, self.log.read_text()
        self.started: dict[str, Any] = json.loads(line)
        self.url: str = self.started["url"]
        self.client = httpx2.Client(base_url=self.url, timeout=30)
        return self

    def __exit__(self, *_: object) -> None:
        self.client.close()
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()

    @property
    def port(self) -> int:
        return int(self.url.rsplit(":", 1)[1])

    def ask(self, method: str, path: str, *, token: str | None = READER, **parameters: Any) -> httpx2.Response:
        headers = dict(parameters.pop("headers", {}))
        if token is not None and self.tokens:
            headers.setdefault("Authorization", f"Bearer {token}")
        return self.client.request(method, path, headers=headers, **parameters)

    def get(self, path: str, **parameters: Any) -> httpx2.Response:
        return self.ask("GET", path, **parameters)

    def post(self, path: str, body: Any, **parameters: Any) -> httpx2.Response:
        return self.ask("POST", path, json=body, **parameters)

    def move(self, act: str, body: dict[str, Any], *, token: str = OPERATOR, **parameters: Any) -> httpx2.Response:
        return self.post(f"/v1/test/{act}", body, token=token, **parameters)

    @property
    def seq(self) -> int:
        return int(self.get("/v1/test").json()["seq"])

    @property
    def rss(self) -> int:
        return int(psutil.Process(self.process.pid).memory_info().rss)

    def lines(self) -> list[dict[str, Any]]:
        """The log, each line as it was parsed."""
        return [json.loads(line) for line in self.log.read_text().splitlines()]

    def until(self, true: Any, seconds: float = 10.0) -> None:
        """Wait until ``true()`` is so."""
        end = time.monotonic() + seconds
        while not true():
            assert time.monotonic() < end, "it did not come about"
            time.sleep(0.05)

    def connected(self) -> socket.socket:
        """A connection over which nothing was said yet."""
        return socket.create_connection(("127.0.0.1", self.port), timeout=20)

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60)


def read_all(connection: socket.socket, enough: Callable[[bytes], bool] = lambda got: False) -> bytes:
    """What comes until the far end closes, or until it is ``enough``; the connection is closed then."""
    got = b""
    try:
        while part := connection.recv(65_536):
            got += part
            if enough(got):
                break
    except OSError:
        pass
    connection.close()
    return got
