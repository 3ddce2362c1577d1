"""The BM25 analyzer: which tokens a text has. Documents and questions go through the same function.

Text is normalised to NFKC and casefolded. A word is a run of letters, digits, marks and underscores; combining marks
stay with their letters. Scripts that are written without blanks become character bigrams. A code such as
``ERR-4012`` or ``v2.1.3`` counts whole and in its parts.
"""

from __future__ import annotations

import itertools
import unicodedata

import regex

VERSION = 1
ANALYZER_ID = f"words-{VERSION}-nfkc-casefold-bigrams-codes"

_DENSE = r"\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}"
_MARKS = r"\p{M}\u200c\u200d"
# Runs of a script without blanks, or of everything else that makes a word.
_DENSE_RUN = rf"[{_DENSE}][{_DENSE}ー々{_MARKS}]*"
_WORD = rf"(?:(?![{_DENSE}])[\w{_MARKS}])+"
_TOKEN = regex.compile(rf"(?P<dense>{_DENSE_RUN})|(?P<code>{_WORD}(?:[-.:/\\]{_WORD})+)|(?P<word>{_WORD})")
_PART = regex.compile(r"[\w\p{M}\u200c\u200d]+")
_PIECE = regex.compile(r"[^_]+")
_HAS_DIGIT = regex.compile(r"\d")
_LETTER = regex.compile(r"[\p{L}\p{N}]")
# Marks that nobody types: soft hyphen, zero width blank, (non-)joiners; and the hyphens that look like the ASCII one.
_UNSEEN = {0xAD: None, 0x200B: None, 0x200C: None, 0x200D: None, 0x2060: None, 0x2010: "-", 0x2011: "-"}
_CLUSTER = regex.compile(r"\X")


def tokens(text: str) -> list[str]:
    """The tokens of ``text`` in order, repeats kept.

    A joined code with a digit gives itself and then its parts; joined words without one (``well-known``) give their
    parts only, and so does anything with ``:``, ``/`` or a backslash in it.
    """
    found: list[str] = []
    folded = _folded(text)
    for match in _TOKEN.finditer(folded):
        kind = match.lastgroup
        token = match.group()
        if kind == "word":
            _word(token, found)
        elif kind == "dense":
            _bigrams(token, found)
        else:
            _code(token, found)
    return found


def _folded(text: str) -> str:
    if text.isascii():
        return text.lower()
    # Once more after folding: casefold may leave letters and marks apart.
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    return folded.translate(_UNSEEN)


def folded(text: str) -> str:
    """How a key is compared: normalised as words are, blanks as one, none at the ends."""
    return " ".join(_folded(text).split())


def codes(text: str) -> list[str]:
    """The tokens of ``text`` that look like codes, in order, each once: joined ones with a digit (ERR-4012), and words of
    letters and digits (PRN21)."""
    found: dict[str, None] = {}
    for match in _TOKEN.finditer(_folded(text)):
        token = match.group()
        if match.lastgroup == "code":
            pieces: list[str] = []
            _code(token, pieces)
            joined = [piece for piece in pieces if len(_PART.findall(piece)) > 1]
            found.update(dict.fromkeys(joined))
        elif match.lastgroup == "word" and _HAS_DIGIT.search(token) and regex.search(r"\p{L}", token):
            found.setdefault(token)
    return list(found)


def query_terms(text: str) -> list[str]:
    """The tokens of a question, each once, sorted: the order in which their scores are added."""
    return sorted(set(tokens(text)))


def _word(token: str, found: list[str]) -> None:
    if not _LETTER.search(token):
        return
    found.append(token)
    if "_" in token:
        pieces = _PIECE.findall(token)
        if pieces != [token]:
            found.extend(pieces)


def _bigrams(run: str, found: list[str]) -> None:
    clusters = _CLUSTER.findall(run)
    if len(clusters) == 1:
        found.append(run)
    else:
        found.extend(a + b for a, b in itertools.pairwise(clusters))


def _code(token: str, found: list[str]) -> None:
    """A run with joints: its stretches between ``:``, ``/`` and backslashes count whole where they hold a digit."""
    for stretch in regex.split(r"[:/\\]", token):
        parts = _PART.findall(stretch)
        if len(parts) > 1 and _HAS_DIGIT.search(stretch):
            found.append(stretch)
        for part in parts:
            _word(part, found)
