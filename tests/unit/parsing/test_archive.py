"""ZIP containers: every bound ends in a reason, before the memory is spent."""

from __future__ import annotations

import http.server
import importlib
import io
import threading
import time
import zipfile
from collections.abc import Iterator

import openpyxl
import psutil
import pytest

from kbcore.errors import DocumentError
from kbcore.parsing import ParseLimits, ParserPool, delimited, media_type_of, xlsx
from kbcore.parsing.archive import MEMBERS, OLE, Archive
from kbcore.parsing.child import MODULES
from tests.unit.parsing.containers import docx_of, epub_of, p, relations, with_false_sizes, zipped


@pytest.fixture(scope="module")
def pool() -> Iterator[ParserPool]:
    with ParserPool() as pool:
        yield pool


def refused(pool: ParserPool, name: str, data: bytes) -> str:
    with pytest.raises(DocumentError) as failure:
        pool.parse(name, data)
    return failure.value.message


def fails(name: str, data: bytes) -> str:
    """The reason, without a child: a child that reports a failure is replaced, which takes its time."""
    media_type = media_type_of(name, data)
    assert media_type is not None
    with pytest.raises(DocumentError) as failure:
        importlib.import_module(f"kbcore.parsing.{MODULES[media_type]}").parse(name, data, ParseLimits())
    return failure.value.message


def test_a_bomb_is_refused_while_it_inflates(pool: ParserPool) -> None:
    body = b"<w:p>" + b" " * 101_000_000
    bomb = docx_of("x", **{"word/document.xml": body})
    assert len(bomb) < 200_000
    before = psutil.Process().memory_info().rss
    assert "inflates to more than 100 MB" in refused(pool, "a.docx", bomb)
    assert refused(pool, "a.docx", with_false_sizes(bomb, 10))  # the size a header claims is not what counts
    assert psutil.Process().memory_info().rss - before < 50_000_000


def test_many_members_that_are_large_together_are_refused() -> None:
    archive = Archive(zipped({f"{n}.bin": b"\0" * 60_000_000 for n in range(4)}), "DOCX")
    for n in range(3):
        archive.read(f"{n}.bin")
    with pytest.raises(DocumentError, match="inflate to more than 200 MB"):
        archive.read("3.bin")


def test_a_hundred_thousand_members_are_refused_before_they_are_listed(pool: ParserPool) -> None:
    one = zipped({"xl/workbook.xml": "", "[Content_Types].xml": ""}, zipfile.ZIP_STORED)
    start = one.index(b"PK\x01\x02")
    entry = one[start : one.index(b"PK\x01\x02", start + 4)]
    end = bytearray(one[-22:])
    many = entry * 100_000
    end[12:16] = len(many).to_bytes(4, "little")
    for count in (0xFFFF, 3):  # what the record says may be false
        end[8:12] = count.to_bytes(2, "little") * 2
        data = one[:start] + many + bytes(end)
        started = time.monotonic()
        assert refused(pool, "a.xlsx", data)
        assert time.monotonic() - started < 5
    many = entry * (MEMBERS + 1)
    end[12:16] = len(many).to_bytes(4, "little")
    end[8:12] = (MEMBERS + 1).to_bytes(2, "little") * 2
    assert f"more than {MEMBERS:,} members" in refused(pool, "a.xlsx", one[:start] + many + bytes(end))


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_two_members_of_one_name_are_refused() -> None:
    data = docx_of("x", **{"word/documenu.xml": "other"}).replace(b"word/documenu.xml", b"word/document.xml")
    assert "have the same name" in fails("a.docx", data)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_a_doctype_is_refused_in_every_part(encoding: str) -> None:
    entities = "".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 10 if n else "lol"}">' for n in range(9))
    bomb = f"<!DOCTYPE x [{entities}]><x>&e8;</x>"
    for part in ("word/document.xml", "word/styles.xml", "_rels/.rels"):
        assert "DOCTYPE" in fails("a.docx", docx_of("x", **{part: bomb.encode(encoding)}))
    assert "DOCTYPE" in fails("a.epub", epub_of({}, **{"META-INF/container.xml": bomb.encode(encoding)}))


