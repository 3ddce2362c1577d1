"""Two readings of a PDF: which is taken, what is recorded, and that garbage which both read is flagged."""

from __future__ import annotations

import csv
import string
import sys
from typing import Any

import pytest

from kbcore.errors import DocumentError
from kbcore.parsing import ParseLimits, ParserPool, pdf
from kbcore.parsing.child import parse
from kbcore.parsing.media import PDF
from kbcore.parsing.pdf_arbiter import AGREE, DISPUTED, agreement, judge, plausibility, record
from kbcore.parsing.pdfium import Pdfium, PdfiumError
from tests.support import SHARED

TEXT = "Every password is reset at the self service page and must have fourteen characters. When the page does not "
TEXT += (
    "answer, call the service desk and have your staff number ready, because nobody may change it without. Printers "
)
TEXT += (
    "on all floors work with the badge, and lost badges are blocked by the same desk within minutes after your call."
)
PRINTABLE = string.ascii_letters + string.digits + string.punctuation + " "
JAPANESE = ("会議室の予約は前日まで", "パスワードを再設定する", "印刷は各階でできます")
SCAN = b"q 612 0 0 792 0 0 cm BI /W 1 /H 1 /BPC 8 /CS /G ID x EI Q"


def pdf_of_objects(*objects: bytes) -> bytes:
    out, starts = bytearray(b"%PDF-1.4\n"), []
    for number, body in enumerate(objects, 1):
        starts.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    table = len(out)
    out += b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    out += b"".join(b"%010d 00000 n \n" % start for start in starts)
    out += b"trailer\n<< /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % (len(objects) + 1, table)
    return bytes(out)


def stream(content: bytes) -> bytes:
    return b"<< /Length %d >>\nstream\n%s\nendstream" % (len(content), content)


def with_font(font: bytes, others: list[bytes], *lines: bytes, drawn: bytes = b"") -> bytes:
    """One page in one font, object 5; ``others`` are the objects 6 and on."""
    shown = b" ".join(b"<%s> Tj T*" % line.hex().encode() for line in lines)
    return pdf_of_objects(
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Resources << /Font << /F1 5 0 R >> >> /Contents 4 0 R >>",
        stream(drawn + b" BT /F1 12 Tf 14 TL 72 700 Td " + shown + b" ET"),
        font,
        *others,
    )


def with_code_page(cmap: bytes, ordering: bytes, *lines: bytes) -> bytes:
    """A font that is not embedded, in an encoding of its language: PDFium knows all of these, pypdf some."""
    system = b"/CIDSystemInfo << /Registry (Adobe) /Ordering (%s) /Supplement 1 >>" % ordering
    return with_font(
        b"<< /Type /Font /Subtype /Type0 /BaseFont /Some /Encoding /%s /DescendantFonts [6 0 R] >>" % cmap,
        [
            b"<< /Type /Font /Subtype /CIDFontType0 /BaseFont /Some %s /FontDescriptor 7 0 R >>" % system,
            b"<< /Type /FontDescriptor /FontName /Some /Flags 4 /ItalicAngle 0 /Ascent 800 /Descent -200 "
            b"/CapHeight 700 /StemV 80 /FontBBox [0 -200 1000 800] >>",
        ],
        *lines,
    )


def with_map(mapping: dict[str, str]) -> bytes:
    """TEXT in a font whose ToUnicode map says ``mapping``."""
    pairs = b"\n".join(b"<%02X> <%s>" % (ord(a), b.encode("utf-16-be").hex().encode()) for a, b in mapping.items())
    cmap = b"begincmap 1 begincodespacerange <00> <FF> endcodespacerange %d beginbfchar\n%s\nendbfchar endcmap"
    return with_font(
        b"<< /Type /Font /Subtype /TrueType /BaseFont /Helvetica /ToUnicode 6 0 R >>",
        [stream(b"/CIDInit /ProcSet findresource begin " + cmap % (len(mapping), pairs) + b" end")],
        *(TEXT[start : start + 80].encode() for start in range(0, len(TEXT), 80)),
    )


def with_glyph_numbers() -> bytes:
    """TEXT in a font whose glyphs have the names g32, g33 ...: PDFium takes them for what they stand for."""
    names = b" ".join(b"/g%d" % code for code in range(32, 127))
    font = b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding << /Differences [32 %s] >> >>" % names
    return with_font(font, [], *(TEXT[start : start + 80].encode() for start in range(0, len(TEXT), 80)))


