"""PPTX: each slide is a page under its title: text in reading order, tables, figures of charts, diagrams and notes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pptx
from lxml import etree

from kbcore.errors import DocumentError, SkippedDocumentError
from kbcore.parsing.archive import Archive, below, local, parse_xml, reading, said
from kbcore.parsing.composing import Composition
from kbcore.parsing.limits import ParseLimits
from kbcore.parsing.media import PPTX, parser_id_for, stem_of
from kbcore.parsing.plaintext import clean
from kbcore.parsing.properties import core_properties
from kbcore.parsing.tables import described, markdown_table, squeezed
from kbcore.types import Parsed

_SAME_ROW = 150_000  # in EMU, about 4 mm: shapes this close in height are read from left to right
_FURNITURE = {"DATE", "FOOTER", "SLIDE_NUMBER", "HEADER"}
_DEPTH = 20
_POINTS = 200
_LISTED = 20


def parse(uri: str, data: bytes, limits: ParseLimits) -> Parsed:
    """Read a presentation. DocumentError: not one, needs a password, beyond the bounds. SkippedDocumentError: no text."""
    with reading("PPTX"):
        archive = Archive(data, "PPTX")
        presentation = pptx.Presentation(archive.repacked(_replaced(archive)))
        slides = list(presentation.slides)
        if len(slides) > limits.pages:
            raise DocumentError(f"{len(slides):,} slides, more than the limit of {limits.pages:,}")
        composition = Composition(limits)
        stats: dict[str, Any] = {"slides": len(slides)}
        titles = []
        filled = 0
        for number, slide in enumerate(slides, 1):
            composition.page()
            title, blocks = _Slide(slide, number, stats).read()
            titles.append(title)
            filled += bool(title or blocks)
            composition.heading(1, f"Slide {number}: {title}" if title else f"Slide {number}")
            for block in blocks:
                composition.block(block)
            if slide._element.get("show") in ("0", "false"):
                stats.setdefault("hidden_slides", []).append(number)
        if not filled:
            raise SkippedDocumentError("no slide has text (only pictures, perhaps)")
        properties = core_properties(archive)
        named = properties.pop("title", "")
        return Parsed(
            text=composition.text,
            title=named or next(filter(None, titles), "") or stem_of(uri),
            media_type=PPTX,
            parser_id=parser_id_for(PPTX),
            headings=tuple(composition.headings),
            pages=tuple(composition.pages),
            metadata=properties,
            stats={"characters": len(composition.text), **stats},
        )


def _replaced(archive: Archive) -> dict[str, bytes]:
    """Parts as python-pptx can read them: one of several alternatives, and a show or a template as a presentation."""
    replaced = {}
    types = archive.read("[Content_Types].xml")
    for kind in (b"slideshow", b"template"):
        types = types.replace(b"presentationml.%s.main" % kind, b"presentationml.presentation.main")
    name = archive.find("[Content_Types].xml")
    assert name is not None
    replaced[name] = types
    for name in archive.names:
        if name.lower().startswith("ppt/slides/slide") and b"AlternateContent" in (data := archive.read(name)):
            root = parse_xml(data, name)
            for element in list(below(root, "AlternateContent")):
                chosen = next((c for c in element if _words(c)), None)
                parent = element.getparent()
                place = parent.index(element)
                parent[place : place + 1] = list(chosen) if chosen is not None else []
            replaced[name] = etree.tostring(root, encoding="utf-8", xml_declaration=True)
    return replaced


class _Slide:
    """One slide. A shape that cannot be read is counted and the others are read."""

    def __init__(self, slide: Any, number: int, stats: dict[str, Any]) -> None:
        self._slide, self._number, self._stats = slide, number, stats

    def read(self) -> tuple[str, list[str]]:
        """The title, "" where there is none, and the blocks of text below it, notes last."""
        title_shape = self._guarded(lambda: self._slide.shapes.title)
        title = squeezed(clean(title_shape.text_frame.text)) if title_shape is not None else ""
        skipped = title_shape._element if title_shape is not None else None
        blocks: list[str] = []
        for shape in self._ordered(self._slide.shapes, 0):
            if shape._element is not skipped:  # not by id: copied shapes may have the same
                blocks += self._guarded(lambda shape=shape: list(_blocks_of(shape))) or []
        blocks += self._guarded(self._notes) or []
        return title, [block for block in blocks if block.strip()]

    def _guarded(self, read: Any) -> Any:
        try:
            return read()
        except (MemoryError, RecursionError):
            raise
        except Exception as exc:
            self._stats["failed_shapes"] = self._stats.get("failed_shapes", 0) + 1
            self._stats.setdefault("failed_shape_reason", said(exc))
            listed = self._stats.setdefault("failed_slides", [])
            if self._number not in listed and len(listed) < _LISTED:
                listed.append(self._number)
            return None

    def _ordered(self, shapes: Any, depth: int) -> Iterator[Any]:
        """Shapes from top to bottom and left to right, groups with their members in place of themselves."""
        placed = []
        for n, shape in enumerate(shapes):
            top, left = self._guarded(lambda shape=shape: (shape.top, shape.left)) or (None, None)
            known = top is not None and left is not None
            placed.append((not known, top if known else 0, left if known else 0, n, shape))
        placed.sort(key=lambda item: item[:4])
        row: list[Any] = []
        for item in [*placed, None]:
            if row and (item is None or item[0] != row[0][0] or item[1] - row[0][1] > _SAME_ROW):
                for *_, shape in sorted(row, key=lambda it: (it[2], it[3])):
                    if local(shape._element) == "grpSp" and depth < _DEPTH:
                        yield from self._ordered(shape.shapes, depth + 1)
                    else:
                        yield shape
                row = []
            if item is not None:
                row.append(item)

    def _notes(self) -> list[str]:
        if not self._slide.has_notes_slide:
            return []
        frame = self._slide.notes_slide.notes_text_frame
        text = clean(frame.text).strip() if frame is not None else ""
        return [f"Notes: {text}"] if text else []


def _blocks_of(shape: Any) -> Iterator[str]:
    kind = shape.placeholder_format.type if shape.is_placeholder else None
    if kind is not None and kind.name in _FURNITURE:
        return
    if getattr(shape, "has_table", False):
        rows = [[squeezed(clean(cell.text)) for cell in row.cells] for row in shape.table.rows]
        yield markdown_table(rows)
    elif getattr(shape, "has_chart", False):
        yield from _chart(shape.chart.part._element)
    elif shape.has_text_frame:
        yield _paragraphs(shape.text_frame)
    elif local(shape._element) == "graphicFrame":
        yield from _diagram(shape)


def _paragraphs(frame: Any) -> str:
    """Paragraphs as lines; where some are indented, all are items of a list."""
    paragraphs = [(p.level, squeezed(clean(p.text))) for p in frame.paragraphs]
    listed = any(level for level, _ in paragraphs)
    return "\n".join(f"{'  ' * level}- {words}" if listed else words for level, words in paragraphs if words)


def _chart(root: Any) -> Iterator[str]:
    """Title, and for each series its name with its points, read from what the file stores of them (``#N/A`` too)."""
    title = next((_words(e) for e in below(root, "title")), "")
    yield f"Chart: {title}" if title else ""
    lines = []
    for series in below(root, "ser"):
        name = "".join(_points(series, "tx").values())
        labels = _points(series, "cat", "xVal")
        values = _points(series, "val", "yVal")
        order = sorted(values)[:_POINTS]
        points = described([labels.get(n, str(n + 1)) for n in order], [values[n] for n in order])
        lines.append(": ".join(filter(None, (name, points))))
    yield "\n".join(filter(None, lines))


def _points(series: Any, *names: str) -> dict[int, str]:
    found: dict[int, str] = {}
    for part in series:
        if local(part) not in names:
            continue
        for point in below(part, "pt"):
            index = point.get("idx", "")
            value = next((squeezed(e.text or "") for e in below(point, "v")), "")
            if index.isdigit() and len(index) < 9 and value:
                found.setdefault(int(index), _rounded(value))
        if not found and (value := next((e.text for e in below(part, "v") if e.text), "")):
            found[0] = squeezed(value)
    return found


def _rounded(value: str) -> str:
    try:
        return format(float(value), ".15g") if "." in value else value
    except ValueError:
        return value


def _diagram(shape: Any) -> Iterator[str]:
    """The texts of a SmartArt diagram, in the order of its data."""
    for reference in below(shape._element, "relIds"):
        id = next((value for key, value in reference.attrib.items() if key.endswith("}dm")), "")
        root = parse_xml(shape.part.related_part(id).blob, "the data of a diagram")
        yield "\n".join(f"- {words}" for point in below(root, "pt") if (words := _words(point)))


def _words(element: Any) -> str:
    return squeezed(clean(" ".join("".join(t.text or "" for t in below(p, "t")) for p in below(element, "p"))))
