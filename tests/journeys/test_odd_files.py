"""Real odd files in one source: the run ends, and each is indexed or listed with its reason."""

from __future__ import annotations

import csv
import json
import shutil
import time
import unicodedata
import zipfile
from pathlib import Path
from xml.etree import ElementTree

import pytest

from kbcore.ingest.refresh import RefreshReport
from kbcore.knowledge_base import KnowledgeBase
from tests.support import SHARED, knowledge_base, refreshed, write

W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
WORD_FILES = (
    ("simple.docx", "# These are a few of my favorite things:", "Parrots", "Hockey", "DOYLESTOWN"),
    ("docx-tables.docx", "| Header Col 1 | Header Col 2 |", "A link example", "| e | f |", ">b<", "g&t"),
    ("docx-hdrftr.docx", "Main document"),
    ("duplicate-paragraphs.docx", "# This document contains duplicates"),
    ("category-level.docx", "# A Heading 1", "## A Heading 2", "- A top level list item", "# Another Heading 1"),
    ("tables-with-incomplete-rows.docx", "one or more rows is missing cells", "| b | c | d |", "WTF?"),
    ("unicode.docx", "Hello, 世界. This costs €10."),
    ("track_changes_deletion.docx", "deletion"),
)

needs_data = pytest.mark.skipif(not SHARED.exists(), reason="the real data is not here")


class Odd:
    def __init__(self, root: Path) -> None:
        docs = root / "docs"
        docs.mkdir()
        shutil.copytree(SHARED / "pdf", docs / "pdf")
        shutil.copytree(SHARED / "odd", docs / "odd")
        self.listed = sorted(p.relative_to(docs).as_posix() for p in docs.rglob("*") if p.is_file())
        self.base: KnowledgeBase = knowledge_base(root, {})
        self.report: RefreshReport = refreshed(self.base)
        self.texts: dict[str, str] = {}
        manifest = self.base.repository.manifest("r000001")
        for segment in self.base.repository.segments(manifest):
            for row in segment.documents(["uri", "text"]).to_pylist():
                self.texts[row["uri"]] = row["text"]
        self.reasons = {f["uri"]: f["reason"] for f in self.report.failures}
        self.skipped = {s["doc_id"].removeprefix("docs:"): s["reason"] for s in self.report.skipped}

    def text(self, name: str) -> str:
        return self.texts[f"odd/{name}"]


@pytest.fixture(scope="module")
def odd(tmp_path_factory: pytest.TempPathFactory) -> Odd:
    return Odd(tmp_path_factory.mktemp("odd"))


def squeezed(text: str) -> str:
    return "".join(unicodedata.normalize("NFKC", text).split())


