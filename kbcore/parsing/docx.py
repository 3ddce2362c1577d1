"""DOCX: mammoth reads it, after the XML has been made ready for it; what it would lose all the same is added.

Headings, lists, tables and notes keep their structure. Pictures, comments, page headers and footers are not text of the
document and are left out; no relationship that leads outside is followed.
"""

from __future__ import annotations

import gc
import re
from typing import Any

import mammoth
from lxml import etree

from kbcore.errors import DocumentError
from kbcore.parsing import wordml
from kbcore.parsing.archive import Archive, pack, reading, said
from kbcore.parsing.composing import Composition
from kbcore.parsing.limits import ParseLimits
from kbcore.parsing.markdown import title_of
from kbcore.parsing.media import DOCX, parser_id_for, stem_of
from kbcore.parsing.plaintext import is_blank
from kbcore.parsing.properties import core_properties
from kbcore.parsing.rendering import render
from kbcore.types import Parsed

_ELEMENTS = 1_500_000  # after pruning; mammoth takes about 1 kB for each
# After the preparation there are no other styles to map; a short list makes mammoth a third faster.
_STYLE_MAP = "\n".join(
    [f"p.Heading{level} => h{level}:fresh" for level in range(1, 7)]
    + [
        f"p:{kind}-list({level}) => {'ul|ol > li > ' * (level - 1)}{tag} > li:fresh"
        for level in range(1, 7)
        for kind, tag in (("unordered", "ul"), ("ordered", "ol"))
    ]
)
_NOT_LETTERS = re.compile(r"[\W_]+")
_SHORT = 3  # letters that may stand anywhere: their presence proves nothing and their absence is no loss
_TYPES = (
    b'<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">'
    b'<Default Extension="xml" ContentType="application/xml"/></Types>'
)


def parse(uri: str, data: bytes, limits: ParseLimits) -> Parsed:
    """Read a Word file. DocumentError: not one, needs a password, beyond the bounds, or no text in it."""
    with reading("DOCX"):
        archive = Archive(data, "DOCX")
        stats: dict[str, Any] = {}
        parts = _prepared_parts(archive, stats)
        composition = Composition(limits)
        try:
            render(_html_of(parts), composition)
            _add_what_was_lost(parts, composition, stats)
        except (MemoryError, RecursionError, DocumentError):
            raise
        except Exception as exc:
            composition = Composition(limits)
            _render_plainly(parts, composition)
            stats["flag"] = f"read without lists and tables, which are damaged ({said(exc)})"
        text = composition.text
        if is_blank(text):
            raise DocumentError("no text in the document (only pictures, perhaps: needs OCR)")
        properties = core_properties(archive)
        headings = tuple(composition.headings)
        title = properties.pop("title", "")
        return Parsed(
            text=text,
            title=title or title_of(headings) or stem_of(uri),
            media_type=DOCX,
            parser_id=parser_id_for(DOCX),
            headings=headings,
            metadata=properties,
            stats={"characters": len(text), **stats},
        )


def _prepared_parts(archive: Archive, stats: dict[str, Any]) -> dict[str, Any]:
    """The trees mammoth needs, by the names it looks for where there are no relationships."""
    package = archive.related("").values()
    main = next((r.target for r in package if r.kind == "officeDocument"), "word/document.xml")
    if archive.find(main) is None:
        raise DocumentError(f"not a DOCX: its main part ({main[:80]}) is missing")
    related = archive.related(main).values()
    parts = {"document": archive.xml(main)}
    if parts["document"].tag != f"{{{wordml.W}}}document":
        raise DocumentError("not a DOCX: its main part is no Word document")
    for kind in ("styles", "numbering", "footnotes", "endnotes"):
        name = next((r.target for r in related if r.kind == kind), "")
        if name and archive.find(name):
            parts[kind] = archive.xml(name)
    levels = wordml.heading_levels(parts.get("styles"))
    notes = wordml.note_ids(parts.get("footnotes"), "footnote") | wordml.note_ids(parts.get("endnotes"), "endnote")
    hidden = 0
    for kind in ("document", "footnotes", "endnotes"):
        if kind in parts:
            if kind != "document":
                wordml.keep_notes(parts[kind], wordml.cited_notes(parts["document"]))
            hidden += wordml.prepare(parts[kind], levels, notes if kind == "document" else set())
            if sum(1 for _ in parts[kind].iter()) > _ELEMENTS:
                raise DocumentError(f"more than {_ELEMENTS:,} elements: split the document")
    if hidden:
        stats["hidden_characters"] = hidden
    return parts


def _html_of(parts: dict[str, Any]) -> str:
    """The document as mammoth's HTML. Without numbering and styles where one of these is what it fails on."""
    try:
        return _converted(parts)
    except (MemoryError, RecursionError):
        raise
    except Exception:
        return _converted({kind: parts[kind] for kind in parts if kind not in ("styles", "numbering")})


def _converted(parts: dict[str, Any]) -> str:
    members = {"[Content_Types].xml": _TYPES}
    for kind, root in parts.items():
        members[f"word/{kind}.xml"] = etree.tostring(root, encoding="utf-8", xml_declaration=True)
    collecting = gc.isenabled()
    gc.disable()  # mammoth keeps all it makes until the end: looking for garbage among it takes half of the time
    try:
        return _said_by_mammoth(members)
    finally:
        if collecting:
            gc.enable()


def _said_by_mammoth(members: dict[str, bytes]) -> str:
    converted = mammoth.convert_to_html(
        pack(members),
        style_map=_STYLE_MAP,
        include_default_style_map=False,
        include_embedded_style_map=False,
        external_file_access=False,
        convert_image=lambda image: [],
    )
    return str(converted.value)


def _add_what_was_lost(parts: dict[str, Any], composition: Composition, stats: dict[str, Any]) -> None:
    """Look for every run of text of the source in what was written, and add the runs that are missing at the end."""
    written = _NOT_LETTERS.sub("", composition.text)
    at = lost = 0
    for kind in ("document", "footnotes", "endnotes"):
        for segment in wordml.segments(parts[kind]) if kind in parts else ():
            letters = _NOT_LETTERS.sub("", segment)
            if len(letters) <= _SHORT:
                continue
            place = written.find(letters, at)
            if place < 0:
                place = written.find(letters)
            if place < 0:
                lost += 1
                composition.block(segment)
            else:
                at = place
    if lost:
        stats["added_paragraphs"] = lost


def _render_plainly(parts: dict[str, Any], composition: Composition) -> None:
    for kind in ("document", "footnotes", "endnotes"):
        for level, words in wordml.plain_blocks(parts[kind]) if kind in parts else ():
            if level:
                composition.heading(level, words)
            else:
                composition.block(words)
