"""What parent and child say to each other: frames of JSON, each behind its length in four bytes, big endian.

The parent sends a header and then the raw bytes of the document; the child answers with one frame. The answer was
made by a process that read foreign bytes, so every field of it is checked and none is trusted.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from itertools import pairwise
from typing import Any

from kbcore.parsing.limits import ParseLimits
from kbcore.parsing.media import parser_id_for
from kbcore.types import Heading, Parsed

LENGTH_BYTES = 4
_ANSWERS = {"ok", "skipped", "failed"}
_FIELDS = {"text", "title", "media_type", "parser_id", "headings", "pages", "metadata", "stats"}
_REASON_CHARACTERS = 500


class BadFrameError(Exception):
    """An answer that is not JSON, too long, or not of the shape an answer has."""


def frame(value: Mapping[str, Any]) -> bytes:
    """JSON behind its length. UnicodeEncodeError for a lone surrogate, ValueError for NaN."""
    body = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode("utf-8")
    return len(body).to_bytes(LENGTH_BYTES, "big") + body


def request(uri: str, media_type: str, data: bytes, limits: ParseLimits) -> bytes:
    """The header and the bytes of one document, ready to be written."""
    header = {"uri": uri, "media_type": media_type, "bytes": len(data), "limits": asdict(limits)}
    body = json.dumps(header).encode("ascii")  # escapes carry the surrogates of undecodable file names
    return b"".join((len(body).to_bytes(LENGTH_BYTES, "big"), body, data))


def length_of(start: bytes | bytearray) -> int:
    """The length a frame announces in its first four bytes."""
    return int.from_bytes(start[:LENGTH_BYTES], "big")


def as_json(parsed: Parsed) -> dict[str, Any]:
    """A parsed document as the ``ok`` answer holds it."""
    return {
        "text": parsed.text,
        "title": parsed.title,
        "media_type": parsed.media_type,
        "parser_id": parsed.parser_id,
        "headings": [[heading.offset, heading.level, heading.text] for heading in parsed.headings],
        "pages": list(parsed.pages),
        "metadata": dict(parsed.metadata),
        "stats": dict(parsed.stats),
    }


def read_answer(body: bytes, media_type: str, limits: ParseLimits) -> tuple[str, Parsed | str]:
    """("ok", Parsed), ("skipped", reason) or ("failed", reason). BadFrameError for anything else."""
    try:
        answer = json.loads(body.decode("utf-8"), parse_constant=_refuse)
    except (ValueError, RecursionError) as exc:
        raise BadFrameError(f"an answer that is not JSON ({type(exc).__name__})") from exc
    if not isinstance(answer, dict) or len(answer) != 1 or not answer.keys() <= _ANSWERS:
        raise BadFrameError("an answer of an unknown kind")
    kind, value = next(iter(answer.items()))
    if b"\\ud" in body or b"\\uD" in body:
        _refuse_surrogates(answer)
    if kind == "ok":
        return kind, _parsed(value, media_type, limits)
    _demand(isinstance(value, str), "a reason that is not text")
    return kind, value[:_REASON_CHARACTERS]


def _parsed(value: Any, media_type: str, limits: ParseLimits) -> Parsed:
    _demand(isinstance(value, dict) and set(value) == _FIELDS, "fields missing or unknown")
    text, title = value["text"], value["title"]
    _demand(isinstance(text, str) and isinstance(title, str), "text or title is not text")
    _demand(len(text) <= limits.output_bytes and "\0" not in text, "text too long or with NULs")
    _demand(value["media_type"] == media_type, "another media type")
    _demand(value["parser_id"] == parser_id_for(media_type), "another parser")
    _demand(isinstance(value["headings"], list) and isinstance(value["pages"], list), "headings or pages are no list")
    _demand(isinstance(value["metadata"], dict) and isinstance(value["stats"], dict), "metadata or stats are no object")
    headings = tuple(_heading(item, len(text)) for item in value["headings"])
    _demand(all(a.offset < b.offset for a, b in pairwise(headings)), "headings out of order")
    pages = tuple(value["pages"])
    _demand(all(_is_int(page, 0, len(text)) for page in pages), "a page outside the text")
    _demand(all(a <= b for a, b in pairwise(pages)) and pages[:1] in ((), (0,)), "pages out of order")
    _demand(len(pages) <= limits.pages, "too many pages")
    return Parsed(
        text=text,
        title=title,
        media_type=media_type,
        parser_id=value["parser_id"],
        headings=headings,
        pages=pages,
        metadata=value["metadata"],
        stats=value["stats"],
    )


def _heading(item: Any, characters: int) -> Heading:
    _demand(isinstance(item, list) and len(item) == 3, "a heading of another shape")
    offset, level, text = item
    _demand(
        _is_int(offset, 0, characters) and _is_int(level, 1, 6) and isinstance(text, str), "a heading of odd values"
    )
    return Heading(offset, level, text)


def _is_int(value: Any, low: int, high: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and low <= value <= high


def _demand(holds: bool, otherwise: str) -> None:
    if not holds:
        raise BadFrameError(f"an answer of the wrong shape: {otherwise}")


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


def _refuse_surrogates(answer: dict[str, Any]) -> None:
    try:
        json.dumps(answer, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError as exc:
        raise BadFrameError("an answer with lone surrogates") from exc
