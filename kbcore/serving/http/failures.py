"""What goes wrong, as an answer: a status, and ``{error, message, remedy}`` as JSON. No answer holds a traceback."""

from __future__ import annotations

import json
from collections.abc import Mapping
from http import HTTPStatus

from starlette.responses import Response

from kbcore.errors import (
    EvaluationError,
    KbError,
    LockedError,
    RefusedError,
    ReleaseConflictError,
    ReleaseExpiredError,
    ReleaseNotFoundError,
    UsageError,
)

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


class Refusal(Exception):
    """A request that is not answered as it was asked. ``close`` also ends the connection."""

    def __init__(
        self,
        status: int,
        error: str,
        message: str,
        remedy: str = "",
        *,
        headers: Mapping[str, str] | None = None,
        close: bool = False,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.error = error
        self.message = message
        self.remedy = remedy
        self.headers = dict(headers or {})
        if close:
            self.headers["connection"] = "close"


def refusal_of(error: KbError) -> Refusal:
    """An error of kbcore with its status: the caller's are 4xx, everything that keeps us from answering is 503."""
    status = next((code for kind, code in STATUS if isinstance(error, kind)), 503)
    headers = {"retry-after": "5"} if status == 503 else {}
    return Refusal(status, type(error).__name__, error.message, error.remedy, headers=headers)


def unavailable(error: OSError | MemoryError) -> Refusal:
    """Storage or memory failed. Which file it was is for the log, not for the caller."""
    said = getattr(error, "strerror", None) or type(error).__name__
    return Refusal(
        503,
        "Unavailable",
        f"the knowledge base could not be read: {said}",
        "try again; the server's log says more",
        headers={"retry-after": "5"},
    )


def busy(waiting: int) -> Refusal:
    return Refusal(
        503,
        "Busy",
        f"{waiting} requests are waiting already",
        "try again after the seconds in Retry-After",
        headers={"retry-after": str(RETRY_SECONDS)},
    )


def too_slow(seconds: float) -> Refusal:
    return Refusal(
        503,
        "TooSlow",
        f"there was no answer within {seconds:g} s, and the request was given up",
        "try again, with a shorter question, a smaller k or a narrower filter",
        headers={"retry-after": str(RETRY_SECONDS)},
    )


def internal() -> Refusal:
    return Refusal(
        500, "Internal", "the server failed at this request", "its log says where; the request may be repeated"
    )


def of_status(status: int, detail: str, headers: Mapping[str, str] | None) -> Refusal:
    """What the router says by itself: an unknown path, a method that a path does not take."""
    words = {
        404: ("NotFound", "there is nothing at this address", "GET /openapi.json lists what there is"),
        405: ("MethodNotAllowed", "this address does not take this method", "the Allow header names those it takes"),
    }
    phrase = HTTPStatus(status).phrase
    error, message, remedy = words.get(status, (phrase.title().replace(" ", ""), detail or phrase, ""))
    return Refusal(status, error, message, remedy, headers=headers)


def body_of(refusal: Refusal) -> bytes:
    body = {"error": refusal.error, "message": refusal.message, "remedy": refusal.remedy}
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "backslashreplace")


def response(refusal: Refusal) -> Response:
    return Response(body_of(refusal), refusal.status, {**HEADERS, **refusal.headers}, JSON_TYPE)


HEADERS = {"cache-control": "no-store", "x-content-type-options": "nosniff"}
"""Of every answer that says nothing else: kept by nobody, and never taken for a page."""
