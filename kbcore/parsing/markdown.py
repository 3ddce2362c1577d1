"""Markdown: its source is its text. A line scanner finds the headings; no Markdown library renders anything.

Taken off: a closed YAML front matter (it becomes metadata) and the content of base64 ``data:`` URIs. HTML comments
stay in the text as they are, as do macros and admonitions; headings inside comments, fences and ``<pre>`` do not count.
"""

from __future__ import annotations

import base64
import datetime
import math
import re
from collections.abc import Mapping
from typing import Any

from kbcore.errors import SkippedDocumentError
from kbcore.parsing.limits import ParseLimits
from kbcore.parsing.media import MARKDOWN, parser_id_for, stem_of
from kbcore.parsing.plaintext import clean, decode, is_blank
from kbcore.types import Heading, Parsed

_FRONT_MATTER_CHARACTERS = 65_536
_FRONT_MATTER_NODES = 10_000  # aliases can make a small YAML text expand without end
_TITLE_CHARACTERS = 300
_SAFE_INTEGER = 2**53

_BASE64 = re.compile(r"data:[A-Za-z0-9/.+;=_-]{0,200}?;base64,[A-Za-z0-9+/=_%-]*")
_LINK = re.compile(r"\[([^\[\]]*)\]\([^()\s]*\)")
_BLOCKS = (("<!--", "-->"), ("<pre", "</pre"), ("<script", "</script"), ("<style", "</style"))


def parse(uri: str, data: bytes, limits: ParseLimits) -> Parsed:
    """Read Markdown. SkippedDocumentError where there is nothing but blanks or front matter."""
    decoded = decode(data)
    stats = decoded.stats()
    text = decoded.text
    if ";base64," in text:
        text, cut = _BASE64.subn("", text)
        if cut:
            stats["base64_removed"] = cut
    text, metadata, front_matter_end, flag = split_front_matter(text)
    if flag:
        stats["flag"] = flag
    if is_blank(text):
        raise SkippedDocumentError("nothing but front matter" if metadata else "blank")
    headings = scan_headings(text, front_matter_end)
    stats["characters"] = len(text)
    return Parsed(
        text=text,
        title=_title(metadata, headings) or stem_of(uri),
        media_type=MARKDOWN,
        parser_id=parser_id_for(MARKDOWN),
        headings=headings,
        metadata=metadata,
        stats=stats,
    )


def split_front_matter(text: str) -> tuple[str, dict[str, Any], int, str | None]:
    """The body, the front matter as JSON values, where a front matter left in the body ends, and a flag for it.

    Only a YAML mapping between a first line ``---`` and a line ``---`` or ``...`` is taken off.
    """
    first, newline, _ = text.partition("\n")
    if first.rstrip() != "---" or not newline:
        return text, {}, 0, None
    start = offset = len(first) + 1
    for line in text[start:].split("\n"):
        if line.rstrip() in ("---", "..."):
            break
        offset += len(line) + 1
    else:
        return text, {}, 0, "front matter is never closed"
    end = min(len(text), offset + len(line) + 1)
    source = text[start:offset]
    if len(source) > _FRONT_MATTER_CHARACTERS:
        return text, {}, end, "front matter is too long"
    try:
        loaded = _load_yaml(source)
        if loaded is not None and not isinstance(loaded, dict):
            return text, {}, 0, None  # text between two rules, which only looks like front matter
        metadata = _json_safe(loaded or {}, [_FRONT_MATTER_NODES])
    except Exception as exc:  # PyYAML raises ValueError, TypeError, RecursionError ... besides its own
        return text, {}, end, f"front matter is not readable YAML ({type(exc).__name__})"
    return text[end:].lstrip("\n"), metadata, 0, None


def _load_yaml(source: str) -> Any:
    import yaml

    if not hasattr(yaml, "CSafeLoader"):
        return yaml.safe_load(source)
    loader = yaml.CSafeLoader(source)  # what safe_load does, with the scanner in C: 10 times faster
    try:
        return loader.get_single_data()
    finally:
        loader.dispose()


def _json_safe(value: Any, budget: list[int]) -> Any:
    """A YAML value as JSON can hold it: dates as ISO strings, odd numbers and keys as strings."""
    budget[0] -= 1
    if budget[0] < 0:
        raise ValueError("too many values")
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, int):
        return value if abs(value) <= _SAFE_INTEGER else str(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, datetime.date):  # a datetime is one
        return value.isoformat()
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, dict):
        return {_key(key): _json_safe(item, budget) for key, item in value.items()}
    if isinstance(value, set):
        return sorted(_key(item) for item in value)
    if isinstance(value, (list, tuple)):
        return [_json_safe(item, budget) for item in value]
    return str(value)


