"""HTML: the main text as Markdown, without boilerplate, scripts or anything hidden.

trafilatura finds the main text. Where it keeps too little of the page (or loses its headings), the page itself is
turned to Markdown instead, after navigation, hidden parts and lists of links have been taken out: a page of search
results stays short, and a short page stays whole. Nothing is fetched: all input is a tree in memory.
"""

from __future__ import annotations

import copy
import re
from typing import Any

import lxml.html
import trafilatura
from bs4 import BeautifulSoup
from lxml import etree
from markdownify import MarkdownConverter

from kbcore.errors import DocumentError, SkippedDocumentError
from kbcore.parsing.limits import ParseLimits
from kbcore.parsing.markdown import scan_headings, title_of
from kbcore.parsing.media import HTML, parser_id_for, stem_of
from kbcore.parsing.plaintext import clean, decode, is_blank
from kbcore.types import Heading, Parsed

_ENOUGH = 0.6  # share of the page's letters, and of its headings, that an extraction has to keep
_MORE_THAN_THE_REST = 1.25
_LINK_DENSITY = 0.75
_MANY_LINKS = 3
_META_BYTES = 4096
_CHARSET = re.compile(rb"<meta[^>]{0,500}?charset\s{0,9}=\s{0,9}[\"']?\s{0,9}([A-Za-z0-9_:.-]{1,40})", re.IGNORECASE)
_XML_ENCODING = re.compile(rb"<\?xml[^>]{0,200}?encoding\s{0,9}=\s{0,9}[\"']([A-Za-z0-9_:.-]{1,40})")
# What browsers read these labels as (WHATWG): pages that say latin-1 hold the quotes of cp1252.
_LABELS = {"iso-8859-1": "cp1252", "latin1": "cp1252", "latin-1": "cp1252", "us-ascii": "cp1252", "ascii": "cp1252"}
_LABELS |= {"utf8": "utf-8", "shift_jis": "cp932", "shift-jis": "cp932", "gb2312": "gb18030", "gbk": "gb18030"}

_DROPPED = {"script", "style", "noscript", "template", "nav", "footer", "svg", "iframe", "object", "embed", "canvas"}
_DROPPED |= {"button", "select", "textarea", "input", "audio", "video", "link", "base", "map"}
_DROPPED_ROLES = {"navigation", "banner", "contentinfo", "search", "complementary", "dialog", "alertdialog"}
_HEADINGS = {"h1", "h2", "h3", "h4", "h5", "h6"}
_CONTAINERS = {"ul", "ol", "dl", "table", "div", "section", "menu", "p", "td"}
_PERMALINKS = {"¶", "#", "§", "🔗", ""}
_HIDING = ("display:none", "visibility:hidden")
_NOT_WORD = re.compile(r"[\W_]+")
_ESCAPED_OR_CODE = re.compile(r"\\([\\`*_{}\[\]()<>+.!~&-])|`[^`]*`")


def parse(uri: str, data: bytes, limits: ParseLimits) -> Parsed:
    """Read an HTML page. A page of bytes without any text is a failure (a shell that a script would fill, perhaps)."""
    if not data.strip():
        raise SkippedDocumentError("blank")
    declared = _declared_encoding(data)
    decoded = decode(data, declared)
    if is_blank(decoded.text):
        raise SkippedDocumentError("blank")
    stats = decoded.stats()
    if declared and decoded.encoding != declared:
        stats["declared_encoding"] = declared
    root = _tree_of(decoded.text)
    titles = _titles(root)
    language = root.get("lang") or root.get("{http://www.w3.org/XML/1998/namespace}lang") or ""
    _remove_clutter(root)
    text, headings, figures = _main_text(root)
    if is_blank(text):
        raise DocumentError("no text in the page (a script may have to build it)")
    stats.update(figures)
    stats["characters"] = len(text)
    return Parsed(
        text=text,
        title=next((title for title in titles if title), "") or title_of(headings) or stem_of(uri),
        media_type=HTML,
        parser_id=parser_id_for(HTML),
        headings=headings,
        metadata={"lang": clean(language)[:35]} if language.strip() else {},
        stats=stats,
    )


def whole_page(data: bytes) -> tuple[str, tuple[Heading, ...], str]:
    """Markdown, headings and title of a page that is content from end to end, such as a chapter of a book.

    ("", (), title) where it has no text. DocumentError where it cannot be read.
    """
    text = decode(data, _declared_encoding(data)).text
    if is_blank(text):
        return "", (), ""
    root = _xhtml_tree_of(text)
    title = next((title for title in _titles(root) if title), "")
    _remove_clutter(root, all_content=True)
    body = root.find("body")
    markdown = _as_markdown(root if body is None else body)
    return ("", (), title) if is_blank(markdown) else (markdown, scan_headings(markdown), title)


