"""Durations as they are written in a configuration: 30s, 15m, 12h, 7d, 2w."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator

_DURATION = re.compile(r"(\d+)\s*([smhdw])")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}


def seconds_of(text: str) -> int:
    """Seconds in a duration. ValueError where it is none, or zero."""
    match = _DURATION.fullmatch(text)
    if not match or int(match[1]) == 0:
        raise ValueError("a duration looks like 30s, 15m, 12h, 7d or 2w")
    return int(match[1]) * _SECONDS[match[2]]


def _checked(text: str) -> str:
    seconds_of(text)
    return text


Duration = Annotated[str, AfterValidator(_checked)]
