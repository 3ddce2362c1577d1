"""Five hundred malformed documents, made of good ones of every format: each is indexed or listed, and nothing lingers."""

from __future__ import annotations

import random
import time
import zipfile
from collections import Counter
from io import BytesIO
from pathlib import Path

import psutil
import pytest

from tests.support import ROOT, SHARED, knowledge_base, refreshed

COUNT = 500
SUFFIXES = (".md", ".html", ".txt", ".pdf", ".docx", ".pptx", ".xlsx", ".csv", ".epub")


def good_documents() -> dict[str, list[bytes]]:
    """Whole documents by ending: the demo's, those that libraries write, and the shared ones where they are."""
    from openpyxl import Workbook
    from pptx import Presentation

    found: dict[str, list[bytes]] = {suffix: [] for suffix in SUFFIXES}
    for folder in (ROOT / "config" / "demo" / "handbook", SHARED / "pdf", SHARED / "odd"):
        for path in sorted(folder.rglob("*")):
            if path.suffix in found and path.is_file() and path.stat().st_size < 500_000:
                found[path.suffix].append(path.read_bytes())
    book = Workbook()
    for row in range(30):
        book.active.append([f"name {row}", row, row / 7])
    slides = Presentation()
    for number in range(4):
        slide = slides.slides.add_slide(slides.slide_layouts[1])
        slide.shapes.title.text = f"Slide {number}"
        slide.placeholders[1].text = "Some words\nand more of them"
    for suffix, document in ((".xlsx", book), (".pptx", slides)):
        out = BytesIO()
        document.save(out)
        found[suffix].append(out.getvalue())
    found[".csv"].append("".join(f"{n};name {n};{n * 7 % 13}\n" for n in range(200)).encode())
    found[".epub"].append(zipped({
        "mimetype": "application/epub+zip",
        "META-INF/container.xml": '<container><rootfiles><rootfile full-path="a.opf"/></rootfiles></container>',
        "a.opf": '<package><manifest><item id="c" href="c.xhtml" media-type="application/xhtml+xml"/></manifest>'
                 '<spine><itemref idref="c"/></spine></package>',
        "c.xhtml": "<html><body><h1>Chapter</h1><p>Some words of a chapter.</p></body></html>",
    }))  # fmt: skip
    found[".docx"].append(zipped({
        "[Content_Types].xml": "<Types/>",
        "word/document.xml": '<w:document xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"><w:body>'
                             "<w:p><w:r><w:t>Some words of a letter.</w:t></w:r></w:p></w:body></w:document>",
    }))  # fmt: skip
    return found


def zipped(members: dict[str, str]) -> bytes:
    out = BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in members.items():
            archive.writestr(name, text)
    return out.getvalue()


def mutant(good: bytes, chance: random.Random) -> bytes:
    data = bytearray(good)
    for _ in range(chance.randrange(1, 6)):
        if not data:
            break
        at = chance.randrange(len(data))
        kind = chance.randrange(6)
        if kind == 0:
            data[at] ^= 1 << chance.randrange(8)
        elif kind == 1:
            del data[at:]
        elif kind == 2:
            del data[at : at + chance.randrange(1, 400)]
        elif kind == 3:
            data[at:at] = chance.randbytes(chance.randrange(1, 400))
        elif kind == 4:
            data[at:at] = data[at : at + chance.randrange(1, 2000)] * chance.randrange(1, 20)
        else:
            data[at : at + 4] = b"\xff\xff\xff\x7f"
    return bytes(data)


@pytest.mark.long
def test_each_of_five_hundred_malformed_documents_is_indexed_or_listed(tmp_path: Path) -> None:
    chance = random.Random(20261130)
    good = good_documents()
    assert all(good.values())
    documents: dict[str, str | bytes] = {}
    for number in range(COUNT):
        suffix = SUFFIXES[number % len(SUFFIXES)]
        documents[f"{suffix[1:]}/{number:03}{suffix}"] = mutant(chance.choice(good[suffix]), chance)
    base = knowledge_base(tmp_path, documents, limits={"parse_seconds": 20.0})
    process = psutil.Process()
    before, started = process.memory_info().rss, time.monotonic()
    longest, last = 0.0, started

    def progress(stage: str, done: int, total: int) -> None:
        nonlocal longest, last
        now = time.monotonic()
        longest, last = max(longest, now - last), now

    report = refreshed(base, accept_failures=True, progress=progress)
    seconds = time.monotonic() - started
    grown = (process.memory_info().rss - before) / 1e6
    reasons = Counter(failure["reason"].split(":")[0][:60] for failure in report.failures)
    print(
        f"\n{COUNT} mutants in {seconds:.0f} s, the longest step {longest:.1f} s; {report.changes['added']} indexed, "
        f"{len(report.failures)} failed, {len(report.skipped)} skipped, {len(report.flagged)} doubtful; "
        f"the parent grew by {grown:.0f} MB\n{reasons.most_common(12)}"
    )
    listed = {failure["uri"] for failure in report.failures} | {
        entry["doc_id"].split(":", 1)[1] for entry in report.skipped
    }
    assert report.changes["added"] + len(listed) == COUNT
    assert all(failure["reason"] for failure in report.failures)
    assert longest < 2 * 20.0 + 10  # a document is tried twice at most
    assert grown < 200
    assert not [
        child for child in process.children(recursive=True) if "kbcore.parsing.child" in " ".join(child.cmdline())
    ]
