"""The core properties of an Office document: title, author, subject, language, and when it was changed last."""

from __future__ import annotations

import re

from kbcore.errors import DocumentError
from kbcore.parsing.archive import Archive, local
from kbcore.parsing.plaintext import clean

_CHARACTERS = 300
_KEYS = {"title": "title", "creator": "author", "subject": "subject", "language": "language", "modified": "modified"}
_TIME = re.compile(r"\d{4}-\d\d-\d\d(T\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d)?)?")
# What programs write there when nobody gave a title or an author.
_BY_PROGRAMS: tuple[str, ...] = (
    "microsoft word - ",
    "powerpoint presentation",
    "powerpoint-präsentation",
    "présentation powerpoint",
)
_BY_PROGRAMS += ("untitled", "(anonymous", "(unspecified", "slide 1", "folie 1", "document1", "book1", "mappe1")
_NOBODY = {"", "-", ".", "title", "unknown", "user", "author", "python-docx", "openpyxl", "xlsxwriter", "python-pptx"}
_NOBODY |= {"word document", "presentation", "document", "microsoft office user", "apache poi"}


def core_properties(archive: Archive) -> dict[str, str]:
    """What the properties say and is sensible, by key. Damaged properties do not spoil the text: they say nothing."""
    try:
        related = archive.related("").values()
        name = next((r.target for r in related if r.kind == "core-properties"), "docProps/core.xml")
        if archive.find(name) is None:
            return {}
        elements = list(archive.xml(name))
    except DocumentError:
        return {}
    found: dict[str, str] = {}
    for element in elements:
        key = _KEYS.get(local(element))
        words = " ".join(clean("".join(element.itertext())).split())[:_CHARACTERS]
        if key and sensible(words) and (key != "modified" or _TIME.fullmatch(words)):
            found.setdefault(key, words)
    return found


def sensible(words: str) -> bool:
    """Whether a title or a name was given by a person."""
    lowered = words.lower()
    return lowered not in _NOBODY and not lowered.startswith(_BY_PROGRAMS)
