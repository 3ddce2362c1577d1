"""PPTX and EPUB: slides and chapters in their order, under their titles."""

from __future__ import annotations

import io
import zipfile
from typing import Any

import pptx
import pytest
from pptx.chart.data import CategoryChartData
from pptx.enum.chart import XL_CHART_TYPE
from pptx.util import Inches

from kbcore.errors import DocumentError, SkippedDocumentError
from kbcore.parsing import ParseLimits, epub
from kbcore.parsing import pptx as slides
from kbcore.types import Parsed
from tests.unit.parsing.containers import epub_of, zipped


def saved(presentation: Any) -> bytes:
    out = io.BytesIO()
    presentation.save(out)
    return out.getvalue()


def changed(data: bytes, part: str, old: str, new: str) -> bytes:
    with zipfile.ZipFile(io.BytesIO(data)) as source:
        members = {name: source.read(name) for name in source.namelist()}
    assert old.encode() in members[part]
    members[part] = members[part].replace(old.encode(), new.encode())
    return zipped(members)


def parsed(data: Any, limits: ParseLimits | None = None) -> Parsed:
    return slides.parse("dir/Talk.pptx", data if isinstance(data, bytes) else saved(data), limits or ParseLimits())


def put(slide: Any, text: str, left: float, top: float) -> None:
    slide.shapes.add_textbox(Inches(left), Inches(top), Inches(1), Inches(1)).text_frame.text = text


