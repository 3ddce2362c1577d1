"""PDF: the text layer, page by page. Attachments, scripts and links are not looked at; nothing is run or fetched.

pypdf reads first. PDFium reads the same pages again, as a check on it and where it fails; see pdf_arbiter.py. What
PDFium cannot read is recorded and costs nothing else; if it crashes the child, that document is a failure.
"""

from __future__ import annotations

import io
from typing import Any

from pypdf import PasswordType, PdfReader

from kbcore.errors import DocumentError
from kbcore.parsing.limits import ParseLimits
from kbcore.parsing.media import PDF, parser_id_for, stem_of
from kbcore.parsing.pdf_arbiter import judge, record
from kbcore.parsing.pdfium import Pdfium, PdfiumError
from kbcore.parsing.plaintext import clean
from kbcore.types import Parsed

_BETWEEN_PAGES = "\n\n"
_LISTED_PAGES = 50
_LITTLE = 50  # visible characters: a stamp or a page number, and the rest of the page may be a picture


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
    # PDFium has no limits of its own: a bomb that pypdf refused is not put to it.
    bombs = {number - 1 for number, reason in failed if reason.startswith("LimitReachedError")}
    pages, stats = _second_reading(data, pages, bombs)
    failed = [(number, reason) for number, reason in failed if not pages[number - 1]]
    if len(failed) == count:
        raise DocumentError(f"no page could be read: {failed[0][1]}")
    if not any(pages):
        unread = f" ({len(failed)} of {count} pages could not be read: {failed[0][1]})" if failed else ""
        raise DocumentError(f"no text layer: needs OCR{unread}")
    text = _BETWEEN_PAGES.join(pages)
    if len(text) > limits.output_bytes:
        raise DocumentError(f"more than {limits.output_bytes // 1_000_000} MB of text")
    stats["characters"] = len(text)
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


def _second_reading(data: bytes, pages: list[str], left_out: set[int]) -> tuple[list[str], dict[str, Any]]:
    """The better reading of each page, and figures of both: see ``record``, and ``image_pages``.

    Pages of the indexes ``left_out`` are not read again.

    ``second_extractor_error`` says why PDFium could not be asked, or not about all pages; pypdf's text stays then.
    """
    verdicts = []
    stats: dict[str, Any] = {}
    images = 0
    try:
        with Pdfium(data) as second:
            if len(second) != len(pages):
                raise PdfiumError(f"finds {len(second)} pages instead of {len(pages)}")
            for index, first in enumerate(pages):
                if index in left_out:
                    verdicts.append(judge(first, first))
                    continue
                try:
                    verdict = judge(first, second.text(index))
                except PdfiumError as exc:
                    stats["second_extractor_error"] = f"page {index + 1}: {exc}"
                    verdict = judge(first, first)
                verdicts.append(verdict)
                images += len(verdict.text) < _LITTLE and second.is_image(index)
    except PdfiumError as exc:
        return pages, {"extractor": "pypdf", "second_extractor_error": str(exc)}
    return [verdict.text for verdict in verdicts], {**stats, **record(verdicts), "image_pages": images}


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
