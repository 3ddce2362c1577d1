"""From a parsed document to the rows of a segment: chunks, ids, digests, tokens."""

from __future__ import annotations

from kbcore import chunking, fingerprint
from kbcore.ingest.recipe import Recipe
from kbcore.parsing.media import stem_of
from kbcore.planning import document_id
from kbcore.store.rows import ChunkRow, DocumentRow
from kbcore.tokenization import tokens
from kbcore.types import Parsed

SEPARATOR = " > "


def cut(
    parsed: Parsed,
    recipe: Recipe,
    *,
    source: str,
    uri: str,
    content_sha256: str,
    etag: str | None,
    modified_at: str | None,
    fetched_at: str,
) -> DocumentRow:
    """Cut one document. BM25 tokens of a chunk include title and heading path; its text stays the exact slice."""
    doc_id = document_id(source, uri)
    spans = chunking.chunk(
        parsed.text, recipe.chunk_spec, recipe.embedder.count_tokens, headings=parsed.headings, pages=parsed.pages
    )
    digests = [fingerprint.text_sha256(span.text) for span in spans]
    text_digest = fingerprint.text_sha256(parsed.text)
    # The name of a file, which is the title of a document that has none, is left out: a rename embeds nothing.
    title = "" if parsed.title == stem_of(uri) else parsed.title
    chunks = []
    for ordinal, (span, digest, chunk_id) in enumerate(
        zip(spans, digests, fingerprint.chunk_ids(doc_id, digests), strict=True)
    ):
        path = SEPARATOR.join(span.heading)
        embedded = embedded_text(span.text, title, span.heading, recipe)
        chunks.append(
            ChunkRow(
                chunk_id=chunk_id,
                ordinal=ordinal,
                start=span.start,
                end=span.end,
                page_start=span.page_start,
                page_end=span.page_end,
                heading=path,
                text=span.text,
                text_sha256=digest,
                embedded=embedded,
                embedded_sha256=digest if embedded == span.text else fingerprint.text_sha256(embedded),
                token_count=span.token_count,
                terms=terms_of(parsed.title, path, span.text),
            )
        )
    return DocumentRow(
        doc_id=doc_id,
        source=source,
        uri=uri,
        title=parsed.title,
        media_type=parsed.media_type,
        content_sha256=content_sha256,
        parser_id=parsed.parser_id,
        etag=etag,
        modified_at=modified_at,
        fetched_at=fetched_at,
        metadata=fingerprint.canonical(dict(parsed.metadata)).decode(),
        headings=fingerprint.canonical([[h.offset, h.level, h.text] for h in parsed.headings]).decode(),
        pages=list(parsed.pages),
        stats=fingerprint.canonical(dict(parsed.stats)).decode(),
        text=parsed.text,
        text_sha256=text_digest,
        doc_digest=fingerprint.doc_digest(
            doc_id=doc_id,
            content_sha256=content_sha256,
            parser_id=parsed.parser_id,
            metadata=parsed.metadata,
            text_digest=text_digest,
            chunks=[(chunk.start, chunk.end, chunk.text_sha256) for chunk in chunks],
        ),
        chunks=chunks,
    )


def terms_of(title: str, heading: str, text: str) -> list[str]:
    """The BM25 tokens of a chunk: those of its document's title and its heading path count too."""
    return tokens("\n".join((title, heading, text)))


def embedded_text(text: str, title: str, heading: tuple[str, ...], recipe: Recipe) -> str:
    """The text that is embedded for a chunk: the slice itself, or title and heading path before it.

    The path is shortened from its outer end until both fit into the embedder's tokens, so that nothing is cut off.
    """
    if recipe.context != "heading":
        return text
    parts = [part for part in (title, *heading) if part]
    while parts:
        joined = SEPARATOR.join(dict.fromkeys(parts)) + "\n" + text
        if recipe.embedder.count_tokens(joined) <= recipe.embedder.max_tokens:
            return joined
        parts.pop(0)
    return text