class TestSlides:
    def test_each_slide_is_a_page_under_its_title_with_its_notes(self) -> None:
        deck = pptx.Presentation()
        first = deck.slides.add_slide(deck.slide_layouts[1])
        first.shapes.title.text = "Hello"
        first.placeholders[1].text = "Point"
        below = first.placeholders[1].text_frame.add_paragraph()
        below.text, below.level = "Below", 1
        first.notes_slide.notes_text_frame.text = "Say hi"
        put(deck.slides.add_slide(deck.slide_layouts[6]), "Words", 1, 1)
        result = parsed(deck)
        assert result.text == "# Slide 1: Hello\n\n- Point\n  - Below\n\nNotes: Say hi\n\n# Slide 2\n\nWords"
        assert [result.text[page:][:9] for page in result.pages] == ["# Slide 1", "# Slide 2"]
        assert [h.text for h in result.headings] == ["Slide 1: Hello", "Slide 2"]
        assert (result.title, result.stats["slides"]) == ("Hello", 2)

    def test_shapes_are_read_from_top_to_bottom_and_left_to_right(self) -> None:
        deck = pptx.Presentation()
        slide = deck.slides.add_slide(deck.slide_layouts[6])
        put(slide, "last", 1, 5)
        put(slide, "right", 5, 1)
        put(slide, "left", 1, 1.05)
        group = slide.shapes.add_group_shape()
        put(group, "grouped right", 3, 3)
        put(group, "grouped left", 1, 3)
        table = slide.shapes.add_table(2, 2, Inches(1), Inches(4), Inches(2), Inches(1)).table
        for n, text in enumerate(("h", "i", "v", "w")):
            table.cell(n // 2, n % 2).text = text
        assert parsed(deck).text.split("\n\n")[1:] == [
            "left", "right", "grouped left", "grouped right", "| h | i |\n| --- | --- |\n| v | w |", "last"
        ]  # fmt: skip

    def test_a_shape_with_the_id_of_the_title_is_read(self) -> None:
        deck = pptx.Presentation()
        slide = deck.slides.add_slide(deck.slide_layouts[5])
        slide.shapes.title.text = "Hello"
        put(slide, "words", 1, 4)
        slide.shapes[-1]._element.nvSpPr.cNvPr.set("id", str(slide.shapes.title.shape_id))
        assert parsed(deck).text == "# Slide 1: Hello\n\nwords"

    def chart_deck(self) -> bytes:
        deck = pptx.Presentation()
        slide = deck.slides.add_slide(deck.slide_layouts[6])
        data = CategoryChartData()
        data.categories = ["Q1", "Q2"]
        data.add_series("Sales", (1.5, 7))
        slide.shapes.add_chart(XL_CHART_TYPE.LINE, Inches(1), Inches(1), Inches(2), Inches(2), data)
        put(slide, "after", 1, 5)
        return saved(deck)

    def test_a_chart_with_an_error_value_does_not_end_the_file(self) -> None:
        data = self.chart_deck()
        with zipfile.ZipFile(io.BytesIO(data)) as source:
            part = next(name for name in source.namelist() if name.startswith("ppt/charts/chart"))
        assert "Sales: Q1: 1.5; Q2: 7" in parsed(data).text
        assert "Sales: Q1: #N/A; Q2: 7" in parsed(changed(data, part, "<c:v>1.5</c:v>", "<c:v>#N/A</c:v>")).text

    def test_a_shape_that_cannot_be_read_is_counted_and_the_rest_is_read(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def failing(root: Any) -> Any:
            raise ValueError("could not convert string to float: '#N/A'")

        monkeypatch.setattr(slides, "_chart", failing)
        result = parsed(self.chart_deck())
        assert "after" in result.text
        assert (result.stats["failed_shapes"], result.stats["failed_slides"]) == (1, [1])
        assert "#N/A" in result.stats["failed_shape_reason"]

    def test_alternatives_are_read_once(self) -> None:
        deck = pptx.Presentation()
        put(deck.slides.add_slide(deck.slide_layouts[6]), "words", 1, 1)
        data = saved(deck)
        with zipfile.ZipFile(io.BytesIO(data)) as source:
            slide = source.read("ppt/slides/slide1.xml").decode()
        shape = slide[slide.index("<p:sp>") : slide.index("</p:sp>") + 7]
        space = "http://schemas.openxmlformats.org/markup-compatibility/2006"
        both = (
            f'<mc:AlternateContent xmlns:mc="{space}"><mc:Choice Requires="x">{shape}</mc:Choice>'
            f"<mc:Fallback>{shape}</mc:Fallback></mc:AlternateContent>"
        )
        assert parsed(changed(data, "ppt/slides/slide1.xml", shape, both)).text == "# Slide 1\n\nwords"

    def test_hidden_slides_are_flagged_and_shows_are_read(self) -> None:
        deck = pptx.Presentation()
        put(deck.slides.add_slide(deck.slide_layouts[6]), "words", 1, 1)
        deck.slides[0]._element.set("show", "0")
        data = changed(saved(deck), "[Content_Types].xml", "presentation.main", "slideshow.main")
        assert parsed(data).stats["hidden_slides"] == [1]

    def test_no_text_is_skipped_and_too_many_slides_are_refused(self) -> None:
        deck = pptx.Presentation()
        deck.slides.add_slide(deck.slide_layouts[6])
        with pytest.raises(SkippedDocumentError):
            parsed(deck)
        deck.slides.add_slide(deck.slide_layouts[6])
        with pytest.raises(DocumentError, match="2 slides, more than the limit of 1"):
            parsed(deck, ParseLimits(pages=1))


def book(data: bytes) -> Parsed:
    return epub.parse("dir/My book.epub", data, ParseLimits())


class TestBooks:
    def test_chapters_come_in_the_order_of_the_spine(self) -> None:
        metadata = "<dc:title>The Book</dc:title><dc:creator>Bo</dc:creator><dc:language>en</dc:language>"
        result = book(
            epub_of({"z.xhtml": "<h1>One</h1><p>First</p>", "a.xhtml": "<h2>Two</h2><p>Second</p>"}, metadata=metadata)
        )
        assert result.text == "# One\n\nFirst\n\n## Two\n\nSecond"
        assert [result.text[h.offset :].split("\n")[0] for h in result.headings] == ["# One", "## Two"]
        assert (result.title, result.metadata) == ("The Book", {"author": "Bo", "language": "en"})

    def test_short_pages_asides_and_headers_are_whole(self) -> None:
        body = '<header><h1>Head</h1></header><p>x</p><aside epub:type="footnote">Note</aside><ul><li>one</li></ul>'
        assert book(epub_of({"a.xhtml": body})).text == "# Head\n\nx\n\nNote\n\n- one"

    def test_xhtml_is_read_as_xml_and_named_entities_still_work(self) -> None:
        start = '<?xml version="1.0" encoding="utf-8"?>'
        start += '<!DOCTYPE html PUBLIC "-//W3C//DTD XHTML 1.1//EN" "http://127.0.0.1:9/x.dtd">'
        page = (
            start
            + '<html xmlns="http://www.w3.org/1999/xhtml"><head><title/><script src="x"/></head>'
            + "<body><p>{}</p></body></html>"
        )
        chapters = {"a.xhtml": page.format("First page"), "b.xhtml": page.format("caf&eacute;")}
        assert book(epub_of(chapters)).text == "First page\n\ncafé"

    def test_old_books_may_name_their_dtd(self) -> None:
        doctype = '<!DOCTYPE {} PUBLIC "-//NISO//DTD ncx 2005-1//EN" "http://127.0.0.1:9/ncx.dtd">'
        ncx = doctype.format("ncx") + "<ncx><navPoint><text>Part one</text><content src='a.xml'/></navPoint></ncx>"
        entry = '<item id="n" href="toc.ncx" media-type="application/x-dtbncx+xml"/>'
        page = '<?xml version="1.0"?>' + doctype.format("html") + "<html><body><p>x</p></body></html>"
        assert book(epub_of({"a.xml": page}, manifest=entry, **{"OPS/toc.ncx": ncx})).text == "# Part one\n\nx"

    def test_pages_without_headings_get_them_from_the_contents(self) -> None:
        nav = '<nav xmlns="http://www.w3.org/1999/xhtml"><a href="a.xhtml#x">Chapter one</a></nav>'
        entry = '<item id="n" href="nav.xhtml" media-type="application/xhtml+xml" properties="nav"/>'
        assert (
            book(epub_of({"a.xhtml": "<p>x</p>"}, manifest=entry, **{"OPS/nav.xhtml": nav})).text
            == "# Chapter one\n\nx"
        )
        ncx = '<ncx><navPoint><navLabel><text>Part one</text></navLabel><content src="a.xhtml"/></navPoint></ncx>'
        entry = '<item id="n" href="toc.ncx" media-type="application/x-dtbncx+xml"/>'
        assert book(epub_of({"a.xhtml": "<p>x</p>"}, manifest=entry, **{"OPS/toc.ncx": ncx})).text == "# Part one\n\nx"

    def test_a_page_of_contents_may_have_a_plain_doctype(self) -> None:
        nav = '<?xml version="1.0"?><!DOCTYPE html>{}<html xmlns="http://www.w3.org/1999/xhtml"><body><nav>'
        nav += '<a href="a.xhtml">Chapter one</a></nav></body></html>'
        entry = '<item id="n" href="nav.xhtml" media-type="application/xhtml+xml" properties="nav"/>'

        def text_with(nav: str) -> str:
            return book(epub_of({"a.xhtml": "<p>x</p>"}, manifest=entry, **{"OPS/nav.xhtml": nav})).text

        assert text_with(nav.format("")) == "# Chapter one\n\nx"
        with_entity = nav.replace("<!DOCTYPE html>", '<!DOCTYPE html [<!ENTITY e "x">]>')
        assert "Chapter one" not in text_with(with_entity.format(""))
        assert "Chapter one" not in text_with(nav.format("<!DOCTYPE html>"))

    def test_a_damaged_chapter_is_counted_and_the_rest_is_read(self) -> None:
        result = book(epub_of({"gone%20.xhtml": "<p>x</p>", "a.xhtml": "<p>here</p>"}))
        assert result.text == "# Book\n\nhere"
        assert result.stats["failed_chapters"] == 1

    def test_protected_and_empty_books_say_so(self) -> None:
        locked = '<encryption><CipherData><CipherReference URI="OPS/a.xhtml"/></CipherData></encryption>'
        with pytest.raises(DocumentError, match="DRM"):
            book(epub_of({"a.xhtml": "<p>x</p>"}, **{"META-INF/encryption.xml": locked}))
        with pytest.raises(SkippedDocumentError):
            book(epub_of({"a.xhtml": ""}))
        with pytest.raises(DocumentError, match="no chapter could be read"):
            book(epub_of({"gone%20.xhtml": "x"}))
