"""Vector search at a given size, as ratios in one run: kbcore's exact final list against bare FAISS, on one thread.

    python tests/bench/bench_dense.py --chunks 100000

Both ask the same flat index over the same vectors; the lists must agree (float32 near-ties apart) before any time is
printed. fp16 is the half-size nominator with exact vectors beside it; its final list must be that of flat, id by id.
The vectors are synthetic: points around random centres, which is harder to tell apart than pure noise.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import faiss
import numpy as np

from kbcore.index.dense import DenseIndex, DensePart, from_index_bytes, to_index_bytes


def clustered(n: int, d: int, centres: int, seed: int) -> np.ndarray:
    """float32 [n, d] unit vectors: a random centre plus noise of the same length."""
    rng = np.random.default_rng(seed)
    middle = rng.standard_normal((centres, d), dtype=np.float32)
    values = middle[rng.integers(0, centres, n)] + rng.standard_normal((n, d), dtype=np.float32)
    return values / np.linalg.norm(values, axis=1, keepdims=True)


def timed_ms(action: Callable[[], Any]) -> float:
    began = time.perf_counter()
    action()
    return 1e3 * (time.perf_counter() - began)


def opened(values: np.ndarray, kind: Any, cuts: int, live: np.ndarray | None = None) -> DenseIndex:
    parts, offset = [], 0
    for piece in np.array_split(values, cuts):
        data = to_index_bytes(piece, kind)
        index = from_index_bytes(data, dimension=values.shape[1], count=len(piece), file="bench", kind=kind)
        mask = None if live is None else live[offset : offset + len(piece)]
        parts.append(DensePart(index, mask, offset, piece if kind == "fp16" else None))
        offset += len(piece)
    return DenseIndex(parts, dimension=values.shape[1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chunks", type=int, default=100_000)
    parser.add_argument("--dimension", type=int, default=384)
    parser.add_argument("--queries", type=int, default=100)
    parser.add_argument("--k", type=int, default=30)
    parser.add_argument("--seed", type=int, default=7)
    args = parser.parse_args()

    values = clustered(args.chunks + args.queries, args.dimension, max(args.chunks // 100, 1), args.seed)
    values, queries = np.ascontiguousarray(values[: args.chunks]), values[args.chunks :]
    bare = faiss.IndexFlatIP(args.dimension)
    bare.add(values)
    faiss.omp_set_num_threads(1)

    data = to_index_bytes(values)
    opening = timed_ms(lambda: from_index_bytes(data, dimension=args.dimension, count=args.chunks, file="bench"))
    live = np.random.default_rng(args.seed).random(args.chunks) < 0.97
    ids = [f"{row:032x}" for row in range(args.chunks)]

    def tie(rows: np.ndarray) -> list[str]:
        return [ids[row] for row in rows.tolist()]

    ours = {
        "flat": opened(values, "flat", 1),
        "flat, 17 segments": opened(values, "flat", 17),
        "flat, 3 % dead": opened(values, "flat", 1, live),
        "fp16": opened(values, "fp16", 1),
        "fp16, 17 segments": opened(values, "fp16", 17),
    }
    rescanned = 0
    for query in queries:
        scores, labels = bare.search(query[None, :], args.k)
        exact = ours["flat"].search(query, args.k, tie)
        rescanned += exact.raw_labels > max(4 * args.k, 100)
        np.testing.assert_allclose([cosine for _, cosine in exact.hits], scores[0], atol=1e-5)
        at = values[labels[0]].astype(np.float64) @ query.astype(np.float64)
        assert at.min() >= exact.hits[-1][1] - 1e-5
        for name, index in ours.items():
            if "dead" not in name:
                assert index.search(query, args.k, tie).hits == exact.hits, name

    # One call of each in turn, so that a busy moment of a shared machine strikes all of them.
    times: dict[str, list[float]] = {"bare": [], **{name: [] for name in ours}}
    for query in queries:
        times["bare"].append(timed_ms(lambda query=query: bare.search(query[None, :], args.k)))
        for name, index in ours.items():
            times[name].append(timed_ms(lambda query=query, index=index: index.search(query, args.k, tie)))
    middle = {name: statistics.median(values) for name, values in times.items()}
    print(f"{args.chunks} x {args.dimension}, k {args.k}, {args.queries} queries, one thread; lists equal;")
    print(f"open without copying {opening:.2f} ms; nominated a second time: {rescanned} queries")
    print(f"bare IndexFlatIP.search: {middle['bare']:.2f} ms")
    for name in ours:
        goal = " (goal <= 1.2)" if name == "flat" else " (goal about 0.5)" if name == "fp16" else ""
        print(f"  {name}: {middle[name]:.2f} ms = {middle[name] / middle['bare']:.2f} x bare{goal}")


if __name__ == "__main__":
    main()
