"""Hits and scores do not depend on how chunks are spread over segments, in which order, or whether dead rows are still
in the files: for BM25 and for vectors, to the last bit."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kbcore.index.dense import DenseIndex, DensePart, from_index_bytes, to_index_bytes
from kbcore.index.lexical import StoredBM25, build_postings

WORDS = ["a", "b", "c", "d", "é", "返金"]
CHUNKS = st.lists(st.lists(st.sampled_from(WORDS), max_size=8), max_size=30)
SEEDS = st.integers(0, 2**32)


def layout(live: list[int], dead: list[int], seed: int) -> list[list[int]]:
    """The chunks dealt out to 1, 2 or 7 segments (some may be empty) in another order, ``dead`` among them."""
    rng = random.Random(seed)
    order = [*live, *dead]
    rng.shuffle(order)
    parts: list[list[int]] = [[] for _ in range(rng.choice([1, 2, 7]))]
    for chunk in order:
        rng.choice(parts).append(chunk)
    return parts


def bm25(chunks: list[list[str]], parts: list[list[int]], dead: set[int], idf: str) -> StoredBM25:
    pairs = []
    for part in parts:
        mask = np.array([chunk not in dead for chunk in part], dtype=bool)
        pairs.append((build_postings(chunks[chunk] for chunk in part), None if mask.all() else mask))
    return StoredBM25(pairs, idf=idf)


@pytest.mark.parametrize("idf", ["lucene", "okapi"])
@settings(max_examples=150, deadline=None)
@given(chunks=CHUNKS, query=st.lists(st.sampled_from([*WORDS, "x"]), max_size=5), n=st.integers(1, 6), seed=SEEDS)
def test_bm25_scores_are_the_same_bits_in_every_layout(idf, chunks, query, n, seed):
    rng = random.Random(seed)
    dead = {chunk for chunk in range(len(chunks)) if rng.random() < 0.3}
    live = [chunk for chunk in range(len(chunks)) if chunk not in dead]
    answers = []
    for parts in ([live], layout(live, [], seed), layout(live, sorted(dead), seed + 1), [list(range(len(chunks)))]):
        index = bm25(chunks, parts, dead, idf)
        chunk_of = [chunk for part in parts for chunk in part]
        scores, matched = index.scores(query), index.matched(query)
        rows, best = index.top(query, n)
        assert not any(scores[row] or matched[row] for row, chunk in enumerate(chunk_of) if chunk in dead)
        answers.append(
            (
                {chunk: float(scores[row]).hex() for row, chunk in enumerate(chunk_of) if chunk not in dead},
                {chunk for row, chunk in enumerate(chunk_of) if matched[row]},
                sorted((-score, chunk_of[row]) for row, score in zip(rows.tolist(), best.tolist())),
                index.idf,
            )
        )
    assert all(answer == answers[0] for answer in answers)


@pytest.mark.parametrize("kind", ["flat", "fp16"])
@settings(max_examples=60, deadline=None)
@given(n=st.integers(1, 400), distinct=st.integers(1, 400), k=st.integers(1, 40), seed=SEEDS)
def test_vector_hits_and_cosines_are_the_same_bits_in_every_layout(kind, n, distinct, k, seed):
    rng = np.random.default_rng(seed)
    base = rng.standard_normal((distinct, 12))
    base = (base / np.linalg.norm(base, axis=1, keepdims=True)).astype(np.float32)
    vectors = base[rng.integers(0, distinct, n)]  # few distinct ones: many chunks tie
    query = rng.standard_normal(12).astype(np.float32)
    dead = set(np.flatnonzero(rng.random(n) < 0.3).tolist())
    live = [chunk for chunk in range(n) if chunk not in dead]
    answers = []
    for parts in ([live], layout(live, [], seed), layout(live, sorted(dead), seed + 1)):
        opened, offset = [], 0
        for part in parts:
            values = np.ascontiguousarray(vectors[part].reshape(-1, 12))
            data = to_index_bytes(values, kind)
            index = from_index_bytes(data, dimension=12, count=len(part), file="x", kind=kind)
            mask = np.array([chunk not in dead for chunk in part], dtype=bool)
            opened.append(DensePart(index, mask, offset, None if kind == "flat" else values))
            offset += len(part)
        chunk_of = [chunk for part in parts for chunk in part]
        names = lambda rows, chunk_of=chunk_of: [f"{chunk_of[row]:04d}" for row in rows]  # noqa: E731
        found = DenseIndex(opened, dimension=12).search(query, k, names)
        answers.append([(chunk_of[row], cosine.hex()) for row, cosine in found.hits])
    assert len(answers[0]) == min(k, len(live))
    assert all(answer == answers[0] for answer in answers)
