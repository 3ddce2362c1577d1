"""WordprocessingML made ready for mammoth: nothing it would drop or fail on is left, and nothing a reader would not see.

Text boxes come after the paragraph that holds them, of alternatives one stays, tracked changes are accepted, containers
that mammoth does not know give way to what they contain, and headings are named by their level.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from lxml import etree

from kbcore.parsing.archive import below, local

W = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
_HEADING = re.compile(r"heading (\d)", re.IGNORECASE)
_KNOWN = {"document", "body", "footnotes", "footnote", "endnotes", "endnote", "p", "r", "t", "tbl", "tr", "tc"}
_KEPT_PROPERTIES = {"pStyle", "numPr"}
# Deleted text, codes of fields, formatting, pictures: none of it is text of the document.
_DROPPED: tuple[str, ...] = (
    "del",
    "moveFrom",
    "instrText",
    "delInstrText",
    "fldChar",
    "rPr",
    "sectPr",
    "proofErr",
    "bookmarkStart",
)
_DROPPED += ("bookmarkEnd", "commentReference", "sdtPr", "sdtEndPr", "lastRenderedPageBreak", "tblGrid", "tblPrEx")
_PICTURES = ("drawing", "pict", "object")
_BLANKS = {"ptab": "tab", "cr": "br"}  # mammoth drops the first ones, and words would run together
_MANY_COLUMNS = 1_000


def heading_levels(styles: Any | None) -> tuple[dict[str, int], str]:
    """The heading level (1 to 6) of each paragraph style that has one, its own or inherited, and the default style."""
    named: dict[str, tuple[str, int | None]] = {}
    default = ""
    for style in below(styles, "style") if styles is not None else ():
        if _of(style, "type") != "paragraph":
            continue
        name, based, level = "", "", None
        for element in below(style, "name", "basedOn", "outlineLvl"):
            value = _of(element, "val")
            if local(element) == "name":
                name = value
            elif local(element) == "basedOn":
                based = value
            elif value.isdigit() and len(value) == 1:
                level = int(value) + 1
        if match := _HEADING.fullmatch(name):
            level = int(match[1])
        elif name.lower() == "title":
            level = 1
        named.setdefault(_of(style, "styleId"), (based, level))
        if _of(style, "default") in ("1", "true"):
            default = _of(style, "styleId")
    levels = {}
    for style_id in named:
        at, steps = style_id, 0
        while at in named and named[at][1] is None and steps < 20:  # a style may be based on itself
            at, steps = named[at][0], steps + 1
        level = named[at][1] if at in named else None
        if level is not None and 1 <= level <= 9:
            levels[style_id] = min(6, level)
    return levels, default


def prepare(root: Any, levels: tuple[dict[str, int], str], notes: set[tuple[str, str]]) -> int:
    """Change the tree of a part in place. ``notes`` are (kind, id) of the notes there are. The characters of hidden text."""
    _choose_alternatives(root)
    hidden = _hidden(root)
    _accept_changes(root)
    _write_out_formulas(root)
    _name_headings(root, *levels)
    _drop(root, _DROPPED)
    _hoist_text_boxes(root)
    _drop(root, _PICTURES)
    for reference in list(below(root, "footnoteReference", "endnoteReference")):
        if (local(reference).removesuffix("Reference"), _of(reference, "id")) not in notes:
            _remove(reference)
    for blank in list(below(root, *_BLANKS)):
        _replace(blank, [etree.Element(f"{{{W}}}{_BLANKS[local(blank)]}")])
    for symbol in list(below(root, "sym")):
        if not re.fullmatch(r"[0-9A-Fa-f]{1,6}", _of(symbol, "char")):
            _remove(symbol)
    for span in list(below(root, "gridSpan")):
        if not (_of(span, "val").isdigit() and int(_of(span, "val")[:9]) <= _MANY_COLUMNS):
            _remove(span)
    _unwrap_unknown(root)
    return hidden


def note_ids(root: Any | None, kind: str) -> set[tuple[str, str]]:
    """(kind, id) of the notes a part holds, without the separators that Word keeps among them."""
    notes = below(root, kind) if root is not None else ()
    return {(kind, _of(note, "id")) for note in notes if _of(note, "type") in ("", "normal") and _of(note, "id")}


def cited_notes(root: Any) -> set[tuple[str, str]]:
    """(kind, id) of the notes that a prepared part cites."""
    references = below(root, "footnoteReference", "endnoteReference")
    return {(local(e).removesuffix("Reference"), _of(e, "id")) for e in references}


def keep_notes(root: Any, cited: set[tuple[str, str]]) -> None:
    """Drop the notes that nothing cites: separators, and those of deleted text."""
    for note in list(root):
        if (local(note), _of(note, "id")) not in cited:
            root.remove(note)


def segments(root: Any) -> Iterator[str]:
    """Every run of text that stands in one piece in a paragraph, in the order of a prepared part."""
    for paragraph in below(root, "p"):
        text: list[str] = []
        for element in below(paragraph, "t", "footnoteReference", "endnoteReference", "sym"):
            if local(element) == "t":
                text.append("".join(element.itertext()))
            else:
                yield "".join(text)
                text = []
        yield "".join(text)


def plain_blocks(root: Any) -> Iterator[tuple[int, str]]:
    """(heading level or 0, text) of each paragraph of a prepared part: what is left where mammoth cannot read it."""
    for paragraph in below(root, "p"):
        words = "".join(
            " " if local(e) in ("tab", "br") else "".join(e.itertext()) for e in below(paragraph, "t", "tab", "br")
        )
        style = next((_of(e, "val") for e in below(paragraph, "pStyle")), "")
        yield (int(style[7:]) if re.fullmatch(r"Heading[1-6]", style) else 0), words


def _of(element: Any, name: str) -> str:
    """An attribute of Word's namespace."""
    return str(element.get(f"{{{W}}}{name}", ""))


