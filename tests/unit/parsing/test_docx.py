"""DOCX: structure kept, and no text lost that a reader sees."""

from __future__ import annotations

import pytest

from kbcore.errors import DocumentError
from kbcore.parsing import ParseLimits
from kbcore.parsing import docx as module
from kbcore.parsing.docx import parse
from kbcore.types import Parsed
from tests.unit.parsing.containers import W, docx_of, item, p, r, table


def parsed(body: str, **parts: str) -> Parsed:
    return parse("dir/My file.docx", docx_of(body, **parts), ParseLimits())


def text_of(body: str, **parts: str) -> str:
    return parsed(body, **parts).text


def test_headings_come_from_styles_their_parents_and_outline_levels() -> None:
    result = parsed(p("Eins", "berschrift1") + p("Zwei", "Chapter") + p("Drei", "Outlined") + p("words", "Loop"))
    assert [(h.level, h.text) for h in result.headings] == [(1, "Eins"), (2, "Zwei"), (3, "Drei")]
    assert all(result.text[h.offset :].startswith(f"{'#' * h.level} {h.text}") for h in result.headings)
    assert result.title == "Eins"
    direct = parsed(
        p("Direct", properties='<w:outlineLvl w:val="1"/>') + p("Body", "berschrift1", '<w:outlineLvl w:val="9"/>')
    )
    assert [(h.level, h.text) for h in direct.headings] == [(2, "Direct")]


def test_a_paragraph_of_many_words_in_the_style_of_a_heading_is_none() -> None:
    assert parsed(p("long words " * 60, "berschrift1")).headings == ()


def test_lists_keep_their_levels() -> None:
    assert text_of(item("one") + item("sub", 1) + item("two")) == "1. one\n   - sub\n2. two"


def test_tables_are_markdown_and_keep_merged_and_ragged_cells() -> None:
    assert text_of(table(("Name", "Age"), ("A|b", "31"))) == "| Name | Age |\n| --- | --- |\n| A\\|b | 31 |"
    assert text_of(table(("a",), ("b", "c"))) == "| a |  |\n| --- | --- |\n| b | c |"
    wide = '<w:tcPr><w:gridSpan w:val="2"/></w:tcPr>' + p("both")
    down = '<w:tcPr><w:vMerge w:val="restart"/></w:tcPr>' + p("down")
    more = "<w:tcPr><w:vMerge/></w:tcPr>" + p("")
    assert text_of(table((wide, "x"), ("a", "b", "c"))).splitlines()[0] == "| both |  | x |"
    assert text_of(table(("h", "i"), (down, "1"), (more, "2"))).splitlines()[2:] == ["| down | 1 |", "| down | 2 |"]


def test_a_long_table_says_the_name_of_its_column_in_each_row() -> None:
    lines = text_of(table(("Name", "Age"), *((f"n{n}", str(n)) for n in range(60)))).splitlines()
    assert lines[0] == "Name: n0; Age: 0"
    assert lines[-1] == "Name: n59; Age: 59"


def test_tables_in_tables_are_kept() -> None:
    text = text_of(table(("outer", table(("in", "ner"), ("x", "y")) + p("after"))))
    assert "outer" in text
    assert "| in | ner |\n| --- | --- |\n| x | y |" in text
    assert text.endswith("after")


def test_content_controls_fields_and_links_are_kept() -> None:
    control = "<w:sdt><w:sdtContent>{}</w:sdtContent></w:sdt>"
    nested = control.format(control.format(p("Nested")))
    row = control.format(f"<w:tr><w:tc>{p('Row')}</w:tc><w:tc>{control.format(p('Cell'))}</w:tc></w:tr>")
    assert text_of(nested + f"<w:tbl>{row}</w:tbl>") == "Nested\n\n| Row | Cell |\n| --- | --- |"
    odd = f'<w:fldSimple w:instr="DATE">{r("field")}</w:fldSimple><w:bdo>{r(" bdo")}</w:bdo>'
    code = "<w:r><w:fldChar/><w:instrText>CODE</w:instrText></w:r>"
    link = f'<w:hyperlink r:id="rId99">{r(" link")}</w:hyperlink>'
    assert text_of(f"<w:p>{odd}{code}{link}</w:p>") == "field bdo link"


