"""Errors as callers from outside hear them: what was wrong, whether asking again may help, no path of this machine.

Over HTTP a failure is a status and ``{error, message, remedy}`` as JSON, to a model it is a sentence. No answer holds a
traceback.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Mapping

from starlette.responses import Response

from kbcore.errors import (
    ConfigError,
    EvaluationError,
    KbError,
    LockedError,
    RefusedError,
    ReleaseConflictError,
    ReleaseExpiredError,
    ReleaseNotFoundError,
    UsageError,
)

log = logging.getLogger("kbcore.serving")

STATUS: tuple[tuple[type[KbError], int], ...] = (
    (ReleaseNotFoundError, 404),
    (ReleaseExpiredError, 410),
    (UsageError, 400),
    (RefusedError, 409),
    (ReleaseConflictError, 409),
    (LockedError, 409),
    (EvaluationError, 400),
)
RETRY_SECONDS = 1
JSON_TYPE = "application/json"
HEADERS = {"cache-control": "no-store", "x-content-type-options": "nosniff"}
"""Of every answer that says nothing else: kept by nobody, and never taken for a page."""
AGAIN = "Retrying may help."
NOT_AGAIN = "Retrying will not help: tell whoever runs the knowledge base."
_PATH = re.compile(r"(?<![\w/:.])(?:~|\.{1,2}|[A-Za-z]:)?[/\\][^\s'\"():;,]+")


class Refusal(Exception):
    """A request that is not answered as it was asked. ``close`` also ends the connection; ``transient``: the same may be
    answered later."""

    def __init__(
        self,
        status: int,
        error: str,
        message: str,
        remedy: str = "",
        *,
        headers: Mapping[str, str] | None = None,
        close: bool = False,
        transient: bool = False,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.error = error
        self.message = message
        self.remedy = remedy
        self.headers = dict(headers or {})
        self.transient = transient
        if close:
            self.headers["connection"] = "close"


def refusal_of(error: KbError | OSError | MemoryError | Refusal) -> Refusal:
    """An error with its status: the caller's are 4xx, everything that keeps us from answering is 503, and is logged: what
    the caller is not told stands there."""
    if isinstance(error, Refusal):
        return error
    kind = type(error).__name__
    status = next((code for known, code in STATUS if isinstance(error, known)), 503)
    if status == 503:
        log.warning("not answered: %s: %s", kind, error)
    headers = {"retry-after": "5"} if status == 503 else {}
    if not isinstance(error, KbError):
        # Storage or memory failed. Which file it was is for the log.
        said = getattr(error, "strerror", None) or kind
        return Refusal(
            503, "Unavailable", f"the knowledge base could not be read: {said}", "try again; the server's log says more",
            headers=headers, transient=True,
        )  # fmt: skip
    if isinstance(error, ConfigError):
        # How a server is configured is nobody's business.
        said, remedy = "the knowledge base cannot be used as it is configured", "the server's log says more"
        return Refusal(503, kind, said, remedy, headers=headers)
    return Refusal(
        status, kind, without_paths(error.message), without_paths(error.remedy),
        headers=headers, transient=error.transient,
    )  # fmt: skip


def told(error: KbError | OSError | MemoryError | Refusal, base: str) -> str:
    """An error for a model. One that is not the caller's says UNAVAILABLE first: the knowledge base could not be asked,
    which is never the same as finding nothing in it."""
    refusal = refusal_of(error)
    if refusal.status < 500:
        return ". ".join(filter(None, (refusal.message, refusal.remedy)))
    return " ".join(
        (
            f"UNAVAILABLE: {base} could not be asked; that does not mean that it holds nothing.",
            f"{refusal.message}.",
            AGAIN if refusal.transient else NOT_AGAIN,
        )
    )


def without_paths(text: str) -> str:
    """A text in which absolute paths are left out."""
    return _PATH.sub("…", text)


def busy(waiting: int) -> Refusal:
    return Refusal(
        503,
        "Busy",
        f"{waiting} requests are waiting already",
        "try again after the seconds in Retry-After",
        headers={"retry-after": str(RETRY_SECONDS)},
        transient=True,
    )


def too_slow(seconds: float) -> Refusal:
    return Refusal(
        503,
        "TooSlow",
        f"there was no answer within {seconds:g} s, and the request was given up",
        "try again, with a shorter question, a smaller k or a narrower filter",
        headers={"retry-after": str(RETRY_SECONDS)},
        transient=True,
    )


def internal() -> Refusal:
    return Refusal(
        500, "Internal", "the server failed at this request", "its log says where; the request may be repeated"
    )


def body_of(refusal: Refusal) -> bytes:
    body = {"error": refusal.error, "message": refusal.message, "remedy": refusal.remedy}
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "backslashreplace")


def response(refusal: Refusal) -> Response:
    return Response(body_of(refusal), refusal.status, {**HEADERS, **refusal.headers}, JSON_TYPE)
