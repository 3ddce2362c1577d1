"""A real HTTP server on loopback whose pages change between two runs."""

from __future__ import annotations

import gzip
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Reply:
    """``etag`` and ``modified`` (an HTTP date) are sent, and met with 304 where the request is on condition of them."""

    body: bytes = b""
    status: int = 200
    etag: str | None = None
    modified: str | None = None
    kind: str = "text/html; charset=utf-8"
    headers: dict[str, str] = field(default_factory=dict)
    zipped: bool = False
    write: Callable[[Any], None] | None = None
    """Writes the whole answer, headers too, to the socket's file."""


def page(title: str, text: str = "", links: tuple[str, ...] = (), head: str = "", **more: Any) -> Reply:
    words = text or f"The page {title} says what it has to say about {title} in one sentence."
    anchors = "".join(f'<li><a href="{link}">link to {link}</a></li>' for link in links)
    html = f"<html><head><title>{title}</title>{head}</head><body><h1>{title}</h1><p>{words}</p><ul>{anchors}</ul></body></html>"
    return Reply(html.encode(), **more)


def redirect(to: str, status: int = 302) -> Reply:
    return Reply(status=status, headers={"Location": to})


def sitemap(*urls: str, index: bool = False) -> Reply:
    root, entry = ("sitemapindex", "sitemap") if index else ("urlset", "url")
    inside = "".join(f"<{entry}><loc>{url}</loc><lastmod>2026-11-01</lastmod></{entry}>" for url in urls)
    xml = f'<?xml version="1.0"?><{root} xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">{inside}</{root}>'
    return Reply(xml.encode(), kind="application/xml")


@dataclass(frozen=True)
class Asked:
    path: str
    headers: dict[str, str]
    status: int
    at: float


class Site:
    """``pages`` by path (with query); what is not there answers 404. ``asked`` is every request, in order."""

    def __init__(self, port: int, host: str) -> None:
        self.port = port
        self.host = host
        self.pages: dict[str, Reply] = {"/robots.txt": Reply(status=404)}
        self.asked: list[Asked] = []
        self.connections = 0

    def url(self, path: str = "/", host: str | None = None) -> str:
        return f"http://{host or self.host}:{self.port}{path}"

    def count(self, status: int) -> int:
        return sum(entry.status == status for entry in self.asked)

    def paths(self) -> list[str]:
        return [entry.path for entry in self.asked]

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        headers = {name.lower(): value for name, value in handler.headers.items()}
        reply = self.pages.get(handler.path, Reply(b"there is no such page", 404))
        same = (reply.etag and headers.get("if-none-match") == reply.etag) or (
            not headers.get("if-none-match") and reply.modified and headers.get("if-modified-since") == reply.modified
        )
        status = 304 if same and reply.status == 200 else reply.status
        self.asked.append(Asked(handler.path, headers, status, time.monotonic()))
        if reply.write is not None:
            handler.close_connection = True
            try:
                reply.write(handler.wfile)
            except OSError:
                pass
            return
        body = b"" if status == 304 else gzip.compress(reply.body) if reply.zipped else reply.body
        handler.send_response(status)
        for name, value in reply.headers.items():
            handler.send_header(name, value.encode().decode("latin-1"))
        if reply.etag:
            handler.send_header("ETag", reply.etag)
        if reply.modified:
            handler.send_header("Last-Modified", reply.modified)
        if reply.zipped:
            handler.send_header("Content-Encoding", "gzip")
        if status != 304:
            handler.send_header("Content-Type", reply.kind)
            handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)


@contextmanager
def serving(host: str = "127.0.0.1", context: Any = None, port: int = 0) -> Iterator[Site]:
    site: list[Site] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = 10

        def do_GET(self) -> None:
            site[0].answer(self)

        def log_message(self, format: str, *arguments: Any) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        block_on_close = False

        def get_request(self) -> Any:
            site[0].connections += 1
            connection, peer = super().get_request()
            return (context.wrap_socket(connection, server_side=True), peer) if context else (connection, peer)

        def handle_error(self, request: Any, client_address: Any) -> None:
            pass

    with Server((host, port), Handler) as server:
        site.append(Site(server.server_address[1], host))
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        try:
            yield site[0]
        finally:
            server.shutdown()
            thread.join()
