"""Which characters of a text no writer would put there: the traces of a wrong encoding or of a wrong font map.

Pure functions of text. A wrong map gives characters that are fine each on its own, so their neighbours are judged as
well: scripts that change within a word, letters of a script that hardly any text has, words made of accents.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from functools import lru_cache

import regex

SAMPLE = 200_000  # characters; counting neighbours in more would cost more than it tells
_SLICES = 10

_SCRIPTS = re.findall(
    r"\w+",
    "Latin Greek Cyrillic Armenian Hebrew Arabic Devanagari Bengali Gurmukhi Gujarati Oriya Tamil Telugu Kannada "
    "Malayalam Sinhala Thai Lao Tibetan Myanmar Georgian Hangul Ethiopic Khmer Mongolian Hiragana Katakana Bopomofo Han",
)
_SCRIPT = regex.compile("|".join(rf"(?P<{name}>\p{{Script={name}}})" for name in _SCRIPTS))
_EAST = {"Han", "Hiragana", "Katakana", "Bopomofo", "Hangul"}
_WITHOUT_BLANKS = {*_EAST, "Thai", "Lao", "Tibetan", "Myanmar", "Khmer"}

_FOREIGN_RUN = regex.compile(r"[\p{L}\p{M}]*[^\x00-\x7f\P{L}][\p{L}\p{M}]*|\p{M}+")
_SIGN = r"[\u00a1-\u00a9\u00ac-\u00af\u00b1-\u00b4\u00b6\u00b8\u00b9\u00bc-\u00bf]"  # of Latin-1, without « » ° · ª º
_ORPHAN_SIGN = regex.compile(
    rf"(?<=\p{{L}}){_SIGN}+(?=\p{{L}})"  # in the midst of a word
    rf"|[\u00c0-\u00ff]{_SIGN}+|{_SIGN}{{2,}}[\u00c0-\u00ff]?|(?![¡¿]){_SIGN}[\u00c0-\u00ff]"  # GBK read as Latin-1
    r"|(?<=\p{L})[\u25a1\u25af]+(?=\p{L})"  # the box of a glyph that has no map
    r"|[\u2400-\u243f\ua490-\ua4cf]"  # pictures of control characters, radicals of Yi
)
_HAS_SIGN = re.compile("[\u00a1-\u00bf\u2400-\u243f\u25a1\u25af\ua490-\ua4cf]")
# What pypdf and pdfminer write for a glyph without a character: (cid:12), and runs such as /g12/g140/g3 or /C50/C72.
_UNMAPPED = regex.compile(
    r"\(cid:\d{1,5}\)"
    r"|(?:/(?:[A-Za-z]{1,3}\d{1,6}|[A-Z][0-9A-Z]|[A-Za-z]{1,3}[0-9A-Fa-f]{2,4}|[a-z]{3,12}\.[a-z]{2,10}|[a-z]_[a-z])\s{0,2}){3,}"
)
# UTF-8 that was read as cp1252 or Latin-1: a lead byte and as many followers as it announces. Only leads of
# alphabets that are in use: ß and a closing quote, as in "Spaß“", is German.
_FOLLOWER = "[\x80-\xbf€‚ƒ„…†‡ˆ‰Š‹ŒŽ‘’“”•–—˜™š›œžŸ]"
# French sets a no-break space before » and dashes ("Sécurité »"), and it stands in "1920 × 1080" and "Ø 50". What
# begins with one counts if it is of a lead whose letter is common: broken à, Š, Π, Р, and the broken space itself.
_AFTER_SPACE = "[\xa0«»‹›…–—’“”]"
_MOJIBAKE = regex.compile(
    rf"[ÂÃÅÎÐ]{_FOLLOWER}|[ÄÏÑ×ØÙ](?!\xa0){_FOLLOWER}"
    rf"|[àáâã-í](?!\xa0{_AFTER_SPACE}){_FOLLOWER}{{2}}|ð(?!\xa0{_AFTER_SPACE}{{2}}){_FOLLOWER}{{3}}"
    r"|(?:[РС][\u0400-\u04ff\xa0-\xbf\u2010-\u2122]){3,}"  # the same read as cp1251: every other letter is Р or С
    r"|[縺繧繝][\uff61-\uff9f\u3400-\u9fff]|锟斤拷"  # read as cp932; U+FFFD read as GBK
)
_LEADS = frozenset("ÂÃÄÅÎÏÐÑ×ØÙàáâãäåæçèéêëìíðРС縺繧繝锟")
_VIETNAMESE = regex.compile(r"[\u1ea0-\u1ef9ơưđƠƯĐ]")
_ACCENTED = 0.6  # share of letters outside ASCII: "příští", one of the worst words, has 0.67, most Czech below 0.4

_USED_LATIN = set("ƠơƯưȘșȚțǍǎǏǐǑǒǓǔǕǖǗǘǙǚǛǜƏə") | {chr(code) for code in range(0x1E00, 0x1F00)}
_USED_GREEK = set("ϑϕϖϵϰϱϐ")
_USED_CYRILLIC = set("ҐґӘәҒғҚқҢңӨөҰұҮүҺһ")
_MOST_MARKS = 2  # combining marks on one letter; Vietnamese, taken apart, has two


def sample_of(text: str) -> str:
    """The text, or slices of it at equal distances, SAMPLE characters together."""
    if len(text) <= SAMPLE:
        return text
    step, width = len(text) // _SLICES, SAMPLE // _SLICES
    return "\n".join(text[start * step : start * step + width] for start in range(_SLICES))


@lru_cache(maxsize=20_000)
def script_of(char: str) -> str:
    """The Unicode script of a letter, "" for what all scripts share, "other" for those hardly any text is written in."""
    if match := _SCRIPT.match(char):
        return match.lastgroup or ""
    return "" if regex.match(r"[\p{Script=Common}\p{Script=Inherited}]", char) else "other"


@lru_cache(maxsize=20_000)
def is_broken(char: str) -> bool:
    """Replacement, private use, control (white space aside) or no character at all."""
    return char == "\ufffd" or (not char.isspace() and unicodedata.category(char) in ("Cc", "Co", "Cn"))


@lru_cache(maxsize=20_000)
def is_rare(char: str) -> bool:
    """Whether a letter is hardly ever written: IPA, old letters, characters beyond the first plane of old code pages."""
    script = script_of(char)
    if script == "Latin":
        return not (char < "\u0180" or char in _USED_LATIN or "\ufb00" <= char <= "\ufb06" or char >= "\uff00")
    if script == "Greek":
        return "\u03cf" <= char <= "\u03ff" and char not in _USED_GREEK
    if script == "Cyrillic":
        return char >= "\u0460" and char not in _USED_CYRILLIC
    if script == "Hangul":
        # 2,350 of the 11,172 syllables have two bytes, the others are spelt out; single parts of syllables are not written
        return "\u1100" <= char <= "\u11ff" or ("\uac00" <= char <= "\ud7a3" and len(_encoded(char, "euc_kr")) != 2)
    if script == "Han":
        return not _is_common_han(char)
    return script == "other"


def _encoded(char: str, encoding: str) -> bytes:
    try:
        return char.encode(encoding)
    except UnicodeEncodeError:
        return b""


def _is_common_han(char: str) -> bool:
    """In the first level, by use, of GB 2312, Big5 or JIS X 0208: together 7,500 of 21,000, and 95 % of any text."""
    if char in "々〇〆":
        return True
    chinese, taiwanese, japanese = _encoded(char, "gb2312"), _encoded(char, "big5"), _encoded(char, "shift_jis")
    return (
        b"\xb0" <= chinese[:1] <= b"\xd7"
        or b"\xa4" <= taiwanese[:1] <= b"\xc6"
        or b"\x88\x9f" <= japanese <= b"\x98\x72"
    )


def _may_meet(one: str, other: str) -> bool:
    """Whether letters of these scripts stand side by side in a word of ordinary text."""
    pair = {one, other}
    if pair <= _EAST:
        return "Hangul" not in pair or "Han" in pair
    if "Latin" in pair:
        return bool(pair & _WITHOUT_BLANKS) or "Greek" in pair  # "Windowsの", "µm"
    return False


def implausible_in(text: str) -> int:
    """How many characters of ``text`` no writer would put there. Take a sample of a long text first."""
    text = unicodedata.normalize("NFC", text)
    broken = sum(text.count(char) for char in set(text) if is_broken(char))
    if text.isascii():
        return broken
    foreign = Counter(word for word in text.split() if not word.isascii())
    return broken + sum(_in_word(word) * count for word, count in foreign.items())


def _in_word(word: str) -> int:
    signs = sum(len(match.group()) for match in _ORPHAN_SIGN.finditer(word)) if _HAS_SIGN.search(word) else 0
    return signs + sum(map(_in_run, _FOREIGN_RUN.findall(word)))


def _in_run(run: str) -> int:
    """The same in one run of letters and marks."""
    found: set[int] = set()
    last, last_script, marks = -1, "", _MOST_MARKS  # a mark at the beginning has no letter to stand on
    latin = accented = 0
    for place, char in enumerate(run):
        if not char.isalpha() and unicodedata.category(char) in ("Mn", "Me"):
            marks += 1
            own = script_of(char)
            if (marks > _MOST_MARKS and "\u0300" <= char <= "\u036f") or own not in ("", last_script):
                found.add(place)
            continue
        marks = 0
        script = script_of(char)
        if script == "Latin":
            latin += 1
            accented += "\x7f" < char < "\uff00"
        if is_rare(char):
            found.add(place)
        if script:
            if last_script and script != last_script and not _may_meet(script, last_script):
                found.update((last, place))
            last, last_script = place, script
    if (accented == latin >= 2 or accented > _ACCENTED * latin >= 2.4) and not _VIETNAMESE.search(run):
        return len(run)
    return len(found)


def unmapped_in(text: str) -> tuple[int, int]:
    """Glyphs that were written by number or name instead of as characters: how many, and how long together."""
    found = [match.group() for match in _UNMAPPED.finditer(text)] if "/" in text or "(cid:" in text else []
    return sum(max(1, item.count("/")) for item in found), sum(map(len, found))


def mojibake_in(text: str) -> tuple[int, int]:
    """Sequences that come from reading UTF-8 as another encoding: how many, and how long together."""
    found = [] if text.isascii() or _LEADS.isdisjoint(text) else _MOJIBAKE.findall(text)
    return len(found), sum(map(len, found))
