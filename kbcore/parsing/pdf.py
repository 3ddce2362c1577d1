"""PDF: the text layer, page by page. Attachments, scripts and links are not looked at; nothing is run or fetched."""

from __future__ import annotations

import io
import unicodedata
from typing import Any

from pypdf import PasswordType, PdfReader

from kbcore.errors import DocumentError
from kbcore.parsing.limits import ParseLimits
from kbcore.parsing.media import PDF, parser_id_for, stem_of
from kbcore.parsing.plaintext import clean
from kbcore.types import Parsed

_BETWEEN_PAGES = "\n\n"
_LISTED_PAGES = 50
_ENOUGH_TO_JUDGE = 50  # characters below which the shares say nothing
_BAD_SHARE = 0.1
_LETTER_SHARE = 0.2
_LONG_WORDS = 30.0
_EMPTY_SHARE = 0.5


def parse(uri: str, data: bytes, limits: ParseLimits) -> Parsed:
    """Read the text layer. DocumentError: needs a password, no text layer, too many pages, nothing readable."""
    reader = _open(data)
    try:
        count = len(reader.pages)
    except Exception as exc:
        raise DocumentError(f"the pages cannot be found: {_said(exc)}") from exc
    if count > limits.pages:
        raise DocumentError(f"{count:,} pages, more than the limit of {limits.pages:,}")
    if count == 0:
        raise DocumentError("the PDF has no pages")
    pages, failed = _page_texts(reader, count, limits.output_bytes)
    if len(failed) == count:
        raise DocumentError(f"no page could be read: {failed[0][1]}")
    if not any(pages):
        unread = f" ({len(failed)} of {count} pages could not be read: {failed[0][1]})" if failed else ""
        raise DocumentError(f"no text layer: needs OCR{unread}")
    text = _BETWEEN_PAGES.join(pages)
    stats = {"characters": len(text), **figures(pages)}
    if failed:
        stats["failed_pages"] = [number for number, _ in failed[:_LISTED_PAGES]]
        stats["failed_page_count"] = len(failed)
        stats["failed_page_reason"] = failed[0][1]
    starts, offset = [], 0
    for page in pages:
        starts.append(offset)
        offset += len(page) + len(_BETWEEN_PAGES)
    information = _information(reader)
    title = information.pop("title", "")
    return Parsed(
        text=text,
        title=title or stem_of(uri),
        media_type=PDF,
        parser_id=parser_id_for(PDF),
        pages=tuple(starts),
        metadata=information,
        stats=stats,
    )


def _open(data: bytes) -> PdfReader:
    if not data:
        raise DocumentError("the file is empty (0 bytes)")
    try:
        reader = PdfReader(io.BytesIO(data), strict=False)
        locked = reader.is_encrypted and reader.decrypt("") == PasswordType.NOT_DECRYPTED
    except Exception as exc:
        raise DocumentError(f"not a readable PDF: {_said(exc)}") from exc
    if locked:
        raise DocumentError("needs a password")
    return reader


def _page_texts(reader: PdfReader, count: int, output_bytes: int) -> tuple[list[str], list[tuple[int, str]]]:
    """The text of each page, "" where there is none, and (1-based number, reason) of each that raised."""
    pages: list[str] = []
    failed: list[tuple[int, str]] = []
    total = 0
    for number in range(1, count + 1):
        try:
            text = clean(reader.pages[number - 1].extract_text()).strip()
        except MemoryError:
            raise
        except Exception as exc:
            failed.append((number, _said(exc)))
            text = ""
        pages.append(text)
        total += len(text)
        if total > output_bytes:
            raise DocumentError(f"more than {output_bytes // 1_000_000} MB of text")
    return pages, failed


def figures(pages: list[str]) -> dict[str, Any]:
    """What the text looks like, and under ``flag`` why it should not be trusted, if so."""
    text = " ".join(pages)
    words = text.split()
    letters = bad = replaced = wide = 0
    for char in text:
        if char.isalnum():
            letters += char.isalpha()
            wide += char >= "\u2e80"
        elif not char.isspace():
            replaced += char == "\ufffd"
            bad += char == "\ufffd" or unicodedata.category(char) in ("Cc", "Co", "Cn")
    visible = sum(map(len, words))
    empty = sum(not page for page in pages)
    mean = visible / max(1, len(words))
    stats: dict[str, Any] = {
        "pages": len(pages),
        "empty_pages": empty,
        "characters_per_page": round(visible / len(pages), 1),
        "mean_word_length": round(mean, 2),
        "replacement_characters": replaced,
        "letter_share": round(letters / max(1, visible), 3),
    }
    reasons = []
    if bad > _BAD_SHARE * visible:
        reasons.append(f"{bad / visible:.0%} of the characters are replacements, private use or control codes")
    if visible >= _ENOUGH_TO_JUDGE:
        if letters < _LETTER_SHARE * visible:
            reasons.append(f"only {letters / visible:.0%} of the characters are letters")
        if mean > _LONG_WORDS and wide < visible / 2:  # scripts such as Han are written without blanks
            reasons.append("words are not separated")
    if empty > _EMPTY_SHARE * len(pages):
        reasons.append(f"{empty} of {len(pages)} pages have no text layer")
    if reasons:
        stats["flag"] = "; ".join(reasons)
    return stats


def _information(reader: PdfReader) -> dict[str, Any]:
    """Title, author and subject from the document information, where they can be read and say something."""
    found: dict[str, Any] = {}
    for key in ("title", "author", "subject"):
        try:
            value = getattr(reader.metadata, key, None)
        except Exception:  # damaged information does not spoil the text
            continue
        words = " ".join(clean(value).split())[:300] if isinstance(value, str) else ""
        # What programs write there when nobody gave a title or an author.
        if words and not words.lower().startswith(("microsoft word - ", "untitled", "(anonymous", "(unspecified")):
            found[key] = words
    return found


def _said(exc: Exception) -> str:
    """An exception as a short reason on one line."""
    words = " ".join(clean(str(exc)).split())
    return f"{type(exc).__name__}: {words}"[:200] if words else type(exc).__name__
