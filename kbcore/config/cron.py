"""Cron schedules, checked where they are written: what no scheduler would run is refused when the file is read."""

from __future__ import annotations

import re
from typing import NamedTuple

MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
LONGEST = {2: 29, 4: 30, 6: 30, 9: 30, 11: 30}
EXAMPLE = 'as in "0 6 * * 1-5": minute, hour, day, month, weekday'


class Field(NamedTuple):
    name: str
    least: int
    most: int
    words: tuple[str, ...] = ()


FIELDS = (
    Field("minute", 0, 59),
    Field("hour", 0, 23),
    Field("day", 1, 31),
    Field("month", 1, 12, MONTHS),
    Field("weekday", 0, 7, DAYS),
)


def check_cron(text: str) -> str:
    """``text`` as it is. ValueError, naming the field, where it is no schedule of five fields or one that never comes."""
    parts = text.split()
    if len(parts) != len(FIELDS):
        raise ValueError(f"a schedule has five fields, {EXAMPLE}")
    allowed = [_values(field, part) for field, part in zip(FIELDS, parts)]
    days, months = allowed[2], allowed[3]
    if parts[4] in "*?" and not any(min(days) <= LONGEST.get(month, 31) for month in months):
        raise ValueError(f"there is no such day: day {parts[2]} of month {parts[3]}")
    return text


def _values(field: Field, text: str) -> set[int]:
    """All that one field allows: lists of values, ranges and steps, months and weekdays by number or English name. The last
    day of a month is L."""
    found: set[int] = set()
    third = text.count("#") == text.count(",") + 1  # the third Friday, fri#3: such days stand by themselves
    for part in text.split(","):
        if text == "?" and field.name in ("day", "weekday"):
            part = "*"
        if part.lower() == "l" and field.name == "day":
            found |= {28, 29, 30, 31}
            continue
        if field.name == "weekday" and third:
            part = re.sub(r"^(\w+)#[1-5]$", r"\1", part)
        match = re.fullmatch(r"(?:(\*)|(\w+)(?:-(\w+))?)(?:/(\d+))?", part)
        if not match:
            raise ValueError(f"the {field.name} {part!r} is no value, range (1-5) or step (*/15); {EXAMPLE}")
        star, first, last, step = match.groups()
        low = field.least if star else _value(field, first)
        high = field.most if star or (step and not last) else _value(field, last or first)
        every = int(step or 1)
        if not 1 <= every <= field.most:
            raise ValueError(f"the {field.name} {part!r} steps by {every}; at most by {field.most}")
        # 22-6 goes on past the end, as hours of a night do.
        span = [*range(low, high + 1)] if low <= high else [*range(low, field.most + 1), *range(field.least, high + 1)]
        found |= set(span[::every])
    return found


def _value(field: Field, text: str) -> int:
    if text.lower() in field.words:
        return field.words.index(text.lower()) + field.least
    if not (text.isascii() and text.isdigit()) or not field.least <= int(text) <= field.most:
        raise ValueError(f"the {field.name} {text!r} is not from {field.least} to {field.most}; {EXAMPLE}")
    return int(text)
