"""Which URLs belong to a web source."""

from __future__ import annotations

import re
from collections.abc import Sequence
from urllib.parse import unquote, urlsplit

from kbcore.errors import HttpError
from kbcore.fingerprint import short_id
from kbcore.globs import glob_pattern
from kbcore.parsing.media import suffix_of
from kbcore.sources.web.urls import shown, within

# Endings of what pages are made of, and of downloads: links to them are not followed.
NOT_PAGES = {".png", ".jpg", ".jpeg", ".gif", ".webp", ".avif", ".svg", ".ico", ".bmp", ".tif", ".tiff", ".css", ".js"}
NOT_PAGES |= {
    ".mjs",
    ".map",
    ".woff",
    ".woff2",
    ".ttf",
    ".otf",
    ".eot",
    ".mp3",
    ".mp4",
    ".webm",
    ".ogg",
    ".wav",
    ".avi",
}
NOT_PAGES |= {
    ".mov",
    ".zip",
    ".gz",
    ".tgz",
    ".bz2",
    ".xz",
    ".7z",
    ".rar",
    ".tar",
    ".whl",
    ".jar",
    ".exe",
    ".msi",
    ".dmg",
}
NOT_PAGES |= {".deb", ".rpm", ".iso", ".bin", ".atom", ".rss"}
_LOGIN = re.compile(r"(?:^|[/._-])(?:log[_-]?in|sign[_-]?in|sso|saml2?)(?:[/._-]|$)", re.IGNORECASE)


class Scope:
    """``prefix`` bounds what is taken for a page, ``hosts`` what redirects may lead to. ``id`` stands for what decides
    which links are followed."""

    def __init__(self, prefix: str, include: Sequence[str], exclude: Sequence[str], hosts: frozenset[str]) -> None:
        self.prefix = prefix
        self.hosts = hosts
        self.id = short_id([prefix, sorted(exclude)])
        self._include = [glob_pattern(pattern.lstrip("/")) for pattern in include]
        self._exclude = [glob_pattern(pattern.lstrip("/")) for pattern in exclude]

    def holds(self, url: str) -> bool:
        """Whether it may be asked for as a page."""
        return within(url, self.prefix) and not _matches(self._exclude, url)

    def follows(self, url: str) -> bool:
        """Whether a link to it is followed."""
        return self.holds(url) and suffix_of(url) not in NOT_PAGES

    def documents(self, url: str) -> bool:
        """Whether it is a document, and not only a page that leads to some."""
        return _matches(self._include, url)

    def check_redirect(self, asked: str, target: str) -> None:
        """HttpError where a page may not be redirected there. Another place than ours is never taken for removal."""
        path = urlsplit(target).path
        if _LOGIN.search(path) and not _LOGIN.search(urlsplit(asked).path):
            raise HttpError("login", f"is redirected to a login page ({shown(target)})", remedy="see token_env")
        if self.holds(target) or urlsplit(target).hostname in self.hosts:
            return
        if within(target, self.prefix):
            raise HttpError("redirect", f"is redirected to {shown(target)}, which is excluded")
        raise HttpError(
            "redirect",
            f"is redirected to {shown(target)}, outside of {self.prefix}",
            remedy="set prefix, or allow its host with allow_hosts",
        )


def _matches(patterns: Sequence[re.Pattern[str]], url: str) -> bool:
    path = urlsplit(url).path[1:]
    return any(pattern.fullmatch(path) or pattern.fullmatch(unquote(path)) for pattern in patterns)
