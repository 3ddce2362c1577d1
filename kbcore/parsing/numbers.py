"""Values of cells as a spreadsheet shows them: dates in ISO 8601, numbers without the noise of binary fractions."""

from __future__ import annotations

import datetime
import math
import re
from contextlib import suppress
from typing import Any

_QUOTED = re.compile(r'"([^"]*)"|\[\$([^\]-]*)(?:-[^\]]*)?\]|\[[^\]]*\]|\\(.)|[_*].')
_DECIMALS = re.compile(r"(?<![0#?.,])(?=[0#?.])([0#?,]*)(?:\.(0{1,15}))?(?![0#?.])")
_THOUSANDS = re.compile(r"(?<=[0#?])(,+)(?![0#?,])")  # after the last place before the point, or after the last of all
_PREFIX = re.compile(r'((?:"[^"]*"|\\.)+)(?=[0#?])')
_CODE_CHARACTERS = 255  # what a spreadsheet allows
_CURRENCIES = "€$£¥₹"
_UNIT_CHARACTERS = 20
_MOST = 1e15  # from here on a double does not hold each whole number


def shown(value: Any, number_format: str | None) -> str:
    """A value as text. ``number_format`` is the code of its cell: per cents, decimals, currency signs and units are followed."""
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, datetime.datetime):
        if value.microsecond >= 500_000:  # serial numbers hold times a few microseconds off
            with suppress(OverflowError):  # the last second of the year 9999 has none after it
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
    prefix, section = _prefix_of(code.split(";", 1)[0][:_CODE_CHARACTERS])
    bare = _QUOTED.sub("", section)
    written = [(match[1] or match[2] or "").strip() for match in _QUOTED.finditer(section)]
    sign = next(filter(None, [*written, *(char for char in bare if char in _CURRENCIES)]), "")[:_UNIT_CHARACTERS]
    divisions = min(5, sum(map(len, _THOUSANDS.findall(bare))))
    bare = _THOUSANDS.sub("", bare)
    decimals = _DECIMALS.search(bare)
    if "E" in bare.upper().replace("GENERAL", "") or abs(value) > _MOST or not math.isfinite(value):
        return _joined(_plain(value), sign)
    if divisions:
        value /= 1_000**divisions
    if not decimals or "0" not in decimals[0]:  # places that are filled where needed only, fractions
        return _joined(_signed(prefix, _plain(value)), sign)
    places = len(decimals[2] or "")
    end = "%" if "%" in bare else ""
    number = f"{value * 100 if end else value:.{places}f}"
    width = decimals[1].count("0") + (places + 1 if places else 0) + number.startswith("-")
    return _joined(_signed(prefix, number.zfill(width) + end), "" if end else sign)


def _prefix_of(section: str) -> tuple[str, str]:
    """The words right before the first digit, as in ``"R"000``, and the section without them; units stay in it."""
    match = _PREFIX.search(section)
    if not match or re.search("[0#?]", _QUOTED.sub("", section[: match.start()])):
        return "", section
    prefix = re.sub(r'"([^"]*)"|\\(.)', r"\1\2", match[1])
    if prefix != prefix.strip() or not any(map(str.isalnum, prefix)):
        return "", section
    return prefix[:_UNIT_CHARACTERS], section[: match.start()] + section[match.end() :]


def _signed(prefix: str, number: str) -> str:
    return f"-{prefix}{number[1:]}" if prefix and number.startswith("-") else prefix + number


def _plain(value: int | float) -> str:
    text = format(value, ".15g")
    if "e" in text and abs(value) < 1 and abs(value) > 1e-9:
        text = format(value, ".15f").rstrip("0")
    return text


def _joined(number: str, sign: str) -> str:
    return f"{number} {sign}" if sign else number
