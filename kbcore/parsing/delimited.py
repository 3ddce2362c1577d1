"""CSV and TSV: a line for each row that says the name of its column before each value, so that any part has meaning.

Rows of other lengths than the header are kept. Line breaks within a cell become blanks.
"""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterator
from typing import Any

from kbcore.errors import DocumentError, SkippedDocumentError
from kbcore.parsing.composing import Composition
from kbcore.parsing.limits import MB, ParseLimits
from kbcore.parsing.media import CSV, parser_id_for, stem_of, suffix_of
from kbcore.parsing.plaintext import clean, decode, is_blank
from kbcore.parsing.tables import row_lines, squeezed
from kbcore.types import Parsed

_DELIMITERS = ",;\t|"
_SAMPLE = 20_000
_FIELD = MB


def parse(uri: str, data: bytes, limits: ParseLimits) -> Parsed:
    """Read delimited text. SkippedDocumentError where it is blank, DocumentError where it cannot be read."""
    decoded = decode(data)
    if is_blank(decoded.text):
        raise SkippedDocumentError("blank")
    source, delimiter = _delimiter(decoded.text, uri)
    figures: dict[str, Any] = {"delimiter": delimiter, "rows": 0}
    csv.field_size_limit(_FIELD)
    try:
        text = _text_of(source, delimiter, limits, figures)
    except csv.Error:
        # A quote that is never closed takes the rest of the file for one cell.
        figures = {"delimiter": delimiter, "rows": 0, "flag": "its quotes do not match: taken as they are"}
        try:
            text = _text_of(source, delimiter, limits, figures, quoting=csv.QUOTE_NONE)
        except csv.Error as exc:
            raise DocumentError(f"a cell of more than {_FIELD // MB} MB (row {figures['rows'] + 1:,})") from exc
    if is_blank(text):
        raise SkippedDocumentError("nothing but empty cells")
    return Parsed(
        text=text,
        title=stem_of(uri),
        media_type=CSV,
        parser_id=parser_id_for(CSV),
        stats={**decoded.stats(), "characters": len(text), **figures},
    )


def _delimiter(text: str, uri: str) -> tuple[str, str]:
    """The text without a line ``sep=;`` that spreadsheets put first, and what stands between its cells."""
    first, _, rest = text.partition("\n")
    if len(first) == 5 and first.lower().startswith("sep="):
        return rest, first[4]
    if suffix_of(uri) == ".tsv":
        return text, "\t"
    sample = text[:_SAMPLE]
    if len(text) > _SAMPLE and "\n" in sample:
        sample = sample[: sample.rindex("\n") + 1]
    alike = {delimiter: _rows_alike(sample, delimiter) for delimiter in _DELIMITERS}
    if any(alike.values()):
        return text, max(_DELIMITERS, key=alike.__getitem__)  # the first of several
    lines = [line for line in sample.split("\n") if line.strip()]
    return text, max(_DELIMITERS, key=lambda d: (sum(d in line for line in lines), sample.count(d)))


def _rows_alike(sample: str, delimiter: str) -> int:
    """How many rows have the commonest number of cells above one. csv.Sniffer guesses from quotes, and takes them for cells."""
    lengths: Counter[int] = Counter()
    try:
        for row in csv.reader(io.StringIO(sample, newline=""), delimiter=delimiter, skipinitialspace=True):
            lengths[len(row)] += len(row) > 1
    except csv.Error:  # what was read until then still tells
        pass
    return max(lengths.values(), default=0)


def _text_of(
    source: str, delimiter: str, limits: ParseLimits, figures: dict[str, Any], quoting: int = csv.QUOTE_MINIMAL
) -> str:
    composition = Composition(limits)
    lines: list[str] = []
    size = 0
    for line in row_lines(_rows(source, delimiter, quoting, figures)):
        size += len(line) + 1
        if size > limits.output_bytes:
            raise DocumentError(f"more than {limits.output_bytes // MB} MB of text")
        lines.append(line)
    composition.block("\n".join(lines))
    return composition.text


def _rows(source: str, delimiter: str, quoting: int, figures: dict[str, Any]) -> Iterator[list[str]]:
    strict = quoting == csv.QUOTE_MINIMAL
    for row in csv.reader(
        io.StringIO(source, newline=""),
        delimiter=delimiter,
        quoting=csv.QUOTE_MINIMAL if strict else csv.QUOTE_NONE,
        skipinitialspace=True,
        strict=strict,
    ):
        cells = [squeezed(clean(cell)) for cell in row]
        if any(cells):
            figures["rows"] += 1
            yield cells