def _xhtml_tree_of(text: str) -> Any:
    """Read as XML where that can be done (``<title/>`` and the like are no open tags there), else as HTML."""
    source = text.encode("utf-8")
    if source.lstrip().startswith(b"<?xml"):
        source = source.lstrip().partition(b"?>")[2]  # what it declares is not the encoding any more
    if b"<!ENTITY" not in source:
        parser = lxml.html.XHTMLParser(encoding="utf-8", resolve_entities=False, load_dtd=False, no_network=True)
        try:
            root = etree.fromstring(source, parser)
            lxml.html.xhtml_to_html(root)
            if root.tag == "html" and next(root.iter(etree.Entity), None) is None:
                return root
        except (etree.XMLSyntaxError, ValueError):
            pass
    return _tree_of(source.decode("utf-8"))


def _declared_encoding(data: bytes) -> str | None:
    match = _XML_ENCODING.match(data.lstrip()[:_META_BYTES]) or _CHARSET.search(data[:_META_BYTES])
    if match is None:
        return None
    label = match.group(1).decode("ascii").lower()
    # A declaration that could be read as ASCII does not stand in UTF-16 or UTF-32.
    return None if label.startswith(("utf-16", "utf-32")) else _LABELS.get(label, label)


def _tree_of(text: str) -> Any:
    parser = lxml.html.HTMLParser(encoding="utf-8")
    try:
        root = lxml.html.document_fromstring(text.encode("utf-8"), parser=parser)
    except (etree.ParserError, etree.XMLSyntaxError) as exc:
        raise DocumentError("no text in the page (nothing in it could be read as HTML)") from exc
    # libxml2 stops at a depth of 256 and at very long nodes: half a page must not pass for a whole one.
    for entry in parser.error_log:
        if entry.level >= 3 or "depth" in entry.message.lower() or "huge" in entry.message.lower():
            raise DocumentError(f"the HTML cannot be read to its end: {entry.message[:120]}")
    return root


def _titles(root: Any) -> list[str]:
    """<title>, og:title, first <h1>; each with its blanks collapsed, "" where it is missing."""
    found = [
        "".join(
            root.xpath("string(//head/title)") or root.xpath("string(//title[not(ancestor::*[local-name()='svg'])])")
        ),
        "".join(root.xpath("string(//meta[@property='og:title' or @name='og:title']/@content)")),
        "".join(root.xpath("string(//h1)")),
    ]
    return [" ".join(clean(str(title)).split())[:300].rstrip("¶# ") for title in found]


def _remove_clutter(root: Any, *, all_content: bool = False) -> None:
    """Take out what a reader does not see, or sees on every page. With ``all_content``, headers and asides stay."""
    etree.strip_tags(root, etree.Comment, etree.ProcessingInstruction)
    within: set[Any] = set()  # elements inside <article> or <main>: their headers and asides are content
    doomed = []
    for element in root.iter(etree.Element):
        parent = element.getparent()
        tag = str(element.tag)
        if parent is not None and (all_content or parent in within or parent.tag in ("article", "main")):
            within.add(element)
        if parent is not None and _is_clutter(element, tag, element in within):
            doomed.append(element)
    for element in doomed:
        if element.getparent() is not None:
            element.drop_tree()


def _is_clutter(element: Any, tag: str, inside_content: bool) -> bool:
    if tag in _DROPPED or (tag in ("header", "aside") and not inside_content):
        return True
    attributes = element.attrib
    if not attributes:
        return False
    if "hidden" in attributes or attributes.get("aria-hidden", "").lower() == "true":
        return tag != "body"
    if attributes.get("role", "").lower() in _DROPPED_ROLES and not inside_content:
        return True
    style = attributes.get("style", "").replace(" ", "").lower()
    if any(hiding in style for hiding in _HIDING):
        return tag != "body"
    parent = element.getparent()
    return tag == "a" and parent.tag in _HEADINGS and "".join(element.itertext()).strip() in _PERMALINKS


