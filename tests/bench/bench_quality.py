"""Retrieval quality on public collections (BEIR layout: corpus.jsonl, queries.jsonl, qrels/*.tsv).

    python tests/bench/bench_quality.py FOLDER [FOLDER ...] [--cache FOLDER]

Each collection is searched in three cuts: its documents whole (the embedder reads the first 256 tokens of each), and as a
refresh cuts them with `[chunking] context = "none"` and with `"heading"` (title before each chunk that is embedded), a document
ranked by its best chunk. Prints nDCG@10 and R@100 by ir-measures of BM25, of vector search and of both fusions, with the default
settings. ``--cache`` keeps the vectors between runs.
"""

from __future__ import annotations

import argparse
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ir_measures
import numpy as np
from ir_measures import R, nDCG

from kbcore import fusion
from kbcore.chunking import chunk
from kbcore.config import ChunkingSection
from kbcore.embedding.batches import embed_texts
from kbcore.embedding.catalog import EmbedderSpec
from kbcore.embedding.onnx import OnnxEmbedder, bundled_files
from kbcore.index.lexical import StoredBM25, build_postings
from kbcore.ingest.cutting import embedded_text
from kbcore.ingest.recipe import Recipe
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


@dataclass(frozen=True)
class Unit:
    """What is ranked: a piece of a document, with the text that is embedded for it."""

    document: str
    title: str
    text: str
    embedded: str


def cuts(folder: Path, embedder: OnnxEmbedder) -> dict[str, list[Unit]]:
    documents = [(d["_id"], d.get("title") or "", d["text"]) for d in lines(folder / "corpus.jsonl")]
    # A whole document is judged with its title, as the published figures are.
    found = {"whole": [Unit(name, title, text, f"{title} {text}".strip()) for name, title, text in documents]}
    section = ChunkingSection()
    for context in ("none", "heading"):
        recipe = Recipe(EmbedderSpec(), embedder, section.size, section.overlap, context)
        units = found[f"chunks, context {context}"] = []
        for document, title, text in documents:
            page = f"{title}\n\n{text}" if title else text
            for span in chunk(page, recipe.chunk_spec, embedder.count_tokens):
                units.append(Unit(document, title, span.text, embedded_text(span.text, title, (), recipe)))
    return found


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


def evaluate(
    name: str,
    units: Sequence[Unit],
    queries: Mapping[str, str],
    qrels: Any,
    embedder: OnnxEmbedder,
    pool: Any,
    cache: Any,
) -> str:
    settings = RetrievalSettings()
    bm25 = StoredBM25([(build_postings(tokens(f"{unit.title}\n{unit.text}") for unit in units), None)])
    owners = [unit.document for unit in units]
    vectors = vectors_of(embedder, [unit.embedded for unit in units], pool, cache)
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
        for system, fused in joined.items():
            first = [(int(row), score) for row, score in fusion.ranked(fused)]
            rest = [row for pair in zip(dense, keyword) for row, _ in pair]
            ranked[system] = first + [(row, -1.0 - at) for at, row in enumerate(rest)]
        for system, pairs in ranked.items():
            order = best_of(owners, pairs)
            runs[system][query] = {document: float(len(order) - at) for at, (document, _) in enumerate(order)}
    cells = []
    for system, run in runs.items():
        values = ir_measures.calc_aggregate(MEASURES, qrels, run)
        cells.append(f"{system} {values[MEASURES[0]]:.3f} {values[MEASURES[1]]:.3f}")
    return f"  {name:23} {len(units):6} units   " + "   ".join(cells)


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
            for name, units in cuts(folder, embedder).items():
                print(evaluate(name, units, queries, qrels, embedder, pool, arguments.cache), flush=True)


if __name__ == "__main__":
    main()
