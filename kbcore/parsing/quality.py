"""Figures of a parsed text, and the flags that say why it should not be trusted. Pure; run in the child.

The figures are in ``stats`` of each document (``kb documents --json``, and the column ``stats`` of ``kb sql``):

- ``characters`` of the whole text, ``visible_characters`` (not white space; all shares are of these); ``words`` (between
  blanks), ``lines`` (that hold any), ``words_per_line``, ``mean_word_length``, ``longest_word``,
  ``repeated_line_share`` (lines that occurred before, of all lines);
- ``pages``, ``empty_pages`` and ``characters_per_page`` (visible ones), where a text has pages;
- ``replacement_characters`` (U+FFFD, a count), ``private_use_share``, ``control_share``, ``digit_share``,
  ``letter_share`` (leaders such as dots left out), ``scripts`` (share of the letters by Unicode script, largest first,
  at most five), ``mojibake_share``, ``implausible_share`` (what no writer would put there, see characters.py);
- of PDFs ``unmapped_glyphs`` (a count of ``(cid:12)`` and ``/g12/g140``) and ``letter_likeness`` (cosine of the
  frequencies of a to z with those of European languages; absent below 150 letters in 40 distinct words);
- ``language_guess``: an ISO 639-1 code or null;
- ``flags``: some of FLAGS, in that order, and ``flag``: the reasons in words, only where there are any.
"""

from __future__ import annotations

import math
import re
import string
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from kbcore.parsing.characters import implausible_in, mojibake_in, sample_of, script_of, unmapped_in
from kbcore.parsing.language import guess_language
from kbcore.parsing.media import HTML, PDF
from kbcore.types import Parsed

FLAGS = ("mojibake", "no_text_layer", "garbled", "truncated", "mostly_empty_pages")

# The thresholds, with what was seen on real files: "good" are help-desk pages, WSL pages and readable PDFs, "bad" are
# PDFs of the test suites of pdf.js and pdfminer whose text is garbage.
MOJIBAKE_SHARE = 0.002  # English whose only trace is â€™ has 0.003 and more; good texts have 0
MOJIBAKE_SEQUENCES = 3  # a page that quotes one or two is about mojibake
IMPLAUSIBLE_SHARE = 0.1  # bad: median 0.5; good: at most 0.07 (Thai with marks of its own)
CONTROL_SHARE = 0.03  # a font without a map writes each blank as U+0003: 0.1; good: 0
LETTER_SHARE = 0.2  # bad: glyph numbers read as ASCII have 0 to 0.15; good: 0.3 and more, but for tables of figures
WRITTEN_SHARE = 0.5  # letters and digits together: glyph numbers read as ASCII have 0.4, tables of figures 0.6 and more
LETTER_LIKENESS = 0.7  # English with its letters moved along the alphabet: 0.44 to 0.69; good: 0.79 and more
SHORT_WORDS = 1.5  # mean characters of a word where blanks stand between letters; good: as in the next line
LONG_WORDS = 30.0  # mean characters of a word where blanks were lost; good: 4 to 9
DISPUTED_PAGE_SHARE = 0.1  # two readings share next to nothing and neither is better; good: no page
EMPTY_PAGE_SHARE = 0.5
PAGE_IMAGE_SHARE = 0.5  # of the pages are pictures with less than a line of text: a scan

_ENOUGH = 50  # visible characters below which most shares say nothing
_ENOUGH_LETTERS = 150
_ENOUGH_WORDS = 40  # distinct ones: the letters of "Hello world", many times, are those of no language
_ENOUGH_IN_PDF = 20
_LEAST_BROKEN = 2
_LEADERS = ".…·_-"  # a table of contents is mostly dots
_FEW_CHARACTERS = 300
_PDF_TAIL = 2_048
_LINEARIZED = re.compile(rb"/Linearized\b[^>]{0,200}?/L\s{1,4}(\d{1,12})")

# Frequencies of a to z in percent: the mean of English and German prose; French, Spanish, Polish, Finnish, Hungarian
# and Indonesian come to 0.8 and more against it.
_USUAL = (
    7.0,
    1.7,
    3.2,
    4.4,
    13.7,
    1.9,
    2.5,
    3.5,
    7.8,
    0.3,
    1.1,
    4.2,
    2.9,
    8.6,
    5.6,
    2.2,
    0.1,
    6.9,
    6.7,
    7.4,
    4.0,
    1.1,
    1.5,
    0.3,
    0.9,
    0.7,
)


def flags_of(stats: Mapping[str, Any]) -> tuple[str, ...]:
    """The flags of a document's stored figures, in the order of FLAGS; those of an older parser have none."""
    found = stats.get("flags")
    return tuple(flag for flag in FLAGS if flag in found) if isinstance(found, list) else ()