def test_a_text_box_is_read_once_after_its_paragraph() -> None:
    box = "<w:txbxContent>" + p("In the box") + table(("a", "b"), ("c", "d")) + "</w:txbxContent>"
    drawing = f"<w:drawing><wp:anchor><wps:wsp><wps:txbx>{box}</wps:txbx></wps:wsp></wp:anchor></w:drawing>"
    shape = f"<w:pict><v:shape><v:textbox>{box}</v:textbox></v:shape></w:pict>"
    empty = "<mc:Fallback><w:pict/></mc:Fallback>"
    both = f"<mc:Choice>{drawing}</mc:Choice><mc:Fallback>{shape}</mc:Fallback>"
    for inside in (both, f"<mc:Choice>{drawing}</mc:Choice>{empty}", f"<mc:Choice/><mc:Fallback>{shape}</mc:Fallback>"):
        run = f"<w:r><mc:AlternateContent>{inside}</mc:AlternateContent></w:r>"
        text = text_of(f"<w:p>{r('Before')}{run}{r(' and on')}</w:p>" + p("After"))
        assert text == "Before and on\n\nIn the box\n\n| a | b |\n| --- | --- |\n| c | d |\n\nAfter"
    assert text_of(f"<w:p><w:r>{shape}</w:r></w:p>").startswith("In the box")


def test_boxes_in_boxes_keep_their_order() -> None:
    def box(inside: str) -> str:
        return f"<w:r><w:drawing><wps:txbx><w:txbxContent>{inside}</w:txbxContent></wps:txbx></w:drawing></w:r>"

    inner = f"<w:p>{r('outer')}{box(p('inner'))}</w:p>"
    assert text_of(f"<w:p>{r('host')}{box(inner)}{box(p('second'))}</w:p>") == "host\n\nouter\n\ninner\n\nsecond"


def test_deleted_text_is_dropped_and_inserted_text_kept() -> None:
    change = (
        f"{r('Kept ')}<w:del><w:r><w:delText>GONE</w:delText><w:t>GONE</w:t></w:r></w:del><w:ins>{r('new')}</w:ins>"
    )
    moved = f"<w:moveFrom>{r('GONE')}</w:moveFrom><w:moveTo>{r(' here')}</w:moveTo>"
    assert text_of(f"<w:p>{change}{moved}</w:p>") == "Kept new here"
    joined = f"<w:p><w:pPr><w:rPr><w:del/></w:rPr></w:pPr>{r('joined ')}</w:p>"
    assert text_of(joined + p("to this")) == "joined to this"
    last = table((joined, "next"))
    assert "joined | next" in text_of(last)
    rows = f"<w:tr><w:trPr><w:del/></w:trPr><w:tc>{p('GONE')}</w:tc></w:tr><w:tr><w:tc>{p('stays')}</w:tc></w:tr>"
    assert text_of(f"<w:tbl>{rows}</w:tbl>") == "stays"


def test_notes_follow_the_paragraph_that_cites_them() -> None:
    notes = (
        f'<w:footnote w:type="separator" w:id="0">{p("SEPARATOR")}</w:footnote>'
        f'<w:footnote w:id="2">{p("The note")}</w:footnote><w:footnote w:id="3">{p("NOT CITED")}</w:footnote>'
    )
    cited = (
        f'<w:p>{r("Words")}<w:r><w:footnoteReference w:id="2"/><w:footnoteReference w:id="99"/></w:r>{r(" on")}</w:p>'
    )
    assert text_of(cited + p("Next"), footnotes=notes) == "Words[1] on\n\n[1] The note\n\nNext"


