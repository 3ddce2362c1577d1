"""The sections of a document that a question can be asked about: a heading, and the first sentences under it."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import regex

LEAST_WORDS = 12
LEAST_CHARACTERS = 60
QUOTE_CHARACTERS = 120
MOST_CHARACTERS = 400
LEAST_PROSE = 0.5

_BLOCK = re.compile(r"\S(?:.|\n(?![ \t]*\n))*")
# What begins a line that is no prose: lists, tables, quotations, fences, pictures, admonitions, HTML, rules, headings.
_MARKUP = re.compile(
    r"\s*(?:[-*+•]\s|\d+[.)]\s|\||>|```|~~~|!\[|!!!|\?\?\?|:::|<[/!a-zA-Z]|[-=*_]{3,}\s*$|#{1,6}\s|\[[^\]]*\]:|\{%)"
)
_FENCE = re.compile(r"[ \t]*(```+|~~~+)")
_LINK = re.compile(r"!?\[[^\]]*\]\([^)]*\)")
_INDENTED = re.compile(r"(?: {4}|\t)")
_SENTENCE_END = regex.compile(r"(?<=\p{L}{2}|[\p{N})\]\"'”’`*])[.!?](?=[\"'”’)*]*(?:\s|$))[\"'”’)*]*|[。！？]")


@dataclass(frozen=True, slots=True)
class Section:
    """``heading`` is None where the text stands under the title alone. ``quote`` is the document's own text, from the start
    of the first paragraph of prose: whole sentences, at least so many that they say something."""

    heading: str | None
    quote: str
    start: int


def sections(text: str, headings: Sequence[tuple[int, str]]) -> Iterator[Section]:
    """The sections of a document with enough prose for a question, in order; ``headings`` are (offset, words).

    What is a list of links, a table or code is passed over, and so is a document that is mostly that: an index page.
    """
    marks = sorted(headings)
    bounds = [0, *(offset for offset, _ in marks), len(text)]
    bodies = [(start, text[start:end]) for start, end in itertools.pairwise(bounds)]
    prose, of = 0, 0
    found: list[Section] = []
    for number, (start, body) in enumerate(bodies):
        heading = marks[number - 1][1] if number else None
        offset = _after_heading(body) if number else 0
        blocks = list(_prose(body[offset:]))
        prose += sum(len(block) for _, block in blocks)
        of += len(body[offset:].strip())
        words = sum(len(block.split()) for _, block in blocks)
        if words < LEAST_WORDS and sum(len(block) for _, block in blocks) < LEAST_CHARACTERS:
            continue
        quoted = next(((at, quote) for at, block in blocks if (quote := _sentences(block)) is not None), None)
        if quoted is not None:
            found.append(Section(heading, quoted[1], start + offset + quoted[0]))
    if of and prose >= LEAST_PROSE * of:
        yield from found


def _after_heading(body: str) -> int:
    """Where the text under a heading begins: behind its line, and the line that underlines it."""
    end = body.find("\n") + 1 or len(body)
    underline = re.compile(r"[ \t]*[-=]{2,}[ \t]*(?:\n|$)").match(body, end)
    return underline.end() if underline else end


def _prose(body: str) -> Iterator[tuple[int, str]]:
    """Paragraphs that are prose, with their offsets. One with a link counts if most of it is none."""
    fence = ""
    for match in _BLOCK.finditer(body):
        block = match.group()
        opened = fence
        for line in block.split("\n"):
            mark = _FENCE.match(line)
            if mark and not fence:
                fence = mark[1]
            elif mark and mark[1].startswith(fence):
                fence = ""
        if opened or _FENCE.search(block) or _indented(body, match.start()):
            continue
        lines = block.split("\n")
        if any(_MARKUP.match(line) for line in lines):
            continue
        if len(_LINK.sub("", block)) * 2 > len(block):
            yield match.start(), block.rstrip()


def _indented(body: str, start: int) -> bool:
    return _INDENTED.match(body, body.rfind("\n", 0, start) + 1) is not None


def _sentences(block: str) -> str | None:
    """The first sentences of a paragraph, at least 120 characters where it has so many; None where even the first is
    short of a sentence or too long to be quoted."""
    ends = [match.end() for match in _SENTENCE_END.finditer(block)]
    if not ends:
        return None
    end = next((end for end in ends if end >= QUOTE_CHARACTERS), ends[-1])
    if end > MOST_CHARACTERS:
        end = max((e for e in ends if e <= MOST_CHARACTERS), default=0)
    return block[:end] if end >= LEAST_CHARACTERS else None
