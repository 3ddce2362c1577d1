"""Validators of web pages: one string that says which version of a page is held, and what asks whether it still holds.

``"v7"``, ``modified Wed, 25 Nov 2026 08:00:00 GMT``, both of them one after the other, or ``sha256-…`` of the body
where the server gives neither.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from kbcore.fingerprint import sha256

# A server may stamp two changes within this time with the same modification time.
RACY_SECONDS = 2.0
_ETAG = re.compile(r'(?:W/)?"[!#-~]{0,512}"|[!#-~]{1,512}')
_BETWEEN = "modified "


def validator_of(headers: Mapping[str, str], body: bytes) -> str:
    """The validator of an answer. A modification time counts once it is older than the answer by two seconds."""
    parts = []
    etag = headers.get("etag", "").strip()
    if _ETAG.fullmatch(etag):
        parts.append(etag)
    modified = moment(headers.get("last-modified"))
    answered = moment(headers.get("date")) or datetime.now(UTC)
    if modified and (answered - modified).total_seconds() >= RACY_SECONDS:
        parts.append(_BETWEEN + headers["last-modified"].strip())
    return " ".join(parts) or f"sha256-{sha256(body)}"


def conditions(validator: str | None) -> dict[str, str]:
    """The headers that make a request conditional on ``validator``; none where it is a digest or not known."""
    if validator is None or validator.startswith("sha256-"):
        return {}
    etag, between, modified = validator.rpartition(_BETWEEN)
    if not between:
        return {"If-None-Match": validator}
    tag = {"If-None-Match": etag.strip()} if etag.strip() else {}
    return {**tag, "If-Modified-Since": modified}


def moment(text: str | None) -> datetime | None:
    """A date of HTTP, or None for what is none."""
    try:
        found = parsedate_to_datetime(text or "")
    except (ValueError, OverflowError):
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)