def _has_text(element: Any) -> bool:
    return any(e.text and e.text.strip() for e in below(element, "t"))


def _remove(element: Any) -> None:
    parent = element.getparent()
    if parent is not None:
        parent.remove(element)


def _drop(root: Any, names: tuple[str, ...]) -> None:
    for element in list(below(root, *names)):
        _remove(element)


def _replace(element: Any, children: list[Any]) -> None:
    parent = element.getparent()
    if parent is None:
        return
    place = parent.index(element)
    parent[place : place + 1] = children


def _choose_alternatives(root: Any) -> None:
    """The first choice that has text, else the fallback, else nothing; never two of them."""
    for element in list(below(root, "AlternateContent")):
        choices = [child for child in element if local(child) == "Choice"]
        fallbacks = [child for child in element if local(child) == "Fallback"]
        chosen = next((child for child in choices + fallbacks if _has_text(child)), None)
        if chosen is None:
            chosen = next(iter(fallbacks + choices), None)
        _replace(element, list(chosen) if chosen is not None else [])


def _hidden(root: Any) -> int:
    """Characters of runs that are set to be hidden. They stay in the text and are counted."""
    count = 0
    for mark in below(root, "vanish"):
        run = mark.getparent().getparent() if mark.getparent() is not None else None
        if run is not None and local(run) == "r" and _of(mark, "val") not in ("0", "false"):
            count += sum(len(e.text or "") for e in below(run, "t"))
    return count


def _accept_changes(root: Any) -> None:
    """Deleted rows and cells go. A deleted paragraph mark joins its paragraph to the next one."""
    for mark in list(below(root, "del", "cellDel")):
        properties = mark.getparent()
        if properties is None:
            continue
        if local(properties) == "trPr" or (local(mark) == "cellDel" and local(properties) == "tcPr"):
            _remove(properties.getparent())
        elif local(properties) == "rPr" and local(properties.getparent()) == "pPr":
            _join_to_next(properties.getparent().getparent())


def _join_to_next(paragraph: Any) -> None:
    following = paragraph.getnext()
    if following is None or local(following) != "p":
        return
    content = [child for child in paragraph if local(child) != "pPr"]
    place = 1 if len(following) and local(following[0]) == "pPr" else 0
    following[place:place] = content
    _remove(paragraph)


def _write_out_formulas(root: Any) -> None:
    for formula in list(below(root, "oMath")):
        run = etree.Element(f"{{{W}}}r")
        etree.SubElement(run, f"{{{W}}}t").text = "".join(e.text or "" for e in below(formula, "t"))
        _replace(formula, [run])


def _name_headings(root: Any, levels: dict[str, int], default: str) -> None:
    """Paragraph properties come down to style and numbering; the style of a heading to ``Heading`` and its level."""
    for properties in list(below(root, "pPr")):
        styles = [e for e in properties if local(e) == "pStyle"]
        outline = next((_of(e, "val") for e in properties if local(e) == "outlineLvl"), "")
        level = levels.get(_of(styles[0], "val") if styles else default)
        if len(outline) == 1 and outline.isdigit():
            level = min(6, int(outline) + 1) if outline != "9" else None
        for child in list(properties):
            if local(child) not in _KEPT_PROPERTIES or (level and local(child) == "pStyle"):
                properties.remove(child)
        if level:
            style = etree.Element(f"{{{W}}}pStyle")
            style.set(f"{{{W}}}val", f"Heading{level}")
            properties.insert(0, style)


def _hoist_text_boxes(root: Any) -> None:
    """The blocks of a text box are put after the paragraph it hangs on; the last box first, so that all keep their order."""
    for box in reversed(list(below(root, "txbxContent"))):
        paragraph = next((e for e in box.iterancestors() if local(e) == "p"), None)
        if paragraph is not None:
            _remove(box)
            for block in reversed(list(box)):
                paragraph.addnext(block)


def _unwrap_unknown(root: Any) -> None:
    """Links, content controls, insertions and whatever else surrounds text, but is no paragraph, run, table or note."""
    unknown: list[Any] = []
    seen: set[Any] = set()
    for element in below(root, "t", "p", "tbl", "footnoteReference", "endnoteReference"):
        at = element.getparent()
        while at is not None and at not in seen:
            seen.add(at)
            if local(at) not in _KNOWN:
                unknown.append(at)
            at = at.getparent()
    for element in unknown:
        _replace(element, list(element))
