"""Filters: which documents a search may answer from, as plain data. Nothing in a filter is ever executed or looked up.

A filter is a mapping of fields to what they must be; all must hold::

    {"source": "handbook", "uri": {"prefix": "vpn/"}, "modified_at": {"gte": "2026-01-01"}, "metadata.team": ["net", "ops"]}

A value asks for equality, a list for any of its values; a mapping holds comparisons: ``eq``, ``ne``, ``in``, ``prefix``,
``gt``, ``gte``, ``lt``, ``lte``, ``exists``. ``{"any": [...]}``, ``{"all": [...]}`` and ``{"not": {...}}`` join filters.

The same in one line, for command lines and addresses: ``source=handbook``, ``metadata.team=net|ops``, ``uri^=vpn/``,
``modified_at>=2026-01-01``, ``language!=de``.

Fields: doc_id, source, uri, title, media_type, language (what the document says, else what its text looks like: ``de``),
modified_at, fetched_at, and ``metadata.<key>`` (dots lead into
nested metadata). A document that lacks a field meets no comparison of it but ``ne`` and ``{"exists": false}``; of a list in
the metadata one element that matches is enough (with ``ne``: none may be equal). A date without a time is its whole day in
UTC: ``modified_at=2026-01-31`` is some time of it, ``modified_at<=2026-01-31`` until its end.
"""

from __future__ import annotations

import contextlib
import datetime
import difflib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kbcore.errors import UsageError
from kbcore.fingerprint import canonical

FIELDS = ("doc_id", "source", "uri", "title", "media_type", "language", "modified_at", "fetched_at")
TIMES = ("modified_at", "fetched_at")
OPERATORS = ("eq", "ne", "in", "prefix", "gt", "gte", "lt", "lte", "exists")
MAX_CONDITIONS, MAX_DEPTH, MAX_VALUES, MAX_CHARACTERS = 64, 8, 1_000, 1_000
FORM = 'a filter reads {"source": "handbook", "uri": {"prefix": "vpn/"}} or source=handbook'
_SIGNS = {"=": "eq", "!=": "ne", "^=": "prefix", ">=": "gte", "<=": "lte", ">": "gt", "<": "lt"}
_LINE = re.compile(r"\s*([A-Za-z_][\w.-]*?)\s*(\^=|!=|>=|<=|=|>|<)(.*)", re.DOTALL)
Scalar = str | int | float | bool
Document = Mapping[str, Any]
Test = Callable[[Document], bool]


@dataclass(frozen=True)
class Filter:
    """A filter that was read and found well-formed. Equal filters have equal keys, whatever order they were written in."""

    body: Mapping[str, Any]
    key: bytes
    _test: Test

    def matches(self, document: Document) -> bool:
        """Whether a document (FIELDS, and ``metadata`` as a mapping) passes."""
        return self._test(document)


def read_filter(given: Filter | Mapping[str, Any] | str | Sequence[str] | None) -> Filter | None:
    """A filter from its mapping, from one line, or from several lines that must all hold; None for none.

    UsageError says what is wrong and where: an unknown field or operator, a value of the wrong kind, too many conditions.
    """
    if given is None or isinstance(given, Filter):
        return given
    if isinstance(given, Mapping):
        body: Mapping[str, Any] = given
    elif isinstance(given, str):
        body = _line(given)
    elif not isinstance(given, Sequence) or not all(isinstance(line, str) for line in given):
        raise UsageError(f"{_shown(given)} is not a filter", remedy=f'{FORM}; several are joined by {{"all": [...]}}')
    else:
        lines = [_line(line) for line in given]
        body = lines[0] if len(lines) == 1 else {"all": lines}
    if not body or body == {"all": []}:
        return None
    reader = _Reader()
    test = reader.mapping(body, "", 0)
    return Filter(body, canonical(body), test)


