"""The passage of a text that is nearest to a quote which is not in it any more, so that a person can mend the quote."""

from __future__ import annotations

import difflib
from collections import Counter
from dataclasses import dataclass

import regex

# Words; in scripts that are written without blanks every character is one.
_DENSE = r"\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}"
_WORD = regex.compile(rf"[{_DENSE}]|(?:(?![{_DENSE}])[\w\p{{M}}])+")
TRIED = 5


@dataclass(frozen=True, slots=True)
class Passage:
    """``text`` is the document's from ``start`` to ``end``; ``similarity`` is the ratio of difflib over casefolded words:
    twice the words that both have in one order, by the words of both; 0 to 1."""

    start: int
    end: int
    text: str
    similarity: float


def nearest(text: str, quote: str) -> Passage | None:
    """The passage of ``text`` with the words of ``quote``, or most of them; None where none of them is there.

    Windows as long as the quote are ranked by the words they share with it; the best of them, with as much again before and
    after, are aligned with it and cut to the first and last word they have in common.
    """
    wanted = [match.group().casefold() for match in _WORD.finditer(quote)]
    spans = [match.span() for match in _WORD.finditer(text)]
    words = [text[start:end].casefold() for start, end in spans]
    best: Passage | None = None
    for first in _windows(words, wanted):
        low, high = max(0, first - len(wanted) // 2), first + len(wanted) + len(wanted) // 2
        found = _aligned(text, spans[low:high], words[low:high], wanted)
        if found is not None and (best is None or found.similarity > best.similarity):
            best = found
    return best


def _windows(words: list[str], wanted: list[str]) -> list[int]:
    """Where the windows begin that share most words with ``wanted``, best first, each a half of its length from others."""
    length = len(wanted)
    budget = Counter(wanted)
    inside: Counter[str] = Counter()
    shared = 0
    scores: list[tuple[int, int]] = []
    for at, word in enumerate(words):
        inside[word] += 1
        shared += inside[word] <= budget[word]
        if at >= length:
            left = words[at - length]
            shared -= inside[left] <= budget[left]
            inside[left] -= 1
        if shared:
            scores.append((-shared, max(0, at - length + 1)))
    chosen: list[int] = []
    for _, start in sorted(scores):
        if all(abs(start - other) > length // 2 for other in chosen):
            chosen.append(start)
            if len(chosen) == TRIED:
                break
    return chosen


def _aligned(text: str, spans: list[tuple[int, int]], words: list[str], wanted: list[str]) -> Passage | None:
    matcher = difflib.SequenceMatcher(None, words, wanted, autojunk=False)
    blocks = [block for block in matcher.get_matching_blocks() if block.size]
    if not blocks:
        return None
    best: tuple[float, int, int] = (0.0, 0, 0)
    # A common word far from the rest would draw the passage out: the run of blocks with the best ratio is taken.
    for i in range(len(blocks)):
        common = 0
        for j in range(i, len(blocks)):
            common += blocks[j].size
            low, high = blocks[i].a, blocks[j].a + blocks[j].size
            best = max(best, (2 * common / (high - low + len(wanted)), -low, high))
    similarity, low, high = best[0], -best[1], best[2]
    start, end = spans[low][0], spans[high - 1][1]
    return Passage(start, end, text[start:end], similarity)
