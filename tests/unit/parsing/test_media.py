"""Which parser reads a file."""

from __future__ import annotations

import subprocess
import sys

import pytest

from kbcore.parsing import media_type_of, parser_id_for
from kbcore.parsing.media import DOCX, EPUB, PPTX, XLSX, stem_of
from tests.unit.parsing.containers import docx_of, epub_of, zipped


@pytest.mark.parametrize(
    ("name", "media_type"),
    [
        ("a.md", "text/markdown"),
        ("dir.d/A.MARKDOWN", "text/markdown"),
        ("a.html", "text/html"),
        ("a.htm", "text/html"),
        ("a.xhtml", "text/html"),
        ("a.txt", "text/plain"),
        ("a.text", "text/plain"),
        ("a.log", "text/plain"),
        ("a.rst", "text/plain"),
        ("a.pdf", "application/pdf"),
        ("a.csv", "text/csv"),
        ("a.tsv", "text/csv"),
        ("a.docx", DOCX),
        ("a.docm", DOCX),
        ("a.pptx", PPTX),
        ("a.xlsx", XLSX),
        ("a.epub", EPUB),
        ("a.doc", None),
        ("a.zip", None),
        ("README", None),
        (".md", None),
        ("https://example.org/guide.html?version=2#top", "text/html"),
    ],
)
def test_the_ending_names_the_kind(name: str, media_type: str | None) -> None:
    assert media_type_of(name, b"Some words") == media_type


def test_content_corrects_the_name() -> None:
    assert media_type_of("page.html", b"%PDF-1.4\n") == "application/pdf"
    assert media_type_of("data.csv", b"\xef\xbb\xbf\n%PDF-1.7") == "application/pdf"
    assert media_type_of("https://example.org/help", b"\n<!DOCTYPE html><html>") == "text/html"


def test_containers_are_told_apart_by_what_they_hold() -> None:
    book = epub_of({"a.xhtml": "x"})
    for name in ("a", "a.zip", "a.docx", "a.xlsx", "a.md"):
        assert media_type_of(name, docx_of("x", **{"word/embeddings/xl/workbook.xml": "x"})) == DOCX
        assert media_type_of(name, zipped({"[Content_Types].xml": "x", "xl/workbook.xml": "x"})) == XLSX
        assert media_type_of(name, zipped({"ppt/presentation.xml": "x"})) == PPTX
        assert media_type_of(name, book) == EPUB
    two = zipped({"word/document.xml": "x", "xl/workbook.xml": "x"})
    assert [media_type_of(name, two) for name in ("a.docx", "a.xlsx", "a")] == [DOCX, XLSX, DOCX]
    assert media_type_of("a.zip", zipped({"a.txt": "x"})) is None
    assert media_type_of("a.docx", zipped({"a.txt": "x"})) == DOCX  # and fails there
    assert media_type_of("a.docx", book[:100]) == EPUB
    assert media_type_of("a.zip", two[:-10]) is None


def test_old_office_files_get_the_parser_that_says_what_to_do() -> None:
    old = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"\0" * 600
    assert [media_type_of(name, old) for name in ("a.doc", "a.docx", "a.xls", "a.ppt")] == [DOCX, DOCX, XLSX, PPTX]
    assert media_type_of("a.msg", old) is None
    assert media_type_of("a.doc", b"{\\rtf1") is None


def test_an_error_page_saved_as_pdf_stays_a_pdf_so_that_it_fails() -> None:
    assert media_type_of("report.pdf", b"<!DOCTYPE html><html>Please sign in") == "application/pdf"


def test_parser_ids_name_format_and_version_only() -> None:
    ids = [parser_id_for(kind) for kind in ("text/markdown", "text/html", "text/plain", "application/pdf")]
    assert [name.rpartition("-")[0] for name in ids] == ["markdown", "html", "text", "pdf"]
    assert all(name.rpartition("-")[2].isdigit() for name in ids)
    office = [parser_id_for(kind) for kind in (DOCX, PPTX, XLSX, "text/csv", EPUB)]
    assert office == ["docx-2", "pptx-2", "xlsx-3", "csv-2", "epub-2"]
    with pytest.raises(KeyError):
        parser_id_for("text/rtf")


def test_the_stem_is_the_name_without_its_ending() -> None:
    assert stem_of("a/b.c/My page.v2.md") == "My page.v2"
    assert stem_of("https://example.org/guide/setup.html?x=1") == "setup"
    assert stem_of("https://example.org/guide/") == "guide"


def test_importing_the_package_imports_no_parser_library() -> None:
    heavy = ("lxml", "trafilatura", "pypdf", "pypdfium2", "regex", "bs4", "markdownify", "yaml", "charset_normalizer")
    heavy += ("mammoth", "openpyxl", "pptx")
    program = f"import sys, kbcore.parsing as p; p.ParserPool; print([m for m in {heavy!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
