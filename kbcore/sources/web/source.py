"""A web site as a source of documents: the pages of its sitemaps, and those that links lead to.

To list them is to ask for each of them, on condition that it changed; what was sent is kept until it is fetched.
"""

from __future__ import annotations

import ssl
import time
from collections.abc import Mapping, MutableSequence
from pathlib import Path
from urllib.parse import urlsplit

from kbcore.config.sources import WebSection
from kbcore.errors import ConfigError, DocumentError, HttpError, SkippedDocumentError, SourceError
from kbcore.sources.secrets import ENVIRONMENT, Secrets
from kbcore.sources.web.addresses import networks
from kbcore.sources.web.crawl import Found, crawl, settled
from kbcore.sources.web.http import PARALLEL, HttpClient, HttpSettings, Resolve
from kbcore.sources.web.memory import Remembered, recall, remember
from kbcore.sources.web.pace import Pace
from kbcore.sources.web.robots import MOST_BYTES as ROBOTS_BYTES
from kbcore.sources.web.robots import Robots
from kbcore.sources.web.scope import Scope
from kbcore.sources.web.sitemap import MOST_BYTES as SITEMAP_BYTES
from kbcore.sources.web.sitemap import read_sitemap
from kbcore.sources.web.spool import Spool
from kbcore.sources.web.urls import folder, normal, origin, shown
from kbcore.sources.web.visit import Visit, Visitor, said
from kbcore.types import Fetched, Listed, Listing

MOST_SITEMAPS = 1000
DEEPEST_SITEMAP = 3


