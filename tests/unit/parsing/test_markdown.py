"""Markdown: front matter off, source kept, headings found by line."""

from __future__ import annotations

import json
import time

import pytest

from kbcore.errors import SkippedDocumentError
from kbcore.parsing import ParseLimits
from kbcore.parsing.markdown import parse, scan_headings
from kbcore.types import Parsed


def read(text: str, uri: str = "docs/page.md") -> Parsed:
    return parse(uri, text.encode(), ParseLimits())


def outline(text: str) -> list[tuple[int, str]]:
    return [(heading.level, heading.text) for heading in scan_headings(text)]


class TestFrontMatter:
    def test_a_closed_mapping_becomes_metadata_and_leaves_the_text(self) -> None:
        parsed = read(
            '\ufeff---\r\ntitle: VPN setup\r\nversion: "2.1"\r\ntags: [vpn, "a: b"]\r\n---\r\n\r\n# Other\r\n'
        )
        assert parsed.text == "# Other\n"
        assert parsed.metadata == {"title": "VPN setup", "version": "2.1", "tags": ["vpn", "a: b"]}
        assert parsed.title == "VPN setup"

    def test_values_are_made_json_safe(self) -> None:
        source = (
            "d: 2024-05-01\nt: 2024-05-01T10:00:00Z\nn: .nan\ni: 99999999999999999999\nb: !!binary aGk=\n"
            "on: 1\n2: x\ns: !!set {b, a}\n2024-01-02: y\n"
        )
        metadata = read(f"---\n{source}...\nBody").metadata
        json.dumps(dict(metadata), allow_nan=False).encode()
        assert metadata["d"] == "2024-05-01"
        assert metadata["t"].startswith("2024-05-01T10:00:00")
        assert (metadata["n"], metadata["i"], metadata["b"]) == ("nan", "99999999999999999999", "aGk=")
        assert (metadata["true"], metadata["2"], metadata["2024-01-02"]) == (1, "x", "y")
        assert metadata["s"] == ["a", "b"]

    def test_one_that_never_closes_leaves_all_text_and_a_flag(self) -> None:
        text = "---\ntitle: broken\n\n# Heading\n\nBody text that must be found."
        parsed = read(text)
        assert (parsed.text, parsed.metadata, parsed.title) == (text, {}, "Heading")
        assert "never closed" in parsed.stats["flag"]

    @pytest.mark.parametrize("source", ["a: [b", "{{ macro }}: x", "a: !!python/object/apply:os.system [x]", "\ta: 1"])
    def test_one_that_does_not_parse_leaves_all_text_and_a_flag(self, source: str) -> None:
        parsed = read(f"---\n{source}\n---\n# Real\n")
        assert parsed.text.startswith("---\n")
        assert "not readable YAML" in parsed.stats["flag"]
        assert [heading.text for heading in parsed.headings] == ["Real"]  # the closing rule makes no heading

    def test_only_a_mapping_counts(self) -> None:
        parsed = read("---\njust a line between two rules\n---\nmore")
        assert parsed.text.startswith("---\njust a line")
        assert "flag" not in parsed.stats
        assert read("---\n---\nmore").text == "more"

    def test_a_yaml_bomb_is_a_flag_and_costs_nothing(self) -> None:
        levels = [f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 9)}]" for n in range(1, 10)]
        started = time.monotonic()
        parsed = read("---\nl0: &l0 [x, x]\n" + "\n".join(levels) + "\n---\nBody")
        assert "flag" in parsed.stats
        assert time.monotonic() - started < 1

    def test_a_file_of_front_matter_only_is_skipped(self) -> None:
        with pytest.raises(SkippedDocumentError, match="front matter"):
            read("---\ntitle: x\n---\n\n")


class TestHeadings:
    def test_levels_words_and_offsets(self) -> None:
        text = "# One #\n\ntext\n\n  ### Three ###   \n####### seven\n#tag\n## C#\n"
        headings = scan_headings(text)
        assert [(h.level, h.text) for h in headings] == [(1, "One"), (3, "Three"), (2, "C#")]
        assert all(text[h.offset] == "#" for h in headings)

    def test_setext_headings_of_one_line(self) -> None:
        assert outline("Title\n=====\n\nSection\n---\n\ntext\n") == [(1, "Title"), (2, "Section")]
        assert scan_headings("\nTitle\n===\n")[0].offset == 1

    @pytest.mark.parametrize(
        "text",
        ["two lines\nof prose\n---\n", "- item\n---\n", "a | b\n--|--\n", "\n---\n", "> quote\n---\n", "***\n---\n"],
    )
    def test_a_rule_makes_no_heading(self, text: str) -> None:
        assert outline(text) == []

    @pytest.mark.parametrize(
        "block",
        [
            "```bash\n# no\n```",
            "~~~\n# no\n```\n# no\n~~~",
            "````\n```\n# no\n````",
            "- ```\n  # no\n  ```",
            "1. x\n   ```sh\n   # no\n   ```",
            "    # no",
            "<!--\n# no\n-->",
            "<pre>\n# no\n</pre>",
            "> # no",
        ],
    )
    def test_what_is_code_or_comment_or_quote_is_no_heading(self, block: str) -> None:
        assert outline(f"# Real\n\n{block}\n\n## Also real\n") == [(1, "Real"), (2, "Also real")]

    def test_inline_code_with_three_ticks_opens_no_fence(self) -> None:
        assert outline("```code``` in a line\n\n# Real\n") == [(1, "Real")]

    def test_marks_are_not_words(self) -> None:
        assert outline("## **Use** `kb` [here](x.md) {#use}\n") == [(2, "Use kb here")]
        assert outline("## Set {HOME}\n") == [(2, "Set {HOME}")]

    def test_the_title_is_front_matter_then_level_one_then_any_heading_then_the_file(self) -> None:
        assert read("---\ntitle: 2.5\n---\n# A").title == "2.5"
        assert read("---\ntitle: ''\n---\n## B\n\n# A").title == "A"
        assert read("## B\n").title == "B"
        assert read("words").title == "page"


class TestText:
    def test_the_source_stays_as_it_is(self) -> None:
        text = "# A\n\n| a | b |\n|---|---|\n\n!!! note\n    {{ macro }} <!-- kept -->\n\n```\ncode\n```\n"
        assert read(text).text == text

    def test_base64_is_cut_out_and_counted(self) -> None:
        parsed = read(f"a ![logo](data:image/png;base64,{'iVBOR/+0' * 500}==) b data: c")
        assert parsed.text == "a ![logo]() b data: c"
        assert parsed.stats["base64_removed"] == 1

    @pytest.mark.parametrize(
        "unit",
        [" ", "#", "[", "`", "~", "- ", "data:", "<!--", "\n", "---\n", "=\n", "1. ", "# a\n", "data:;base64,", "]( "],
    )
    def test_time_grows_in_proportion_to_the_text(self, unit: str) -> None:
        def seconds(size: int) -> float:
            text = "x" + unit * (size // len(unit))
            runs = []
            for _ in range(3):
                started = time.process_time()
                read(text)
                runs.append(time.process_time() - started)
            return min(runs)

        assert seconds(800_000) < 16 * seconds(100_000) + 0.2  # 8 times the text; 64 times where it is quadratic
