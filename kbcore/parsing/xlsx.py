"""XLSX: each sheet under its name, its tables as Markdown tables or, where they are large, a line for each row.

Values are those stored at the last save; a formula without one is written out. Nothing is calculated, and links to
other files are not followed.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterator
from typing import Any

import openpyxl
from lxml import etree
from openpyxl.utils.cell import coordinate_to_tuple, range_boundaries

from kbcore.errors import DocumentError, SkippedDocumentError
from kbcore.parsing.archive import Archive, local, reading
from kbcore.parsing.composing import Composition
from kbcore.parsing.limits import ParseLimits
from kbcore.parsing.media import XLSX, parser_id_for, stem_of
from kbcore.parsing.numbers import shown
from kbcore.parsing.properties import core_properties
from kbcore.parsing.tables import as_text, has_values, heading_rows, squeezed
from kbcore.types import Parsed

_ROWS = 1_048_576  # what a sheet can have; a file may claim more
_CELLS = 1_000_000  # places looked at in a workbook; openpyxl takes about 20 microseconds for each
_WALKED = 4 * _ROWS  # rows gone through in a workbook; openpyxl makes up those that are left out between others
_LISTED = 20
_FORMULA_CHARACTERS = 200
_MERGED_ROWS = 1_000

Grid = list[list[str]]


def parse(uri: str, data: bytes, limits: ParseLimits) -> Parsed:
    """Read a workbook. DocumentError: not one, needs a password, beyond the bounds. SkippedDocumentError: no cell filled."""
    with reading("XLSX"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        archive = Archive(data, "XLSX")
        parts = _sheet_parts(archive)
        workbook = openpyxl.load_workbook(archive.repacked(), read_only=True, data_only=True, keep_links=False)
        composition = Composition(limits)
        stats: dict[str, Any] = {"sheets": 0, "rows": 0}
        budget = [_CELLS, _WALKED]
        for sheet in workbook.worksheets:
            stats["sheets"] += 1
            if sheet.sheet_state != "visible":
                stats.setdefault("hidden_sheets", []).append(sheet.title[:100])
            extras = _extras(archive.read(parts[sheet.title])) if sheet.title in parts else _Extras()
            _write_sheet(sheet, extras, composition, stats, budget)
        if not stats["rows"]:
            raise SkippedDocumentError("no sheet has a filled cell")
        if stats.get("formulas_without_value"):
            stats["flag"] = f"{stats['formulas_without_value']} formulas have no stored value: open and save it once"
        properties = core_properties(archive)
        title = properties.pop("title", "")
        return Parsed(
            text=composition.text,
            title=title or stem_of(uri),
            media_type=XLSX,
            parser_id=parser_id_for(XLSX),
            headings=tuple(composition.headings),
            metadata=properties,
            stats={"characters": len(composition.text), **stats},
        )


class _Extras:
    """What openpyxl does not say of a sheet that it only reads: merged cells, and formulas without a stored value."""

    def __init__(self) -> None:
        self.merged: list[tuple[int, int, int]] = []  # column, first row, last row
        self.formulas: dict[tuple[int, int], str] = {}  # (row, column), both from 1


def _sheet_parts(archive: Archive) -> dict[str, str]:
    """The part of each sheet by its name."""
    main = next((r.target for r in archive.related("").values() if r.kind == "officeDocument"), "xl/workbook.xml")
    if main.lower().endswith(".bin"):
        raise DocumentError("a binary workbook (.xlsb): save it as XLSX")
    related = archive.related(main)
    parts = {}
    for sheet in archive.xml(main).iter("{*}sheet"):
        id = next((value for key, value in sheet.attrib.items() if key.endswith("}id")), "")
        if id in related and archive.find(related[id].target):
            parts[sheet.get("name", "")] = related[id].target
    return parts


def _extras(data: bytes) -> _Extras:
    extras = _Extras()
    if b"mergeCell" not in data and b"<f" not in data and b":f" not in data:
        return extras
    steps = etree.iterparse(
        io.BytesIO(data), tag=("{*}c", "{*}mergeCell"), resolve_entities=False, load_dtd=False, no_network=True
    )
    for _, element in steps:
        if local(element) == "c":
            formula = next((e for e in element if local(e) == "f"), None)
            valued = any(local(e) in ("v", "is") and ((e.text or "") or len(e)) for e in element)
            if formula is not None and not valued and element.get("r"):
                words = squeezed(formula.text or "")[:_FORMULA_CHARACTERS]
                extras.formulas[coordinate_to_tuple(element.get("r"))] = f"={words}" if words else "(formula)"
        else:
            left, top, _, bottom = range_boundaries(element.get("ref", "A1"))
            if left and top and bottom and 0 < bottom - top < _MERGED_ROWS:
                extras.merged.append((left, top, bottom))
        element.clear()
    return extras


def _write_sheet(
    sheet: Any, extras: _Extras, composition: Composition, stats: dict[str, Any], budget: list[int]
) -> None:
    rows = _rows(sheet, extras, budget)
    if extras.formulas:
        stats["formulas_without_value"] = stats.get("formulas_without_value", 0) + len(extras.formulas)
        named = stats.setdefault("formulas_without_value_at", [])
        named += [f"{sheet.title[:40]}!R{r}C{c}" for r, c in list(extras.formulas)[: _LISTED - len(named)]]
    if not rows:
        return
    stats["rows"] += len(rows)
    composition.heading(1, sheet.title)
    columns = sorted({n for cells in rows.values() for n, cell in enumerate(cells) if cell})
    header: list[str] = []
    for block in _blocks(rows, columns):
        titles, own, start = heading_rows(block)
        if own or len(titles) == len(block):
            continues = _continues(header, own, block[start:])
            body = block[len(titles) :] if continues else block[start:]
            header = header if continues else list(own)
        else:
            # Rows without a header of their own stand under the last one, if they have no more columns than it.
            body = block[start:]
            if any(cell and not (n < len(header) and header[n]) for row in body for n, cell in enumerate(row)):
                header = []
        for text in as_text(titles, header, body):
            composition.block(text)


def _rows(sheet: Any, extras: _Extras, budget: list[int]) -> dict[int, list[str]]:
    """The filled rows by number, as they are shown; what is merged downward stands in each of its rows."""
    sheet.reset_dimensions()  # what a sheet says of its size is often wrong
    rows: dict[int, list[str]] = {}
    for number, cells in enumerate(sheet.iter_rows(), 1):
        # A row without cells costs next to nothing: one format far below must not count as a million cells.
        budget[0] -= len(cells) + bool(cells)
        budget[1] -= 1
        if number > _ROWS or min(budget) < 0:
            raise DocumentError(f"more than {_CELLS:,} cells: split the workbook, or export what is to be found as CSV")
        shown_cells = [
            squeezed(shown(cell.value, cell.number_format)) if cell.value is not None else "" for cell in cells
        ]
        if any(shown_cells):
            rows[number] = shown_cells
    for (row, column), formula in extras.formulas.items():
        _put(rows.setdefault(row, []), column - 1, formula)
    for column, top, bottom in extras.merged:
        value = rows[top][column - 1] if column <= len(rows.get(top, ())) else ""
        for row in range(top + 1, bottom + 1) if value else ():
            if row in rows:
                _put(rows[row], column - 1, value)
    return dict(sorted(rows.items()))


def _put(cells: list[str], place: int, value: str) -> None:
    cells += [""] * (place + 1 - len(cells))
    cells[place] = cells[place] or value


def _blocks(rows: dict[int, list[str]], columns: list[int]) -> Iterator[Grid]:
    """Runs of rows without an empty one between them, without the columns that are empty in the whole sheet."""
    block: Grid = []
    last = 0
    for number, cells in rows.items():
        if block and number > last + 1:
            yield block
            block = []
        block.append([cells[n] if n < len(cells) else "" for n in columns])
        last = number
    if block:
        yield block


def _continues(header: list[str], own: Any, rows: Grid) -> bool:
    """Whether what looks like a header is a row of words under the header before it."""
    if not header or not own:
        return False
    same = [bool(cell) for cell in header] == [bool(cell) for cell in own]
    return same and not has_values(rows) and list(own) != header and not is_repeated(header, own)


def is_repeated(header: list[str], own: Any) -> bool:
    return [cell.lower() for cell in header] == [cell.lower() for cell in own]
