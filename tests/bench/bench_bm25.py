"""BM25 at a given size, as ratios in one run: kbcore against rank-bm25 and bm25s with numba, on one thread.

    python tests/bench/bench_bm25.py --chunks 100000

The corpus is synthetic: words drawn by Zipf's law, a query is the distinct words of a short piece of some chunk. The
three must agree on the best rows (ties apart) and their scores before any time is printed.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import bm25s
import numpy as np
from rank_bm25 import BM25Okapi

from kbcore.index.lexical import StoredBM25, build_postings


def corpus(chunks: int, words: int, vocabulary: int, seed: int) -> list[list[str]]:
    """Token lists whose word frequencies fall as 1 / rank (Zipf), lengths between half and one and a half ``words``."""
    rng = np.random.default_rng(seed)
    share = 1.0 / np.arange(1, vocabulary + 1)
    lengths = rng.integers(words // 2, words + words // 2 + 1, chunks)
    drawn = rng.choice(vocabulary, size=int(lengths.sum()), p=share / share.sum())
    names = [f"w{number:06d}" for number in range(vocabulary)]
    pieces = np.split(drawn, np.cumsum(lengths)[:-1])
    return [[names[number] for number in piece.tolist()] for piece in pieces]


def timed(action: Callable[[], Any]) -> tuple[Any, float]:
    began = time.perf_counter()
    result = action()
    return result, time.perf_counter() - began


def median_ms(action: Callable[[list[str]], Any], queries: Sequence[list[str]]) -> float:
    return 1e3 * statistics.median(timed(lambda query=query: action(query))[1] for query in queries)


def same_top(rows: Sequence[int], scores: Sequence[float], oracle: np.ndarray, n: int) -> None:
    """``oracle`` are another implementation's scores of all rows; the list must be one of its best lists."""
    best = np.sort(oracle)[::-1][:n]
    np.testing.assert_allclose(scores[:n], best, rtol=1e-5)
    np.testing.assert_allclose(oracle[np.asarray(rows[:n])], best, rtol=1e-5)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chunks", type=int, default=100_000)
    parser.add_argument("--words", type=int, default=60, help="average tokens per chunk")
    parser.add_argument("--vocabulary", type=int, default=200_000)
    parser.add_argument("--queries", type=int, default=200)
    parser.add_argument("--terms", type=int, default=8)
    parser.add_argument("--n", type=int, default=30)
    parser.add_argument("--slow-queries", type=int, default=5, help="queries put to rank-bm25")
    parser.add_argument("--seed", type=int, default=7)
    args = parser.parse_args()

    chunks = corpus(args.chunks, args.words, args.vocabulary, args.seed)
    rng = np.random.default_rng(args.seed + 1)
    queries = []
    for row in rng.choice(len(chunks), args.queries):
        words = sorted(set(chunks[row]))
        queries.append(rng.choice(words, min(args.terms, len(words)), replace=False).tolist())

    postings, building = timed(lambda: build_postings(chunks))
    stored, opening = timed(lambda: StoredBM25([(postings, None)]))
    seven = [build_postings(chunks[at::7]) for at in range(7)]
    _, opening_seven = timed(lambda: StoredBM25([(part, None) for part in seven]))
    okapi = StoredBM25([(postings, None)], idf="okapi")
    rank, rank_opening = timed(lambda: BM25Okapi(chunks))
    fast = bm25s.BM25(method="lucene", k1=1.5, b=0.75, backend="numba")
    _, fast_opening = timed(lambda: fast.index(chunks, show_progress=False))

    def ask_fast(query: list[str]) -> Any:
        return fast.retrieve([query], k=args.n, show_progress=False, sorted=True)

    ask_fast(queries[0])  # numba compiles at the first call
    for query in queries:
        rows, scores = stored.top(query, args.n)
        # bm25s leaves out the constant factor k1 + 1 that rank-bm25 has.
        same_top(rows, scores, fast.get_scores(query).astype(np.float64) * 2.5, args.n)
    for query in queries[: args.slow_queries]:
        rows, scores = okapi.top(query, args.n)
        same_top(rows, scores, rank.get_scores(query), args.n)

    ours = median_ms(lambda query: stored.top(query, args.n), queries)
    theirs_fast = median_ms(ask_fast, queries)
    ours_again = median_ms(lambda query: stored.top(query, args.n), queries)
    theirs_slow = median_ms(rank.get_scores, queries[: args.slow_queries])
    touched = statistics.median(sum(stored.document_frequency(term) for term in query) for query in queries)
    print(f"{len(chunks)} chunks, {len(postings.rows)} postings, {len(postings.terms)} terms")
    print(f"queries of {args.terms} terms touch {touched:.0f} postings (median); best {args.n} rows equal to those of")
    print(f"  bm25s in {len(queries)} queries, of rank-bm25 in {args.slow_queries}")
    print(f"build postings {building:.2f} s; open {opening:.2f} s (7 segments {opening_seven:.2f} s)")
    print(f"  rank-bm25 builds in {rank_opening:.2f} s, bm25s in {fast_opening:.2f} s")
    print(f"query: kbcore {ours:.3f} ms (again {ours_again:.3f}), bm25s+numba {theirs_fast:.3f} ms,")
    print(f"  rank-bm25 {theirs_slow:.1f} ms")
    print(f"  kbcore / bm25s+numba = {ours / theirs_fast:.2f} (goal <= 2)")
    print(f"  rank-bm25 / kbcore = {theirs_slow / ours:.0f} (goal >= 100)")


if __name__ == "__main__":
    main()
