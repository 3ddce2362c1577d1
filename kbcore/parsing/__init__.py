"""Source bytes in, text out: Markdown, HTML, plain text, CSV, PDF, Office files and EPUB, in a child that may die.

Importing this package pulls in the standard library only; lxml, trafilatura, pypdf, PDFium, mammoth and others are
imported in the child, each on the first document that needs it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kbcore.parsing.limits import ParseLimits
from kbcore.parsing.media import media_type_of, parser_id_for, parser_id_today, parser_ids

if TYPE_CHECKING:
    from kbcore.parsing.pool import ParserPool

__all__ = ["ParseLimits", "ParserPool", "media_type_of", "parser_id_for", "parser_id_today", "parser_ids"]


def __getattr__(name: str) -> Any:
    """The pool on first use: each child imports this package, needs no pool, and starts a quarter faster without."""
    if name == "ParserPool":
        from kbcore.parsing.pool import ParserPool

        return ParserPool
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
