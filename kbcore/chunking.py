"""Cuts a document's text into chunks: exact slices, bounded in characters and in tokens, that end at the coarsest seam.

A chunk is an *own part* and, before it, an *overlap*: up to ``overlap`` characters of the text that precedes it. Own
parts follow each other without a gap (but for blanks) and end at seams. A seam is named here by the offset at which
the part before it ends, blanks excluded. Its ranks, coarsest first:

    the end of the text; a page break, a blank line or the start of a heading; a line break; the end of a sentence;
    the end of a heading line (a heading belongs to what follows it); a blank; a grapheme cluster; a code point

Seams are looked for within ``size - overlap`` characters and ``max_tokens - min(overlap, max_tokens // 2)`` tokens, so
that the overlap always has room. Tokens are counted on the slice that is stored, since they are not additive: WordPiece
makes one [UNK] of a word over 100 characters, and dozens of tokens of a part of that word.

A blank stands on its own: a combining mark after a space does not keep the space in the chunk.
"""

from __future__ import annotations

import hashlib
import json
import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass

import regex

from kbcore.errors import ConfigError
from kbcore.types import Heading, Span

STRATEGY = "seams-1"
TokenCounter = Callable[[str], int]

# In `re`, \s is exactly what str.isspace() and str.strip() call blank; in `regex` it is not (U+001C to U+001F).
_NEWLINE = r"(?:\r\n|[\n\r\x0b\x1c-\x1e\x85\u2028\u2029])"
_INLINE = r"[^\S\n\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]"
_NON_BLANK = re.compile(r"\S")
_WORD_END = re.compile(r"(?<!\s)\s")
_WORD_START = re.compile(r"(?<!\S)\S")
_WORD = re.compile(r"\S++")
# The look-behind lets a match begin only where a run of blanks begins: without it, long runs would cost their square.
# A group that took part means a blank line or a form feed.
_LINE_BREAK = re.compile(rf"(?<!\s){_INLINE}*+(?:{_NEWLINE}(?:{_INLINE}*+({_NEWLINE}|\f))?|(\f))\s*+")
_UNDERLINE = re.compile(r"=+|-+")
_FENCE = re.compile(r"(?:\A|(?<=[\n\r]))[ \t]*+(`{3,}+|~{3,}+)([^\n\r]*+)")
_CLOSERS = r"[\"'”’»)\]}」』）】》]*+"
_SENTENCE_END = regex.compile(
    rf"(?<![.!?…।॥۔؟።])[.!?…।॥۔؟።]++{_CLOSERS}(?=\s++\P{{Ll}})"
    rf"|(?<![。！？｡])[。！？｡]++{_CLOSERS}(?![\p{{GCB=Extend}}\p{{GCB=SpacingMark}}\p{{GCB=ZWJ}}])"
)
_CLUSTER = regex.compile(r"\X")

# Where the character bound is far above what the token bound admits, a window is counted only up to this many
# characters a token and doubled while it fits, so that no more is counted than is used.
_WINDOW_CHARACTERS_PER_TOKEN = 8


@dataclass(frozen=True, slots=True)
class ChunkSpec:
    """How to chunk: ``size`` and ``overlap`` in characters (Unicode code points), ``max_tokens`` in the embedder's
    tokens, special tokens included, or None for no token bound. ``overlap`` takes effect up to half of ``size``.

    Raises ConfigError for values that no chunk could meet.
    """

    size: int = 512
    overlap: int = 50
    max_tokens: int | None = None

    def __post_init__(self) -> None:
        if self.size < 1:
            raise ConfigError(f"chunk size is {self.size}: it must be at least 1 character")
        if self.overlap < 0:
            raise ConfigError(f"chunk overlap is {self.overlap}: it must not be negative")
        if self.size <= self.overlap:
            raise ConfigError(f"chunk overlap is {self.overlap}: it must be smaller than the chunk size ({self.size})")
        if self.max_tokens is not None and self.max_tokens < 8:
            raise ConfigError(f"max_tokens is {self.max_tokens}: a chunk needs at least 8 tokens")