def test_nothing_outside_is_fetched(pool: ParserPool) -> None:
    hits: list[str] = []

    class Canary(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            hits.append(self.path)
            self.send_error(404)

        do_HEAD = do_POST = do_GET

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Canary) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}/x"
        picture = (
            '<w:p><w:r><w:drawing><wp:inline><a:graphic><a:graphicData><pic:pic><pic:blipFill><a:blip r:link="rId1"/>'
            "</pic:blipFill></pic:pic></a:graphicData></a:graphic></wp:inline></w:drawing></w:r></w:p>"
        )
        outside = relations(*[(k, url) for k in ("image", "attachedTemplate", "hyperlink", "styles")], mode="External")
        linked = '<w:p><w:hyperlink r:id="rId3"><w:r><w:t>a link</w:t></w:r></w:hyperlink></w:p>'
        parsed = pool.parse("a.docx", docx_of(picture + linked, document_relations=outside))
        assert parsed.text == "a link"
        page = f'<p>words</p><img src="{url}"/><link rel="stylesheet" href="{url}"/><object data="{url}"/>'
        include = f'<xi:include xmlns:xi="http://www.w3.org/2001/XInclude" href="{url}"/>'
        assert pool.parse("a.epub", epub_of({"a.xhtml": page + include, url: "x"})).text.endswith("\n\nwords")
        workbook = zipped(
            {
                "[Content_Types].xml": "<Types/>",
                "_rels/.rels": relations(("officeDocument", url), mode="External"),
                "xl/workbook.xml": "<x/>",
            }
        )
        assert refused(pool, "a.xlsx", workbook)
        server.shutdown()
    assert hits == []


def test_old_and_locked_files_say_what_to_do() -> None:
    old = OLE + b"\0" * 600
    locked = old + "EncryptedPackage".encode("utf-16-le") + b"\0" * 100
    for name in ("a.doc", "a.docx", "a.xls", "a.ppt"):
        assert "save it as" in fails(name, old)
    for name in ("a.docx", "a.xlsx", "a.pptx"):
        assert "needs a password" in fails(name, locked)


def test_damage_has_a_reason() -> None:
    whole = docx_of(p("words"))
    for data in (whole[:200], whole[:-30], b"", b"no zip", b"PK\x05\x06" + b"\0" * 18, zipped({"a.txt": "x"})):
        for name in ("a.docx", "a.pptx", "a.xlsx", "a.epub"):
            reason = fails(name, data)
            assert reason
            assert "\n" not in reason
            assert len(reason) < 400
    encrypted = bytearray(whole)
    at = -1
    while (at := encrypted.find(b"PK\x01\x02", at + 1)) >= 0:
        encrypted[at + 8] |= 1
    assert "encrypted" in fails("a.docx", bytes(encrypted))


def rebuilt(data: bytes, part: str, body: str) -> bytes:
    with zipfile.ZipFile(io.BytesIO(data)) as source:
        return zipped({**{name: source.read(name) for name in source.namelist()}, part: body})


def test_sheets_that_claim_more_than_there_can_be_end() -> None:
    workbook = openpyxl.Workbook()
    workbook.active.append(["a", "b"])
    out = io.BytesIO()
    workbook.save(out)
    space = 'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'
    sheet = f'<worksheet {space}><dimension ref="A1:XFD1048576"/><sheetData>{{}}</sheetData>{{}}</worksheet>'
    far = sheet.format('<row r="99999999999"><c r="A99999999999" t="inlineStr"><is><t>x</t></is></c></row>', "")
    started = time.monotonic()
    assert "more than 1,000,000 cells" in fails("a.xlsx", rebuilt(out.getvalue(), "xl/worksheets/sheet1.xml", far))
    cell = '<row r="1"><c r="A1" t="inlineStr"><is><t>x</t></is></c></row>'
    merged = sheet.format(cell, '<mergeCells><mergeCell ref="A1:XFD1048576"/></mergeCells>')
    data = rebuilt(out.getvalue(), "xl/worksheets/sheet1.xml", merged)
    assert xlsx.parse("a.xlsx", data, ParseLimits()).text == "# Sheet\n\nx"
    assert time.monotonic() - started < 10


def test_xml_nested_too_deeply_is_refused() -> None:
    assert "not readable XML" in fails("a.docx", docx_of("<w:sdt>" * 500 + "</w:sdt>" * 500))


@pytest.mark.parametrize("line", ["a,'b\"", "\"'" * 9, ",,;;||", "x" * 50], ids=["quotes", "many", "marks", "none"])
def test_odd_delimited_text_costs_in_proportion_to_its_length(line: str) -> None:
    started = time.process_time()
    assert delimited.parse("a.csv", ("word;" + line + "\n").encode() * 20_000, ParseLimits()).text
    assert time.process_time() - started < 5
