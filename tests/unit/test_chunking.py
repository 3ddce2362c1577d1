"""Each rule of chunking on a small text."""

from __future__ import annotations

import math
import time
from dataclasses import replace
from itertools import pairwise

import pytest

from kbcore.chunking import ChunkSpec, chunk, chunker_id
from kbcore.errors import ConfigError
from kbcore.types import Heading, Span

POLICY = (
    "Travel expenses. Receipts for meals and rooms are accepted for up to 60 days after the trip. "
    "They must be scanned and signed by a team lead.\n\n"
    "Hotels. Book through the portal so that the agreed rate applies. Breakfast is included.\n\n"
    "Trains. Second class is the rule; first class needs a reason. Seats may be reserved."
)
FAMILY = "\U0001f469\u200d\U0001f469\u200d\U0001f467"


def count_words(text: str) -> int:
    return 2 + len(text.split())


def count_pieces(text: str) -> int:
    return 2 + sum(1 if len(word) > 100 else math.ceil(len(word) / 4) for word in text.split())


def cut(text: str, size: int = 512, overlap: int = 50, max_tokens: int | None = None) -> list[Span]:
    return chunk(text, ChunkSpec(size, overlap, max_tokens), count_words)


def texts(spans: list[Span]) -> list[str]:
    return [span.text for span in spans]


def words(n: int) -> str:
    return " ".join(f"word{i:03}" for i in range(n))


@pytest.mark.parametrize(
    ("size", "overlap", "max_tokens", "named"),
    [(0, 0, None, "size is 0"), (50, -1, None, "-1"), (50, 50, None, "overlap is 50"), (512, 50, 7, "max_tokens is 7")],
)
def test_impossible_bounds_are_refused(size: int, overlap: int, max_tokens: int | None, named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        ChunkSpec(size, overlap, max_tokens)


def test_defaults_are_512_characters_with_50_overlap() -> None:
    assert ChunkSpec() == ChunkSpec(size=512, overlap=50, max_tokens=None)


@pytest.mark.parametrize("text", ["", " \r\n\t\u00a0\u3000\x1c"])
def test_blank_text_has_no_chunk(text: str) -> None:
    assert cut(text) == []


def test_short_text_is_exactly_one_chunk() -> None:
    [span] = cut("\n  One line.\r\n\r\nAnother. \n")
    assert (span.start, span.text, span.token_count) == (3, "One line.\r\n\r\nAnother.", 5)


@pytest.mark.parametrize("length", [51, 351, 399, 400])
def test_text_that_fits_the_size_is_one_chunk_and_not_its_tail_again(length: int) -> None:
    """Fixed windows of 400 with 50 overlap cut 400 characters into two, the second inside the first."""
    text = ("Reset the token in the portal. " * 20)[: length - 1] + "."
    assert texts(cut(text, 400, 50)) == [text]


def test_chunk_inside_its_successor_is_dropped() -> None:
    text = "Short opening.\n\n" + words(20)
    spans = cut(text, 100, 50)
    assert spans[0].start == 0
    assert spans[0].end > 16
    assert sum("Short opening." in span.text for span in spans) == 1


def test_rule_across_a_seam_is_split_without_overlap_and_whole_with_it() -> None:
    def holding_both(overlap: int) -> int:
        return sum("60 days" in text and "scanned and signed" in text for text in texts(cut(POLICY, 120, overlap)))

    assert len(cut(POLICY)) == 1
    assert holding_both(0) == 0
    assert holding_both(50) >= 1


def test_overlap_takes_effect_as_shared_characters_at_word_boundaries() -> None:
    spans = cut(words(100), 120, 50)
    shared = [before.end - after.start for before, after in pairwise(spans)]
    assert all(40 <= characters <= 50 for characters in shared)
    assert all(span.text.startswith("word") for span in spans)


def test_overlap_of_zero_gives_disjoint_chunks() -> None:
    assert " ".join(texts(cut(words(100), 120, 0))) == words(100)


def test_overlap_is_capped_at_half_of_the_size() -> None:
    spans = cut(words(100), 100, 99)
    assert max(before.end - after.start for before, after in pairwise(spans)) in range(40, 51)


def test_overlap_begins_between_clusters_where_there_is_no_blank() -> None:
    spans = cut(FAMILY * 100, 50, 12)
    assert all(len(span.text) % len(FAMILY) == 0 for span in spans)
    assert {before.end - after.start for before, after in pairwise(spans)} == {10}


def test_earlier_text_is_not_emitted_again_beside_an_unrelated_paragraph() -> None:
    text = "First.\n\n" + words(60) + "\n\nLast paragraph, of another matter."
    spans = cut(text, 120, 30)
    assert all(before.start < after.start and before.end < after.end for before, after in pairwise(spans))
    assert sum("First." in span.text for span in spans) == 1
    assert all(span.text == text[span.start : span.end] for span in spans)


def test_overlap_shrinks_where_slice_and_overlap_exceed_the_tokens() -> None:
    text = ("a b c d e f g h i j k l m n o p q r s t " * 20).strip()
    spans = chunk(text, ChunkSpec(400, 100, 12), count_words)
    assert all(span.token_count <= 12 for span in spans)
    assert len(spans) == 99, "four own words each, and the first chunk lies in the second"
    assert all(after.start < before.end for before, after in pairwise(spans))


def test_cut_unknown_word_keeps_the_token_bound() -> None:
    text = "x" * 330
    spans = chunk(text, ChunkSpec(150, 30, 16), count_pieces)
    assert all(span.token_count == count_pieces(span.text) <= 16 for span in spans)
    assert spans[-1].end == len(text)


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("One two.\nThree four.\n\nFive. Six\nseven eight nine ten", "One two.\nThree four."),
        ("One two. Three four.\nFive. Six seven eight nine ten eleven", "One two. Three four."),
        ("One two. Three four five. Six seven eight nine ten eleven", "One two. Three four five."),
        ("one two e.g. three four five six seven eight nine ten eleven", "one two e.g. three four five six"),
        ("知识库的更新就是一次发布。" * 3 + "没有句号" * 9, "知识库的更新就是一次发布。" * 2),
        ("a" * 60, "a" * 36),
    ],
    ids=["paragraph", "line", "sentence", "word", "sentence without blank", "hard cut"],
)
def test_chunk_ends_at_the_coarsest_seam_that_fits(text: str, first: str) -> None:
    assert cut(text, 36, 0)[0].text == first


