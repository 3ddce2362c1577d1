"""The values that travel between kbcore's layers: frozen, without behaviour that needs a third-party package.

Offsets count Unicode code points of a document's text, half open. Times are ISO 8601 in UTC with a trailing ``Z``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

Mode = Literal["vector", "keyword", "hybrid"]
Fusion = Literal["rrf", "minmax"]
Outcome = Literal["hits", "weak_evidence", "no_match", "kb_empty"]
Json = dict[str, Any]
Progress = Callable[[str, int, int], None]
"""Told (stage, done, total) as work goes on."""


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading of a document: ``offset`` of its first character in the text, ``level`` 1 to 6, its words."""

    offset: int
    level: int
    text: str


@dataclass(frozen=True, slots=True)
class Parsed:
    """What a parser made of one source item.

    ``pages`` holds the offset at which each page begins, first page first; empty where the format has no pages.
    ``stats`` are figures of the extraction (characters, pages, empty_pages, encoding, flags ...), JSON values only.
    """

    text: str
    title: str
    media_type: str
    parser_id: str
    headings: tuple[Heading, ...] = ()
    pages: tuple[int, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)
    stats: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Span:
    """A chunk as the chunker cuts it: ``text == document_text[start:end]``.

    ``page_start`` and ``page_end`` are 1-based, None where the format has no pages. ``heading`` is the path of
    headings the first own character of the chunk stands under, outermost first.
    """

    start: int
    end: int
    text: str
    token_count: int
    heading: tuple[str, ...] = ()
    page_start: int | None = None
    page_end: int | None = None


@dataclass(frozen=True, slots=True)
class Listed:
    """One item a source lists. ``etag`` is the source's validator: equal validators mean equal bytes; None, unknown."""

    uri: str
    etag: str | None = None
    modified_at: str | None = None
    size: int | None = None


@dataclass(frozen=True, slots=True)
class Listing:
    """What a source holds now. Only a ``complete`` listing says that what is missing from it was removed.

    ``problems`` are (uri, reason) of items that were seen and could not be listed. ``version`` names the state of the
    source as a whole where it has a name for that (the commit of a git repository). ``unseen`` are beginnings of URIs
    below which nothing was looked at: a complete listing says nothing of them.
    """

    source: str
    listed_at: str
    items: Sequence[Listed]
    complete: bool
    problems: Sequence[tuple[str, str]] = ()
    version: str | None = None
    unseen: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Fetched:
    """The bytes of one item, with the validator that goes with exactly these bytes (None where it cannot be trusted).

    ``media_type`` is what the source says of the bytes where their name does not tell (a Content-Type without its
    parameters).
    """

    data: bytes
    etag: str | None
    modified_at: str | None
    fetched_at: str
    media_type: str | None = None


@dataclass(frozen=True, slots=True)
class Failure:
    """A document that did not get in: why, since when, and whether its previous version is served instead.

    ``tries`` counts attempts; it is tried again at ``retry_at`` (at once where that is None), or as soon as its source
    gives another validator than ``etag``, or the settings it failed with (``with_settings``, a digest) are others.
    """

    doc_id: str
    uri: str
    reason: str
    since: str
    carried_over: bool = False
    tries: int = 1
    retry_at: str | None = None
    etag: str | None = None
    with_settings: str | None = None


@dataclass(frozen=True, slots=True)
class Hit:
    """One chunk that answers, with the figures of both matchers. ``ordinal`` is its place in its document, from 0.

    Where chunks were joined, ``text``, ``start``, ``end`` and the pages are those of the whole passage, ``last_ordinal`` is
    the place of its last chunk and ``first_ordinal`` of its first; everything else is of the chunk that ranked it.
    ``copies`` are the ids of chunks with nearly the same text that were folded under this one.

    ``cosine`` is in [-1, 1] (None in keyword mode), ``bm25`` the keyword score (None in vector mode); the ranks are
    1-based places in each matcher's own list, None where the chunk was not in that list. ``score`` is what the order rests on;
    ``SearchResult.score_kind`` says which kind it is. Where a
    reranker ordered anew, ``fused`` is the score it found the chunk with. ``document_version`` is the sha256 of the source bytes.
    """

    chunk_id: str
    doc_id: str
    ordinal: int
    source: str
    uri: str
    title: str
    heading: str
    page_start: int | None
    page_end: int | None
    start: int
    end: int
    text: str
    score: float
    cosine: float | None
    vector_rank: int | None
    bm25: float | None
    keyword_rank: int | None
    release: str
    document_version: str
    fetched_at: str
    modified_at: str | None
    last_confirmed: str | None
    age_days: float | None
    over_age: bool
    carried_over: bool
    media_type: str
    metadata: Mapping[str, Any]
    first_ordinal: int
    last_ordinal: int
    copies: tuple[str, ...] = ()
    fused: float | None = None
    untrusted: bool = True

    @property
    def citation(self) -> str:
        """What a text cites this passage by: release, document and the ordinals of its chunks."""
        last = f"-{self.last_ordinal}" if self.last_ordinal != self.first_ordinal else ""
        return f"[{self.release} {self.doc_id}#c{self.first_ordinal}{last}]"


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The answer to one question on one release.

    ``score_kind`` is ``cosine``, ``bm25``, ``rrf``, ``minmax`` or ``rerank``; the last three order and mean nothing else.
    ``evidence`` holds the figures that led to the outcome.
    """

    release: str
    query: str
    mode: Mode
    outcome: Outcome
    score_kind: str
    hits: tuple[Hit, ...]
    evidence: Mapping[str, Any] = field(default_factory=dict)