def _main_text(root: Any) -> tuple[str, tuple[Heading, ...], dict[str, Any]]:
    page = _content_of(root)
    page_letters = _letters("".join(page.itertext()))
    if not page_letters:
        return "", (), {}
    extracted = _extracted(root)
    headings = scan_headings(extracted)
    kept = len(_letters(extracted)) / len(page_letters)
    wanted = [letters for node in page.iter(*_HEADINGS) if (letters := _letters("".join(node.itertext())))]
    got = {_letters(heading.text) for heading in headings}
    headings_kept = sum(letters in got for letters in wanted) / max(1, len(wanted))
    figures: dict[str, Any] = {"kept_share": round(kept, 3), "extractor": "trafilatura"}
    if kept >= _ENOUGH and (not wanted or headings_kept >= _ENOUGH):
        return extracted, headings, figures
    if kept > _MORE_THAN_THE_REST:  # trafilatura takes lists of links for the content: perhaps an index page
        page = copy.deepcopy(root)
        _remove_link_lists(page, spare_below_h1=True)
        page = _narrowed(page)
    whole = _as_markdown(page)
    figures["extractor"] = "whole page"
    return whole, scan_headings(whole), figures


def _content_of(root: Any) -> Any:
    """A copy of the page's content without its lists of links, unless it has nothing else."""
    page = copy.deepcopy(root)
    _remove_link_lists(page)
    if not _letters("".join(page.itertext())):
        page = copy.deepcopy(root)  # nothing but links: then they are the content
    return _narrowed(page)


def _narrowed(page: Any) -> Any:
    """The <main> of a page where there is one that holds at least half of its letters, else its body."""
    letters = len(_letters("".join(page.itertext())))
    mains = page.xpath("//main | //*[@role='main']")
    if len(mains) == 1 and len(_letters("".join(mains[0].itertext()))) >= letters / 2:
        return mains[0]
    body = page.find("body")
    return page if body is None else body


def _remove_link_lists(page: Any, *, spare_below_h1: bool = False) -> None:
    """Drop the outermost containers whose text is mostly that of several links.

    Spared are, if wanted, those that follow the first <h1> within its parent: an index page lists its links there, a
    menu or a sidebar stands before or outside of it.
    """
    elements = list(page.iter(etree.Element))
    figures: dict[Any, tuple[int, int, int]] = {}  # letters, letters within links, number of links
    for element in reversed(elements):  # children before parents
        letters = len((element.text or "").strip())
        linked = links = 0
        for child in element:
            child_letters, child_linked, child_links = figures.get(child, (0, 0, 0))
            letters += child_letters + len((child.tail or "").strip())
            linked, links = linked + child_linked, links + child_links
        if element.tag == "a" and element.get("href"):
            linked, links = letters, 1
        figures[element] = (letters, linked, links)
    dropped: set[Any] = set()
    content: Any = None
    for element in elements:
        parent = element.getparent()
        if element.tag == "h1" and spare_below_h1 and content is None:
            content = parent
        if parent is not None and parent in dropped:
            dropped.add(element)
        elif parent is not None and element.tag in _CONTAINERS:
            letters, linked, links = figures[element]
            if links >= _MANY_LINKS and linked >= _LINK_DENSITY * letters:
                spared = content is not None and any(above is content for above in element.iterancestors())
                if not spared:
                    dropped.add(element)
    for element in elements:
        if element in dropped and element.getparent() is not None and element.getparent() not in dropped:
            element.drop_tree()


def _extracted(root: Any) -> str:
    found = trafilatura.extract(
        copy.deepcopy(root),
        output_format="markdown",  # with formatting: without it headings and code fences are lost
        include_tables=True,
        include_links=False,
        include_images=False,
        include_comments=False,
        fast=True,
    )
    return _tidy(found or "", unescape=True)


def _as_markdown(page: Any) -> str:
    converter = MarkdownConverter(
        heading_style="ATX",
        bullets="-",
        strip=["a", "img"],
        escape_asterisks=False,
        escape_underscores=False,
        escape_misc=False,
    )
    markup = lxml.html.tostring(page, encoding="unicode", with_tail=False)
    return _tidy(converter.convert_soup(BeautifulSoup(markup, "lxml")), unescape=False)


def _letters(text: str) -> str:
    return _NOT_WORD.sub("", text)


def _tidy(text: str, *, unescape: bool) -> str:
    """No trailing blanks, no two empty lines in a row, no backslashes that were put before ordinary characters."""
    lines: list[str] = []
    fenced = False
    for line in clean(text).split("\n"):
        line = line.rstrip()
        if line.lstrip().startswith("```"):
            fenced = not fenced
        if unescape and not fenced and "\\" in line:
            line = _ESCAPED_OR_CODE.sub(lambda match: match.group(1) or match.group(0), line)
        if line or fenced or (lines and lines[-1]):
            lines.append(line)
    return "\n".join(lines).strip("\n")
