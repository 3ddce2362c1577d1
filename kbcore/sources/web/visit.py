"""One visit of one URL, and what its answer means. Only 404 and 410 mean that a page is gone."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Literal

from kbcore.clock import iso
from kbcore.errors import HttpError, SourceError
from kbcore.fingerprint import sha256
from kbcore.sources.web.http import Answer, HttpClient
from kbcore.sources.web.memory import Remembered
from kbcore.sources.web.page import PageFacts, read_page
from kbcore.sources.web.robots import Robots
from kbcore.sources.web.scope import Scope
from kbcore.sources.web.spool import Spool
from kbcore.sources.web.urls import normal
from kbcore.sources.web.validators import conditions, moment, validator_of

Outcome = Literal["page", "same", "gone", "barred", "later", "problem", "over"]
MOST_FAILURES_IN_A_ROW = 20
_LATER = frozenset({408, 425, 429, 500, 502, 503, 504})
_HTML = {"text/html", "application/xhtml+xml"}
_MEDIA = {
    "application/xhtml+xml": "text/html",
    "text/x-markdown": "text/markdown",
    "application/x-pdf": "application/pdf",
}


@dataclass(frozen=True, slots=True)
class Visit:
    """``page`` was sent and is in the spool, ``same`` was confirmed, ``barred`` by robots.txt, ``later`` may work
    another time, ``problem`` not, ``over`` was not asked for want of time. ``url`` was asked, ``final`` is its
    identity: where redirects ended, if that is one of ours."""

    url: str
    outcome: Outcome
    final: str
    reason: str = ""
    etag: str | None = None
    modified_at: str | None = None
    size: int | None = None
    media_type: str | None = None
    digest: str | None = None
    facts: PageFacts | None = None

    @property
    def seen(self) -> bool:
        return self.outcome in ("page", "same")


class Visitor:
    """Visits from several threads. ``known`` are validators of versions held, by URL (None: send it all the same);
    ``memory`` is what earlier runs saw.
    ``needs_links``: a page counts as unchanged only if its links are remembered with it."""

    def __init__(
        self,
        http: HttpClient,
        robots: Robots,
        scope: Scope,
        spool: Spool,
        *,
        known: Mapping[str, str | None],
        memory: Mapping[str, Remembered],
        needs_links: bool,
        until: float | None = None,
    ) -> None:
        self._http = http
        self._robots = robots
        self._scope = scope
        self._spool = spool
        self._known = known
        self._memory = memory
        self._needs_links = needs_links
        self._until = until
        self._failures = 0
        self._lock = threading.Lock()

    def visit(self, url: str) -> Visit:
        """SourceError where robots.txt cannot be had, or where nothing works any more."""
        if self._failures >= MOST_FAILURES_IN_A_ROW:
            raise SourceError(
                f"{self._scope.prefix} does not answer any more: {self._failures} requests in a row failed",
                remedy="try again later; nothing is taken for removed meanwhile",
            )
        found = self._visit(url)
        with self._lock:
            self._failures = self._failures + 1 if found.outcome == "later" else 0
        return found

    def _visit(self, url: str) -> Visit:
        if not self._robots.allows(url):
            return Visit(url, "barred", url, "robots.txt forbids it")

        def check(target: str) -> None:
            if target == url:
                return
            self._scope.check_redirect(url, target)
            if not self._robots.allows(target):
                raise HttpError("redirect", "is redirected to a page that robots.txt forbids")

        try:
            answer = self._http.get(
                url, check=check, conditions=lambda here: conditions(self._asked_with(here)), until=self._until
            )
        except HttpError as error:
            outcome: Outcome = "over" if error.kind == "budget" else "later" if error.transient else "problem"
            return Visit(url, outcome, url, error.message)
        final = self._identity(url, answer.url)
        if answer.status == 304:
            return self._same(url, final, answer)
        if answer.status in (200, 203):
            return self._page(url, final, answer)
        if answer.status in (404, 410):
            return Visit(url, "gone", url, said(answer.status))
        if answer.status in (401, 403):
            return Visit(url, "problem", url, f"{said(answer.status)}: it wants a login; see token_env")
        later = answer.status in _LATER or answer.status > 504 or answer.status == 202
        return Visit(url, "later" if later else "problem", url, said(answer.status))

    def _asked_with(self, here: str) -> str | None:
        """The validator to ask with, or None where the page is needed as a whole."""
        remembered = self._memory.get(here)
        if here not in self._known:
            # Not a document of the base: only a page that is none by its own wish need not be sent again.
            return remembered.etag if remembered and remembered.facts.noindex else None
        held = self._known[here]
        return None if self._needs_links and (remembered is None or remembered.etag != held) else held

    def _identity(self, url: str, ended: str) -> str:
        try:
            final = normal(ended)
        except ValueError:
            return url
        return final if self._scope.holds(final) else url

    def _same(self, url: str, final: str, answer: Answer) -> Visit:
        etag = self._asked_with(answer.url)
        if not conditions(etag):
            return Visit(url, "problem", url, "answers 304 to a request that was not conditional")
        remembered = self._memory.get(answer.url)
        facts = remembered.facts if remembered and remembered.etag == etag else PageFacts()
        digest = remembered.digest if remembered and remembered.etag == etag else None
        return Visit(url, "same", final, etag=etag, digest=digest, facts=facts)

    def _page(self, url: str, final: str, answer: Answer) -> Visit:
        if not answer.body:
            return Visit(url, "problem", url, "answers with nothing")
        media_type, charset = content_type(answer.headers.get("content-type", ""))
        facts = PageFacts()
        robots_tag = answer.headers.get("x-robots-tag", "")
        html = media_type in _HTML or (not media_type and answer.body.lstrip()[:1] == b"<")
        if html or robots_tag:
            body = answer.body if html else b""
            agent = self._http.settings.user_agent
            facts = read_page(body, answer.url, charset=charset, header=robots_tag, agent=agent)
            facts = replace(facts, links=tuple(link for link in facts.links if self._scope.follows(link)))
        digest = sha256(answer.body)
        if not facts.noindex:
            self._spool.put(f"{final} {digest}", answer.body)
        modified = moment(answer.headers.get("last-modified"))
        return Visit(
            url,
            "page",
            final,
            etag=validator_of(answer.headers, answer.body),
            modified_at=iso(modified) if modified else None,
            size=len(answer.body),
            media_type=_MEDIA.get(media_type, media_type) or None,
            digest=digest,
            facts=facts,
        )


def said(status: int) -> str:
    """``answers 503 Service Unavailable``."""
    try:
        return f"answers {status} {HTTPStatus(status).phrase}"
    except ValueError:
        return f"answers {status}"


def content_type(text: str) -> tuple[str, str | None]:
    """Media type in lower case without parameters ("" where there is none), and the charset it names."""
    kind, *parameters = text.split(";")
    charset = None
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip().lower() == "charset":
            charset = value.strip().strip("\"'") or None
    return kind.strip().lower(), charset
