"""What a release costs when 1 % of the documents changed, and what opening and asking a release costs.

    python tests/bench/bench_release.py --chunks 10000 100000

Uses the hashing embedder with 384 dimensions, so that embedding is next to nothing; prints one line a figure.
"""

from __future__ import annotations

import argparse
import random
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import faiss
import numpy as np

from kbcore.config import Config
from kbcore.ingest import publish as publishing
from kbcore.ingest import refresh as refreshing
from kbcore.knowledge_base import KnowledgeBase
from kbcore.promotion import rollback

PER_DOCUMENT = 10


def words(rng: random.Random, count: int) -> str:
    return " ".join(f"w{int(rng.paretovariate(0.9)) % 40_000}" for _ in range(count))


def document(number: int, edition: int) -> str:
    rng = random.Random(number * 1000 + edition)
    return "\n\n".join([f"# Document {number}", *(words(rng, 85) for _ in range(PER_DOCUMENT))])


def timed(run: Callable[[], object]) -> float:
    started = time.perf_counter()
    run()
    return time.perf_counter() - started


def build(root: Path, chunks: int) -> KnowledgeBase:
    docs = root / "docs"
    for number in range(chunks // PER_DOCUMENT):
        folder = docs / f"{number % 100:02}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{number}.md").write_text(document(number, 0))
    config = Config.model_validate(
        {
            "kb": {"name": "bench", "repository": str(root / "releases")},
            "sources": [{"name": "docs", "path": str(docs)}],
            "embedder": {"provider": "hashing", "dimension": 384},
        }
    )
    base = KnowledgeBase(config)
    base.create()
    refreshing.refresh(base.repository, config)
    return base


def measure(chunks: int) -> float:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        base = build(root, chunks)
        count = chunks // PER_DOCUMENT
        total = base.repository.manifest("r000001").totals["chunks"]
        full = sum(p.stat().st_size for p in (base.folder / "segments").rglob("*") if p.is_file())
        for number in range(0, count, 100):
            (root / "docs" / f"{number % 100:02}" / f"{number}.md").write_text(document(number, 1))
        seconds: list[float] = []
        publish = publishing.publish

        def timing(*arguments: object) -> publishing.Published:
            started = time.perf_counter()
            done = publish(*arguments)  # type: ignore[arg-type]
            seconds.append(time.perf_counter() - started)
            return done

        refreshing.publish = timing  # type: ignore[attr-defined]
        whole = timed(lambda: refreshing.refresh(base.repository, base.config))
        refreshing.publish = publish  # type: ignore[attr-defined]
        written = full_size(base, "r000002")
        nothing = timed(lambda: refreshing.refresh(base.repository, base.config))
        print(f"{total} chunks, 1 % of the documents changed:")
        print(
            f"  written {written / 1e6:.2f} MB, {full / written:.0f} x less than the first release ({full / 1e6:.0f} MB)"
        )
        print(f"  vectors to durable manifest {seconds[0]:.2f} s")
        print(f"  the whole refresh {whole:.2f} s; one without changes {nothing:.2f} s")
        opening = min(timed(lambda: base.retriever("r000001")) for _ in range(3))
        print(
            f"  open r000001 (one segment a 64k chunks) {opening:.2f} s; r000002 {timed(lambda: base.retriever('r000002')):.2f} s"
        )
        ask(base, total)
        from kbcore import promotion

        check = promotion.check_servable
        checking = timed(lambda: check(base.repository, base.repository.manifest("r000001"), base.catalog))
        promotion.check_servable = lambda *_, **__: None  # type: ignore[assignment]
        moved = timed(lambda: rollback(base.repository, base.catalog, reason="bench", run=base.repository.begin()))
        promotion.check_servable = check
        print(f"  rollback {moved * 1000:.0f} ms beyond its checks ({checking:.2f} s)")
        return written / base.repository.manifest("r000002").totals["chunks_new"]


def full_size(base: KnowledgeBase, release: str) -> int:
    manifest = base.repository.manifest(release)
    return (
        sum(p.stat().st_size for p in base.folder.rglob("*") if p.is_file() and manifest.run in p.as_posix())
        + (base.folder / "manifests" / f"{release}.json").stat().st_size
    )


def ask(base: KnowledgeBase, total: int) -> None:
    retriever = base.retriever("r000001")
    rng = random.Random(1)
    queries = [words(rng, 8) for _ in range(40)]
    vectors = np.concatenate([s.vectors() for s in retriever.snapshot.segments])
    bare = faiss.IndexFlatIP(vectors.shape[1])
    bare.add(vectors)
    asked = [retriever.embedder.embed_query(q)[None, :] for q in queries]
    faiss.omp_set_num_threads(1)
    retriever.search(queries[0])
    times: dict[str, list[float]] = {"bare": [], "vector": [], "keyword": [], "hybrid": []}
    for query, vector in zip(queries, asked, strict=True):
        times["bare"].append(timed(lambda v=vector: bare.search(v, 10)))  # type: ignore[misc]
        for mode in ("vector", "keyword", "hybrid"):
            times[mode].append(timed(lambda q=query, m=mode: retriever.search(q, 10, mode=m)))  # type: ignore[misc, arg-type]
    base_time = statistics.median(times["bare"])
    for mode in ("vector", "keyword", "hybrid"):
        middle = statistics.median(times[mode])
        figures = f"{middle * 1000:.1f} ms, {middle / base_time:.2f} x bare FAISS flat ({base_time * 1000:.1f} ms)"
        print(f"  {mode} query, hits made and all: {figures}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--chunks", type=int, nargs="+", default=[10_000, 100_000])
    written = [measure(chunks) for chunks in parser.parse_args().chunks]
    if len(written) > 1:
        print(f"bytes written a changed chunk, largest corpus against smallest: {written[-1] / written[0]:.2f}")


if __name__ == "__main__":
    main()