def test_tabs_by_position_and_carriage_returns_part_words() -> None:
    def words(between: str) -> list[str]:
        return text_of(f"<w:p><w:r><w:t>one</w:t>{between}<w:t>two</w:t></w:r></w:p>").split()

    assert words('<w:ptab w:relativeTo="margin" w:alignment="right" w:leader="none"/>') == ["one", "two"]
    assert words("<w:cr/>") == words("<w:br/>")
    assert len(words("<w:cr/>")) > 1


def test_formulas_are_text() -> None:
    assert text_of(f"<w:p>{r('is ')}<m:oMath><m:r><m:t>E=mc2</m:t></m:r></m:oMath></w:p>") == "is E=mc2"


def test_hidden_text_is_counted() -> None:
    assert (
        parsed(f"{p('seen')}<w:p><w:r><w:rPr><w:vanish/></w:rPr><w:t>secret</w:t></w:r></w:p>").stats[
            "hidden_characters"
        ]
        == 6
    )


def test_properties_say_title_author_and_time_where_they_are_sensible() -> None:
    core = "<dc:title>Travel  rules</dc:title><dc:creator>Ann</dc:creator>"
    core += "<dcterms:modified>2024-01-02T03:04:05Z</dcterms:modified>"
    result = parsed(p("x y z"), core=core)
    assert result.title == "Travel rules"
    assert result.metadata == {"author": "Ann", "modified": "2024-01-02T03:04:05Z"}
    program = "<dc:title>Microsoft Word - x.doc</dc:title><dc:creator>python-docx</dc:creator>"
    program += "<dcterms:modified>?</dcterms:modified>"
    result = parsed(p("x y z"), core=program)
    assert (result.title, result.metadata) == ("My file", {})
    assert parsed(p("x y z"), **{"docProps/core.xml": "<broken"}).metadata == {}


def test_what_mammoth_cannot_read_is_read_without_its_help(monkeypatch: pytest.MonkeyPatch) -> None:
    result = parsed(
        p("Head", "berschrift1") + item("one"),
        **{"word/numbering.xml": f'<w:numbering xmlns:w="{W}"><w:num/></w:numbering>'},
    )
    assert "one" in result.text

    def failing(*args: object, **options: object) -> object:
        raise KeyError("broken")

    monkeypatch.setattr(module.mammoth, "convert_to_html", failing)
    result = parsed(p("Head", "berschrift1") + table(("a", "b")))
    assert result.text == "# Head\n\na\n\nb"
    assert "damaged" in result.stats["flag"]


def test_what_mammoth_loses_is_added(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = module.mammoth.convert_to_html

    def losing(*args: object, **options: object) -> object:
        converted = whole(*args, **options)
        converted.value = converted.value.replace("second words", "")
        return converted

    monkeypatch.setattr(module.mammoth, "convert_to_html", losing)
    result = parsed(p("first words") + p("second words"))
    assert result.text == "first words\n\nsecond words"
    assert result.stats["added_paragraphs"] == 1


def test_no_text_and_too_much_of_it_are_failures() -> None:
    with pytest.raises(DocumentError, match="no text"):
        parsed("<w:p/>")
    with pytest.raises(DocumentError, match="more than 0 MB of text"):
        parse("a.docx", docx_of(p("words " * 100)), ParseLimits(output_bytes=100))
    with pytest.raises(DocumentError, match="elements"):
        parsed("<w:p/>" * 1_500_001)


def test_strict_files_are_read() -> None:
    data = docx_of(
        p("strict words"),
        **{
            "word/document.xml": '<w:document xmlns:w="http://purl.oclc.org/ooxml/wordprocessingml/main">'
            "<w:body><w:p><w:r><w:t>strict words</w:t></w:r></w:p></w:body></w:document>"
        },
    )
    assert parse("a.docx", data, ParseLimits()).text == "strict words"


def test_odd_attributes_do_no_harm() -> None:
    odd = '<w:p><w:r><w:sym/><w:sym w:char="zz"/><w:t>ok words</w:t></w:r></w:p>'
    span = '<w:tcPr><w:gridSpan w:val="99999999999"/></w:tcPr>' + p("cell")
    assert text_of(odd + table((span, "b"), ("c", "d"))).startswith("ok words\n\n| cell | b |")
