"""Rows of cells as text: a Markdown table where it is small, else a line for each row that names its columns."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice

_NAME_CHARACTERS = 100
_LOOK_AHEAD = 30
_TABLE_COLUMNS = 8
TABLE_ROWS = 40
_TABLE_CHARACTERS = 3_000
_VALUE = re.compile(r"[€$£¥+\-(~<>=]{0,3} ?\d[\d.,:/ T+\-]{0,40}(?:%|[€$£¥)]|[A-Za-z]{1,3})?")
_YEAR = re.compile(r"(?:19|20)\d\d")

Row = Sequence[str]


def squeezed(cell: str) -> str:
    """A cell on one line."""
    return " ".join(cell.split())


def markdown_table(rows: Sequence[Row]) -> str:
    """A Markdown table whose first row is the header. Short rows are filled up; no column is empty throughout."""
    width = max(map(len, rows), default=0)
    full = [[*row, *[""] * (width - len(row))] for row in rows]
    columns = [n for n in range(width) if any(row[n] for row in full)]
    if not columns:
        return ""
    lines = [f"| {' | '.join(row[n].replace('|', chr(92) + '|') for n in columns)} |" for row in full]
    return "\n".join([lines[0], "|" + " --- |" * len(columns), *lines[1:]])


def described(header: Row, row: Row) -> str:
    """``name: value`` for each filled cell, ``; `` between them. Cells beyond the header are named by their number."""
    parts = []
    for n, cell in enumerate(row):
        if cell:
            name = header[n] if n < len(header) else ""
            parts.append(f"{name[:_NAME_CHARACTERS] or f'column {n + 1}'}: {cell}")
    return "; ".join(parts)


def row_lines(rows: Iterable[Row]) -> Iterator[str]:
    """A line for each row, with the names of the header (if there is one) in each; titles above it as they are.

    The names of columns that are empty in every row would stand in none of them: they come in a line of their own, last.
    ``rows`` may be without end; only the first are looked at to find the header.
    """
    source = iter(rows)
    first = list(islice(source, _LOOK_AHEAD))
    titles, header, start = heading_rows(first)
    yield from (" ".join(filter(None, row)) for row in titles)
    rest = chain(first[start:], source)
    written = False
    unused = {n for n, name in enumerate(header) if name}
    for row in rest:
        if line := described(header, row) if header else "; ".join(filter(None, row)):
            written = True
            unused -= {n for n in unused if n < len(row) and row[n]}
            yield line
    if unused:
        yield _without_values(header, unused) if written else "; ".join(header[n] for n in sorted(unused))


def _without_values(header: Row, columns: Iterable[int]) -> str:
    return f"without values: {'; '.join(header[n] for n in sorted(columns))}"


def heading_rows(rows: Sequence[Row]) -> tuple[Sequence[Row], Row, int]:
    """The title rows at the top, the header ("" cells where it names none, () where there is none), where data begins.

    A title is alone in its row while others have more cells. A header has words (or years) in most columns.
    """
    width = max((sum(map(bool, row)) for row in rows), default=0)
    start = 0
    while width > 1 and start < len(rows) and sum(map(bool, rows[start])) <= 1:
        start += 1
    header = rows[start] if start < len(rows) and is_header(rows[start], width) else ()
    return rows[:start], header, start + bool(header)


def is_header(row: Row, width: int) -> bool:
    filled = [cell for cell in row if cell]
    if len(filled) < 2 or len(filled) < width / 2 or len(set(filled)) < len(filled):
        return False
    values = [cell for cell in filled if _VALUE.fullmatch(cell)]
    short = all(len(cell) <= _NAME_CHARACTERS for cell in filled)
    return short and len(values) < len(filled) and all(_YEAR.fullmatch(cell) for cell in values)


def has_values(rows: Iterable[Row]) -> bool:
    """Whether any cell is a number, a date or the like."""
    return any(_VALUE.fullmatch(cell) for row in rows for cell in row if cell)


def as_text(titles: Sequence[Row], header: Row, rows: Sequence[Row]) -> Iterator[str]:
    """Blocks for one table: its titles, then it as a Markdown table where it is small, else a line for each row and one
    for the names of columns that are empty in all of them."""
    for row in titles:
        yield " ".join(filter(None, row))
    columns = sum(any(n < len(row) and row[n] for row in (header, *rows)) for n in range(_width(header, rows)))
    characters = sum(len(cell) for row in rows for cell in row)
    if header and columns <= _TABLE_COLUMNS and len(rows) <= TABLE_ROWS and characters <= _TABLE_CHARACTERS:
        yield markdown_table([header, *rows])
    elif header and rows:
        lines = [line for row in rows if (line := described(header, row))]
        unused = [n for n, name in enumerate(header) if name and not any(n < len(row) and row[n] for row in rows)]
        yield "\n".join([*lines, _without_values(header, unused)] if unused else lines)
    else:
        between = ": " if columns == 2 else "; "
        yield "\n".join(filter(None, (between.join(filter(None, row)) for row in (header, *rows))))


def _width(header: Row, rows: Sequence[Row]) -> int:
    return max(len(header), *map(len, rows)) if rows else len(header)
