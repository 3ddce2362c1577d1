"""What it costs to ask a release of 100,000 chunks 1,000 questions, query embedding aside.

    python tests/bench/bench_eval.py --chunks 100000 --questions 1000 [--profile]

The corpus is bench_release's; chunks get random unit vectors, questions are looked up in a table. Prints the seconds of an
evaluation in each mode, where they go, and those of a comparison.
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import random
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_args

import numpy as np
from bench_release import PER_DOCUMENT, document, words
from cached_embedder import OneOf, in_process, recipe

from kbcore.arrays import Vectors
from kbcore.config import Config
from kbcore.embedding.hashing import HashingEmbedder
from kbcore.evaluation import runner
from kbcore.evaluation.causes import Releases
from kbcore.evaluation.comparison import compare
from kbcore.evaluation.questions import Expected, Question, QuestionSet
from kbcore.ingest import refresh as refreshing
from kbcore.knowledge_base import KnowledgeBase
from kbcore.retrieval.settings import RetrievalSettings
from kbcore.types import Mode

DIMENSION = 384


class TableEmbedder(HashingEmbedder):
    """Unit vectors at random, one a text; those of questions are made before the clock starts."""

    def __init__(self) -> None:
        super().__init__(DIMENSION)
        self.fingerprint["model"] = "table"
        self._rng = np.random.default_rng(3)
        self._probes: dict[str, Vectors] = {}

    def embed(self, texts: Sequence[str]) -> Vectors:
        return np.stack([self.embed_query(text) for text in texts])

    def embed_query(self, text: str) -> Vectors:
        if text not in self._probes:
            drawn = self._rng.normal(size=DIMENSION)
            self._probes[text] = (drawn / np.linalg.norm(drawn)).astype(np.float32)
        return self._probes[text]


def build(root: Path, chunks: int, embedder: Any) -> KnowledgeBase:
    for number in range(chunks // PER_DOCUMENT):
        folder = root / "docs" / f"{number % 100:02}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{number}.md").write_text(document(number, 0))
    config = Config.model_validate(
        {
            "kb": {"name": "bench", "repository": str(root / "releases")},
            "sources": [{"name": "docs", "path": str(root / "docs")}],
        }
    )
    base = KnowledgeBase(config)
    base.create()
    with in_process(embedder):
        refreshing.refresh(base.repository, config, recipe=recipe(config, embedder), gate=False)
        for number in range(0, chunks // PER_DOCUMENT, 100):
            (root / "docs" / f"{number % 100:02}" / f"{number}.md").write_text(document(number, 1))
        refreshing.refresh(base.repository, config, recipe=recipe(config, embedder), gate=False)
    return base


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chunks", type=int, default=100_000)
    parser.add_argument("--questions", type=int, default=1000)
    parser.add_argument("--profile", action="store_true")
    arguments = parser.parse_args()
    rng = random.Random(1)
    documents = arguments.chunks // PER_DOCUMENT
    questions = QuestionSet(
        "bench",
        tuple(
            Question(
                id=f"q{n}",
                question=words(rng, 8),
                expected=tuple(Expected(doc_id=f"docs:{d % 100:02}/{d}.md") for d in rng.sample(range(documents), 2)),
            )
            for n in range(arguments.questions)
        ),
    )
    embedder: Any = TableEmbedder()
    with tempfile.TemporaryDirectory() as folder:
        base = build(Path(folder), arguments.chunks, embedder)
        repository, catalog = base.repository, OneOf(embedder)
        total = repository.manifest("r000001").totals["chunks"]
        print(f"{total} chunks, {len(questions.questions)} questions, default measures", flush=True)
        for question in questions.questions:
            embedder.embed_query(question.question)
        for mode in get_args(Mode):
            settings = RetrievalSettings(mode=mode)
            profile = cProfile.Profile()
            started = time.perf_counter()
            if arguments.profile:
                profile.enable()
            card = runner.evaluate(repository, "r000001", questions, catalog, settings, run=repository.begin())
            profile.disable()
            print(
                f"  {mode}: {time.perf_counter() - started:.1f} s, {card.settings['reach']} chunks a question",
                flush=True,
            )
            if arguments.profile:
                pstats.Stats(profile).sort_stats("cumulative").print_stats(25)
        started = time.perf_counter()
        run = repository.begin()
        runner.keep(repository, card, run)
        known = runner.kept(repository, "r000001", questions, settings, card.measures)
        assert known is not None
        print(f"  keep the last one and read it back: {time.perf_counter() - started:.1f} s", flush=True)
        other = runner.evaluate(repository, "r000002", questions, catalog, settings, run=run)
        started = time.perf_counter()
        found = compare(card, other, Releases(repository, "r000001", "r000002"))
        print(f"  compare with a release of which 1 % changed: {time.perf_counter() - started:.1f} s, "
              f"{len(found.changed)} questions changed", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
