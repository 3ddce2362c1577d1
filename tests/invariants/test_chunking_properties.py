"""What holds for the chunks of any text, with all bounds at once and with counters that are not additive."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import regex
from hypothesis import given, settings
from hypothesis import strategies as st

import kbcore
from kbcore.chunking import ChunkSpec, chunk
from kbcore.types import Heading, Span

TOKENIZER = Path(kbcore.__file__).parent / "models" / "minilm" / "tokenizer.json"
Counter = Callable[[str], int]

PIECES = [
    *[
        "word ",
        "Sentence. ",
        "A question? ",
        "end.\n",
        "\n",
        "\n\n",
        "\r\n",
        "\r\n\r\n",
        "\r",
        "\t",
        "\f",
        "\x1c",
        " ",
        "  ",
    ],
    *["\u00a0", "\u2028", "\u3000", "\u200b", "\x00"],
    *[
        "e\u0301\u0323",
        "\u0915\u094d\u0937\u093f",
        "\u0e01\u0e34\u0e19",
        "\u1100\u1161\u11a8",
        "\u0301",
        "\u200d",
        "\u0600",
    ],
    *[
        "\U0001f469\u200d\U0001f469\u200d\U0001f467",
        "\U0001f1e9\U0001f1ea",
        "\U0001f44d\U0001f3fd",
        "\U0001f600",
        "\ufe0f",
        "。\U0001f3fe",
        "\n\f",
    ],
    *["知识库的更新就是一次发布。", "刷新", "「はい。」", "ナレッジ", "지식 베이스 "],
    *["x" * 30, "long" * 30, "a\u0308" * 40, "\u0301" * 70, "ERR-4012 ", "https://example.com/a/b?c=d "],
    *[
        "```\n",
        "```python\ncode = 1\n\nmore = 2\n```\n",
        "# Heading\n",
        "Title\n=====\n",
        "- item\n",
        "1. step\n",
        "| a | b |\n",
    ],
]

texts = st.one_of(
    st.lists(st.sampled_from(PIECES), max_size=60).map("".join),
    st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=200),
    st.lists(st.one_of(st.sampled_from(PIECES), st.text(max_size=5)), max_size=40).map(
        lambda parts: "".join(parts).encode("utf-8", "ignore").decode()
    ),
)


@st.composite
def specs(draw: st.DrawFn, smallest: int = 1) -> ChunkSpec:
    size = draw(st.integers(smallest, 150))
    overlap = draw(st.integers(0, size - 1))
    return ChunkSpec(size, overlap, draw(st.one_of(st.none(), st.integers(8, 60))))


def count_words(text: str) -> int:
    return 2 + len(text.split())


def count_pieces(text: str) -> int:
    """As WordPiece does: a word over 100 characters is one [UNK], any other several pieces."""
    return 2 + sum(1 if len(word) > 100 else math.ceil(len(word) / 4) for word in text.split())


@pytest.fixture(scope="module")
def count_minilm() -> Counter:
    tokenizers = pytest.importorskip("tokenizers")
    tokenizer = tokenizers.Tokenizer.from_file(str(TOKENIZER))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return lambda text: len(tokenizer.encode(text).ids)


def boundaries(text: str) -> set[int]:
    """Where text may be cut: between grapheme clusters, of which a blank is always one."""
    return {0, len(text)} | {
        word.start() + at
        for word in regex.finditer(r"\S+", text.translate(dict.fromkeys(range(0x1C, 0x20), " ")))
        for cluster in regex.finditer(r"\X", word.group())
        for at in (cluster.start(), cluster.end())
    }


def cluster_around(text: str, offset: int, allowed: set[int]) -> str:
    first = max(at for at in allowed if at < offset)
    return text[first : min(at for at in allowed if at > offset)]


def check(
    text: str, spec: ChunkSpec, count: Counter, headings: Sequence[Heading] = (), pages: Sequence[int] = ()
) -> list[Span]:
    spans = chunk(text, spec, count, headings=headings, pages=pages)
    bound = spec.max_tokens or 10**9
    allowed = boundaries(text)
    covered = 0
    for i, span in enumerate(spans):
        assert span.text == text[span.start : span.end]
        assert span.text == span.text.strip() != ""
        assert len(span.text) <= spec.size
        assert span.token_count == count(span.text)
        assert span.token_count <= bound or len(span.text) == 1
        assert not text[covered : span.start].strip(), "text was lost"
        for at in (span.start, span.end):
            if at not in allowed:
                cluster = cluster_around(text, at, allowed)
                assert len(cluster) > spec.size or count(cluster) > bound, "a cluster was cut"
        if i:
            assert spans[i - 1].start < span.start
            assert spans[i - 1].end < span.end
            assert spans[i - 1].end - span.start <= min(spec.overlap, spec.size // 2)
        covered = span.end
    assert not text[covered:].strip(), "text was lost"
    whole = text.strip()
    if not whole:
        assert spans == []
    elif len(whole) <= spec.size and count(whole) <= bound:
        assert len(spans) == 1
    return spans


@pytest.mark.parametrize("count", [count_words, count_pieces])
@settings(max_examples=400, deadline=None)
@given(text=texts, spec=specs())
def test_all_bounds_hold_at_once(count: Counter, text: str, spec: ChunkSpec) -> None:
    check(text, spec, count)


@settings(max_examples=200, deadline=None)
@given(text=texts, spec=specs(smallest=20))
def test_all_bounds_hold_at_once_with_the_real_tokenizer(count_minilm: Counter, text: str, spec: ChunkSpec) -> None:
    check(text, spec, count_minilm)


@settings(max_examples=300, deadline=None)
@given(
    text=texts,
    spec=specs(),
    offsets=st.lists(st.tuples(st.integers(0, 300), st.integers(1, 6)), max_size=8),
    pages=st.lists(st.integers(1, 300), max_size=5, unique=True),
)
def test_headings_and_pages_anywhere_keep_every_bound(
    text: str, spec: ChunkSpec, offsets: list[tuple[int, int]], pages: list[int]
) -> None:
    headings = [Heading(at, level, f"h{at}") for at, level in sorted(offsets) if at < len(text)]
    starts = [0, *sorted(page for page in pages if page <= len(text))]
    for span in check(text, spec, count_pieces, headings, starts):
        assert span.page_start == sum(page <= span.start for page in starts)
        assert span.page_end == sum(page < span.end for page in starts)


@settings(max_examples=200, deadline=None)
@given(text=texts, size=st.integers(1, 150))
def test_no_overlap_gives_disjoint_chunks(text: str, size: int) -> None:
    spans = check(text, ChunkSpec(size, 0), count_words)
    assert all(before.end <= after.start for before, after in itertools.pairwise(spans))


@settings(max_examples=200, deadline=None)
@given(text=texts, spec=specs())
def test_equal_input_gives_equal_chunks(text: str, spec: ChunkSpec) -> None:
    assert chunk(text, spec, count_pieces) == chunk(text, spec, count_pieces)


ADVERSARIAL: dict[str, Callable[[int], str]] = {
    "one token": lambda n: "a " * (n // 2),
    "one word": lambda n: "a" * n,
    "carriage returns": lambda n: "\r" * (n - 1) + "x",
    "line breaks in pairs": lambda n: "x\r\n\r\n" * (n // 5),
    "blanks": lambda n: "x" + " " * (n - 2) + "x",
    "NUL": lambda n: "\x00" * n,
    "combining marks": lambda n: "e" + "\u0301" * (n - 1),
    "joined emoji": lambda n: "\U0001f469\u200d" * (n // 2),
    "full stops": lambda n: "." * n,
    "closers": lambda n: '."' * (n // 2),
    "fences": lambda n: "```\n" * (n // 4),
    "paragraphs of one letter before one long word": lambda n: ("a\n\n" + "b" * 600) * (n // 603),
}


@pytest.mark.parametrize("name", ADVERSARIAL)
def test_time_is_linear_on_adversarial_text(name: str) -> None:
    """Sixteen times the text takes at most 2.5 ** 4 times as long; the shortest of some runs counts."""
    spec = ChunkSpec(512, 50, 256)

    def seconds(characters: int, runs: int) -> float:
        text = ADVERSARIAL[name](characters)
        times = []
        for _ in range(runs):
            began = time.process_time()
            chunk(text, spec, len_as_tokens)
            times.append(time.process_time() - began)
        return min(times)

    # As many runs of each: on a busy machine the shortest of two is still a slow one.
    small, large = seconds(20_000, 5), seconds(320_000, 5)
    assert large <= 2.5**4 * max(small, 0.002)


def len_as_tokens(text: str) -> int:
    return 2 + len(text) // 4
