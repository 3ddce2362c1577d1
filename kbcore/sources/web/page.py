"""What an HTML page says about itself and where it links to. It is read as a stream: no tree is built."""

from __future__ import annotations

import codecs
from dataclasses import dataclass
from typing import Any

from lxml import etree

from kbcore.sources.web.urls import normal

MOST_BYTES = 5_000_000
MOST_LINKS = 5_000


@dataclass(frozen=True, slots=True)
class PageFacts:
    """``links`` are URLs in their one spelling in the order of the page; empty where the page says not to follow any.
    ``cut`` says that the page is larger, or has more links, than is read."""

    links: tuple[str, ...] = ()
    noindex: bool = False
    canonical: str | None = None
    cut: bool = False


def read_page(data: bytes, url: str, *, charset: str | None = None, header: str = "", agent: str = "") -> PageFacts:
    """The facts of the page at ``url``. ``header`` is its X-Robots-Tag, ``agent`` the name we are spoken to by."""
    target = _Target(url, agent)
    parser = etree.HTMLParser(target=target, encoding=_known(charset), no_network=True, huge_tree=False)
    try:
        parser.feed(data[:MOST_BYTES])
        parser.close()
    except (etree.LxmlError, ValueError, AssertionError):
        pass  # what was read so far counts: pages are rarely well formed
    words = target.directives | _directives(_for_us(header, target.names))
    noindex = bool(words & {"noindex", "none"})
    links = () if words & {"nofollow", "none"} else tuple(dict.fromkeys(target.links))
    return PageFacts(links, noindex, target.canonical, cut=target.cut or len(data) > MOST_BYTES)


class _Target:
    def __init__(self, url: str, agent: str) -> None:
        self.base = url
        self.links: list[str] = []
        self.directives: set[str] = set()
        self.canonical: str | None = None
        self.names = {"robots", agent.split("/")[0].strip().lower()} - {""}
        self._based = False
        self.cut = False

    def start(self, tag: str, attributes: Any) -> None:
        tag = tag.lower()
        if tag in ("a", "area"):
            relation = (attributes.get("rel") or "").lower().split()
            if attributes.get("href") and "nofollow" not in relation:
                if len(self.links) < MOST_LINKS:
                    self._add(attributes["href"])
                else:
                    self.cut = True
        elif tag == "base" and attributes.get("href") and not self._based:
            self._based = True
            self.base = _url(attributes["href"], self.base) or self.base
        elif tag == "meta" and (attributes.get("name") or "").strip().lower() in self.names:
            self.directives |= _directives(attributes.get("content") or "")
        elif tag == "link" and "canonical" in (attributes.get("rel") or "").lower().split():
            self.canonical = self.canonical or _url(attributes.get("href") or "", self.base)

    def end(self, tag: str) -> None:
        pass

    def data(self, text: str) -> None:
        pass

    def comment(self, text: str) -> None:
        pass

    def pi(self, target: str, data: str) -> None:
        pass

    def close(self) -> None:
        pass

    def _add(self, href: str) -> None:
        found = _url(href, self.base)
        if found is not None:
            self.links.append(found)


def _url(href: str, base: str) -> str | None:
    try:
        return normal(href, base) if href.strip() else None
    except ValueError:
        return None


def _for_us(header: str, names: set[str]) -> str:
    """The part of an X-Robots-Tag that speaks to us: ``noindex`` speaks to all, ``otherbot: noindex`` to another."""
    before, colon, after = header.partition(":")
    if not colon or "," in before:
        return before
    return after if before.strip().lower() in names else ""


def _directives(text: str) -> set[str]:
    return {word.strip().lower() for word in text.split(",")}


def _known(charset: str | None) -> str | None:
    try:
        return codecs.lookup(charset).name if charset else None
    except LookupError:
        return None
