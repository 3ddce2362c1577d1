"""XLSX and CSV: rows that mean something wherever they are cut."""

from __future__ import annotations

import datetime
import io
import time
from typing import Any

import openpyxl
import pytest

from kbcore.errors import DocumentError, SkippedDocumentError
from kbcore.parsing import ParseLimits, delimited, xlsx
from kbcore.parsing.numbers import shown
from kbcore.types import Parsed


def csv_text(text: str | bytes, name: str = "a.csv") -> str:
    return csv_of(text, name).text


def csv_of(text: str | bytes, name: str = "a.csv") -> Parsed:
    return delimited.parse(name, text.encode() if isinstance(text, str) else text, ParseLimits())


def saved(workbook: Any) -> bytes:
    out = io.BytesIO()
    workbook.save(out)
    return out.getvalue()


def workbook_of(*rows: list[Any], title: str = "Prices") -> Any:
    workbook = openpyxl.Workbook()
    workbook.active.title = title
    for row in rows:
        workbook.active.append(row)
    return workbook


def parsed(workbook: Any) -> Parsed:
    return xlsx.parse("dir/Book.xlsx", saved(workbook), ParseLimits())


class TestDelimited:
    def test_each_row_names_its_columns(self) -> None:
        assert csv_text("Team,City\nBlues,STL\nLeafs,TOR\n") == "Team: Blues; City: STL\nTeam: Leafs; City: TOR"

    def test_titles_stand_above_the_header(self) -> None:
        assert csv_text("Cups,,\nTeam,City,Cups\nBlues,STL,1\n") == "Cups\nTeam: Blues; City: STL; Cups: 1"

    def test_ragged_rows_are_kept(self) -> None:
        assert csv_text("a,b\n1\n1,2,3\n") == "a: 1\na: 1; b: 2; column 3: 3"

    @pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
    def test_the_delimiter_is_found(self, delimiter: str) -> None:
        lines = [("Name", "Note"), ("Ann", "x, y"), ("Bo", "z")]
        text = "\n".join(delimiter.join(f'"{cell}"' if "," in cell else cell for cell in line) for line in lines)
        assert csv_text(text).splitlines() == ["Name: Ann; Note: x, y", "Name: Bo; Note: z"]

    def test_quoted_words_within_cells_do_not_choose_the_delimiter(self) -> None:
        text = 'Thema;Text\nA;Klick auf "Start", "Einstellungen", "System"\nB;Zwei'
        first = 'Thema: A; Text: Klick auf "Start", "Einstellungen", "System"'
        assert csv_text(text).splitlines() == [first, "Thema: B; Text: Zwei"]
        assert csv_text("Name;Price\nNut;1,5\nBolt;2,5\n") == "Name: Nut; Price: 1,5\nName: Bolt; Price: 2,5"

    def test_many_quotes_take_no_time(self) -> None:
        started = time.process_time()
        csv_of("Name;Text\n" + "x;" + '"a" , ' * 20_000)
        assert time.process_time() - started < 2

    def test_names_of_empty_columns_are_kept(self) -> None:
        assert csv_text("Name,Phone,City,Fax\nAnn,,Bonn,\nBo,,Ulm\n").splitlines() == [
            "Name: Ann; City: Bonn",
            "Name: Bo; City: Ulm",
            "without values: Phone; Fax",
        ]

    def test_endings_and_first_lines_name_the_delimiter(self) -> None:
        assert csv_text("a\tb, c\n1\t2\n", "a.tsv") == "a: 1; b, c: 2"
        assert csv_text("sep=|\na|b\n1|2\n") == "a: 1; b: 2"

    def test_years_are_names_and_numbers_are_not(self) -> None:
        assert csv_text("Country,2019,2020\nNZ,1,2\n") == "Country: NZ; 2019: 1; 2020: 2"
        assert csv_text("Ann,3.5\nBo,4.5\n") == "Ann; 3.5\nBo; 4.5"

    def test_cells_of_several_lines_are_one_line(self) -> None:
        assert csv_text('a,b\n"one\ntwo",2\n') == "a: one two; b: 2"

    def test_a_quote_that_is_never_closed_loses_nothing(self) -> None:
        result = csv_of('a,b\n"x,1\n2,3\n')
        assert result.text == 'a: "x; b: 1\na: 2; b: 3'
        assert "quotes" in result.stats["flag"]

    def test_encodings_are_found_as_for_text(self) -> None:
        assert csv_text("Straße;Größe\nGrün;Süß\n".encode("utf-16")) == "Straße: Grün; Größe: Süß"
        assert csv_text("Straße;Größe\nGrün;Süß\n".encode("cp1252")) == "Straße: Grün; Größe: Süß"

    def test_blank_is_skipped_and_too_much_is_refused(self) -> None:
        for text in ("", "\n\n", ",,\n,,\n"):
            with pytest.raises(SkippedDocumentError):
                csv_of(text)
        with pytest.raises(DocumentError, match="a cell of more than 1 MB"):
            csv_of("a,b\n" + "x" * 1_000_001)
        with pytest.raises(DocumentError, match="MB of text"):
            delimited.parse("a.csv", b"name,value\n" + b"a,b\n" * 1000, ParseLimits(output_bytes=1000))

    def test_only_a_header_is_text(self) -> None:
        assert csv_text("Name,City\n") == "Name; City"