def _line(text: str) -> dict[str, Any]:
    match = _LINE.fullmatch(text)
    if match is None:
        raise UsageError(f"{_shown(text)} is not a condition", remedy="one reads source=handbook or uri^=vpn/")
    field, sign, value = match.groups()
    values = [part.strip() for part in value.split("|")]
    if any(not part for part in values):
        raise UsageError(f"{_shown(text)}: a value is missing after {sign}")
    operator = _SIGNS[sign]
    if operator == "eq":
        return {field: values if len(values) > 1 else values[0]}
    if len(values) > 1 and operator != "prefix":
        raise UsageError(f"{_shown(text)}: {sign} takes one value")
    if len(values) > 1:
        return {"any": [{field: {operator: part}} for part in values]}
    return {field: {operator: values[0]}}


class _Reader:
    """Turns the mapping into tests, and keeps count of what it has read."""

    def __init__(self) -> None:
        self.conditions = 0

    def mapping(self, body: object, where: str, depth: int) -> Test:
        if not isinstance(body, Mapping):
            raise UsageError(f"filter{where}: {_shown(body)} is not a mapping of fields", remedy=FORM)
        if depth > MAX_DEPTH:
            raise UsageError(f"filter{where}: filters may be nested {MAX_DEPTH} deep")
        if not body:
            raise UsageError(f"filter{where}: an empty filter says nothing", remedy=FORM)
        tests = [self._entry(key, value, where, depth) for key, value in body.items()]
        return tests[0] if len(tests) == 1 else lambda document: all(test(document) for test in tests)

    def _entry(self, key: object, value: object, where: str, depth: int) -> Test:
        if not isinstance(key, str):
            raise UsageError(f"filter{where}: {_shown(key)} is not the name of a field", remedy=FORM)
        here = f"{where}.{key[:MAX_CHARACTERS]}"
        if key in ("any", "all"):
            if not isinstance(value, list | tuple) or not value:
                raise UsageError(f"filter{here} is a list of filters", remedy=FORM)
            tests = [self.mapping(part, f"{here}[{number}]", depth + 1) for number, part in enumerate(value)]
            if key == "any":
                return lambda document: any(test(document) for test in tests)
            return lambda document: all(test(document) for test in tests)
        if key == "not":
            inner = self.mapping(value, here, depth + 1)
            return lambda document: not inner(document)
        return self._field(key, value, here)

    def _field(self, field: str, value: object, where: str) -> Test:
        get = _getter(field, where)
        comparisons = (
            value if isinstance(value, Mapping) else {"in" if isinstance(value, list | tuple) else "eq": value}
        )
        if not comparisons:
            raise UsageError(f"filter{where}: nothing is asked of it", remedy=f"operators: {', '.join(OPERATORS)}")
        tests = []
        for operator, wanted in comparisons.items():
            self.conditions += 1
            if self.conditions > MAX_CONDITIONS:
                raise UsageError(f"filter{where}: a filter has at most {MAX_CONDITIONS} conditions")
            tests.append(_comparison(field, str(operator), wanted, where))
        return lambda document: all(test(get(document)) for test in tests)


def _getter(field: str, where: str) -> Callable[[Document], list[Any]]:
    """The values a document has of a field: none, one, or the elements of a list."""
    if field in FIELDS:
        return lambda document: [] if document.get(field) is None else [document[field]]
    stem, _, path = field.partition(".")
    if stem == "metadata" and path:
        parts = path.split(".")

        def look(document: Document) -> list[Any]:
            metadata = document.get("metadata") or {}
            if path in metadata:  # a key that holds a dot itself
                found = metadata[path]
            else:
                found = metadata
                for part in parts:
                    found = found.get(part) if isinstance(found, Mapping) else None
            return [] if found is None else list(found) if isinstance(found, list | tuple) else [found]

        return look
    near = difflib.get_close_matches(field, [*FIELDS, "metadata.…"], n=1)
    raise UsageError(
        f"filter{where}: there is no field {_shown(field)}",
        remedy=f"did you mean {near[0]}?" if near else f"fields: {', '.join(FIELDS)}, metadata.<key>",
    )


