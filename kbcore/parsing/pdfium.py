"""A second reader of PDF text, PDFium: what pypdf reads is held against it. Loaded where a PDF is parsed, only there."""

from __future__ import annotations

import re
import unicodedata

import pypdfium2
import pypdfium2.raw as raw

from kbcore.parsing.plaintext import clean

# PDFium marks the hyphen at the end of a line, and takes the line end off.
_HYPHEN = re.compile(r"(?<=[^\W\d_])[\x02\ufffe](?=\s*[^\W\d_])")
_PRESENTATION = re.compile("[\ufb1d-\ufdff\ufe70-\ufefc]+")  # Hebrew and Arabic as drawn, not as written
_EVERYWHERE = (-1e6, -1e6, 1e6, 1e6)  # text outside the page is text to pypdf as well; both have to read the same
_COVERED = 0.5  # of the page
_OBJECTS = 500
_DEPTH = 3


class PdfiumError(Exception):
    """PDFium cannot read this document; the message says why, on one line."""


class Pdfium:
    """One open document: ``with Pdfium(data) as second: second.text(0)``. PdfiumError where it cannot be read."""

    def __init__(self, data: bytes) -> None:
        try:
            self._document = pypdfium2.PdfDocument(data)
        except Exception as exc:
            raise PdfiumError(_said(exc)) from exc

    def __enter__(self) -> Pdfium:
        return self

    def __exit__(self, *_: object) -> None:
        self._document.close()

    def __len__(self) -> int:
        return len(self._document)

    def text(self, index: int) -> str:
        """The text of a page (0-based), stripped; "" where there is none. PdfiumError where the page cannot be read."""
        try:
            page = self._document[index]
            try:
                textpage = page.get_textpage()
                try:
                    text = textpage.get_text_bounded(*_EVERYWHERE)
                finally:
                    textpage.close()
            finally:
                page.close()
        except Exception as exc:
            raise PdfiumError(_said(exc)) from exc
        text = _HYPHEN.sub("-\n", clean(text))
        return _PRESENTATION.sub(lambda found: unicodedata.normalize("NFKC", found[0]), text).strip()

    def is_image(self, index: int) -> bool:
        """Whether one picture covers more than half of the page; False where that cannot be found out."""
        try:
            page = self._document[index]
            try:
                left, bottom, right, top = page.get_bbox()
                area = abs((right - left) * (top - bottom))
                for number, item in enumerate(page.get_objects(filter=(raw.FPDF_PAGEOBJ_IMAGE,), max_depth=_DEPTH)):
                    x1, y1, x2, y2 = item.get_bounds()
                    if number > _OBJECTS:
                        break
                    if abs((x2 - x1) * (y2 - y1)) > _COVERED * area:
                        return True
            finally:
                page.close()
        except Exception:  # a picture that cannot be measured does not spoil the text
            pass
        return False


def _said(exc: Exception) -> str:
    return " ".join(f"{type(exc).__name__}: {exc}".split())[:200]
