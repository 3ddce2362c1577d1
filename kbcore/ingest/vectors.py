"""The vectors of new chunks: taken from the base, from what a dead run left, or embedded now.

What is embedded is written to the staging area as it comes, each file named by its own digest, so that a build that
is killed does not embed again what it had written. Such parts are copied from, never referred to.
"""

from __future__ import annotations

import io
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from kbcore.arrays import Vectors
from kbcore.embedding.batches import embed_texts
from kbcore.embedding.embedder import describe, judge
from kbcore.errors import EmbedderUnavailableError, EmbeddingFailedError
from kbcore.fingerprint import sha256
from kbcore.ingest.base import Base
from kbcore.ingest.recipe import Recipe
from kbcore.store import envelope, layout
from kbcore.store.objects import ObjectStore
from kbcore.store.parquet import read_parquet
from kbcore.store.rows import vectors_array, vectors_table
from kbcore.types import Progress

WINDOW = 256
SUFFIX = ".part.parquet"
STALE_SECONDS = 86_400


class TextVectors:
    """Vectors by the digest of the exact text embedded. ``embedded``, ``reused`` and ``resumed`` count texts."""

    def __init__(self, dimension: int) -> None:
        self.dimension = dimension
        self.embedded = 0
        self.reused = 0
        self.resumed = 0
        self._rows: dict[str, tuple[Vectors, int]] = {}

    def add(self, digests: list[str], vectors: Vectors) -> None:
        for row, digest in enumerate(digests):
            self._rows[digest] = (vectors, row)

    def __contains__(self, digest: str) -> bool:
        return digest in self._rows

    def of(self, digests: list[str]) -> Vectors:
        """Shape (digests, dimension), in their order."""
        vectors = np.empty((len(digests), self.dimension), dtype=np.float32)
        for row, digest in enumerate(digests):
            block, place = self._rows[digest]
            vectors[row] = block[place]
        return vectors


def collect(
    texts: Mapping[str, tuple[str, int]],
    *,
    base: Base,
    store: ObjectStore,
    run: str,
    recipe: Recipe,
    executor: Callable[[], Executor | None],
    progress: Progress,
) -> TextVectors:
    """Vectors of all ``texts`` (digest to text and its token count). EmbeddingFailedError fails the whole build.

    A text longer than the embedder reads is refused: nothing is cut off in silence. So is an embedder that gives other
    vectors than when it was first used here, whatever its files say: its vectors must not lie beside the old ones.
    """
    found = TextVectors(recipe.embedder.dimension)
    digests, vectors = base.vectors_of(texts, recipe.embedder_id)
    found.add(digests, vectors)
    found.reused = len(digests)
    for digests, vectors in parts(store, recipe.embedder_id, recipe.embedder.dimension):
        wanted = [row for row, digest in enumerate(digests) if digest in texts and digest not in found]
        found.add([digests[row] for row in wanted], vectors[wanted])
        found.resumed += len(wanted)
    missing = [digest for digest in texts if digest not in found]
    too_long = [d for d in missing if texts[d][1] > recipe.embedder.max_tokens and len(texts[d][0]) > 1]
    if too_long:
        text, count = texts[too_long[0]]
        raise EmbeddingFailedError(
            f"a text of {count} tokens does not fit into the embedder's {recipe.embedder.max_tokens}: {text[:60]!r}"
        )
    if missing:
        _require_unchanged(store, recipe)
    workers = executor() if len(missing) >= 2 else None
    count = 0

    def came(texts: int) -> None:
        nonlocal count
        count += texts
        progress("embed", count, len(missing))

    if missing:
        progress("embed", 0, len(missing))
    for start in range(0, len(missing), WINDOW):
        window = missing[start : start + WINDOW]
        vectors = embed_texts(
            recipe.embedder,
            [texts[digest][0] for digest in window],
            [texts[digest][1] for digest in window],
            spec=recipe.spec,
            executor=workers,
            done=came,
        )
        found.add(window, vectors)
        found.embedded += len(window)
        if len(missing) > WINDOW:
            _write_part(store, run, recipe.embedder_id, window, vectors)
    return found


def _require_unchanged(store: ObjectStore, recipe: Recipe) -> None:
    """EmbedderUnavailableError unless the embedder gives its probe texts the vectors that were recorded with it."""
    file = layout.embedder_file(recipe.embedder_id)
    try:
        record = envelope.unseal(store.get(file), file=file)
    except FileNotFoundError:
        return
    verdict, cosine = judge(record, recipe.embedder)
    if verdict != "identical":
        raise EmbedderUnavailableError(
            f"{describe(recipe.embedder.fingerprint)} gives other vectors on this machine than when it was first used "
            f"here (lowest cosine of the probes {cosine:.5f}): nothing is embedded",
            remedy="go back to the library versions in kb show, or embed everything anew: "
            f"[embedder] edition = {recipe.spec.edition + 1}",
        )


def parts(store: ObjectStore, embedder_id: str, dimension: int) -> Iterator[tuple[list[str], Vectors]]:
    """What earlier runs wrote of this embedder and left behind; a damaged part is passed over."""
    for name in store.list(layout.STAGING):
        file = name.rsplit("/", 1)[-1]
        if not (file.startswith(embedder_id) and file.endswith(SUFFIX)):
            continue
        try:
            data = store.get(name)
        except FileNotFoundError:
            continue
        if file != f"{embedder_id}-{sha256(data)}{SUFFIX}":
            continue
        table = read_parquet(data)
        yield table.column("digest").to_pylist(), vectors_array(table, dimension)


def clear_parts(store: ObjectStore) -> None:
    """Drop the parts, and what killed runs left half-written: called by the holder of the lease when its work is done.

    A draft that is a day old belongs to no run any more; a younger one may be a promotion that is just being written.
    """
    for name in store.list(layout.STAGING):
        if name.endswith(SUFFIX) or _is_stale(store, name):
            store.delete(name)


def _is_stale(store: ObjectStore, name: str) -> bool:
    path = store.local_path(name)
    try:
        return path is not None and time.time() - path.stat().st_mtime > STALE_SECONDS
    except OSError:
        return False


def _write_part(store: ObjectStore, run: str, embedder_id: str, digests: list[str], vectors: Vectors) -> None:
    table = vectors_table(vectors).append_column("digest", pa.array(digests))
    sink = io.BytesIO()
    pq.write_table(table, sink, compression="none", write_page_checksum=True)
    data = sink.getvalue()
    name = f"{layout.STAGING}/{run}/{embedder_id}-{sha256(data)}{SUFFIX}"
    try:
        store.put_new({name: data})
    except FileExistsError:
        pass