def _comparison(field: str, operator: str, wanted: object, where: str) -> Callable[[list[Any]], bool]:
    if operator not in OPERATORS:
        near = difflib.get_close_matches(operator, OPERATORS, n=1)
        raise UsageError(
            f"filter{where}: there is no operator {_shown(operator)}",
            remedy=f"did you mean {near[0]}?" if near else f"operators: {', '.join(OPERATORS)}",
        )
    if operator == "exists":
        if not isinstance(wanted, bool):
            raise UsageError(f"filter{where}.exists is true or false, not {_shown(wanted)}")
        return lambda values: bool(values) is wanted
    # A document's time is as long as what it is held against: a day is met by every time of it.
    shown: Callable[[Any, Any], Any] = (lambda value, one: value[: len(one)]) if field in TIMES else _as_it_is
    if operator == "in":
        if not isinstance(wanted, list | tuple) or not wanted:
            raise UsageError(f"filter{where}: a list of values is needed, not {_shown(wanted)}")
        if len(wanted) > MAX_VALUES:
            raise UsageError(f"filter{where}: at most {MAX_VALUES:,} values are compared, not {len(wanted):,}")
        several = [_value(field, value, where) for value in wanted]
        return lambda values: any(_equal(shown(value, one), one) for value in values for one in several)
    one = _value(field, wanted, where)
    if operator == "eq":
        return lambda values: any(_equal(shown(value, one), one) for value in values)
    if operator == "ne":
        return lambda values: not any(_equal(shown(value, one), one) for value in values)
    if operator == "prefix":
        if not isinstance(one, str):
            raise UsageError(f"filter{where}.prefix is a text, not {_shown(wanted)}")
        return lambda values: any(isinstance(value, str) and value.startswith(one) for value in values)
    if isinstance(one, bool):
        raise UsageError(f"filter{where}: {_shown(wanted)} is not more or less than anything")
    return lambda values: any(_ordered(operator, shown(value, one), one) for value in values)


def _as_it_is(value: Any, _: Any) -> Any:
    return value


def _value(field: str, value: object, where: str) -> Scalar:
    if isinstance(value, bool | int | float) and field.startswith("metadata."):
        if value != value or value in (float("inf"), float("-inf")):
            raise UsageError(f"filter{where}: {_shown(value)} cannot be compared")
        return value
    if not isinstance(value, str):
        raise UsageError(f"filter{where}: a text is needed, not {_shown(value)}")
    if not value.isascii() and any("\ud800" <= letter <= "\udfff" for letter in value):
        raise UsageError(f"filter{where}: {_shown(value)} is not valid Unicode")
    if len(value) > MAX_CHARACTERS:
        raise UsageError(f"filter{where}: a value has at most {MAX_CHARACTERS:,} characters, not {len(value):,}")
    return _time(value, where) if field in TIMES else value


def _time(text: str, where: str) -> str:
    """A date, or a time with its zone, as documents carry it: ISO 8601 in UTC with a trailing Z."""
    with contextlib.suppress(ValueError):
        return datetime.date.fromisoformat(text).isoformat()
    try:
        moment = datetime.datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(
            f"filter{where}: {_shown(text)} is not a date", remedy="write 2026-01-31, or 2026-01-31T09:00:00Z"
        ) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=datetime.UTC)
    return moment.astimezone(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _equal(value: Any, wanted: Scalar) -> bool:
    if isinstance(value, bool) or isinstance(wanted, bool):
        return value is wanted or (isinstance(wanted, str) and wanted == str(value).lower())
    if isinstance(value, int | float) and isinstance(wanted, str):
        return wanted == str(value)  # a line has no types
    return bool(value == wanted)


def _ordered(operator: str, value: Any, wanted: Scalar) -> bool:
    if isinstance(value, bool):
        return False
    if isinstance(value, int | float) and isinstance(wanted, str):
        try:
            wanted = float(wanted)
        except ValueError:
            return False
    if isinstance(value, str) is not isinstance(wanted, str) or not isinstance(value, str | int | float):
        return False
    left: Any = value
    if operator == "gt":
        return bool(left > wanted)
    if operator == "gte":
        return bool(left >= wanted)
    return bool(left < wanted) if operator == "lt" else bool(left <= wanted)


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
