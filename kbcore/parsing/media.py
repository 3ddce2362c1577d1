"""Which parser reads a file: by the ending of its name, corrected by what its first bytes say."""

from __future__ import annotations

MARKDOWN = "text/markdown"
HTML = "text/html"
TEXT = "text/plain"
PDF = "application/pdf"

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
}

# Bump a number by hand when the output of that parser changes for any input: documents are then parsed again.
# Nothing that differs between machines (library builds, platform) belongs in here.
_PARSER_IDS = {MARKDOWN: "markdown-1", HTML: "html-1", TEXT: "text-1", PDF: "pdf-2"}

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


def media_type_of(name: str, head: bytes, said: str | None = None) -> str | None:
    """The media type of a file, or None where no parser reads it.

    ``name`` is a path or URL, ``head`` its first bytes (1,024 are enough). PDF bytes are a PDF whatever their name
    says; a name without an ending is a page if it begins like one. A ``.pdf`` that is none stays application/pdf, so
    that an error page saved under that name fails instead of being indexed. ``said`` is what a server says of it: it
    counts where the name has no ending that is known.
    """
    start = head[:1024].lstrip(_LEADING)
    if start.startswith(b"%PDF-"):
        return PDF
    suffix = suffix_of(name)
    if not suffix and start[:14].lower().startswith((b"<!doctype html", b"<html")):
        return HTML
    known = _BY_SUFFIX.get(suffix)
    if known is None and said in _PARSER_IDS:
        return said
    return known


def parser_id_today(parser_id: str) -> str:
    """The id that the parser of the kind of ``parser_id`` has today."""
    kind = parser_id.rsplit("-", 1)[0]
    return next((today for today in _PARSER_IDS.values() if today.rsplit("-", 1)[0] == kind), parser_id)


def parser_id_for(media_type: str) -> str:
    """The id of the parser that reads this media type, such as ``markdown-1``. KeyError for one no parser reads."""
    return _PARSER_IDS[media_type]
