"""Errors as callers from outside hear them: what was wrong, whether asking again may help, no path of this machine."""

from __future__ import annotations

import re

from kbcore.errors import (
    ConfigError,
    KbError,
    ReleaseExpiredError,
    ReleaseNotFoundError,
    UsageError,
)

_PATH = re.compile(r"(?<![\w/:.])(?:~|\.{1,2}|[A-Za-z]:)?[/\\][^\s'\"():;,]+")
AGAIN = "Retrying may help."
NOT_AGAIN = "Retrying will not help: tell whoever runs the knowledge base."


def is_callers(error: KbError) -> bool:
    """Whether the caller can put it right by asking otherwise."""
    return isinstance(error, UsageError | ReleaseNotFoundError | ReleaseExpiredError)


def told(error: Exception, base: str) -> str:
    """An error for the caller. One that is not his says UNAVAILABLE first: the knowledge base could not be asked, which
    is never the same as finding nothing in it."""
    if isinstance(error, KbError) and is_callers(error):
        return without_paths(". ".join(filter(None, (error.message, error.remedy))))
    transient = isinstance(error, TimeoutError | OSError | MemoryError) or (
        isinstance(error, KbError) and error.transient
    )
    said = without_paths(error.message) if isinstance(error, KbError) and not isinstance(error, ConfigError) else ""
    return " ".join(
        filter(
            None,
            (
                f"UNAVAILABLE: {base} could not be asked; that does not mean that it holds nothing.",
                f"{said}." if said else "",
                AGAIN if transient else NOT_AGAIN,
            ),
        )
    )


def without_paths(text: str) -> str:
    """A text in which absolute paths are left out."""
    return _PATH.sub("…", text)
