"""Which paths a source takes: globs over names with ``/``."""

from __future__ import annotations

import re


def glob_pattern(pattern: str) -> re.Pattern[str]:
    """A glob over paths with ``/``: ``**`` any number of folders, ``*`` and ``?`` within one name, ``[…]`` a set."""
    parts: list[str] = []
    i = 0
    while i < len(pattern):
        if pattern.startswith("**/", i):
            parts.append("(?:[^/]+/)*")
            i += 3
        elif pattern.startswith("**", i):
            parts.append(".*")
            i += 2
        elif pattern[i] == "*":
            parts.append("[^/]*")
            i += 1
        elif pattern[i] == "?":
            parts.append("[^/]")
            i += 1
        elif pattern[i] == "[" and "]" in pattern[i + 2 :]:
            end = pattern.index("]", i + 2)
            inside = pattern[i + 1 : end].replace("\\", "\\\\")
            parts.append(f"[{'^' + inside[1:] if inside[0] == '!' else inside}]")
            i = end + 1
        else:
            parts.append(re.escape(pattern[i]))
            i += 1
    return re.compile("".join(parts), re.DOTALL)
