"""PDF: pages kept, and a reason for every file that gives no text."""

from __future__ import annotations

import io
import zlib

import pytest
from pypdf import PageObject, PdfReader, PdfWriter

from kbcore.errors import DocumentError
from kbcore.parsing import ParseLimits
from kbcore.parsing.pdf import parse
from kbcore.parsing.pdfium import Pdfium
from kbcore.parsing.quality import figures


def pdf_of(*pages: str, stream: bytes | None = None) -> bytes:
    """A PDF written by hand: one page per text ("" has no text layer), or every page with the content ``stream``."""
    objects = [b"<< /Type /Catalog /Pages 2 0 R >>", b"", b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>"]
    kids = []
    for text in pages:
        content = stream if stream is not None else f"BT /F1 12 Tf 72 700 Td ({text}) Tj ET".encode() if text else b""
        objects.append(b"<< /Length %d >>\nstream\n%s\nendstream" % (len(content), content))
        objects.append(
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Resources << /Font << /F1 3 0 R >> >> "
            b"/Contents %d 0 R >>" % len(objects)
        )
        kids.append(b"%d 0 R" % len(objects))
    objects[1] = b"<< /Type /Pages /Kids [%s] /Count %d >>" % (b" ".join(kids), len(kids))
    out, starts = bytearray(b"%PDF-1.4\n"), []
    for number, body in enumerate(objects, 1):
        starts.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    table = len(out)
    out += b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    out += b"".join(b"%010d 00000 n \n" % start for start in starts)
    out += b"trailer\n<< /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % (len(objects) + 1, table)
    return bytes(out)


def written(data: bytes, *, password: str | None = None, owner: str | None = None, **information: str) -> bytes:
    """The same PDF as pypdf writes it, encrypted or with document information."""
    writer = PdfWriter()
    writer.append(PdfReader(io.BytesIO(data)))
    writer.add_metadata({f"/{name.title()}": value for name, value in information.items()})
    if password is not None:
        writer.encrypt(password, owner, algorithm="AES-256")
    out = io.BytesIO()
    writer.write(out)
    return out.getvalue()


def refused(data: bytes, limits: ParseLimits | None = None) -> str:
    with pytest.raises(DocumentError) as failure:
        parse("a.pdf", data, limits or ParseLimits())
    return failure.value.message


def test_pages_begin_where_the_offsets_say() -> None:
    parsed = parse("dir/My report.pdf", pdf_of("First page", "", "Third page"), ParseLimits())
    assert parsed.text == "First page\n\n\n\nThird page"
    assert parsed.pages == (0, 12, 14)
    assert parsed.text[parsed.pages[2] :] == "Third page"
    assert parsed.title == "My report"
    stats = figures(parsed)
    assert (stats["pages"], stats["empty_pages"]) == (3, 1)
    assert parsed.stats["characters"] == len(parsed.text)


def test_title_and_author_come_from_the_information_unless_a_program_put_them_there() -> None:
    parsed = parse("a.pdf", written(pdf_of("Words"), title="Travel  rules", author="(anonymous)"), ParseLimits())
    assert (parsed.title, dict(parsed.metadata)) == ("Travel rules", {})
    assert parse("a.pdf", written(pdf_of("Words"), title="Microsoft Word - x.doc"), ParseLimits()).title == "a"


def test_an_encrypted_file_opens_with_the_empty_password_only() -> None:
    assert refused(written(pdf_of("Secret"), password="pass")) == "needs a password"
    assert parse("a.pdf", written(pdf_of("Open"), password="", owner="boss"), ParseLimits()).text == "Open"


def test_no_text_layer_asks_for_ocr() -> None:
    assert refused(pdf_of("", "")) == "no text layer: needs OCR"


def test_mostly_empty_pages_are_flagged() -> None:
    stats = figures(parse("a.pdf", pdf_of("Words", "", ""), ParseLimits()))
    assert (stats["flag"], stats["flags"]) == ("2 of 3 pages have no text layer", ["mostly_empty_pages"])


def test_more_pages_than_the_limit_are_refused() -> None:
    assert "3 pages, more than the limit of 2" in refused(pdf_of("a", "b", "c"), ParseLimits(pages=2))


def test_a_page_that_raises_is_read_by_the_second_reader_or_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = PageObject.extract_text

    def failing(page: PageObject, *args: object, **options: object) -> str:
        text = whole(page)
        if "bad" in text:
            raise KeyError("/Broken\nfont")
        return text

    monkeypatch.setattr(PageObject, "extract_text", failing)
    parsed = parse("a.pdf", pdf_of("good", "bad", "good"), ParseLimits())
    assert (parsed.text, parsed.stats["pdfium_pages"]) == ("good\n\nbad\n\ngood", [2])
    assert "failed_pages" not in parsed.stats
    monkeypatch.setattr(Pdfium, "text", lambda second, index: "")
    stats = parse("a.pdf", pdf_of("good", "bad", "good"), ParseLimits()).stats
    assert (stats["failed_pages"], stats["failed_page_count"]) == ([2], 1)
    assert stats["failed_page_reason"].startswith("KeyError")
    assert refused(pdf_of("bad", "bad")).startswith("no page could be read: KeyError")
    assert "1 of 2 pages could not be read" in refused(pdf_of("bad", ""))


@pytest.mark.parametrize(
    "data",
    [b"", b"no PDF at all", b"%PDF-1.4\n%\xe2\xe3", pdf_of("Words")[:150], b"%PDF-1.7\n" + b"\0" * 500],
    ids=["empty", "other", "head", "cut", "nuls"],
)
def test_damage_ends_with_a_short_reason(data: bytes) -> None:
    reason = refused(data)
    assert 0 < len(reason) < 300
    assert "\n" not in reason


def test_a_cycle_in_the_page_tree_ends() -> None:
    assert refused(pdf_of("x").replace(b"/Kids [5 0 R]", b"/Kids [2 0 R]"))


def test_an_inflation_bomb_ends_with_a_reason_or_without_its_text() -> None:
    bomb = zlib.compress(zlib.compress(b"BT (x) Tj ET " * 10_000_000, 9), 9)
    data = pdf_of("x", stream=bomb).replace(b"<< /Length", b"<< /Filter [/FlateDecode /FlateDecode] /Length")
    assert refused(data)
