"""An interrupt while a source is slow to answer: `kb refresh` ends at once, in order."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from kbcore.config import load
from kbcore.knowledge_base import KnowledgeBase
from tests.support import ROOT

Answer = Callable[[str], bytes | None]
"""The body of the answer to a path with its query; None: it does not come."""

OBJECTS = "".join(
    f"<Contents><Key>docs/{n}.md</Key><LastModified>2026-11-30T00:00:00.000Z</LastModified>"
    f"<ETag>&quot;{n}&quot;</ETag><Size>10</Size></Contents>"
    for n in range(20)
)
BUCKET = (
    '<?xml version="1.0"?><ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Name>team</Name>'
    f"<Prefix>docs/</Prefix><KeyCount>20</KeyCount><IsTruncated>false</IsTruncated>{OBJECTS}</ListBucketResult>"
).encode()
WIKI = json.dumps(
    {
        "batchcomplete": True,
        "query": {
            "pages": [
                {
                    "pageid": n,
                    "ns": 0,
                    "title": f"Page {n}",
                    "lastrevid": 1,
                    "touched": "2026-11-01T10:00:00Z",
                    "canonicalurl": f"https://wiki.example.org/{n}",
                    "revisions": [{"timestamp": "2026-11-01T10:00:00Z"}],
                }
                for n in range(1, 21)
            ]
        },
    }
).encode()
HOME = "".join(f'<a href="/docs/{n}">page {n}</a> ' for n in range(20)).encode()

REST = 'type = "rest"\nrecipe = "mediawiki"\nbase_url = "{url}"\nallow_http = true\n'
S3 = 'type = "object_store"\nurl = "s3://team/docs"\nendpoint = "{url}"\nallow_http = true\nanonymous = true\n'
WEB = (
    'type = "web"\nstart_urls = ["{url}/docs/"]\nports = [{port}]\nallow_private = ["127.0.0.0/8"]\ndelay_seconds = 0\n'
)
CASES: dict[str, tuple[str, str, Answer]] = {
    "rest, listing": ("dlt", REST, lambda path: None),
    "rest, fetching": ("dlt", REST, lambda path: None if "action=parse" in path else WIKI),
    "bucket, listing": ("obstore", S3, lambda path: None),
    "bucket, fetching": ("obstore", S3, lambda path: BUCKET if "list-type" in path else None),
    "web, robots": ("httpx2", WEB, lambda path: None),
    "web, crawling": ("httpx2", WEB, lambda path: {"/robots.txt": b"", "/docs/": HOME}.get(path)),
}


@contextmanager
def slow(answer: Answer) -> Iterator[tuple[str, threading.Event]]:
    """The URL of a server, and what is set once somebody waits for it in vain."""
    waited_for, over = threading.Event(), threading.Event()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            body = answer(self.path)
            if body is None:
                waited_for.set()
                over.wait(60)
                self.close_connection = True
                return
            self.send_response(200)
            kind = {b"{": "application/json", b"<": "text/html"}.get(body[:1], "text/plain")
            for name, value in {"Content-Type": kind, "Content-Length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: object) -> None:
            return None

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", waited_for
    finally:
        over.set()
        server.shutdown()
        server.server_close()


def heard() -> None:
    """A shell starts what it runs in the background deaf to Ctrl-C, and its children are too."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.mark.parametrize(
    ("case", "number"),
    [
        *((case, signal.SIGINT) for case in CASES),
        # The two take the same way from the command line on: one case of SIGTERM here, the others with the long ones.
        *(
            pytest.param(case, signal.SIGTERM, marks=[] if case == "rest, fetching" else [pytest.mark.long])
            for case in CASES
        ),
    ],
)
def test_an_interrupt_while_a_server_is_slow_ends_the_run_at_once_and_in_order(
    tmp_path: Path, case: str, number: signal.Signals
) -> None:
    package, source, answer = CASES[case]
    pytest.importorskip(package)
    config = tmp_path / "kb.toml"
    with slow(answer) as (url, waited_for):
        settings = source.replace("{url}", url).replace("{port}", url.rsplit(":", 1)[1])
        config.write_text(
            f'[kb]\nname = "slow"\nrepository = "{tmp_path}/releases"\n[[sources]]\nname = "far"\n{settings}'
            '[embedder]\nprovider = "hashing"\n'
        )
        base = KnowledgeBase(load(config))
        base.create()
        command = [sys.executable, "-m", "kbcore.cli", "refresh", "--json", "-c", str(config)]
        environment = {**os.environ, "NO_PROXY": "127.0.0.1"}
        with subprocess.Popen(
            command,
            cwd=ROOT,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=heard,
        ) as running:
            assert waited_for.wait(30), running.kill()
            assert (base.folder / "lease" / "holder.json").exists()
            time.sleep(0.2)
            running.send_signal(number)
            started = time.monotonic()
            try:
                out, told = running.communicate(timeout=10)
            except subprocess.TimeoutExpired:
                running.kill()
                raise
            took = time.monotonic() - started
    assert (running.returncode, out) == (130, "")
    assert took < 2
    lines = [json.loads(line) for line in told.splitlines()]
    assert [line["error"] for line in lines if line["message_type"] == "error"] == ["Interrupted"]
    assert not (base.folder / "lease" / "holder.json").exists()
    assert base.repository.releases() == []
    assert not list(base.folder.glob("manifests/*"))
