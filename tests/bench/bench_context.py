"""Is documentation found better where title and heading path are embedded before each chunk?

    python tests/bench/bench_context.py --cache FOLDER [--data DATA]

A release is made of the demo help desk, and of each of the five states of a real one where DATA holds them, once with
`[chunking] context = "none"` and once with `"heading"`; all else is as a refresh does it by default. Prints nDCG@10 and
R@100 of each mode with the judgments of that state. ``--cache`` keeps the vectors between runs.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

from bench_gate import Help
from cached_embedder import CachedEmbedder, OneOf, released

from kbcore.config import Config
from kbcore.evaluation import runner
from kbcore.evaluation.questions import load_questions
from kbcore.retrieval.settings import RetrievalSettings
from kbcore.types import Mode

ROOT = Path(__file__).parents[2]
MEASURES = ("nDCG@10", "R@100")


def collections(data: Path | None, vectors: Path, root: Path) -> Iterator[tuple[str, str, Path, Path]]:
    """(name, source, folder, evaluation set) of each."""
    yield (
        "demo help desk",
        "handbook",
        ROOT / "config" / "demo" / "handbook",
        ROOT / "config" / "evalsets" / "demo.jsonl",
    )
    if data is not None:
        desk = Help(data, root, vectors)
        for state in desk.states:
            desk.ask(state)
            yield f"NeSI {state[:10]}", "docs", desk.pages / state, desk.evalset


def figures(source: str, folder: Path, evalset: Path, context: str, embedder: CachedEmbedder, root: Path) -> str:
    config = Config.model_validate(
        {
            "kb": {"name": "context", "repository": str(root)},
            "sources": [{"name": source, "path": str(folder)}],
            "chunking": {"context": context},
        }
    )
    base = released(config, embedder, accept_failures=True)
    questions = load_questions(evalset)
    cells = []
    for mode in get_args(Mode):
        card = runner.evaluate(
            base.repository, "r000001", questions, OneOf(embedder), RetrievalSettings(mode=mode),
            names=MEASURES, run=base.repository.begin(),
        )  # fmt: skip
        cells.append(f"{mode} {card.means[MEASURES[0]]:.3f} {card.means[MEASURES[1]]:.3f}")
    return f"{card.counts['judged']:3} questions   " + "   ".join(cells)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--cache", type=Path, required=True)
    arguments = parser.parse_args()
    vectors = arguments.cache / "vectors.sqlite"
    embedder = CachedEmbedder(vectors)
    print("nDCG@10 and R@100 of each mode")
    with tempfile.TemporaryDirectory() as folder:
        for name, source, pages, evalset in collections(arguments.data, vectors, Path(folder)):
            for context in ("none", "heading"):
                with tempfile.TemporaryDirectory() as root:
                    found = figures(source, pages, evalset, context, embedder, Path(root))
                print(f"  {name:16} context {context:8} {found}", flush=True)


if __name__ == "__main__":
    main()