def figures(parsed: Parsed, data: bytes = b"") -> dict[str, Any]:
    """All figures of ``parsed``, JSON values; ``data`` are the source's bytes, to see whether they were cut off.

    What the parser counted (``parsed.stats``) is read and not repeated, but for ``flag``, which gets the reasons added.
    """
    text = parsed.text
    found = text_figures(text, glyphs=parsed.media_type == PDF)
    if parsed.pages:
        found |= _page_figures(parsed)
    judged = {**parsed.stats, **found}
    reasons = dict(_reasons(judged, parsed.media_type))
    if cut := _cut_off(parsed.media_type, data):
        reasons["truncated"] = cut
    found["flags"] = [flag for flag in FLAGS if flag in reasons]
    said = [parsed.stats["flag"]] if "flag" in parsed.stats else []
    if said or reasons:
        found["flag"] = "; ".join([*said, *(reasons[flag] for flag in found["flags"])])
    return found


def text_figures(text: str, *, glyphs: bool = False) -> dict[str, Any]:
    """The figures that need nothing but the text. Counts are of all of it, patterns of at most 200,000 characters.

    ``glyphs``: look for what fonts without a map give; elsewhere than in PDFs, glyph names would be paths.
    """
    words = text.split()
    lines = [line for line in map(str.strip, text.split("\n")) if line]
    visible = sum(map(len, words))
    counts = _counts(text)
    letters: Counter[str] = Counter()
    alphabetic = digits = leaders = private = control = 0
    for char, count in counts.items():
        if char.isalpha():
            alphabetic += count
            letters[script_of(char) or "Common"] += count
        elif not char.isspace():
            category = unicodedata.category(char)
            digits += count * (category == "Nd")
            leaders += count * (char in _LEADERS)
            private += count * (category == "Co")
            control += count * (category == "Cc")
    sample = sample_of(text)
    sampled = max(1, len(sample) - sum(map(sample.count, (" ", "\n"))) if sample is not text else visible)
    unmapped, unmapped_length = unmapped_in(sample) if glyphs else (0, 0)
    sequences, mojibake_length = mojibake_in(sample)
    scripts = {name: _share(count, alphabetic) for name, count in letters.most_common(5)}
    found: dict[str, Any] = {
        "characters": len(text),
        "visible_characters": visible,
        "words": len(words),
        "lines": len(lines),
        "words_per_line": round(len(words) / max(1, len(lines)), 2),
        "mean_word_length": round(mean_length(words), 2),
        "longest_word": max(map(len, words), default=0),
        "repeated_line_share": _share(len(lines) - len(set(lines)), len(lines)),
        "replacement_characters": counts.get("\ufffd", 0),
        "private_use_share": _share(private, visible),
        "control_share": _share(control, visible),
        "letter_share": _share(alphabetic, visible - leaders),
        "digit_share": _share(digits, visible),
        "scripts": scripts,
        "unmapped_glyphs": unmapped,
        "mojibake_share": _share(mojibake_length, sampled) if sequences >= MOJIBAKE_SEQUENCES else 0.0,
        "implausible_share": min(1.0, _share(implausible_in(sample) + unmapped_length, sampled)),
        "language_guess": guess_language(sample, scripts),
    }
    if glyphs and (likeness := letter_likeness(words)) is not None:
        found["letter_likeness"] = likeness
    return found


def mean_length(words: list[str]) -> float:
    """Mean characters of a word; the dots between an entry of a table of contents and its page are no words."""
    dots = sum(map(words.count, _LEADERS))
    return (sum(map(len, words)) - dots) / max(1, len(words) - dots)


def letter_likeness(words: Sequence[str]) -> float | None:
    """How far the letters a to z are as frequent in the distinct words as in European languages, 0 to 1.

    None where they are too few. Each word of letters alone counts once: a table repeats its few, and numbers them.
    """
    distinct = {
        bare for word in set(words) if (bare := _without_marks(word.strip(string.punctuation).lower())).isalpha()
    }
    if len(distinct) < _ENOUGH_WORDS:
        return None
    joined = "".join(distinct)
    frequencies = [joined.count(letter) for letter in string.ascii_lowercase]
    if sum(frequencies) < _ENOUGH_LETTERS:
        return None
    length = math.hypot(*frequencies) * math.hypot(*_USUAL)
    return round(sum(a * b for a, b in zip(frequencies, _USUAL)) / length, 3)


def _without_marks(word: str) -> str:
    """The letters without their accents: most vowels of Vietnamese have one, and would count as no letters of a to z."""
    if word.isascii():
        return word
    parts = unicodedata.normalize("NFD", word.replace("đ", "d"))
    return "".join(char for char in parts if unicodedata.category(char) != "Mn")


