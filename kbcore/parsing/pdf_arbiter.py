"""Two readings of each page, pypdf's and PDFium's: how far they agree, and which one is text. Pure functions.

pypdf gives plausible garbage for some fonts, silently. PDFium reads the same page by other code, in a tenth of the
time, so every page is read twice. Where the two disagree, the reading with fewer characters that no writer would put
there is taken. Agreement is by trigrams of characters, blanks left out, each read in either direction: extractors put
blanks and line ends in other places, order columns differently, and turn right-to-left words around.
"""

from __future__ import annotations

import string
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kbcore.parsing.characters import implausible_in, sample_of, unmapped_in
from kbcore.parsing.quality import LETTER_LIKENESS, LONG_WORDS, SHORT_WORDS, letter_likeness, mean_length

AGREE = 0.6  # ordinary pages: 0.9 to 1, formulas 0.74; two unrelated English pages 0.3, a garbled reading 0 to 0.35
DISPUTED = 0.3  # neither is better, and they share next to nothing: one of them is wrong
MARGIN = 0.1  # of plausibility; garbage has 0 to 0.85, what PDFium reads of the same pages 0.95 to 1
READABLE = 0.5
KEPT = 0.3  # share of the plausible characters of the other reading that a better one has to have
ENOUGH = 20  # visible characters below which a dispute says nothing
ENOUGH_WORDS = 50  # likewise, below which nothing is said of blanks
_LETTERS_MARGIN = 0.5
_LISTED_PAGES = 50


@dataclass(frozen=True, slots=True)
class Verdict:
    """``text`` is the reading taken, ``agreement`` 0 to 1, ``weight`` the visible characters of the longer reading."""

    text: str
    from_pdfium: bool
    agreement: float
    weight: int
    disputed: bool = False


def agreement(one: str, other: str) -> float:
    """Dice similarity of the sets of trigrams; of short texts, whether they are equal. 1 for two empty ones."""
    a, b = _folded(one), _folded(other)
    if a == b:
        return 1.0
    if len(a) < 3 or len(b) < 3:
        return 0.0
    left, right = _trigrams(a), _trigrams(b)
    return 2 * len(left & right) / (len(left) + len(right))


def judge(first: str, second: str) -> Verdict:
    """Decide between pypdf's reading and PDFium's of one page. pypdf's stays unless the other is clearly better."""
    seen, other = _visible(first), _visible(second)
    weight = max(seen, other)
    if not other:
        return Verdict(first, False, float(not seen), weight)
    score = plausibility(second)
    if not seen:
        taken = score >= READABLE
        return Verdict(second if taken else "", taken, 0.0, weight)
    alike = agreement(first, second)
    own = plausibility(first)
    enough = score * other >= KEPT * own * seen
    if score >= own + MARGIN:
        return Verdict(second if enough else first, enough, alike, weight, not enough and own < 1 - MARGIN)
    if alike >= DISPUTED or own >= score + MARGIN or weight < ENOUGH:
        return Verdict(first, False, alike, weight)
    if enough and _letters(second) >= _letters(first) + _LETTERS_MARGIN:
        return Verdict(second, True, alike, weight)
    # pypdf also reads what is drawn in layers that are switched off, or twice: contained is not disputed.
    return Verdict(first, False, alike, weight, not _contained(first, second))


def record(verdicts: Sequence[Verdict]) -> dict[str, Any]:
    """What was found, as JSON values for ``Parsed.stats``.

    ``extractor`` (pypdf, pdfium, or "pypdf and pdfium"), ``extractor_agreement`` (mean of the pages by their length,
    0 to 1), ``disagreeing_pages`` and ``disputed_pages`` (counts), ``pdfium_pages`` (the first 50 page numbers).
    """
    weight = sum(verdict.weight for verdict in verdicts)
    mean = sum(verdict.agreement * verdict.weight for verdict in verdicts) / weight if weight else 1.0
    taken = [number for number, verdict in enumerate(verdicts, 1) if verdict.from_pdfium]
    with_text = sum(bool(verdict.text) for verdict in verdicts)
    found: dict[str, Any] = {
        "extractor": "pypdf" if not taken else "pdfium" if len(taken) == with_text else "pypdf and pdfium",
        "extractor_agreement": round(mean, 3),
        "disagreeing_pages": sum(verdict.weight > 0 and verdict.agreement < AGREE for verdict in verdicts),
        "disputed_pages": sum(verdict.disputed for verdict in verdicts),
    }
    if taken:
        found["pdfium_pages"] = taken[:_LISTED_PAGES]
        found["pdfium_page_count"] = len(taken)
    return found


def plausibility(text: str) -> float:
    """1 minus the share of visible characters that no writer would put there.

    Halved where the letters are as frequent as in no language, and where blanks are missing or stand between letters.
    """
    text = sample_of(text)
    words = text.split()
    visible = sum(map(len, words))
    if not visible:
        return 0.0
    bad = implausible_in(text) + unmapped_in(text)[1]
    score = max(0.0, 1 - bad / visible)
    likeness = letter_likeness(words)
    spaced = SHORT_WORDS < mean_length(words) <= LONG_WORDS or visible < ENOUGH_WORDS or not _is_latin(text)
    return score if spaced and (likeness is None or likeness >= LETTER_LIKENESS) else score / 2


def _is_latin(text: str) -> bool:
    return 2 * sum(map(text.lower().count, string.ascii_lowercase)) > sum(map(str.isalpha, text))


def _folded(text: str) -> str:
    return "".join(unicodedata.normalize("NFKC", text).casefold().split())


def _trigrams(text: str) -> set[str]:
    grams = {text[start : start + 3] for start in range(len(text) - 2)}
    return {min(gram, gram[::-1]) for gram in grams}


def _contained(one: str, other: str) -> bool:
    a, b = _trigrams(_folded(one)), _trigrams(_folded(other))
    return len(a & b) >= AGREE * min(len(a), len(b))


def _visible(text: str) -> int:
    return sum(map(len, text.split()))


def _letters(text: str) -> float:
    return sum(map(str.isalpha, text)) / max(1, _visible(text))
