"""Searches over HTTP while releases are promoted and rolled back every second, beside the bare libraries.

    python -m tests.bench.bench_serving --chunks 100000 --searches 20000 --clients 8

Serves a knowledge base as bench_release.py builds it (hashing embedder, 384 dimensions) with ``kb serve`` in a process of
its own. Every answer must be of one release and equal to what that release answers alone; memory must stay flat. The
reference is FAISS flat and bm25s over the same chunks in this process, one thread, 10 hits each, nothing else done.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import bm25s
import faiss
import httpx2
import numpy as np
import psutil

from kbcore.ingest.refresh import refresh
from kbcore.knowledge_base import KnowledgeBase
from kbcore.promotion import promote, rollback
from tests.bench.bench_release import build, document, words

QUESTIONS = 500
KEPT = 100
TOKEN = "bench-token-0123456789"


def figures(name: str, seconds: Sequence[float], whole: float) -> None:
    p50, p95, p99 = (float(value) * 1000 for value in np.percentile(seconds, [50, 95, 99]))
    print(
        f"  {name:<28} {len(seconds) / whole:8.1f} /s   p50 {p50:7.1f}   p95 {p95:7.1f}   p99 {p99:7.1f} ms", flush=True
    )


def configured(root: Path) -> Path:
    """The configuration file of the knowledge base below ``root``."""
    config = root / "kb.toml"
    config.write_text(
        f'[kb]\nname = "bench"\nrepository = "{root}/releases"\n[[sources]]\nname = "docs"\npath = "{root}/docs"\n'
        '[embedder]\nprovider = "hashing"\ndimension = 384\n'
    )
    return config


def served(root: Path) -> tuple[subprocess.Popen[str], str]:
    config = configured(root)
    process = subprocess.Popen(
        [sys.executable, "-m", "kbcore.cli", "serve", "-c", str(config), "--port", "0", "--waiting", "64"],
        env={**os.environ, "KB_READER_TOKENS": TOKEN},
        stdout=subprocess.PIPE,
        stderr=(root / "log").open("w"),
        text=True,
    )
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("listening at "):
            return process, line.removeprefix("listening at ").strip()
    raise SystemExit((root / "log").read_text())


class Load:
    """Clients that ask, each a connection of its own, and what they saw."""

    def __init__(
        self, url: str, questions: Sequence[str], expected: dict[str, dict[str, list[str]]], mode: str
    ) -> None:
        self.url, self.questions, self.expected, self.mode = url, questions, expected, mode
        self.seconds: list[float] = []
        self.errors: list[str] = []
        self.releases: dict[str, int] = {}

    def run(self, searches: int, clients: int) -> float:
        threads = [threading.Thread(target=self._client, args=(n, searches // clients)) for n in range(clients)]
        started = time.perf_counter()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return time.perf_counter() - started

    def _client(self, number: int, searches: int) -> None:
        rng = random.Random(number)
        seconds: list[float] = []
        with httpx2.Client(base_url=self.url, headers={"Authorization": f"Bearer {TOKEN}"}, timeout=60) as client:
            for _ in range(searches):
                question = rng.choice(self.questions)
                started = time.perf_counter()
                got = client.post("/v1/bench/search", json={"query": question, "k": 10, "mode": self.mode})
                seconds.append(time.perf_counter() - started)
                self._check(question, got)
        self.seconds += seconds

    def _check(self, question: str, got: httpx2.Response) -> None:
        if got.status_code != 200:
            self.errors.append(f"{got.status_code}: {got.text[:200]}")
            return
        body = got.json()
        release = body["release"]
        self.releases[release] = self.releases.get(release, 0) + 1
        named = {got.headers["KB-Release"], *(hit["release"] for hit in body["hits"])}
        if named != {release}:
            self.errors.append(f"a mixed answer: {named}")
        wanted = self.expected[release].get(question)
        if wanted is not None and [hit["chunk_id"] for hit in body["hits"]] != wanted:
            self.errors.append(f"{release} answers {question!r} otherwise than alone")


def moving(base: KnowledgeBase, stop: threading.Event, moves: list[float]) -> None:
    while not stop.wait(1.0):
        started = time.perf_counter()
        run = base.repository.begin("bench")
        if base.repository.state().release == "r000002":
            rollback(base.repository, base.catalog, reason="bench", run=run)
        else:
            promote(base.repository, "r000002", base.catalog, reason="bench", run=run)
        moves.append(time.perf_counter() - started)


def bare(base: KnowledgeBase, questions: Sequence[str], rounds: int) -> None:
    """FAISS flat and bm25s over the chunks of r000001, asked one after another."""
    retriever = base.retriever("r000001")
    vectors = np.concatenate([segment.vectors() for segment in retriever.snapshot.segments])
    texts = [retriever.snapshot.chunk(row)["text"] for row in range(len(vectors))]
    index = faiss.IndexFlatIP(vectors.shape[1])
    index.add(vectors)
    faiss.omp_set_num_threads(1)
    lexical = bm25s.BM25()
    lexical.index(bm25s.tokenize(texts, stopwords=None, show_progress=False), show_progress=False)

    def dense(question: str) -> None:
        index.search(retriever.embedder.embed_query(question)[None, :], 10)

    def sparse(question: str) -> None:
        lexical.retrieve(bm25s.tokenize([question], stopwords=None, show_progress=False), k=10, show_progress=False)

    def both(question: str) -> None:
        dense(question)
        sparse(question)

    kinds: dict[str, Callable[[str], None]] = {"bare FAISS": dense, "bare bm25s": sparse, "bare FAISS + bm25s": both}
    for name, ask in kinds.items():
        seconds = []
        for question in questions[:rounds]:
            started = time.perf_counter()
            ask(question)
            seconds.append(time.perf_counter() - started)
        figures(name, seconds, sum(seconds))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--chunks", type=int, default=100_000)
    parser.add_argument("--searches", type=int, default=20_000)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--mode", choices=["hybrid", "keyword", "vector"], default="hybrid")
    parser.add_argument("--root", type=Path, help="Keep the knowledge base here, and use it again.")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        measure(given.root or Path(folder), given)


def two_releases(root: Path, chunks: int) -> KnowledgeBase:
    from kbcore.config import Config

    if (root / "releases" / "bench" / "manifests" / "r000002.json").exists():
        return KnowledgeBase(
            Config.model_validate(
                {
                    "kb": {"name": "bench", "repository": str(root / "releases")},
                    "sources": [{"name": "docs", "path": str(root / "docs")}],
                    "embedder": {"provider": "hashing", "dimension": 384},
                }
            )
        )
    base = build(root, chunks)
    for number in range(0, chunks // 10, 100):
        (root / "docs" / f"{number % 100:02}" / f"{number}.md").write_text(document(number, 1))
    refresh(base.repository, base.config)
    return base


def measure(root: Path, given: Any) -> None:
    root.mkdir(parents=True, exist_ok=True)
    started = time.perf_counter()
    base = two_releases(root, given.chunks)
    print(
        f"two releases of {base.repository.manifest('r000002').totals['chunks']} chunks, {time.perf_counter() - started:.0f} s"
    )
    rng = random.Random(7)
    questions = [words(rng, 8) for _ in range(QUESTIONS)]
    expected: dict[str, dict[str, list[str]]] = {}
    for release in ("r000001", "r000002"):
        retriever = base.retriever(release)
        expected[release] = {
            question: [hit.chunk_id for hit in retriever.search(question, 10, mode=given.mode).hits]
            for question in questions[:KEPT]
        }
        del retriever
    print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores; {given.mode}, k = 10", flush=True)
    process, url = served(root)
    try:
        memory = psutil.Process(process.pid).memory_info
        warm = Load(url, questions, expected, given.mode)
        whole = warm.run(max(200, given.searches // 20), given.clients)
        figures(f"kb serve, {given.clients} clients", warm.seconds, whole)
        stop, moves = threading.Event(), list[float]()
        mover = threading.Thread(target=moving, args=(base, stop, moves))
        mover.start()
        both = Load(url, questions, expected, given.mode)
        while len(both.releases) < 2:  # until both releases are open and have answered
            both.run(4 * given.clients, given.clients)
        before, most = memory().rss, [0]

        def watch() -> None:
            while not stop.wait(0.2):
                most[0] = max(most[0], memory().rss)

        watcher = threading.Thread(target=watch)
        watcher.start()
        load = Load(url, questions, expected, given.mode)
        whole = load.run(given.searches, given.clients)
        stop.set()
        mover.join()
        watcher.join()
        figures("the same while readers move", load.seconds, whole)
        print(
            f"  {len(load.seconds)} searches, {len(moves)} moves, {len(load.errors)} errors, by release {load.releases}"
        )
        print(f"  memory {before / 1e6:.0f} MB before, {most[0] / 1e6:.0f} at most, {memory().rss / 1e6:.0f} after")
        for error in sorted(set(load.errors))[:5]:
            print(f"  {error}")
    finally:
        process.terminate()
        print(f"  SIGTERM: ended with {process.wait(60)}")
    bare(base, questions, min(200, given.searches))
    if load.errors:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