@needs_data
@pytest.mark.data
class TestRealFiles:
    def test_each_file_is_indexed_or_listed_with_its_reason(self, odd: Odd) -> None:
        accounted = {**dict.fromkeys(odd.texts, "indexed"), **odd.reasons, **odd.skipped}
        assert sorted(accounted) == odd.listed
        assert all(accounted.values())
        assert len(odd.texts) + len(odd.reasons) + len(odd.skipped) == len(odd.listed)

    def test_each_pdf_comes_to_what_its_manifest_says(self, odd: Odd) -> None:
        with open(SHARED / "pdf" / "MANIFEST.csv", encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
        assert len(rows) > 20
        for row in rows:
            name = "pdf/" + row["file"].rsplit("/", 1)[-1]
            must = row["must_contain(NFKC,no-space)"]
            expected = row["expected"]
            if expected == "ok":
                assert name in odd.texts, (name, odd.reasons.get(name), odd.skipped.get(name))
                assert squeezed(must) in squeezed(odd.texts[name]), name
            elif expected == "needs_password":
                assert "password" in odd.reasons[name]
            elif expected == "empty_text":
                assert "OCR" in odd.reasons[name]
            elif expected == "error":
                assert odd.reasons.get(name) or odd.skipped.get(name), name

    def test_encodings_are_read_right(self, odd: Odd) -> None:
        words = odd.text("txt/fake-text.txt").split()
        assert odd.text("txt/fake-text-utf-16.txt").split() == words
        assert (
            "odd/txt/fake-text-utf-16-le.txt" in odd.reasons or odd.text("txt/fake-text-utf-16-le.txt").split() == words
        )
        assert odd.text("md/umlauts-non-utf8.md").split() == odd.text("md/umlauts-utf8.md").split()
        assert all(
            "\0" not in text and "\ufffd" not in text for name, text in odd.texts.items() if name.startswith("odd/")
        )
        assert "schöne" in odd.text("html/fake-html-cp1252.html")
        assert "4,25 €" in odd.text("html/fake-html-cp1252.html")

    def test_pages_give_their_text_and_no_scripts_or_images(self, odd: Odd) -> None:
        scripts = odd.text("html/example-with-scripts.html")
        assert "function(" not in scripts
        assert "{color:" not in scripts.replace(" ", "")
        assert "base64" not in odd.text("html/fake-html-with-base64-image.html")
        assert (
            "Large language models (LLMs) are powerful tools that can generate natural language texts for various applications"
            in " ".join(odd.text("html/test_blog.html").split())
        )
        assert "html/not-html.html" not in odd.texts

    def test_front_matter_and_fences_are_structure(self, odd: Odd) -> None:
        assert not odd.text("md/bom-frontmatter-crlf.md").startswith(("---", "\ufeff"))
        assert odd.text("md/frontmatter-not-closed.md").strip()
        manifest = odd.base.repository.manifest("r000001")
        for segment in odd.base.repository.segments(manifest):
            for row in segment.documents(["uri", "headings"]).to_pylist():
                if row["uri"] == "odd/md/fence-with-heading.md":
                    assert [h[2] for h in json.loads(row["headings"])] == ["Real", "Also real"]

    def test_word_files_give_their_text_and_no_deleted_words(self, odd: Odd) -> None:
        for name, *must in WORD_FILES:
            text = odd.text(f"docx/{name}")
            assert all(words in text for words in must), name
        assert odd.text("docx/track_changes_deletion.docx") == "This is a text with a deletion."
        assert "header" not in odd.text("docx/docx-hdrftr.docx").lower()
        assert odd.text("docx/duplicate-paragraphs.docx").count("some text") == 6

    def test_each_word_of_a_word_file_is_in_its_text(self, odd: Odd) -> None:
        files = sorted((SHARED / "odd" / "docx").glob("*.docx"))
        assert len(files) >= 8
        for file in files:
            with zipfile.ZipFile(file) as container:
                root = ElementTree.fromstring(container.read("word/document.xml"))
            pieces = [squeezed(element.text or "") for element in root.iter(f"{W}t")]
            text = squeezed(odd.text(f"docx/{file.name}"))
            assert [piece for piece in pieces if piece not in text] == [], file.name

    def test_rows_of_a_csv_file_name_their_columns(self, odd: Odd) -> None:
        lines = odd.text("csv/stanley-cups-with-emoji.csv").splitlines()
        assert lines[:2] == ["Stanley Cups", "Team: Blues; Location: STL; Stanley Cups: 1"]
        assert lines[-1].startswith("Team: \U0001f468")

    def test_an_empty_file_is_skipped_and_equal_headings_have_ids_of_their_own(self, odd: Odd) -> None:
        assert "odd/txt/empty.txt" in odd.skipped
        hits = odd.base.retriever().search("same heading", 50, mode="keyword").hits
        ids = [hit.chunk_id for hit in hits]
        assert len(ids) == len(set(ids))


def test_five_hostile_documents_among_five_thousand_cost_five_documents(tmp_path: Path) -> None:
    documents: dict[str, str | bytes] = {
        f"{n % 50:02}/{n:04}.md": f"# Page {n}\n\nSmall page {n}.\n" for n in range(5000)
    }
    hostile: dict[str, str | bytes] = {
        "broken.pdf": b"%PDF-1.7\n" + b"\0" * 500,
        "cut.pdf": b"%PDF-1.4\n1 0 obj\n<< /Type /Catalog /Pages 2 0 R >>\nendobj\n2 0 obj\n<< /Type /Pages /Kids [2 0",
        "binary.txt": bytes(range(256)) * 40,
        "wide.html": b"<html><body>" + b"<div>" * 300_000,
        "not.pdf": b"this is no PDF",
    }
    base = knowledge_base(tmp_path, documents)
    write(tmp_path / "docs", hostile)
    started = time.monotonic()
    report = refreshed(base)
    seconds = time.monotonic() - started
    listed = {f["uri"] for f in report.failures} | {s["doc_id"].removeprefix("docs:") for s in report.skipped}
    assert listed <= set(hostile)
    assert report.changes["added"] == 5005 - len(listed)
    assert {"broken.pdf", "cut.pdf", "not.pdf"} <= listed
    assert seconds < 120
    again = refreshed(base)
    assert (again.outcome, again.texts_embedded) == ("unchanged", 0)
    assert {f["uri"]: f["since"] for f in again.failures} == {f["uri"]: f["since"] for f in report.failures}
