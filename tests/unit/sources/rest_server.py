"""A real HTTP server that answers in the shapes of four knowledge-base systems, each paging in its own way."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit


@dataclass
class Reply:
    body: Any
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)


@dataclass
class Asked:
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: str = ""


class Site:
    """``answer`` gives the reply to a request; ``disturb`` may give another one first (None: none)."""

    def __init__(self, answer: Callable[[Asked], Reply]) -> None:
        self.answer = answer
        self.disturb: Callable[[Asked], Reply | None] = lambda asked: None
        self.asked: list[Asked] = []
        self.url = ""

    def paths(self) -> list[str]:
        return [asked.path for asked in self.asked]


@contextmanager
def serving(site: Site) -> Iterator[Site]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            query = {name: values[0] for name, values in parse_qs(parts.query, keep_blank_values=True).items()}
            length = int(self.headers.get("Content-Length") or 0)
            asked = Asked(parts.path, query, dict(self.headers), self.rfile.read(length).decode())
            site.asked.append(asked)
            reply = site.disturb(asked) or site.answer(asked)
            data = reply.body if isinstance(reply.body, bytes) else json.dumps(reply.body).encode()
            self.send_response(reply.status)
            headers = {"Content-Type": "application/json", "Content-Length": str(len(data)), **reply.headers}
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(data)

        do_POST = do_GET

        def log_message(self, *args: Any) -> None:
            return None

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    site.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield site
    finally:
        server.shutdown()
        server.server_close()


class Articles(dict[str, dict[str, Any]]):
    """id to {title, body, revision, status}; ``page`` items on each page, some of them again at its edge."""

    def __init__(self, count: int, page: int = 4) -> None:
        super().__init__()
        self.page = page
        self.repeat = 0
        for number in range(1, count + 1):
            self.put(str(100 + number), f"Title {number}", f"<p>Body number {number} of the help desk.</p>")

    def put(self, key: str, title: str, body: str | None, revision: int = 1, status: str = "current") -> None:
        self[key] = {"title": title, "body": body, "revision": revision, "status": status}

    def slice(self, start: int) -> tuple[list[str], int | None]:
        """Ids of the page that begins at ``start``, and where the next one does."""
        keys = sorted(self)
        end = start + self.page
        return keys[max(0, start - self.repeat) : end], end if end < len(keys) else None


def _moment(revision: int) -> str:
    return f"2026-11-{revision:02d}T10:00:00Z"


def mediawiki(articles: Articles) -> Callable[[Asked], Reply]:
    def answer(asked: Asked) -> Reply:
        query = asked.query
        if query["action"] == "parse":
            page = articles.get(query["pageid"])
            if page is None:
                return Reply({"error": {"code": "nosuchpageid", "info": "There is no page with ID 1."}})
            return Reply({"parse": {"pageid": int(query["pageid"]), "revid": page["revision"], "text": page["body"]}})
        # Both members of "continue" have to come back.
        start = int(query.get("gapcontinue", "0"))
        if start and query.get("continue") != "gapcontinue||":
            return Reply({"error": {"code": "badcontinue", "info": "Invalid continue param."}})
        keys, after = articles.slice(start)
        if not keys:
            return Reply({"batchcomplete": True})
        pages = [
            {
                "pageid": int(key),
                "ns": 0,
                "title": articles[key]["title"],
                "lastrevid": articles[key]["revision"],
                "touched": _moment(articles[key]["revision"]),
                "canonicalurl": f"https://wiki.example.org/wiki/{key}",
                "revisions": [{"timestamp": _moment(articles[key]["revision"])}],
            }
            for key in keys
        ]
        more = {"continue": {"gapcontinue": str(after), "continue": "gapcontinue||"}} if after else {}
        return Reply({"batchcomplete": True, **more, "query": {"pages": pages}})

    return answer


def zendesk(articles: Articles) -> Callable[[Asked], Reply]:
    def answer(asked: Asked) -> Reply:
        keys, after = articles.slice(int(asked.query.get("page[after]", "0")))
        found = [
            {
                "id": int(key),
                "title": articles[key]["title"],
                "body": articles[key]["body"],
                "draft": articles[key]["status"] == "draft",
                "updated_at": _moment(articles[key]["revision"]),
                "edited_at": _moment(articles[key]["revision"]),
                "html_url": f"https://help.example.com/hc/en-us/articles/{key}",
            }
            for key in keys
        ]
        meta = {"has_more": after is not None, "after_cursor": str(after or len(articles)), "before_cursor": "x"}
        return Reply({"articles": found, "meta": meta, "links": {"next": "not followed"}})

    return answer


def confluence(articles: Articles) -> Callable[[Asked], Reply]:
    def answer(asked: Asked) -> Reply:
        root = "/wiki/api/v2"
        if asked.path.startswith(f"{root}/pages/"):
            page = articles.get(asked.path.rsplit("/", 1)[1])
            if page is None:
                return Reply({"errors": [{"status": 404, "title": "Not Found"}]}, 404)
            body = {"view": {"value": page["body"], "representation": "view"}}
            return Reply({"title": page["title"], "version": {"number": page["revision"]}, "body": body})
        keys, after = articles.slice(int(asked.query.get("cursor", "0")))
        results = [
            {
                "id": key,
                "status": articles[key]["status"],
                "title": articles[key]["title"],
                "version": {"number": articles[key]["revision"], "createdAt": _moment(articles[key]["revision"])},
                "_links": {"webui": f"/spaces/KB/pages/{key}"},
            }
            for key in keys
        ]
        links = {"next": f"{root}/spaces/7/pages?limit=250&cursor={after}"} if after else {}
        return Reply({"results": results, "_links": {**links, "base": "https://example.atlassian.net/wiki"}})

    return answer


def servicenow(articles: Articles) -> Callable[[Asked], Reply]:
    def answer(asked: Asked) -> Reply:
        table = "/api/now/table/kb_knowledge"
        if asked.path.startswith(f"{table}/"):
            page = articles[asked.path.rsplit("/", 1)[1].removeprefix("sys")]
            return Reply(
                {"result": {"text": page["body"], "sys_updated_on": f"2026-11-{page['revision']:02d} 10:00:00"}}
            )
        start, limit = int(asked.query["sysparm_offset"]), int(asked.query["sysparm_limit"])
        keys = sorted(articles)[max(0, start - articles.repeat) :][:limit]
        result = [
            {
                "sys_id": f"sys{key}",
                "number": f"KB{key}",
                "short_description": articles[key]["title"],
                "sys_updated_on": f"2026-11-{articles[key]['revision']:02d} 10:00:00",
                "workflow_state": {"current": "published"}.get(articles[key]["status"], articles[key]["status"]),
            }
            for key in keys
        ]
        return Reply({"result": result}, headers={"X-Total-Count": str(len(articles))})

    return answer
