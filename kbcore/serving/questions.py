"""How long a question may be that comes from outside."""

from __future__ import annotations

from kbcore.tokenization import query_terms

MAX_QUERY = 2_000
MAX_TERMS = 64


def few_terms(query: str) -> str:
    """The question itself. ValueError where it holds more distinct terms than are searched."""
    count = len(query_terms(query))
    if count > MAX_TERMS:
        raise ValueError(f"{count} distinct terms; at most {MAX_TERMS} are searched")
    return query