class WebSource:
    """Pages below ``prefix``. An item's URI is its URL in one spelling, its validator the ETag and modification time
    that the server gives, or the digest of the body.

    ``resolve`` and ``context`` replace the system's resolver and TLS settings.
    """

    type = "web"
    parallel = PARALLEL

    def __init__(
        self,
        section: WebSection,
        *,
        cache: Path,
        secrets: Secrets = ENVIRONMENT,
        resolve: Resolve | None = None,
        context: ssl.SSLContext | None = None,
    ) -> None:
        self.name = section.name
        self._section = section
        self._cache = cache
        self._resolve = resolve
        self._context = context
        self._starts = [self._configured("start_urls", url) for url in section.start_urls]
        self._sitemaps = [self._configured("sitemaps", url) for url in section.sitemaps]
        urls = [*self._starts, *self._sitemaps]
        prefix = self._configured("prefix", section.prefix) if section.prefix else folder(urls[0])
        hosts = {origin(url)[1] for url in urls} | {host.lower() for host in section.allow_hosts}
        self._scope = Scope(
            prefix, section.include, section.exclude, frozenset(host.lower() for host in section.allow_hosts)
        )
        self._hosts = frozenset(hosts | {origin(prefix)[1]})
        for url in self._starts:
            if not self._scope.holds(url):
                raise ConfigError(
                    f"source {self.name!r}: start_urls: {shown(url)} is excluded or not below prefix {prefix}",
                    remedy="mend prefix, exclude or start_urls",
                )
        self._settings = HttpSettings(
            section.user_agent,
            section.request_seconds,
            section.max_bytes,
            section.ports,
            networks(section.allow_private),
            self._token(secrets),
            frozenset({origin(prefix)}),
        )
        self._pace = Pace(section.delay_seconds)
        self._known: dict[str, str | None] = {}
        self._spool: Spool | None = None
        self._sent: dict[str, Visit] = {}

    def known(self, validators: Mapping[str, str | None]) -> None:
        self._known = dict(validators)

    def list(self, listed_at: str) -> Listing:
        """All pages, sorted by URL.

        SourceError where robots.txt, a sitemap or a start page cannot be had, or where no page can. A page that fails
        is a problem, one that answers 404 or 410 is left out. Incomplete where max_pages or total_seconds were reached,
        or where a page failed whose links are not known.
        """
        until = time.monotonic() + self._section.total_seconds
        memory = recall(self._cache / "pages.json", self._scope.id)
        self._spool = Spool(self._cache)
        self._sent = {}
        with self._client() as http:
            robots = self._robots(http, until)
            reasons: MutableSequence[str] = []
            listed = self._listed(http, until, reasons)
            visitor = self._visitor(http, robots, self._known, memory, self._spool, until=until)
            found = crawl(
                visitor,
                self._scope,
                self._starts,
                list(listed),
                max_pages=self._section.max_pages,
                max_depth=self._section.max_depth,
                known=self._known,
                memory=memory,
            )
        for reason in reasons:
            found.incomplete(reason)
        self._check(found)
        pages = settled(found, self._known, memory)
        self._remember(found, pages, memory)
        return self._listing(found, pages, listed, listed_at)

    def fetch(self, item: Listed, fetched_at: str) -> Fetched:
        """The bytes that the listing was sent, or else asked for again. DocumentError where they cannot be had."""
        visit = self._sent.get(item.uri)
        data = self._spool.take(f"{item.uri} {visit.digest}") if self._spool and visit else None
        if visit is None or data is None:
            spool = Spool(self._cache)
            with self._client() as http:
                visit = self._visitor(http, self._robots(http, None), {}, {}, spool).visit(item.uri)
            if visit.outcome != "page":
                raise DocumentError(visit.reason, transient=visit.outcome == "later")
            if visit.facts and visit.facts.noindex:
                raise SkippedDocumentError("says that it is not to be indexed (noindex)")
            data = spool.take(f"{visit.final} {visit.digest}")
            if data is None:
                raise DocumentError("could not be kept on disk", remedy=f"look for free space below {self._cache}")
        return Fetched(data, visit.etag, visit.modified_at or item.modified_at, fetched_at, visit.media_type)

    def probe(self) -> str:
        with self._client() as http:
            robots = self._robots(http, None)
            if self._sitemaps:
                pages = self._listed(http, None, [], only_first=True)
                return f"{shown(self._sitemaps[0])} lists {len(pages)} pages"
            visit = self._visitor(http, robots, {}, {}, Spool(None)).visit(self._starts[0])
            if not visit.seen:
                raise self._start_error(visit)
            return f"{shown(visit.final)} answers"

    def _configured(self, setting: str, url: str) -> str:
        try:
            return normal(url)
        except ValueError as error:
            raise ConfigError(f"source {self.name!r}: {setting}: {shown(url)} cannot be used: {error}") from None

    def _token(self, secrets: Secrets) -> str | None:
        variable = self._section.token_env
        if variable is None:
            return None
        token = secrets.get(variable)
        if not token or not token.isascii() or not token.isprintable():
            wrong = f"the secret {variable} holds no token" if token else secrets.missing(variable)
            raise ConfigError(f"source {self.name!r}: {wrong}", remedy=secrets.remedy(variable))
        return token

    def _client(self) -> HttpClient:
        return HttpClient(self._settings, self._pace, resolve=self._resolve, context=self._context)

    def _robots(self, http: HttpClient, until: float | None) -> Robots:
        return Robots(
            lambda url: http.get(url, check=self._check_host, max_bytes=ROBOTS_BYTES, until=until),
            self._section.user_agent,
            self._pace,
        )

    def _visitor(
        self,
        http: HttpClient,
        robots: Robots,
        known: Mapping[str, str | None],
        memory: Mapping[str, Remembered],
        spool: Spool,
        *,
        until: float | None = None,
    ) -> Visitor:
        return Visitor(
            http,
            robots,
            self._scope,
            spool,
            known=known,
            memory=memory,
            needs_links=bool(self._starts),
            until=until,
        )

    def _check_host(self, url: str) -> None:
        if urlsplit(url).hostname not in self._hosts:
            raise HttpError("redirect", f"leads to {shown(url)}, another host", remedy="see allow_hosts")

    def _listed(
        self, http: HttpClient, until: float | None, reasons: MutableSequence[str], *, only_first: bool = False
    ) -> dict[str, str | None]:
        """URL to modification time, of the pages that the sitemaps list and that are ours, in their order. ``reasons``
        gets why there may be others."""
        pages: dict[str, str | None] = {}
        queue = [(url, 0) for url in self._sitemaps[: 1 if only_first else None]]
        asked: set[str] = set()
        while queue and len(pages) <= self._section.max_pages:
            url, depth = queue.pop(0)
            if url in asked:
                continue
            if len(asked) >= MOST_SITEMAPS:
                reasons.append(f"there are more than {MOST_SITEMAPS} sitemaps; the others were not read")
                break
            asked.add(url)
            try:
                answer = http.get(url, check=self._check_host, max_bytes=SITEMAP_BYTES, until=until)
                if answer.status != 200:
                    raise HttpError(
                        "status", said(answer.status), transient=answer.status >= 500 or answer.status == 429
                    )
                sitemap = read_sitemap(answer.body)
            except (HttpError, ValueError) as error:
                raise self._failed(f"the sitemap {shown(url)}", error) from error
            for text, modified in sitemap.pages:
                try:
                    page = normal(text, url)
                except ValueError:
                    continue
                if self._scope.holds(page):
                    pages.setdefault(page, modified)
            if only_first:
                continue
            if sitemap.sitemaps and depth >= DEEPEST_SITEMAP:
                reasons.append(
                    f"sitemaps are nested deeper than {DEEPEST_SITEMAP}; those below {shown(url)} were not read"
                )
                continue
            for text, _ in sitemap.sitemaps:
                try:
                    queue.append((normal(text, url), depth + 1))
                except ValueError:
                    reasons.append(f"the sitemap {shown(url)} names another that is no URL")
        if self._sitemaps and not pages and not only_first:
            raise SourceError(
                f"source {self.name!r}: the sitemaps list no page below {self._scope.prefix}",
                remedy="mend prefix or sitemaps; nothing is taken for removed meanwhile",
            )
        return pages

    def _check(self, found: Found) -> None:
        """SourceError where what was seen is no ground to say what the site holds."""
        for url in self._starts:
            if not found.visits[url].seen:
                raise self._start_error(found.visits[url])
        visits = found.visits.values()
        if not any(visit.seen for visit in visits):
            reasons = sorted({visit.reason for visit in visits})
            raise SourceError(
                f"source {self.name!r}: none of {len(visits)} pages could be had: {'; '.join(reasons[:3])}",
                remedy="nothing is taken for removed meanwhile",
                transient=any(visit.outcome == "later" for visit in visits),
            )

    def _start_error(self, visit: Visit) -> SourceError:
        error = HttpError("status", visit.reason, transient=visit.outcome == "later")
        return self._failed(f"the start page {shown(visit.url)}", error)

    def _failed(self, what: str, error: HttpError | ValueError) -> SourceError:
        if not isinstance(error, HttpError):
            error = HttpError("protocol", f"cannot be read: {error}")
        return SourceError(
            f"source {self.name!r}: {what} {error.message}",
            remedy=error.remedy or "nothing is taken for removed meanwhile",
            transient=error.transient,
        )

    def _remember(self, found: Found, pages: Mapping[str, Visit], memory: Mapping[str, Remembered]) -> None:
        """Keep what was seen; of a page that failed, or that is taken for an error page, what was seen before."""
        kept: dict[str, Remembered] = {}
        for url, visit in found.visits.items():
            failed = url in pages and not pages[url].seen
            if visit.seen and visit.etag and visit.facts and not failed:
                kept[visit.final] = Remembered(visit.etag, visit.digest, visit.facts)
            elif url in memory and (failed or visit.outcome == "over"):
                kept.setdefault(url, memory[url])
        remember(self._cache / "pages.json", self._scope.id, kept)

    def _listing(
        self, found: Found, pages: Mapping[str, Visit], listed: Mapping[str, str | None], listed_at: str
    ) -> Listing:
        items: list[Listed] = []
        problems: list[tuple[str, str]] = []
        for uri, visit in sorted(pages.items()):
            if not self._scope.documents(uri):
                continue
            if visit.seen:
                self._sent[uri] = visit
                modified = visit.modified_at or listed.get(visit.url)
                items.append(Listed(uri, visit.etag, modified, visit.size))
            else:
                problems.append((uri, visit.reason))
        problems += [(self._scope.prefix, reason) for reason in found.reasons]
        return Listing(self.name, listed_at, items, found.complete, tuple(problems))