def chunk(
    text: str,
    spec: ChunkSpec,
    count_tokens: TokenCounter,
    *,
    headings: Sequence[Heading] = (),
    pages: Sequence[int] = (),
) -> list[Span]:
    """The chunks of ``text`` in order; start and end offsets both increase strictly, and no chunk lies in another.

    ``count_tokens`` says how many tokens the embedder makes of a slice, special tokens included. ``headings`` and
    ``pages`` are those of the parsed document, in order of offset. Every non-blank character is in a chunk; a blank
    text has none. A text within both bounds is one chunk.

    A grapheme cluster is cut only where it exceeds a bound by itself. One single code point that makes more than
    ``max_tokens`` tokens is a chunk all the same, the only case in which a bound is not kept. Nothing is raised.
    """
    return _Chunker(text, spec, count_tokens, headings, pages).run()


def chunker_id(spec: ChunkSpec, *, tokenizer_id: str, context: str) -> str:
    """32 hexadecimal digits that change with whatever changes the chunks: strategy, bounds, tokenizer, context."""
    named = {"strategy": STRATEGY, "unit": "characters", "tokenizer": tokenizer_id, "context": context}
    canonical = json.dumps({**named, **asdict(spec)}, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(canonical.encode()).hexdigest()[:32]


class _Chunker:
    """The state of one call of ``chunk``."""

    def __init__(
        self, text: str, spec: ChunkSpec, count: TokenCounter, headings: Sequence[Heading], pages: Sequence[int]
    ) -> None:
        self.text = text
        self.spec = spec
        self.count = count
        self.headings = sorted(headings, key=lambda heading: heading.offset)
        self.pages = sorted(pages)
        self.paths = _heading_paths(self.headings)
        self.overlap = min(spec.overlap, spec.size // 2)
        self.own_size = spec.size - self.overlap
        self.max_tokens = most = spec.max_tokens
        self.own_tokens = None if most is None else most - min(self.overlap, most // 2)
        self.end = len(text.rstrip())
        self.seams: list[list[int]] = []
        self.fences: list[tuple[int, int]] = []
        self.fence_fits: dict[int, bool] = {}
        self.counted: dict[tuple[int, int], int] = {}  # of the chunk being cut

    def run(self) -> list[Span]:
        own = self._skip_blanks(0)
        if own >= self.end:
            return []
        if self._fits_chunk(own, self.end):
            return [self._span(own, own, self.end)]
        self.seams = _seams(self.text, self.headings, self.pages)
        self.fences = _fences(self.text)
        spans: list[Span] = []
        owns: list[int] = []
        while own < self.end:
            self.counted.clear()
            starts = [*self._overlap_starts(own, owns), own]
            end = self._own_end(own, starts[0])
            start = self._start(starts, end)
            # A chunk that begins no earlier than its successor lies inside it.
            while spans and spans[-1].start >= start:
                spans.pop()
            spans.append(self._span(start, own, end))
            owns.append(own)
            own = self._skip_blanks(end)
        return spans

    def _span(self, start: int, own: int, end: int) -> Span:
        heading = self.paths[bisect_right(self.headings, own, key=lambda heading: heading.offset)]
        first, last = (max(1, bisect_right(self.pages, at)) if self.pages else None for at in (start, end - 1))
        return Span(start, end, self.text[start:end], self._tokens(start, end), heading, first, last)

    def _skip_blanks(self, offset: int) -> int:
        word = _NON_BLANK.search(self.text, offset)
        return word.start() if word else self.end

    def _tokens(self, start: int, end: int) -> int:
        if (start, end) not in self.counted:
            self.counted[start, end] = self.count(self.text[start:end])
        return self.counted[start, end]

    def _fits_chunk(self, start: int, end: int) -> bool:
        if end - start > self.spec.size:
            return False
        return self.max_tokens is None or self._tokens(start, end) <= self.max_tokens

    def _fits_own(self, own: int, end: int) -> bool:
        return self.own_tokens is None or self._tokens(own, end) <= self.own_tokens

    def _own_end(self, own: int, start: int) -> int:
        """The coarsest seam at which the part that begins at ``own`` can end; ``start`` is where its overlap begins."""
        limit = self._window(own)
        over: tuple[int, int] | None = None
        for ends in self._ranks(own, limit):
            if ends and over is None and self._fits_own(start, ends[-1]):
                return ends[-1]  # Mostly the whole chunk is within the bound of the own part: one count is enough.
            end, over = self._last_fitting(own, ends, over)
            if end is not None:
                return end
        # Not even the first cluster fits an own part. Whole in a chunk with less overlap is better than cut.
        cluster_end = next(self._cluster_ends(own, own + self.spec.size + 1))
        if self._fits_chunk(own, cluster_end):
            return cluster_end
        end, _ = self._last_fitting(own, range(own + 1, min(limit, cluster_end) + 1), over)
        return own + 1 if end is None else end

    def _window(self, own: int) -> int:
        """The offset up to which seams are looked for."""
        limit = min(own + self.own_size, self.end)
        if self.own_tokens is None:
            return limit
        width = _WINDOW_CHARACTERS_PER_TOKEN * self.own_tokens
        while own + width < limit and self._fits_own(own, own + width):
            width *= 2
        return min(own + width, limit)

    def _ranks(self, own: int, limit: int) -> Iterator[Sequence[int]]:
        """The seams in (own, limit], rank by rank, coarsest first, each rank in ascending order."""
        if limit == self.end:
            yield [limit]
        for seams in self.seams:
            yield self._outside_fences(seams[bisect_right(seams, own) : bisect_right(seams, limit)])
        yield self._outside_fences([match.start() for match in _WORD_END.finditer(self.text, own + 1, limit + 1)])
        yield [end for end in self._cluster_ends(own, limit + 1) if end <= limit]

    def _last_fitting(
        self, own: int, ends: Sequence[int], over: tuple[int, int] | None
    ) -> tuple[int | None, tuple[int, int] | None]:
        """The last of ``ends`` that fits an own part, and the least end known not to fit, with its number of tokens.

        Searches by proportion first, by halves if that takes long. What it returns was counted, never estimated.
        """
        if self.own_tokens is None:
            return (ends[-1] if ends else None), None
        low, high = 0, len(ends) if over is None else bisect_left(ends, over[0])
        under, steps = (own, 0), 0
        while low < high:
            if over is None:
                guess = high - 1
            elif steps < 5:
                share = (self.own_tokens - under[1]) / (over[1] - under[1])
                target = under[0] + int((over[0] - under[0]) * share)
                guess = min(max(bisect_right(ends, target) - 1, low), high - 1)
            else:
                guess = (low + high) // 2
            steps += 1
            tokens = self._tokens(own, ends[guess])
            if tokens <= self.own_tokens:
                low, under = guess + 1, (ends[guess], tokens)
            else:
                high, over = guess, (ends[guess], tokens)
        return (ends[low - 1] if low else None), over

    def _outside_fences(self, ends: Sequence[int]) -> Sequence[int]:
        return [end for end in ends if not self._in_fence(end)] if self.fences else ends

    def _in_fence(self, end: int) -> bool:
        """Whether ``end`` lies inside a code block that fits an own part, and so is not to be split."""
        i = bisect_left(self.fences, (end, 0)) - 1
        if i < 0 or end >= self.fences[i][1]:
            return False
        if i not in self.fence_fits:
            first, last = self.fences[i]
            self.fence_fits[i] = last - first <= self.own_size and self._fits_own(first, last)
        return self.fence_fits[i]

    def _cluster_ends(self, own: int, stop: int) -> Iterator[int]:
        """The ends of the grapheme clusters of the word at ``own``, as far as text[own:stop] shows them."""
        word = _WORD.match(self.text, own, stop)
        return (own + end for _, end in _clusters(word.group() if word else ""))

    def _overlap_starts(self, own: int, owns: Sequence[int]) -> Sequence[int]:
        """Where the overlap before ``own`` may begin, the longest overlap first: at words, or else at clusters."""
        if not owns or not self.overlap:
            return []
        low = own - self.overlap
        words = [match.start() for match in _WORD_START.finditer(self.text, max(low, 0), own)]
        if words:
            return words
        # The start of an earlier own part is a place from which clusters can be told without going further back.
        known = owns[bisect_right(owns, low) - 1]
        words_since = _WORD.finditer(self.text, known, own)
        starts = [word.start() + start for word in words_since for start, _ in _clusters(word.group())]
        return starts[bisect_left(starts, low) :]

    def _start(self, starts: Sequence[int], end: int) -> int:
        """The first of ``starts`` (the last is that of the own part) from which a chunk to ``end`` is within bounds."""
        if self._fits_chunk(starts[0], end):
            return starts[0]
        i = bisect_left(starts, True, lo=1, key=lambda start: self._fits_chunk(start, end))
        return starts[min(i, len(starts) - 1)]


def _clusters(word: str) -> Iterator[tuple[int, int]]:
    """Start and end of each grapheme cluster of a text without blanks."""
    if word.isascii():
        return ((i, i + 1) for i in range(len(word)))
    return (match.span() for match in _CLUSTER.finditer(word))


def _seams(text: str, headings: Sequence[Heading], pages: Sequence[int]) -> list[list[int]]:
    """The seams of the whole text by rank: paragraphs, lines, sentences, ends of heading lines."""
    breaks = [match for match in _LINE_BREAK.finditer(text) if match.start()]
    ends = [match.start() for match in breaks]
    nexts = [match.end() for match in breaks]
    paragraphs = {match.start() for match in breaks if match.lastindex}
    blank_lines = frozenset(paragraphs)
    heading_ends: set[int] = set()
    for heading in headings:
        before = bisect_left(nexts, heading.offset)
        if before < len(ends) and ends[before] <= heading.offset:
            paragraphs.add(ends[before])
        after = bisect_right(ends, heading.offset)
        heading_ends.update(ends[after : after + 1])
        underlined = after + 1 < len(ends) and ends[after] not in blank_lines
        if underlined and _UNDERLINE.fullmatch(text, nexts[after], ends[after + 1]):
            heading_ends.add(ends[after + 1])
    paragraphs.update(end for page in pages if (end := _page_seam(text, page)))
    sentences = (match.end() for match in _SENTENCE_END.finditer(text))
    coarse_first = (sorted(paragraphs), ends, sentences)
    return [*([end for end in rank if end not in heading_ends] for rank in coarse_first), sorted(heading_ends)]


def _page_seam(text: str, page: int) -> int:
    """Where the text before the page that begins at ``page`` ends; 0 if there is none, or it would cut a cluster."""
    if not 0 < page < len(text):
        return 0
    end = page
    while end and text[end - 1].isspace():
        end -= 1
    if end < page or text[page].isspace():
        return end
    # Some characters before it are context enough for any cluster that a font can show.
    word = text[max(0, page - 64) : page].split()[-1]
    return page if (len(word), len(word) + 1) in _clusters(word + text[page]) else 0


def _fences(text: str) -> list[tuple[int, int]]:
    """Start and end of the fenced code blocks, in order; one that is not closed ends with the text."""
    fences: list[tuple[int, int]] = []
    opened: re.Match[str] | None = None
    for match in _FENCE.finditer(text):
        marker, rest = match.groups()
        if opened is None:
            opened = match if marker[0] == "~" or "`" not in rest else None
        elif marker.startswith(opened.group(1)) and not rest.strip():
            fences.append((opened.start(1), match.end(1)))
            opened = None
    if opened is not None:
        fences.append((opened.start(1), len(text.rstrip())))
    return fences


def _heading_paths(headings: Sequence[Heading]) -> list[tuple[str, ...]]:
    """The path of headings under which text stands after none, one, two ... of ``headings``."""
    paths: list[tuple[str, ...]] = [()]
    stack: list[Heading] = []
    for heading in headings:
        while stack and stack[-1].level >= heading.level:
            stack.pop()
        stack.append(heading)
        paths.append(tuple(heading.text for heading in stack))
    return paths
