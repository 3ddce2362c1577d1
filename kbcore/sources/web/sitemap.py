"""Sitemaps: the pages a site lists itself, as sitemaps.org describes them. XML, plain text, or either in gzip.

The XML is read as a stream without entities, DTD or network, up to the bounds of the protocol.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC
from io import BytesIO

from lxml import etree

from kbcore.clock import iso, parse
from kbcore.sources.web.inflate import gunzip

MOST_BYTES = 50_000_000
MOST_ENTRIES = 50_000
_ROOTS = {"urlset": "url", "sitemapindex": "sitemap"}


@dataclass(frozen=True, slots=True)
class Sitemap:
    """``pages`` and ``sitemaps`` (of an index file) as (URL as it stands there, ISO time or None), in file order."""

    pages: tuple[tuple[str, str | None], ...] = ()
    sitemaps: tuple[tuple[str, str | None], ...] = ()


def read_sitemap(data: bytes) -> Sitemap:
    """ValueError, with the reason, for what is no sitemap."""
    if data.startswith(b"\x1f\x8b"):
        data = gunzip(data, MOST_BYTES)
    if not data.lstrip(b"\xef\xbb\xbf \t\r\n").startswith((b"<", b"\xff\xfe", b"\xfe\xff")):
        return _lines(data)
    entries: list[tuple[str, str | None]] = []
    kind = ""
    try:
        events = etree.iterparse(
            BytesIO(data),
            events=("start", "end"),
            resolve_entities=False,
            load_dtd=False,
            no_network=True,
            huge_tree=False,
            remove_comments=True,
            remove_pis=True,
        )
        for event, element in events:
            name = _name(element)
            if not kind:
                if element.getroottree().docinfo.doctype:
                    raise ValueError("it has a document type, which a sitemap does not need")
                if name not in _ROOTS:
                    raise ValueError(f"it begins with <{name[:40]}>, not with <urlset> or <sitemapindex>")
                kind = name
            elif event == "end" and name == _ROOTS[kind]:
                values = {_name(child): (child.text or "").strip() for child in element if isinstance(child.tag, str)}
                if values.get("loc"):
                    entries.append((values["loc"], _moment(values.get("lastmod", ""))))
                element.clear()
                while element.getprevious() is not None:
                    del element.getparent()[0]
                if len(entries) > MOST_ENTRIES:
                    raise ValueError(f"it lists more than {MOST_ENTRIES} pages")
    except etree.XMLSyntaxError as error:
        raise ValueError(f"it is not valid XML: {error.msg}") from None
    if not kind:
        raise ValueError("it is empty")
    return Sitemap(pages=tuple(entries)) if kind == "urlset" else Sitemap(sitemaps=tuple(entries))


def _lines(data: bytes) -> Sitemap:
    """The plain form: one URL on each line."""
    lines = [line.strip() for line in data.decode("utf-8-sig", "replace").splitlines() if line.strip()]
    if not lines or len(lines) > MOST_ENTRIES or not all(line.startswith(("http://", "https://")) for line in lines):
        raise ValueError("it is neither XML nor a list of URLs")
    return Sitemap(pages=tuple((line, None) for line in lines))


def _name(element: etree._Element) -> str:
    return etree.QName(element).localname if isinstance(element.tag, str) else ""


def _moment(text: str) -> str | None:
    try:
        moment = parse(text)
        return iso(moment if moment.tzinfo else moment.replace(tzinfo=UTC))
    except (ValueError, OverflowError):
        return None
