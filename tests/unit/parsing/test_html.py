"""HTML: the words a reader sees in the middle of the page, with their structure."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from kbcore.errors import DocumentError, SkippedDocumentError
from kbcore.parsing import ParseLimits
from kbcore.parsing.html import parse
from kbcore.types import Parsed

PROSE = "A password is reset at the self-service page and must have fourteen characters. " * 6
LINKS = "".join(f"<li><a href='/a{n}'>Menu entry number {n}</a></li>" for n in range(30))


def read(body: str, head: str = "") -> Parsed:
    return parse("docs/page.html", f"<html><head>{head}</head><body>{body}</body></html>".encode(), ParseLimits())


def test_scripts_styles_navigation_and_hidden_parts_are_left_out() -> None:
    parsed = read(
        f"<header>Site name</header><nav><ul>{LINKS}</ul></nav><script>var evil = 1</script><style>p{{color:red}}</style>"
        f"<main><h1>Passwords</h1><p>{PROSE}</p><p hidden>hidden one</p><p style='display: none'>hidden two</p>"
        "<template>hidden three</template><noscript>hidden four</noscript><!-- hidden five --></main>"
        "<aside>Subscribe now</aside><div role='contentinfo'>Imprint</div><footer>Footer words</footer>"
    )
    assert "fourteen characters" in parsed.text
    for unwanted in ("Site name", "Menu entry", "evil", "color", "hidden", "Subscribe", "Imprint", "Footer"):
        assert unwanted not in parsed.text


def test_headings_code_lists_and_tables_survive_as_structure() -> None:
    parsed = read(
        f"<article><header><h1>Install<a href='#i'>¶</a></h1></header><p>{PROSE}</p><h2>On <code>Linux</code></h2>"
        f"<pre><code># no heading\nkb_run --all *.md</code></pre><ul><li>First</li><li>Second</li></ul>"
        f"<table><tr><th>A</th><th>B</th></tr><tr><td>snake_case</td><td>4 &lt; 5</td></tr></table></article>"
    )
    assert [(h.level, h.text) for h in parsed.headings] == [(1, "Install"), (2, "On Linux")]
    assert all(parsed.text[h.offset] == "#" for h in parsed.headings)
    assert "```\n# no heading\nkb_run --all *.md\n```" in parsed.text
    assert "- First\n- Second" in parsed.text
    assert "| snake_case | 4 < 5 |" in parsed.text


def test_identifiers_are_not_laced_with_backslashes() -> None:
    assert "set MAX_FILE_SIZE to 4 * 2 [MB]" in read(f"<p>{PROSE}</p><p>set MAX_FILE_SIZE to 4 * 2 [MB]</p>").text


def test_a_short_page_keeps_its_heading_and_text() -> None:
    parsed = read("<h1>My First Heading</h1><p>My first paragraph.</p>")
    assert parsed.text == "# My First Heading\n\nMy first paragraph."
    assert parsed.stats["extractor"] == "whole page"


def test_lists_of_links_do_not_come_back_with_the_whole_page() -> None:
    parsed = read(f"<div class='box'><h3>Topics</h3><ul>{LINKS}</ul></div><h1>Title</h1><p>Short text.</p>")
    assert "Short text." in parsed.text
    assert "Menu entry" not in parsed.text


def test_an_index_page_keeps_its_links_as_text() -> None:
    parsed = read(f"<h1>All articles</h1><p>Choose one.</p><ul>{LINKS}</ul>")
    assert "Menu entry number 29" in parsed.text
    assert "/a29" not in parsed.text


def test_images_leave_no_base64() -> None:
    parsed = read(f"<p>Words <img alt='x' src='data:image/png;base64,{'iVBOR' * 99}'> and more.</p>")
    assert "base64" not in parsed.text
    assert "iVBOR" not in parsed.text


def test_the_title_is_that_of_the_page_then_of_its_first_heading_then_of_its_file() -> None:
    og = "<meta property='og:title' content='From og'>"
    assert read("<h1>H</h1><p>x y</p>", f"<title> From\n title </title>{og}").title == "From title"
    assert read("<h1>H</h1><p>x y</p>", og).title == "From og"
    assert read("<h2>B</h2><h1>H</h1><p>x y</p>").title == "H"
    assert read("<p>x y</p>").title == "page"


@pytest.mark.parametrize(
    ("declaration", "encoding"),
    [
        ("<meta charset='windows-1252'>", "cp1252"),
        ("<meta http-equiv='Content-Type' content='text/html; charset=ISO-8859-1'>", "cp1252"),
        ("<meta charset=shift_jis>", "cp932"),
        ("<meta charset='utf-16'>", "utf-8"),
        ("<meta charset='no-such'>", "utf-8"),
        ("", "utf-8"),
    ],
)
def test_the_declared_encoding_is_used(declaration: str, encoding: str) -> None:
    words = "パスワードの再設定" if encoding == "cp932" else "“Größe” – 5 ¥" if encoding == "cp1252" else "Größe → パス"
    page = f"<html><head>{declaration}</head><body><p>{words}</p></body></html>".encode(encoding)
    assert words in parse("a.html", page, ParseLimits()).text


def test_an_xml_declaration_and_a_byte_order_mark_count() -> None:
    xhtml = "<?xml version='1.0' encoding='iso-8859-1'?><html><body><p>Köln</p></body></html>".encode("latin-1")
    assert parse("a.xhtml", xhtml, ParseLimits()).text == "Köln"
    marked = "<meta charset='cp1252'><p>Köln</p>".encode("utf-16")
    assert parse("a.html", marked, ParseLimits()).text == "Köln"


def test_blank_is_skipped_and_a_page_without_text_is_a_failure() -> None:
    with pytest.raises(SkippedDocumentError):
        parse("a.html", b" \n", ParseLimits())
    for page in (
        b"<html><body><div id='app'></div><script>go()</script></body></html>",
        b"<!-- only -->",
        b"<br>" * 99,
    ):
        with pytest.raises(DocumentError, match="no text in the page") as failure:
            parse("a.html", page, ParseLimits())
        assert not isinstance(failure.value, SkippedDocumentError)


@pytest.mark.parametrize("page", ["<div>" * 5000 + "deep", f"<p>start</p><p title='{'a' * 11_000_000}'>end</p>"])
def test_a_page_that_cannot_be_read_to_its_end_is_a_failure_not_half_a_page(page: str) -> None:
    with pytest.raises(DocumentError, match="cannot be read to its end"):
        read(page)


@pytest.fixture
def canary() -> Iterator[tuple[str, list[str]]]:
    hits: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            hits.append(self.path)
            self.send_error(404)

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", hits
    server.shutdown()
    thread.join()
    server.server_close()


def test_nothing_is_fetched(canary: tuple[str, list[str]]) -> None:
    url, hits = canary
    page = (
        f"<!DOCTYPE html SYSTEM '{url}/dtd' [<!ENTITY x SYSTEM '{url}/entity'>]><html><head><base href='{url}/'>"
        f"<link rel=stylesheet href='{url}/css'><script src='{url}/js'></script><meta http-equiv=refresh "
        f"content='0;url={url}/go'></head><body><p>{PROSE}&x;</p><img src='{url}/img'><iframe src='{url}/frame'></iframe>"
        f"<xi:include xmlns:xi='http://www.w3.org/2001/XInclude' href='{url}/xi'/></body></html>"
    )
    for name in ("a.html", "a.xhtml"):
        assert "fourteen" in parse(name, page.encode(), ParseLimits()).text
    assert hits == []
