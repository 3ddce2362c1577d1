"""Embedding many texts: length-sorted batches under a token budget, spread over worker processes.

A batch is padded to its longest text, so texts of like length go together and no batch is large; each worker runs
the model on one thread. Vectors do not depend on the batch a text is in.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Executor

import numpy as np

from kbcore.arrays import Vectors
from kbcore.embedding.catalog import EmbedderSpec, make
from kbcore.embedding.embedder import Embedder
from kbcore.errors import EmbedderMismatchError
from kbcore.workers import outcome, submit

TOKEN_BUDGET = 512
IN_PROCESS = 64
TASK_TOKENS = 4096

_loaded: dict[EmbedderSpec, Embedder] = {}


def batches(lengths: Sequence[int], budget: int = TOKEN_BUDGET) -> list[list[int]]:
    """Group positions by length: texts times the longest of the batch stays within ``budget`` (one text always fits)."""
    order = sorted(range(len(lengths)), key=lambda i: (lengths[i], i))
    groups: list[list[int]] = []
    for place in order:
        if groups and (len(groups[-1]) + 1) * lengths[place] <= budget:
            groups[-1].append(place)
        else:
            groups.append([place])
    return groups


def embed_texts(
    embedder: Embedder,
    texts: Sequence[str],
    lengths: Sequence[int],
    *,
    spec: EmbedderSpec | None = None,
    executor: Executor | None = None,
    done: Callable[[int], None] | None = None,
) -> Vectors:
    """Vectors of ``texts`` in their order; ``lengths`` are their token counts.

    With an ``executor``, tasks of some thousand tokens go to its workers, each of which makes the embedder from
    ``spec`` and refuses to work if it comes out with another identity. ``done`` is told how many texts came back, each
    time some did.
    """
    groups = batches(lengths)
    vectors = np.empty((len(texts), embedder.dimension), dtype=np.float32)
    if executor is None or spec is None or len(texts) < IN_PROCESS:
        for group in groups:
            vectors[group] = embedder.embed([texts[i] for i in group])
            if done:
                done(len(group))
        return vectors
    tasks = _tasks(groups, lengths)
    futures = [
        submit(executor, embed_task, spec, embedder.embedder_id, [[texts[i] for i in group] for group in task])
        for task in tasks
    ]
    try:
        for task, future in zip(tasks, futures, strict=True):
            for group, rows in zip(task, outcome(future), strict=True):
                vectors[group] = rows
            if done:
                done(sum(map(len, task)))
    finally:
        for future in futures:
            future.cancel()
    return vectors


def embed_task(spec: EmbedderSpec, embedder_id: str, groups: list[list[str]]) -> list[Vectors]:
    """What a worker does: embed each group as one batch. The model is loaded once per process."""
    if spec not in _loaded:
        _loaded[spec] = make(spec)
    embedder = _loaded[spec]
    if embedder.embedder_id != embedder_id:
        raise EmbedderMismatchError(f"a worker has the embedder {embedder.embedder_id}, the run uses {embedder_id}")
    return [embedder.embed(group) for group in groups]


def _tasks(groups: list[list[int]], lengths: Sequence[int]) -> list[list[list[int]]]:
    # The longest first, so that no worker ends with the largest task while the others wait.
    tasks: list[list[list[int]]] = []
    room = 0
    for group in reversed(groups):
        cost = len(group) * lengths[group[-1]]
        if not tasks or cost > room:
            tasks.append([])
            room = TASK_TOKENS
        tasks[-1].append(group)
        room -= cost
    return tasks
