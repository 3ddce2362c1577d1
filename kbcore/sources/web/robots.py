"""What a site's robots.txt allows, as RFC 9309 reads it."""

from __future__ import annotations

import threading
from collections.abc import Callable

from protego import Protego

from kbcore.errors import HttpError, SourceError
from kbcore.sources.web.http import Answer
from kbcore.sources.web.pace import Pace
from kbcore.sources.web.urls import Origin, origin

MOST_BYTES = 1_000_000
LONGEST_DELAY = 30.0


class Robots:
    """Asks each origin once. A file that is not there allows all; one that cannot be had for now allows nothing, and
    what the site holds is not known then: SourceError."""

    def __init__(self, get: Callable[[str], Answer], user_agent: str, pace: Pace) -> None:
        self._get = get
        self._user_agent = user_agent
        self._pace = pace
        self._rules: dict[Origin, Protego] = {}
        self._lock = threading.Lock()

    def allows(self, url: str) -> bool:
        where = origin(url)
        with self._lock:
            rules = self._rules.get(where)
            if rules is None:
                rules = self._rules[where] = self._read(where)
        return bool(rules.can_fetch(url, self._user_agent))

    def _read(self, where: Origin) -> Protego:
        scheme, host, port = where
        shown = f"[{host}]" if ":" in host else host
        url = f"{scheme}://{shown}:{port}/robots.txt"
        try:
            answer = self._get(url)
        except HttpError as error:
            raise SourceError(
                f"{url} {error.message}",
                remedy=error.remedy or "nothing is taken for removed meanwhile",
                transient=error.transient,
            ) from error
        if answer.status == 429 or answer.status >= 500:
            raise SourceError(
                f"{url} answers {answer.status}: the site is not available",
                remedy="try again later; nothing is taken for removed meanwhile",
                transient=True,
            )
        rules = Protego.parse(answer.body.decode("utf-8-sig", "replace") if answer.status == 200 else "")
        delay = rules.crawl_delay(self._user_agent)
        if delay:
            self._pace.slow(host, min(float(delay), LONGEST_DELAY))
        return rules
