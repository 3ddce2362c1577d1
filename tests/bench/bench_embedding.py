"""Throughput of the bundled embedder against FastEmbed's default call on the same texts.

    python tests/bench/bench_embedding.py --texts 256 [--corpus FOLDER]

``--corpus`` takes the chunks of other Markdown files: the default call pads all of a batch to its longest text, so its
cost depends on how much lengths differ.

FastEmbed's default: one process, all cores, batches of 256 padded to the longest. Ours: length-sorted batches under a token
budget, a worker a core with one thread each; workers are started and have loaded the model before the clock starts,
as the model of the default call has.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from pathlib import Path

import numpy as np

from kbcore.chunking import ChunkSpec, chunk
from kbcore.embedding.batches import embed_task, embed_texts
from kbcore.embedding.catalog import EmbedderSpec
from kbcore.embedding.onnx import OnnxEmbedder, bundled_files
from kbcore.workers import worker_pool

HANDBOOK = Path(__file__).parents[2] / "config" / "demo" / "handbook"


def texts(embedder: OnnxEmbedder, count: int, corpus: Path) -> list[str]:
    """Chunks of 512 characters spread over a corpus; where it has too few, again with a number in front of each."""
    spec = ChunkSpec(512, 50, embedder.max_tokens)
    pages = [path.read_text(encoding="utf-8") for path in sorted(corpus.rglob("*.md"))]
    spans = [span.text for page in pages for span in chunk(page, spec, embedder.count_tokens)]
    if len(spans) >= count:
        return [spans[n * len(spans) // count] for n in range(count)]
    return [f"{n} {spans[n % len(spans)]}"[:512] for n in range(count)]


def default_call(files: OnnxEmbedder, items: list[str]) -> tuple[np.ndarray, float]:
    from fastembed import TextEmbedding
    from fastembed.common.model_description import ModelSource, PoolingType

    TextEmbedding.add_custom_model(
        model="bench/minilm", pooling=PoolingType.MEAN, normalization=True, sources=ModelSource(hf="bench/minilm"),
        dim=files.dimension, model_file="model.onnx",
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        for name, path in files.files.files.items():
            Path(folder, name).symlink_to(path.resolve())
        model = TextEmbedding(model_name="bench/minilm", specific_model_path=folder)
        list(model.embed(["warm"]))
        started = time.perf_counter()
        vectors = np.array(list(model.embed(items)))
        return vectors, time.perf_counter() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--texts", type=int, default=256)
    parser.add_argument("--corpus", type=Path, default=HANDBOOK, help="folder of Markdown files")
    arguments = parser.parse_args()
    count = arguments.texts
    spec = EmbedderSpec()
    embedder = OnnxEmbedder(bundled_files())
    items = texts(embedder, count, arguments.corpus)
    lengths = [embedder.count_tokens(item) for item in items]
    with worker_pool() as pool:
        if pool is not None:
            for done in [pool.submit(embed_task, spec, embedder.embedder_id, [["warm"]]) for _ in range(8)]:
                done.result()
        started = time.perf_counter()
        ours = embed_texts(embedder, items, lengths, spec=spec, executor=pool)
        seconds = time.perf_counter() - started
    memory = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1e6
    theirs, slow = default_call(embedder, items)
    cosine = float((ours.astype(np.float64) * theirs).sum(axis=1).min())
    print(f"{count} texts, {np.mean(lengths):.0f} tokens on average, {max(lengths)} at most")
    print(
        f"ours {count / seconds:.1f} texts/s, FastEmbed's default call {count / slow:.1f} texts/s: {slow / seconds:.1f} x"
    )
    print(f"lowest cosine between the two {cosine:.6f}; a worker's resident memory at most {memory:.2f} GB")


if __name__ == "__main__":
    main()
