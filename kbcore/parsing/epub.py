"""EPUB: the chapters in the order of the book, each page read whole, without its navigation. Nothing is fetched."""

from __future__ import annotations

import posixpath
from typing import Any
from urllib.parse import unquote

from kbcore.errors import DocumentError, SkippedDocumentError
from kbcore.parsing.archive import Archive, below, local, reading
from kbcore.parsing.composing import Composition
from kbcore.parsing.html import whole_page
from kbcore.parsing.limits import ParseLimits
from kbcore.parsing.media import EPUB, parser_id_for, stem_of
from kbcore.parsing.plaintext import clean
from kbcore.parsing.properties import sensible
from kbcore.parsing.tables import squeezed
from kbcore.types import Parsed

_PAGES = {"application/xhtml+xml", "text/html", "text/x-oeb1-document"}
_LISTED = 20
_CHARACTERS = 300


def parse(uri: str, data: bytes, limits: ParseLimits) -> Parsed:
    """Read a book. DocumentError: not one, protected, beyond the bounds. SkippedDocumentError: no chapter has text."""
    with reading("EPUB"):
        archive = Archive(data, "EPUB")
        opf = _package_of(archive)
        package = archive.xml(opf)
        properties = _metadata(package)
        title = properties.pop("title", "")
        composition = Composition(limits)
        stats: dict[str, Any] = {"chapters": 0}
        protected = _protected(archive)
        names = _reading_order(package, opf)
        labels = _labels(archive, package, opf)
        for name in names:
            if name in protected:
                raise DocumentError("its chapters are encrypted (DRM): get a copy without protection")
            try:
                text, headings, named = whole_page(archive.read(name, as_page=True))
            except DocumentError as exc:
                if archive.find(name) is not None and "inflate" in exc.message:
                    raise
                stats["failed_chapters"] = stats.get("failed_chapters", 0) + 1
                stats.setdefault("failed_chapter_reason", f"{name[:80]}: {exc.message}"[:200])
                continue
            if not text:
                continue
            stats["chapters"] += 1
            label = labels.get(name, "") or ("" if named == title else named)
            if not headings and label:
                composition.heading(1, label)
            composition.section(text, headings)
        if not stats["chapters"]:
            if reason := stats.get("failed_chapter_reason"):
                raise DocumentError(f"no chapter could be read: {reason}")
            raise SkippedDocumentError("no chapter has text (only pictures, perhaps)")
        return Parsed(
            text=composition.text,
            title=title or next((h.text for h in composition.headings), "") or stem_of(uri),
            media_type=EPUB,
            parser_id=parser_id_for(EPUB),
            headings=tuple(composition.headings),
            metadata=properties,
            stats={"characters": len(composition.text), **stats},
        )


def _package_of(archive: Archive) -> str:
    for root in below(archive.xml("META-INF/container.xml"), "rootfile"):
        if root.get("full-path"):
            return str(root.get("full-path"))
    raise DocumentError("not a readable EPUB: its container names no package")


def _full(base: str, href: str) -> str:
    """The member an href leads to, "" where it leads outside."""
    if ":" in href.split("/", 1)[0]:
        return ""
    return posixpath.normpath(posixpath.join("/", posixpath.dirname(base), unquote(href.split("#", 1)[0]))).lstrip("/")


def _reading_order(package: Any, opf: str) -> list[str]:
    """The pages of the spine, each once, without the one that is the table of contents."""
    items = {item.get("id", ""): item for manifest in below(package, "manifest") for item in manifest}
    names: dict[str, None] = {}
    for reference in below(package, "itemref"):
        item = items.get(reference.get("idref", ""))
        if item is None or "nav" in item.get("properties", "").split():
            continue
        if item.get("media-type") in _PAGES and (name := _full(opf, item.get("href", ""))):
            names[name] = None
    return list(names)


def _labels(archive: Archive, package: Any, opf: str) -> dict[str, str]:
    """The title of each page in the table of contents, if that can be read: the first that leads to the page."""
    found: dict[str, str] = {}
    for item in below(package, "item"):
        name = _full(opf, item.get("href", ""))
        ncx = item.get("media-type") == "application/x-dtbncx+xml"
        if not name or not (ncx or "nav" in item.get("properties", "").split()):
            continue
        try:
            root = archive.xml(name, as_page=not ncx)
        except DocumentError:
            continue
        for entry in below(root, "navPoint" if ncx else "a"):
            target = next((e.get("src", "") for e in below(entry, "content")), "") if ncx else entry.get("href", "")
            label = next((e for e in below(entry, "text")), None) if ncx else entry
            if label is not None and target:
                found.setdefault(_full(name, target), squeezed(clean("".join(label.itertext())))[:_CHARACTERS])
    return found


def _protected(archive: Archive) -> set[str]:
    """The members that are encrypted (fonts often are, which does no harm)."""
    if archive.find("META-INF/encryption.xml") is None:
        return set()
    return {
        unquote(e.get("URI", "")).lstrip("/") for e in below(archive.xml("META-INF/encryption.xml"), "CipherReference")
    }


def _metadata(package: Any) -> dict[str, str]:
    found: dict[str, str] = {}
    keys = {"title": "title", "creator": "author", "subject": "subject", "language": "language"}
    for metadata in below(package, "metadata"):
        for element in metadata.iter():
            key = keys.get(local(element), "")
            if local(element) == "meta" and element.get("property") == "dcterms:modified":
                key = "modified"
            words = squeezed(clean("".join(element.itertext())))[:_CHARACTERS]
            if key and sensible(words):
                found.setdefault(key, words)
    return found