def _key(key: Any) -> str:
    if isinstance(key, bool) or key is None:
        return {True: "true", False: "false", None: "null"}[key]
    return key.isoformat() if isinstance(key, datetime.date) else clean(str(key))


def _title(metadata: Mapping[str, Any], headings: tuple[Heading, ...]) -> str:
    named = metadata.get("title")
    if isinstance(named, (str, int, float)) and not isinstance(named, bool) and str(named).strip():
        return " ".join(str(named).split())[:_TITLE_CHARACTERS]
    return title_of(headings)


def title_of(headings: tuple[Heading, ...]) -> str:
    """The first heading of level 1, else the first heading, else ""."""
    return next((heading.text for heading in headings if heading.level == 1), headings[0].text if headings else "")


def words_of(heading: str) -> str:
    """The words of a heading: without trailing ``#``, attribute list, links, bold and code marks."""
    text = heading.strip()
    bare = text.rstrip("#")
    if bare != text and (not bare or bare[-1] in " \t"):
        text = bare.rstrip()
    if text.endswith("}"):
        before, brace, inside = text.rpartition("{")
        if brace and inside.strip().startswith(("#", ".", ":")):
            text = before
    if "](" in text:
        text = _LINK.sub(r"\1", text)
    return " ".join(text.replace("**", "").replace("`", "").split())[:_TITLE_CHARACTERS]


def scan_headings(text: str, start: int = 0) -> tuple[Heading, ...]:
    """The ATX and setext headings from ``start`` on.

    Not counted: what stands inside fences, comments and ``<pre>``, in block quotes, or indented by four columns. Only
    a paragraph of one line becomes a setext heading, so that a rule set under prose does not.
    """
    headings: list[Heading] = []
    fence = ""  # what opened the fence, such as "```"
    block_end = ""  # what closes the HTML block, such as "-->"
    paragraph: tuple[int, str] | None = None  # a first line that an underline would make a heading
    in_paragraph = False
    offset = start
    for line in text[start:].split("\n"):
        here, offset = offset, offset + len(line) + 1
        stripped = line.strip()
        if fence:
            if stripped.startswith(fence) and not stripped.strip(fence[0]):
                fence = ""
            continue
        if block_end:
            if block_end in line.lower():
                block_end = ""
            continue
        if not stripped:
            paragraph, in_paragraph = None, False
            continue
        if ("```" in line or "~~~" in line) and (fence := _opened_fence(stripped)):
            paragraph, in_paragraph = None, False
            continue
        if line.startswith(("    ", "\t")):
            paragraph = None
            continue
        begin = here + len(line) - len(line.lstrip())
        first = stripped[0]
        if first == "#":
            level = len(stripped) - len(stripped.lstrip("#"))
            if level <= 6 and stripped[level : level + 1] in ("", " ", "\t"):
                if words := words_of(stripped[level:]):
                    headings.append(Heading(begin, level, words))
                paragraph, in_paragraph = None, False
                continue
        elif first in "=-" and paragraph and len(stripped) > 1 and not stripped.strip(first):
            headings.append(Heading(paragraph[0], 1 if first == "=" else 2, words_of(paragraph[1])))
            paragraph, in_paragraph = None, False
            continue
        elif first in "-*_" and len(stripped) > 2 and not stripped.strip(first):
            paragraph, in_paragraph = None, False
            continue
        elif first == "<":
            block_end = _opened_block(stripped.lower())
        paragraph = None if in_paragraph or not _may_be_setext(stripped) else (begin, stripped)
        in_paragraph = True
    return tuple(headings)


def _opened_fence(stripped: str) -> str:
    """The fence a line opens, "" where it opens none. It may stand behind list markers and at any indentation."""
    for _ in range(3):
        marker, blank, rest = stripped.partition(" ")
        if not blank or not (marker in ("-", "*", "+") or (marker[:-1].isdigit() and marker[-1] in ".)")):
            break
        stripped = rest.lstrip()
    char = stripped[:1]
    length = len(stripped) - len(stripped.lstrip(char)) if char in ("`", "~") else 0
    if length < 3 or (char == "`" and "`" in stripped[length:]):
        return ""
    return char * length


def _opened_block(lowered: str) -> str:
    for opening, closing in _BLOCKS:
        if lowered.startswith(opening):
            return "" if closing in lowered[len(opening) :] else closing
    return ""


def _may_be_setext(stripped: str) -> bool:
    if stripped[0] in ">|<" or not any(char.isalnum() for char in stripped):
        return False
    marker, blank, _ = stripped.partition(" ")
    return not (blank and (marker in ("-", "*", "+") or (marker[:-1].isdigit() and marker[-1] in ".)")))
