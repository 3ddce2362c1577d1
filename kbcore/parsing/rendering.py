"""mammoth's HTML as text with structure: headings, lists, Markdown tables, and each note after the block that cites it."""

from __future__ import annotations

from typing import Any

from lxml import etree

from kbcore.parsing.composing import Composition
from kbcore.parsing.tables import TABLE_ROWS, described, is_header, markdown_table, squeezed

_HEADINGS = {"h1", "h2", "h3", "h4", "h5", "h6"}
_NOTES = ("footnote-", "endnote-")
_LONG_CELL = 600  # characters from which on a table is there for the layout
_SHORT_CELL = 100
_WIDEST = 64
_LONGEST = 1_000


def render(html: str, composition: Composition) -> None:
    """Write a whole document. XMLSyntaxError where the HTML is not what mammoth writes."""
    parser = etree.XMLParser(resolve_entities=False, no_network=True, huge_tree=True)
    body = etree.fromstring(f"<div>{html}</div>".encode(), parser)
    _Renderer(body, composition).blocks(body)


class _Renderer:
    def __init__(self, body: Any, composition: Composition) -> None:
        self._to = composition
        self._notes: dict[str, Any] = {}
        self._cited: list[tuple[str, str]] = []  # (id, mark) of notes that the next block is followed by
        for item in body.iter("li"):
            name = item.get("id", "")
            if name.startswith(_NOTES):
                self._notes[name] = item

    def blocks(self, parent: Any) -> None:
        for element in parent:
            tag = element.tag
            if tag in _HEADINGS:
                self._to.heading(int(tag[1]), self._inline(element))
            elif tag in ("ul", "ol"):
                self._to.block("\n".join(self._list_lines(element, 0)))
            elif tag == "table":
                self._table(element)
            else:
                self._to.block(self._inline(element))
            self._write_cited()

    def _write_cited(self) -> None:
        while self._cited:
            name, mark = self._cited.pop(0)
            if (item := self._notes.pop(name, None)) is not None:
                words = squeezed(" ".join(self._inline(child) for child in item))
                self._to.block(f"{mark} {words}" if words else "")

    def _inline(self, element: Any) -> str:
        """The words of an element, line breaks kept."""
        return "\n".join(squeezed(line) for line in "".join(self._pieces(element)).split("\n")).strip()

    def _pieces(self, element: Any) -> list[str]:
        pieces = [element.text or ""]
        for child in element:
            tag = child.tag
            name = child.get("href", "")[1:] if tag == "a" else ""
            if tag == "br":
                pieces.append("\n")
            elif tag == "input":
                pieces.append("[x] " if child.get("checked") else "[ ] ")
            elif name.startswith(_NOTES):
                if "-ref-" not in name:  # the others lead from a note back to its mark
                    mark = "".join(child.itertext())
                    self._cited.append((name, mark))
                    pieces.append(mark)
            elif tag == "table":
                pieces.append(f" {self._flat(child)} ")
            else:
                pieces += self._pieces(child)
                if tag in ("p", "li", "tr", *_HEADINGS):
                    pieces.append(" ")
            pieces.append(child.tail or "")
        return pieces

    def _flat(self, table: Any) -> str:
        """A table within a cell: rows by ``;``, cells by ``,``."""
        rows = [", ".join(filter(None, (self._inline(cell) for cell in row))) for row in _rows_of(table)]
        return "; ".join(filter(None, rows))

    def _list_lines(self, element: Any, depth: int) -> list[str]:
        lines = []
        number = 0
        for item in element:
            if item.get("id", "").startswith(_NOTES):
                continue  # written where it is cited
            number += 1
            nested = [child for child in item if child.tag in ("ul", "ol")]
            below = [line for child in nested for line in self._list_lines(child, depth + 1)]
            for child in nested:
                item.remove(child)
            words = squeezed(self._inline(item))
            mark = f"{number}." if element.tag == "ol" else "-"
            if words:
                lines.append(f"{'   ' * depth}{mark} {words}")
            lines += below
        return lines

    def _table(self, table: Any) -> None:
        rows = _rows_of(table)
        if _is_layout(table, rows):
            for row in rows:
                if all(map(_is_plain, row)):
                    self._to.block(" | ".join(filter(None, (squeezed(self._inline(cell)) for cell in row))))
                    continue
                for cell in row:
                    self.blocks(cell)
            return
        grid = self._grid(rows)
        if len(grid) <= TABLE_ROWS or not is_header(grid[0], max(map(len, grid))):
            self._to.block(markdown_table(grid))
        else:
            self._to.block("\n".join(filter(None, (described(grid[0], row) for row in grid[1:]))))

    def _grid(self, rows: list[list[Any]]) -> list[list[str]]:
        """The words of each cell. What spans rows is said in each of them, what spans columns in the first."""
        grid: list[list[str]] = []
        carried: dict[int, tuple[int, str]] = {}  # column to (rows left, words)
        for row in rows:
            words: list[str] = []

            def carry(words: list[str] = words) -> None:
                while len(words) in carried:
                    left, said = carried.pop(len(words))
                    if left > 1:
                        carried[len(words)] = (left - 1, said)
                    words.append(said)

            for cell in row:
                carry()
                text = squeezed(self._inline(cell))
                if (down := min(_LONGEST, _number(cell.get("rowspan")))) > 1:
                    carried[len(words)] = (down - 1, text)
                words += [text] + [""] * (min(_WIDEST, _number(cell.get("colspan"))) - 1)
            carry()
            grid.append(words)
        return grid


def _rows_of(table: Any) -> list[list[Any]]:
    rows = [
        row
        for part in table
        for row in ([part] if part.tag == "tr" else part if part.tag in ("thead", "tbody") else [])
    ]
    return [[cell for cell in row if cell.tag in ("td", "th")] for row in rows]


def _is_layout(table: Any, rows: list[list[Any]]) -> bool:
    """Whether a table only puts its content in place: one cell, tables in it, or cells of many words."""
    cells = [cell for row in rows for cell in row]
    if len(cells) <= 1 or next(table.iterdescendants("table"), None) is not None:
        return True
    return any(len("".join(cell.itertext())) > _LONG_CELL for cell in cells)


def _is_plain(cell: Any) -> bool:
    """Whether a cell is a few words."""
    structure = ("table", "ul", "ol", *_HEADINGS)
    return next(cell.iterdescendants(*structure), None) is None and len("".join(cell.itertext())) <= _SHORT_CELL


def _number(value: str | None) -> int:
    return int(value) if value and value.isdigit() and len(value) < 6 else 1
