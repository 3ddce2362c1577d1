"""From bytes to the rows of a document: parsed and cut, in this process or by workers; the order stays.

What a worker gives does not depend on where it ran: parsing happens in a limited child of the worker, cutting is pure.
"""

from __future__ import annotations

import atexit
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future
from dataclasses import dataclass

from kbcore.embedding.catalog import EmbedderSpec, make
from kbcore.errors import DocumentError, EmbedderMismatchError, SkippedDocumentError
from kbcore.ingest.cutting import cut
from kbcore.ingest.recipe import Recipe
from kbcore.parsing import ParseLimits, ParserPool
from kbcore.store.rows import DocumentRow
from kbcore.types import Parsed
from kbcore.workers import outcome, submit

IN_PROCESS = 64
BATCH_DOCUMENTS = 16
BATCH_BYTES = 4_000_000
WINDOW = 16


@dataclass(frozen=True, slots=True)
class Raw:
    """A document as it was fetched, or, with ``parsed``, as the base holds it, to be cut anew."""

    source: str
    uri: str
    data: bytes
    media_type: str | None
    content_sha256: str
    etag: str | None
    modified_at: str | None
    fetched_at: str
    parsed: Parsed | None = None

    @property
    def size(self) -> int:
        return len(self.data) if self.parsed is None else len(self.parsed.text)


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a document has no rows: nothing to index in it (``skipped``), or a failure."""

    reason: str
    skipped: bool = False


Built = DocumentRow | Refusal


@dataclass(frozen=True, slots=True)
class Bench:
    """All a worker needs to build documents as this process would; plain values."""

    spec: EmbedderSpec
    embedder_id: str
    size: int
    overlap: int
    context: str
    limits: ParseLimits

    @classmethod
    def of(cls, recipe: Recipe, limits: ParseLimits) -> Bench:
        return cls(recipe.spec, recipe.embedder_id, recipe.size, recipe.overlap, recipe.context, limits)


def build(raw: Raw, recipe: Recipe, parser: ParserPool) -> Built:
    """Parse and cut one document."""
    try:
        parsed = raw.parsed or parser.parse(raw.uri, raw.data, raw.media_type)
    except SkippedDocumentError as error:
        return Refusal(str(error), skipped=True)
    except DocumentError as error:
        return Refusal(str(error))
    return cut(
        parsed,
        recipe,
        source=raw.source,
        uri=raw.uri,
        content_sha256=raw.content_sha256,
        etag=raw.etag,
        modified_at=raw.modified_at,
        fetched_at=raw.fetched_at,
    )


def build_all(
    raws: Iterable[Raw],
    recipe: Recipe,
    parser: ParserPool,
    *,
    limits: ParseLimits,
    executor: Callable[[], Executor | None],
) -> Iterator[tuple[Raw, Built]]:
    """Every document with what became of it, in the order they come.

    The first 64 are built here; what comes after goes in batches to the workers of ``executor``, where it gives one. A
    few batches are under way at once, so that memory stays bounded.
    """
    waiting: deque[tuple[list[Raw], Future[list[Built]]]] = deque()
    batch: list[Raw] = []
    workers: Executor | None = None
    bench = Bench.of(recipe, limits)

    def hand_over() -> None:
        if batch and workers is not None:
            waiting.append((list(batch), submit(workers, build_batch, bench, list(batch))))
            batch.clear()

    for number, raw in enumerate(raws):
        if number == IN_PROCESS:
            workers = executor()
        if workers is None:
            yield raw, build(raw, recipe, parser)
            continue
        batch.append(raw)
        if len(batch) == BATCH_DOCUMENTS or sum(one.size for one in batch) >= BATCH_BYTES:
            hand_over()
        while len(waiting) >= WINDOW:
            yield from _finished(waiting.popleft())
    hand_over()
    while waiting:
        yield from _finished(waiting.popleft())


def _finished(entry: tuple[list[Raw], Future[list[Built]]]) -> Iterator[tuple[Raw, Built]]:
    raws, future = entry
    built = outcome(future)
    yield from zip(raws, built, strict=True)


_benches: dict[Bench, tuple[Recipe, ParserPool]] = {}


def build_batch(bench: Bench, raws: list[Raw]) -> list[Built]:
    """What a worker does. Embedder and parser are made once per process."""
    if bench not in _benches:
        recipe = Recipe(bench.spec, make(bench.spec), bench.size, bench.overlap, bench.context)
        if recipe.embedder_id != bench.embedder_id:
            raise EmbedderMismatchError(
                f"a worker has the embedder {recipe.embedder_id}, the run uses {bench.embedder_id}"
            )
        parser = ParserPool(limits=bench.limits)
        atexit.register(parser.close)
        _benches[bench] = (recipe, parser)
    return [build(raw, *_benches[bench]) for raw in raws]
