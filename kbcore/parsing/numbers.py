"""Values of cells as a spreadsheet shows them: dates in ISO 8601, numbers without the noise of binary fractions."""

from __future__ import annotations

import datetime
import re
from typing import Any

_QUOTED = re.compile(r'"([^"]*)"|\[\$([^\]-]*)(?:-[^\]]*)?\]|\[[^\]]*\]|\\(.)|[_*].')
_DECIMALS = re.compile(r"0(?:\.(0{1,15}))?(?![0#?.])")
_CURRENCIES = "€$£¥₹"
_UNIT_CHARACTERS = 20
_MOST = 1e15  # from here on a double does not hold each whole number


def shown(value: Any, number_format: str | None) -> str:
    """A value as text. ``number_format`` is the code of its cell: per cents, decimals, currency signs and units are followed."""
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, datetime.datetime):
        if value.microsecond >= 500_000:  # serial numbers hold times a few microseconds off
            value += datetime.timedelta(seconds=1)
        value = value.replace(microsecond=0)
        midnight = value.time() == datetime.time()
        return str(value.date()) if midnight else str(value)
    if isinstance(value, (datetime.date, datetime.time)):
        return value.isoformat()
    if isinstance(value, datetime.timedelta):
        return str(datetime.timedelta(seconds=round(value.total_seconds())))
    if isinstance(value, (int, float)):
        return _number(value, number_format or "General")
    return str(value)


def _number(value: int | float, code: str) -> str:
    if isinstance(value, int) and abs(value) > _MOST:
        return str(value) if value.bit_length() < 10_000 else "(a number of thousands of digits)"
    section = code.split(";", 1)[0]
    bare = _QUOTED.sub("", section)
    written = [(match[1] or match[2] or "").strip() for match in _QUOTED.finditer(section)]
    sign = next(filter(None, [*written, *(char for char in bare if char in _CURRENCIES)]), "")[:_UNIT_CHARACTERS]
    decimals = _DECIMALS.search(bare)
    if "E" in bare.upper().replace("GENERAL", "") or not decimals or abs(value) > _MOST:
        return _joined(_plain(value), sign)
    places = len(decimals[1] or "")
    if "%" in bare:
        return f"{value * 100:.{places}f}%"
    return _joined(f"{value:.{places}f}", sign)


def _plain(value: int | float) -> str:
    text = format(value, ".15g")
    if "e" in text and abs(value) < 1 and abs(value) > 1e-9:
        text = format(value, ".15f").rstrip("0")
    return text


def _joined(number: str, sign: str) -> str:
    return f"{number} {sign}" if sign else number