def test_coarsest_seam_that_fits_the_tokens_is_taken() -> None:
    text = "One two three.\n\nFour five six. Seven eight.\n\n" + words(30)
    assert cut(text, 512, 0, 10)[0].text == "One two three.\n\nFour five six. Seven eight."
    assert cut(text, 512, 0, 9)[0].text == "One two three."


def test_crlf_is_never_split() -> None:
    spans = cut("line one\r\nline two\r\n\r\n" * 20, 30, 10)
    assert not any(span.text.startswith("\n") or span.text.endswith("\r") for span in spans)


def test_cluster_is_kept_whole_unless_it_exceeds_a_bound_alone() -> None:
    assert all(set(span.text.split(FAMILY)) == {""} for span in cut(FAMILY * 40, 9, 4))
    marked = "。\U0001f3fe"
    assert all(len(span.text) % 2 == 0 for span in cut(marked * 40, 9, 0))
    zalgo = "e" + "\u0301" * 99
    assert "".join(texts(cut(zalgo, 30, 0))) == zalgo


def test_single_character_over_the_token_bound_is_a_chunk_all_the_same() -> None:
    spans = chunk("☃☃", ChunkSpec(10, 0, 8), lambda text: 2 + 10 * len(text))
    assert [(span.text, span.token_count) for span in spans] == [("☃", 12), ("☃", 12)]


def test_heading_stays_with_what_follows_and_starts_an_own_part() -> None:
    text = f"# Guide\n\n{words(8)}\n## Setup\n\n{words(12)}"
    headings = [Heading(0, 1, "Guide"), Heading(text.index("##"), 2, "Setup")]
    spans = chunk(text, ChunkSpec(110, 0), count_words, headings=headings)
    assert [span.text.split("\n")[0] for span in spans] == ["# Guide", "## Setup"]
    assert [span.heading for span in spans] == [("Guide",), ("Guide", "Setup")]