def _page_figures(parsed: Parsed) -> dict[str, Any]:
    ends = (*parsed.pages[1:], len(parsed.text))
    visible = [sum(map(len, parsed.text[start:end].split())) for start, end in zip(parsed.pages, ends)]
    return {
        "pages": len(visible),
        "empty_pages": visible.count(0),
        "characters_per_page": round(sum(visible) / len(visible), 1),
    }


def _reasons(stats: Mapping[str, Any], media_type: str) -> list[tuple[str, str]]:
    """Flags and their reasons in words, without that of ``truncated``."""
    found: list[tuple[str, str]] = []
    if stats["mojibake_share"] >= MOJIBAKE_SHARE:
        found.append(
            ("mojibake", f"{stats['mojibake_share']:.1%} of the characters look like UTF-8 read as another encoding")
        )
    if garbled := _garbled(stats, media_type):
        found.append(("garbled", "; ".join(garbled)))
    pages, empty = stats.get("pages", 0), stats.get("empty_pages", 0)
    if pages and stats.get("image_pages", 0) > PAGE_IMAGE_SHARE * pages:
        found.append(("no_text_layer", f"{stats['image_pages']} of {pages} pages are pictures: needs OCR"))
    if pages and empty > EMPTY_PAGE_SHARE * pages:
        found.append(("mostly_empty_pages", f"{empty} of {pages} pages have no text layer"))
    return found


def _garbled(stats: Mapping[str, Any], media_type: str) -> list[str]:
    visible = stats["visible_characters"]
    control = stats["control_share"]
    found = []
    implausible = stats["implausible_share"]
    broken = stats["private_use_share"] + control + stats["replacement_characters"] / max(1, visible)
    # Few characters prove nothing ("äöüß" is an odd text, and a likely one) unless they are none.
    enough = visible >= (_ENOUGH_IN_PDF if media_type == PDF else _ENOUGH) or stats["unmapped_glyphs"] >= _LEAST_BROKEN
    if max(implausible if enough else 0.0, broken) >= IMPLAUSIBLE_SHARE and implausible * visible >= _LEAST_BROKEN:
        found.append(f"{implausible:.0%} of the characters are replacements, unmapped or out of place")
    elif control >= CONTROL_SHARE and control * visible >= _LEAST_BROKEN:
        found.append(f"{control:.0%} of the characters are control codes")
    if media_type != PDF:  # what follows is ordinary in code and in data, and comes in PDFs from fonts without a map
        return found
    if visible >= _ENOUGH:
        if stats["letter_share"] < LETTER_SHARE and stats["letter_share"] + stats["digit_share"] < WRITTEN_SHARE:
            found.append(f"only {stats['letter_share']:.0%} of the characters are letters")
        latin = stats["scripts"].get("Latin", 0.0) > 0.5  # scripts such as Han are written without blanks
        if latin and not SHORT_WORDS < stats["mean_word_length"] <= LONG_WORDS:
            found.append(
                "words are not separated" if stats["mean_word_length"] > LONG_WORDS else "words are taken apart"
            )
        if latin and stats.get("letter_likeness", 1.0) < LETTER_LIKENESS:
            found.append(f"its letters are those of no language (likeness {stats['letter_likeness']})")
    disputed = stats.get("disputed_pages", 0)
    if disputed and disputed > DISPUTED_PAGE_SHARE * stats["pages"]:
        found.append(f"two extractors read {disputed} of {stats['pages']} pages differently, and neither reads well")
    return found


def _cut_off(media_type: str, data: bytes) -> str:
    """Why ``data`` seems to be the beginning of a longer file, "" where it does not."""
    if media_type == PDF and data:
        if (match := _LINEARIZED.search(data[:1_024])) and int(match[1]) > len(data):
            return f"the file says that it has {int(match[1]):,} bytes and has {len(data):,}"
        if b"%%EOF" not in data.rstrip(b"\0\r\n\t ")[-_PDF_TAIL:]:
            return "the file does not end as a PDF does"
    if media_type == HTML and data:
        tail = data[-_PDF_TAIL:]
        opened = tail.rfind(b"<")
        if opened > tail.rfind(b">") and re.match(rb"</?[a-zA-Z!][^<]*\Z", tail[opened:]):
            return "the page ends in the midst of a tag"
    return ""


def _counts(text: str) -> Mapping[str, int]:
    """How often each character occurs; by far quicker than a Counter where there are few of them."""
    distinct = set(text)
    return {char: text.count(char) for char in distinct} if len(distinct) <= _FEW_CHARACTERS else Counter(text)


def _share(part: float, whole: float) -> float:
    return round(part / whole, 4) if whole else 0.0
