"""Which parser reads a file."""

from __future__ import annotations

import subprocess
import sys

import pytest

from kbcore.parsing import media_type_of, parser_id_for
from kbcore.parsing.media import stem_of


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
        ("a.docx", None),
        ("a.csv", None),
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


def test_an_error_page_saved_as_pdf_stays_a_pdf_so_that_it_fails() -> None:
    assert media_type_of("report.pdf", b"<!DOCTYPE html><html>Please sign in") == "application/pdf"


def test_parser_ids_name_format_and_version_only() -> None:
    ids = [parser_id_for(kind) for kind in ("text/markdown", "text/html", "text/plain", "application/pdf")]
    assert [name.rpartition("-")[0] for name in ids] == ["markdown", "html", "text", "pdf"]
    assert all(name.rpartition("-")[2].isdigit() for name in ids)
    with pytest.raises(KeyError):
        parser_id_for("text/csv")


def test_the_stem_is_the_name_without_its_ending() -> None:
    assert stem_of("a/b.c/My page.v2.md") == "My page.v2"
    assert stem_of("https://example.org/guide/setup.html?x=1") == "setup"
    assert stem_of("https://example.org/guide/") == "guide"


def test_importing_the_package_imports_no_parser_library() -> None:
    heavy = ("lxml", "trafilatura", "pypdf", "pypdfium2", "regex", "bs4", "markdownify", "yaml", "charset_normalizer")
    program = f"import sys, kbcore.parsing as p; p.ParserPool; print([m for m in {heavy!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
