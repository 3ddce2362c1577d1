"""Retrieval quality on public collections (BEIR layout: corpus.jsonl, queries.jsonl, qrels/*.tsv).

    python tests/bench/bench_quality.py FOLDER [FOLDER ...] [--cache FOLDER]

Each collection is searched in two cuts: its documents whole (the embedder reads the first 256 tokens of each), and as a
refresh cuts them by default, a document ranked by its best chunk. Prints nDCG@10 and R@100 by ir-measures of BM25, of vector
search and of both fusions, with the default settings. ``--cache`` keeps the vectors between runs.
"""

from __future__ import annotations

import argparse
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Executor
from pathlib import Path
from typing import Any

import ir_measures
import numpy as np
from ir_measures import R, nDCG

from kbcore import fusion
from kbcore.chunking import ChunkSpec, chunk
from kbcore.config import ChunkingSection
from kbcore.embedding.batches import embed_texts
from kbcore.embedding.catalog import EmbedderSpec
from kbcore.embedding.onnx import OnnxEmbedder, bundled_files
from kbcore.index.lexical import StoredBM25, build_postings
from kbcore.retrieval.settings import RetrievalSettings
from kbcore.tokenization import query_terms, tokens
from kbcore.workers import worker_pool

MEASURES = (nDCG @ 10, R @ 100)
DEPTH = 100


def lines(path: Path) -> Iterable[dict[str, Any]]:
    with open(path, encoding="utf-8") as file:
        yield from map(json.loads, file)


def judgments(folder: Path) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for path in sorted((folder / "qrels").glob("*.tsv")):
        for line in path.read_text(encoding="utf-8").splitlines()[1:]:
            query, document, grade = line.split("\t")
            found.setdefault(query, {})[document] = int(grade)
    return found


class Cut:
    """A collection cut into units: (document, title, text)."""

    def __init__(self, name: str, units: Sequence[tuple[str, str, str]]) -> None:
        self.name, self.units = name, units
        self.owners = [document for document, _, _ in units]

    def embedded(self, title: str, text: str) -> str:
        # A whole document is judged with its title, as the published figures are; a chunk is embedded as it stands.
        return f"{title} {text}".strip() if self.name == "whole" else text


def cuts(folder: Path, embedder: OnnxEmbedder) -> list[Cut]:
    documents = [(d["_id"], d.get("title") or "", d["text"]) for d in lines(folder / "corpus.jsonl")]
    section = ChunkingSection()
    spec = ChunkSpec(section.size, section.overlap, embedder.max_tokens)
    chunked = []
    for document, title, text in documents:
        page = f"{title}\n\n{text}" if title else text
        chunked += [(document, title, span.text) for span in chunk(page, spec, embedder.count_tokens)]
    return [Cut("whole", documents), Cut("default chunks", chunked)]


def vectors_of(embedder: OnnxEmbedder, texts: list[str], pool: Executor | None, cache: Path | None) -> np.ndarray:
    key = hashlib.sha256("\0".join([embedder.embedder_id, *texts]).encode()).hexdigest()[:24]
    file = cache / f"{key}.npy" if cache else None
    if file and file.exists():
        return np.asarray(np.load(file))
    lengths = [min(embedder.count_tokens(text), embedder.max_tokens) for text in texts]
    vectors = embed_texts(embedder, texts, lengths, spec=EmbedderSpec(), executor=pool)
    if file:
        file.parent.mkdir(parents=True, exist_ok=True)
        np.save(file, vectors)
    return vectors


def best_of(owners: Sequence[str], pairs: Iterable[tuple[int, float]]) -> list[tuple[str, float]]:
    """Each document once, with its best unit's score."""
    found: dict[str, float] = {}
    for row, score in pairs:
        found.setdefault(owners[row], score)
    return list(found.items())[:DEPTH]


def evaluate(cut: Cut, queries: Mapping[str, str], qrels: Any, embedder: OnnxEmbedder, pool: Any, cache: Any) -> str:
    settings = RetrievalSettings()
    bm25 = StoredBM25([(build_postings(tokens(f"{title}\n{text}") for _, title, text in cut.units), None)])
    texts = [cut.embedded(title, text) for _, title, text in cut.units]
    vectors = vectors_of(embedder, texts, pool, cache)
    asked = vectors_of(embedder, list(queries.values()), pool, cache)
    runs: dict[str, dict[str, dict[str, float]]] = {"BM25": {}, "vector": {}, "rrf": {}, "minmax": {}}
    for (query, text), vector in zip(queries.items(), asked, strict=True):
        rows, scores = bm25.top(query_terms(text), 4 * DEPTH)
        keyword = list(zip(rows.tolist(), scores.tolist(), strict=True))
        cosines = vectors @ vector
        near = np.argsort(-cosines, kind="stable")[: 4 * DEPTH]
        dense = list(zip(near.tolist(), cosines[near].tolist(), strict=True))
        # As deep as a search for ten hits looks; what lies deeper follows in each side's own order.
        depth = 3 * 10
        names = [[str(row) for row, _ in side] for side in (dense[:100], keyword[:100])]
        joined = {
            "rrf": fusion.rrf(names),
            "minmax": fusion.minmax(
                [(str(row), score) for row, score in dense[:depth]],
                [(str(row), score) for row, score in keyword[:depth]],
                settings.alpha,
            ),
        }
        ranked = {"BM25": keyword, "vector": dense}
        for name, fused in joined.items():
            first = [(int(row), score) for row, score in fusion.ranked(fused)]
            rest = [row for pair in zip(dense, keyword) for row, _ in pair]
            ranked[name] = first + [(row, -1.0 - at) for at, row in enumerate(rest)]
        for name, pairs in ranked.items():
            order = best_of(cut.owners, pairs)
            runs[name][query] = {document: float(len(order) - at) for at, (document, _) in enumerate(order)}
    cells = []
    for name, run in runs.items():
        values = ir_measures.calc_aggregate(MEASURES, qrels, run)
        cells.append(f"{name} {values[MEASURES[0]]:.3f} {values[MEASURES[1]]:.3f}")
    return f"  {cut.name:15} {len(cut.units):6} units   " + "   ".join(cells)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--cache", type=Path)
    arguments = parser.parse_args()
    embedder = OnnxEmbedder(bundled_files())
    with worker_pool() as pool:
        for folder in arguments.folders:
            qrels = judgments(folder)
            queries = {q["_id"]: q["text"] for q in lines(folder / "queries.jsonl") if q["_id"] in qrels}
            print(f"{folder.name}: {len(queries)} judged questions; nDCG@10 and R@100 of each", flush=True)
            for cut in cuts(folder, embedder):
                print(evaluate(cut, queries, qrels, embedder, pool, arguments.cache), flush=True)


if __name__ == "__main__":
    main()
