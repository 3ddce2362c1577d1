"""Which parser reads a file: by the ending of its name, corrected by what its first bytes say."""

from __future__ import annotations

import struct

MARKDOWN = "text/markdown"
HTML = "text/html"
TEXT = "text/plain"
PDF = "application/pdf"
CSV = "text/csv"  # and with tabs
EPUB = "application/epub+zip"
_OFFICE = "application/vnd.openxmlformats-officedocument"
DOCX = f"{_OFFICE}.wordprocessingml.document"
PPTX = f"{_OFFICE}.presentationml.presentation"
XLSX = f"{_OFFICE}.spreadsheetml.sheet"

_BY_SUFFIX = {
    ".md": MARKDOWN,
    ".markdown": MARKDOWN,
    ".html": HTML,
    ".htm": HTML,
    ".xhtml": HTML,
    ".txt": TEXT,
    ".text": TEXT,
    ".log": TEXT,
    ".rst": TEXT,
    ".pdf": PDF,
    ".csv": CSV,
    ".tsv": CSV,
    ".docx": DOCX,
    ".docm": DOCX,
    ".pptx": PPTX,
    ".pptm": PPTX,
    ".xlsx": XLSX,
    ".xlsm": XLSX,
    ".epub": EPUB,
}
_OLD_BINARY = {".doc": DOCX, ".dot": DOCX, ".ppt": PPTX, ".pps": PPTX, ".xls": XLSX, ".xlt": XLSX}
_MAIN_PARTS = ((b"word/document", DOCX), (b"ppt/presentation", PPTX), (b"xl/workbook", XLSX))
_OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_END_RECORD = struct.Struct("<4s6xHII")
_ENTRY = struct.Struct("<4s24xHHH")
_ENTRY_BYTES = 46
_ENTRIES = 10_000
_END_BYTES = 70_000

# Bump a number by hand when the output of that parser changes for any input: documents are then parsed again.
# Nothing that differs between machines (library builds, platform) belongs in here.
_PARSER_IDS = {
    MARKDOWN: "markdown-1",
    HTML: "html-1",
    TEXT: "text-1",
    PDF: "pdf-2",
    CSV: "csv-2",
    DOCX: "docx-2",
    PPTX: "pptx-2",
    XLSX: "xlsx-3",
    EPUB: "epub-2",
}

_LEADING = b"\xef\xbb\xbf \t\r\n"


def _last_part(uri: str) -> str:
    """The file name of a path or URL, without query and fragment where it is a URL."""
    if "://" in uri:
        uri = uri.split("#", 1)[0].split("?", 1)[0]
    return uri.rstrip("/").rsplit("/", 1)[-1]


def suffix_of(uri: str) -> str:
    """The lower-case ending of the name with its dot, "" where there is none."""
    stem, dot, ending = _last_part(uri).rpartition(".")
    return f".{ending.lower()}" if dot and stem else ""


def stem_of(uri: str) -> str:
    """The file name without its ending: the title of a document that names none."""
    name = _last_part(uri)
    suffix = suffix_of(uri)
    stem = (name[: -len(suffix)] if suffix else name) or uri
    return " ".join(stem.encode("utf-8", "replace").decode().split())  # names may hold line ends and broken bytes


def media_type_of(name: str, data: bytes, said: str | None = None) -> str | None:
    """The media type of a file, or None where no parser reads it.

    ``name`` is a path or URL, ``data`` its bytes (the first 1,024 tell all but ZIP containers apart). PDF, Office and
    EPUB bytes are what they are whatever their name says; a name without an ending is a page if it begins like one. A
    ``.pdf`` that is none stays application/pdf, so that an error page saved under that name fails instead of being
    indexed, and so do old binary Office files. ``said`` is what a server says of it: it counts where the name has no
    ending that is known.
    """
    start = data[:1024].lstrip(_LEADING)
    if start.startswith(b"%PDF-"):
        return PDF
    suffix = suffix_of(name)
    if data.startswith(b"PK\x03\x04") and (found := _of_container(data, _BY_SUFFIX.get(suffix))):
        return found
    if data.startswith(_OLE):
        return _OLD_BINARY.get(suffix, _BY_SUFFIX.get(suffix))
    if not suffix and start[:14].lower().startswith((b"<!doctype html", b"<html")):
        return HTML
    known = _BY_SUFFIX.get(suffix)
    if known is None and said in _PARSER_IDS:
        return said
    return known


def _of_container(data: bytes, named: str | None) -> str | None:
    """What a ZIP container holds, by the names of its members; where it could be several, the one it is named after.

    Nothing is inflated, and one pass goes over at most 10,000 entries of its directory: this runs in the parent.
    """
    if data[30:38] == b"mimetype" and EPUB.encode() in data[38:1024]:
        return EPUB
    end = data.rfind(b"PK\x05\x06", max(0, len(data) - _END_BYTES))
    if end < 0 or end + _END_RECORD.size > len(data):
        return None
    _, _, length, here = _END_RECORD.unpack_from(data, end)
    if here + length > end:
        return None
    found: list[str] = []
    for _ in range(_ENTRIES):
        if here + _ENTRY_BYTES > end or not data.startswith(b"PK\x01\x02", here):
            break
        _, name, extra, comment = _ENTRY.unpack_from(data, here)
        part = data[here + _ENTRY_BYTES : here + _ENTRY_BYTES + min(name, 100)].lower().replace(b"\\", b"/")
        found += [kind for start, kind in _MAIN_PARTS if part.startswith(start)]
        if part == b"meta-inf/container.xml":
            found.append(EPUB)
        here += _ENTRY_BYTES + name + extra + comment
    return named if named in found else next(iter(found), None)


def parser_ids() -> list[str]:
    """The ids of all parsers."""
    return sorted(_PARSER_IDS.values())


def parser_id_today(parser_id: str) -> str:
    """The id that the parser of the kind of ``parser_id`` has today."""
    kind = parser_id.rsplit("-", 1)[0]
    return next((today for today in _PARSER_IDS.values() if today.rsplit("-", 1)[0] == kind), parser_id)


def parser_id_for(media_type: str) -> str:
    """The id of the parser that reads this media type, such as ``markdown-1``. KeyError for one no parser reads."""
    return _PARSER_IDS[media_type]