def test_heading_line_ranks_as_a_paragraph() -> None:
    text = "One two.\n## B\nthree.\nfour five six seven eight"
    spans = chunk(text, ChunkSpec(24, 0), count_words, headings=[Heading(9, 2, "B")])
    assert spans[0].text == "One two."


def test_underlined_heading_stays_with_what_follows() -> None:
    text = f"{words(5)}\n\nSetup\n=====\n\n{words(6)}. {words(12).title()}"
    spans = chunk(text, ChunkSpec(90, 0), count_words, headings=[Heading(text.index("Setup"), 1, "Setup")])
    assert spans[1].text.startswith("Setup\n=====\n\nword000")


def test_heading_path_is_that_of_the_first_own_character() -> None:
    text = f"# A\n\n{words(9)}\n\n## B\n\n{words(9)}\n\n# C\n\n{words(9)}"
    headings = [Heading(text.index(f"# {name}"), 1, name) for name in "AC"]
    headings.append(Heading(text.index("## B"), 2, "B"))
    spans = chunk(text, ChunkSpec(140, 40), count_words, headings=headings)
    assert [span.heading for span in spans] == [("A",), ("A", "B"), ("C",)]
    assert spans[1].start < text.index("## B")


def test_page_break_ranks_as_a_paragraph_and_pages_are_counted_from_one() -> None:
    first, second = words(9), words(11)
    text = f"{first} {second}"
    spans = chunk(text, ChunkSpec(100, 20), count_words, pages=[0, len(first) + 1])
    assert spans[0].end == len(first)
    assert (spans[0].page_start, spans[0].page_end) == (1, 1)
    assert (spans[1].page_start, spans[1].page_end) == (1, 2)
    assert cut(text)[0].page_start is None


@pytest.mark.parametrize("break_", ["\f", "\n\f", "\f\n", "\n \n", "\r\r", "\u2028\u2028"])
def test_form_feed_and_blank_line_of_any_kind_are_paragraphs(break_: str) -> None:
    text = f"One two.{break_}Three four.\nFive six seven eight nine ten"
    assert cut(text, 24, 0)[0].text == "One two."


def test_fenced_code_that_fits_is_not_split() -> None:
    code = "```python\nfirst = 1\n\nsecond = 2\n```"
    text = f"{words(7)}\n\n{code}\n\n{words(40)}"
    for size in range(60, 140):
        for overlap in (0, 20):
            assert any(code in text for text in texts(cut(text, size, overlap)))
    assert not any(code in text for text in texts(cut(text, 30, 0)))


def test_no_chunk_is_dropped_by_a_cap() -> None:
    assert len(cut("Line of text.\n\n" * 20_000, 20, 0)) == 20_000


def test_word_of_300_000_characters_takes_seconds_and_few_counts() -> None:
    counted = 0

    def count(text: str) -> int:
        nonlocal counted
        counted += 1
        return 2 + len(text) // 3

    began = time.process_time()
    spans = chunk("a" * 300_000, ChunkSpec(512, 50, 128), count)
    assert time.process_time() - began < 5
    assert counted <= 8 * len(spans)


def test_chunker_id_changes_with_whatever_changes_the_chunks() -> None:
    spec = ChunkSpec(512, 50, 256)
    base = chunker_id(spec, tokenizer_id="t", context="none")
    assert base == "8e075af864292b6e67a6a8a849ad1135"
    others = [
        *(
            chunker_id(replace(spec, **{name: 40}), tokenizer_id="t", context="none")
            for name in ("overlap", "max_tokens")
        ),
        chunker_id(replace(spec, size=400), tokenizer_id="t", context="none"),
        chunker_id(spec, tokenizer_id="u", context="none"),
        chunker_id(spec, tokenizer_id="t", context="heading"),
    ]
    assert len({base, *others}) == 6