class TestWorkbook:
    def test_each_sheet_is_a_heading_with_its_table(self) -> None:
        workbook = workbook_of(["Item", "Price"], ["Bolt", 0.1 + 0.2])
        workbook.create_sheet("Empty")
        workbook.create_sheet("More").append(["only words"])
        result = parsed(workbook)
        assert result.text == "# Prices\n\n| Item | Price |\n| --- | --- |\n| Bolt | 0.3 |\n\n# More\n\nonly words"
        assert [(h.level, h.text) for h in result.headings] == [(1, "Prices"), (1, "More")]
        assert (result.title, result.stats["sheets"], result.stats["rows"]) == ("Book", 3, 3)

    def test_empty_rows_and_columns_part_tables_and_are_dropped(self) -> None:
        rows = (
            ["Price list"],
            [],
            ["Item", None, "Price"],
            ["Bolt", None, 2],
            [],
            ["Nut", None, 3],
            [],
            ["City", None, "Tax"],
            ["Bonn", None, 1],
        )
        assert parsed(workbook_of(*rows)).text.split("\n\n")[1:] == [
            "Price list",
            "| Item | Price |\n| --- | --- |\n| Bolt | 2 |",
            "| Item | Price |\n| --- | --- |\n| Nut | 3 |",
            "| City | Tax |\n| --- | --- |\n| Bonn | 1 |",
        ]

    def test_large_and_wide_tables_name_the_column_of_each_value(self) -> None:
        rows = [[f"Col {n}" for n in range(12)], list(range(12))]
        assert "Col 0: 0; Col 1: 1; " in parsed(workbook_of(*rows)).text
        many = [["Name", "Size"], *([f"n{n}", n] for n in range(100))]
        assert parsed(workbook_of(*many)).text.endswith("Name: n99; Size: 99")

    @pytest.mark.parametrize("count", [2, 60], ids=["as a table", "a line a row"])
    def test_names_of_empty_columns_are_kept(self, count: int) -> None:
        rows = [[f"Person {n}", None, "Bonn", None] for n in range(count)]
        text = parsed(workbook_of(["Name", "Phone", "City", "Fax"], *rows)).text
        if count == 2:
            assert "| Name | Phone | City | Fax |" in text
        else:
            assert text.splitlines()[-2:] == ["Name: Person 59; City: Bonn", "without values: Phone; Fax"]
            assert text.count("Phone") == 1

    def test_merged_cells_are_said_in_each_row(self) -> None:
        workbook = workbook_of(["Group", "Item", "No"], ["A", "x", 1], [None, "y", 2])
        workbook.active.merge_cells("A2:A3")
        assert parsed(workbook).text.endswith("| A | x | 1 |\n| A | y | 2 |")

    def test_hidden_sheets_are_flagged(self) -> None:
        workbook = workbook_of(["a", "b"])
        secret = workbook.create_sheet("Secret")
        secret.sheet_state = "hidden"
        secret.append(["word"])
        result = parsed(workbook)
        assert result.stats["hidden_sheets"] == ["Secret"]
        assert "# Secret" in result.text

    def test_formulas_without_a_value_are_named(self) -> None:
        result = parsed(workbook_of(["Item", "Sum"], ["Bolt", "=A1*2"]))
        assert "| Bolt | =A1*2 |" in result.text
        assert result.stats["formulas_without_value_at"] == ["Prices!R2C2"]
        assert "1 formulas have no stored value" in result.stats["flag"]

    def test_a_workbook_without_cells_is_skipped(self) -> None:
        with pytest.raises(SkippedDocumentError):
            parsed(openpyxl.Workbook())

    def test_a_sheet_beyond_the_bounds_is_refused(self) -> None:
        workbook = workbook_of(["far", "away"])
        workbook.active["XFD1"] = 1
        for row in range(2, 70):
            workbook.active.cell(row, 16_384, 1)
        with pytest.raises(DocumentError, match="more than 1,000,000 cells"):
            parsed(workbook)

    def test_empty_rows_do_not_count_as_cells(self, monkeypatch: pytest.MonkeyPatch) -> None:
        workbook = workbook_of(["Item", "Price"], ["Bolt", 2])
        workbook.active.row_dimensions[1_048_576].height = 20
        assert parsed(workbook).text == "# Prices\n\n| Item | Price |\n| --- | --- |\n| Bolt | 2 |"
        workbook.active.cell(1_048_576, 1).number_format = "0.00"
        assert parsed(workbook).stats["rows"] == 2
        monkeypatch.setattr(xlsx, "_WALKED", 1_000_000)
        with pytest.raises(DocumentError, match="cells"):
            parsed(workbook)

    @pytest.mark.parametrize(
        ("value", "code", "text"),
        [
            (0.1 + 0.2, "General", "0.3"),
            (1e6, "General", "1000000"),
            (3, "General", "3"),
            (3.14159, "0.00", "3.14"),
            (0.153, "0.0%", "15.3%"),
            (12.5, "#,##0.00 [$€-407]", "12.50 €"),
            (12, '"CHF" #,##0', "12 CHF"),
            (12, "$#,##0", "12 $"),
            (7, '0" kg"', "7 kg"),
            (1.5e-12, "0.00E+00", "1.5e-12"),
            (True, "General", "TRUE"),
            (float("inf"), "0.00", "inf"),
            (10**400, "0", str(10**400)),
            (datetime.datetime(2024, 1, 2), "d", "2024-01-02"),
            (datetime.datetime(2024, 1, 2, 3, 4, 4, 999_999), "d", "2024-01-02 03:04:05"),
            (datetime.time(3, 4), "h", "03:04:00"),
            (datetime.timedelta(hours=30), "h", "1 day, 6:00:00"),
            ("#N/A", "General", "#N/A"),
            (1234, "000000", "001234"),
            (-7, "000.0", "-007.0"),
            (7, '"R"000', "R007"),
            (-7, "\\R\\-000", "-R-007"),
            (7, '"R"000" kg"', "R007 kg"),
            (7, '"€"0', "7 €"),
            (1234567, '0.0,,"M"', "1.2 M"),
            (1234567, '#,##0,"k"', "1235 k"),
            (1500000, '#,,"M"', "1.5 M"),
            (1234567, "#,##0", "1234567"),
            (0.25, "#.00", "0.25"),
            (0.5, "# ?/?", "0.5"),
            (float("nan"), "000", "nan"),
            (datetime.datetime(9999, 12, 31, 23, 59, 59, 600_000), "d", "9999-12-31 23:59:59"),
        ],
    )
    def test_values_are_shown_without_noise(self, value: Any, code: str, text: str) -> None:
        assert shown(value, code) == text