def read(data: bytes) -> tuple[str, dict[str, Any]]:
    answer = parse("a.pdf", PDF, data, ParseLimits())
    assert "ok" in answer, answer
    return answer["ok"]["text"], answer["ok"]["stats"]


HELVETICA = b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>"
PLAIN = with_font(HELVETICA, [], TEXT[:80].encode(), TEXT[80:160].encode())


class TestDocuments:
    def test_where_both_agree_pypdf_stays(self) -> None:
        text, stats = read(PLAIN)
        assert text.split() == TEXT[:160].split() or text.replace("\n", "") == TEXT[:160]
        assert (stats["extractor"], stats["extractor_agreement"], stats["flags"]) == ("pypdf", 1.0, [])
        assert "pdfium_pages" not in stats

    @pytest.mark.parametrize(
        ("cmap", "ordering", "lines", "encoding"),
        [
            (b"EUC-H", b"Japan1", JAPANESE, "euc_jp"),
            (b"KSCms-UHC-H", b"Korea1", ("비밀번호를 재설정하려면", "배지를 바로 정지해 주십시오"), "cp949"),
        ],
    )
    def test_garbage_of_pypdf_is_replaced_and_that_is_recorded(
        self, cmap: bytes, ordering: bytes, lines: tuple[str, ...], encoding: str
    ) -> None:
        text, stats = read(with_code_page(cmap, ordering, *(line.encode(encoding) for line in lines)))
        assert text.split("\n") == list(lines)
        assert (stats["extractor"], stats["pdfium_pages"], stats["flags"]) == ("pdfium", [1], [])
        assert stats["extractor_agreement"] < DISPUTED
        assert stats["disagreeing_pages"] == 1

    def test_glyph_names_are_replaced_by_what_they_stand_for(self) -> None:
        text, stats = read(with_glyph_numbers())
        assert text.replace("\n", "") == TEXT
        assert stats["extractor"] == "pdfium"

    @pytest.mark.parametrize(
        "mapping",
        [
            {c: chr((ord(c) - 96) % 26 + 97) if c in string.ascii_lowercase else c for c in PRINTABLE},
            {c: chr(0xF000 + ord(c)) for c in PRINTABLE},
            {c: chr(ord(c) - 29) for c in PRINTABLE},
            {c: "\ufffd" for c in PRINTABLE},
            {c: chr(0x0250 + ord(c)) for c in PRINTABLE},
        ],
        ids=["moved letters", "private use", "glyph numbers", "replacements", "phonetic signs"],
    )
    def test_a_wrong_map_that_both_believe_is_flagged(self, mapping: dict[str, str]) -> None:
        _, stats = read(with_map(mapping))
        assert stats["flags"] == ["garbled"]
        assert read(with_map({c: c for c in PRINTABLE}))[1]["flags"] == []

    def test_what_pdfium_cannot_read_keeps_the_text_of_pypdf(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def failing(second: Pdfium, index: int) -> str:
            raise PdfiumError("page is broken")

        monkeypatch.setattr(Pdfium, "text", failing)
        text, stats = read(PLAIN)
        assert text.startswith("Every password")
        assert stats["second_extractor_error"] == "page 1: page is broken"
        monkeypatch.setattr(pdf, "Pdfium", lambda data: Pdfium(b"no PDF"))
        text, stats = read(PLAIN)
        assert text.startswith("Every password")
        assert "PdfiumError" in stats["second_extractor_error"]
        assert "extractor_agreement" not in stats

    def test_a_crash_of_pdfium_costs_that_document_only(self) -> None:
        # The library itself did not crash on any of 1,095 files; a child that dies in it is one that dies at all.
        program = (
            "import os, signal, kbcore.parsing.child as child, kbcore.parsing.pdfium as pdfium\n"
            "whole = pdfium.Pdfium.__init__\n"
            "def crash(self, data):\n"
            "    if b'% crash' in data:\n"
            "        os.kill(os.getpid(), signal.SIGSEGV)\n"
            "    whole(self, data)\n"
            "pdfium.Pdfium.__init__ = crash\n"
            "child.main()\n"
        )
        with ParserPool(command=(sys.executable, "-c", program)) as pool:
            assert pool.parse("a.pdf", PLAIN).text
            with pytest.raises(DocumentError, match="SIGSEGV"):
                pool.parse("b.pdf", PLAIN + b"% crash\n")
            assert pool.parse("c.pdf", PLAIN).stats["extractor_agreement"] == 1.0

    def test_a_picture_of_a_page_with_a_stamp_has_no_text_layer(self) -> None:
        stats = read(with_font(HELVETICA, [], b"Received 12 May", drawn=SCAN))[1]
        assert (stats["image_pages"], stats["flags"]) == (1, ["no_text_layer"])
        assert read(with_font(HELVETICA, [], b"Received 12 May"))[1]["flags"] == []


class TestJudgement:
    def test_agreement_looks_past_blanks_lines_columns_direction_and_ligatures(self) -> None:
        assert agreement("a difficult office", "adiﬃcult o\nﬃce") == 1.0
        assert agreement("left column right column", "right column left column") > AGREE
        assert agreement("מחלקה", "הקלחמ") == 1.0
        assert agreement("", " ") == 1.0
        assert agreement(TEXT, "") == agreement("ab", "cd") == 0.0
        assert agreement(TEXT, "Das Kennwort wird auf der Seite zurückgesetzt, und zwar ohne Nummer.") < DISPUTED

    def test_of_two_readings_the_plausible_one_is_taken_if_it_is_not_a_scrap(self) -> None:
        garbage = "ɹɹংΘͨ͘͠ͱ͍;ݱ၊ఆ͞Εͨ༗ަػྲྀి౯ͷͻͱͭͷ੨͍র໌" * 3
        assert judge(garbage, TEXT).text == TEXT
        assert judge(TEXT, garbage).text == TEXT
        scrap = judge(garbage, "scrap")
        assert (scrap.text, scrap.from_pdfium, scrap.disputed) == (garbage, False, True)

    def test_blanks_that_are_missing_or_too_many_count_against_a_reading(self) -> None:
        assert judge("".join(TEXT.split()), TEXT).from_pdfium
        assert judge(" ".join("".join(TEXT.split())), TEXT).from_pdfium
        assert not judge(TEXT, "".join(TEXT.split())).from_pdfium

    def test_a_page_that_only_one_can_read(self) -> None:
        assert judge("", TEXT) == judge(" \n", TEXT)
        assert judge("", TEXT).from_pdfium
        assert judge("", "\x01\x02\x03\x04").text == ""
        assert (judge(TEXT, "").text, judge(TEXT, "").disputed) == (TEXT, False)

    def test_two_plausible_readings_that_share_nothing_are_disputed(self) -> None:
        other = "Printing of forms happens monthly; six quick zebras jump over lazy hogs, which vexes wizards."
        assert judge("Der Zug fährt um fünf Uhr ab, und kein Mensch weiß, wohin er will.", other).disputed
        assert not judge("short", "other").disputed

    def test_the_record_weighs_pages_by_their_length(self) -> None:
        found = record([judge(TEXT, TEXT), judge("", ""), judge("\ufffd" * 40, "x" * 40)])
        assert found["extractor"] == "pypdf and pdfium"
        assert found["pdfium_pages"] == [3]
        assert 0.8 < found["extractor_agreement"] < 0.95
        assert record([judge("", "")])["extractor_agreement"] == 1.0

    def test_plausibility_of_letters_that_are_those_of_no_language_is_halved(self) -> None:
        assert plausibility(TEXT) == 1.0
        assert plausibility("".join(chr((ord(c) - 96) % 26 + 97) if c.isalpha() else c for c in TEXT.lower())) == 0.5
        assert plausibility("") == 0.0


@pytest.mark.data
@pytest.mark.skipif(not SHARED.exists(), reason="the real data is not here")
def test_real_pdfs_are_flagged_where_the_manifest_says_so_and_nowhere_else() -> None:
    with open(SHARED / "pdf" / "MANIFEST.csv", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    seen = 0
    for row in rows:
        path = SHARED / "pdf" / row["file"].rsplit("/", 1)[-1]
        answer = parse(path.name, PDF, path.read_bytes(), ParseLimits())
        if row["expected"] == "ok":
            seen += 1
            assert answer["ok"]["stats"]["flags"] == [], path.name
        elif row["expected"] == "flag":
            assert "failed" in answer or answer["ok"]["stats"]["flags"], path.name
    assert seen > 15
