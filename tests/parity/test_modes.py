"""Every mode against brute force in numpy: all live chunks scored one by one, sorted, fused; scores included."""

from __future__ import annotations

import functools
import math
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kbcore.retrieval.retriever import Retriever
from kbcore.tokenization import tokens
from tests.support import knowledge_base, refreshed, write

WORDS = "vpn gateway password reset badge printer phone wipe error network profile client ERR-4012 router mail".split()  # noqa: SIM905
K1, B = 1.5, 0.75
Scored = list[tuple[str, float]]


class Oracle:
    """The live chunks with their texts and stored vectors, and nothing of the product's scoring."""

    def __init__(self, retriever: Retriever) -> None:
        snapshot = retriever.snapshot
        rows = np.flatnonzero(np.concatenate(snapshot.live_chunks))
        self.embedder = retriever.embedder
        self.ids = [snapshot.chunk(int(row))["chunk_id"] for row in rows]
        self.counts = [Counter(tokens(self._text(snapshot.chunk(int(row))))) for row in rows]
        self.near = functools.cache(self.near)  # type: ignore[method-assign]
        self.held = functools.cache(self.held)  # type: ignore[method-assign]
        self.vectors = np.concatenate([segment.vectors() for segment in snapshot.segments])[rows].astype(np.float64)

    @staticmethod
    def _text(chunk: dict[str, Any]) -> str:
        """What keyword search looks at: the title, the headings, the text."""
        return "\n".join((chunk["title"], chunk["heading"], chunk["text"]))

    def near(self, query: str) -> Scored:
        vector = self.embedder.embed_query(query).astype(np.float64)
        norms = np.linalg.norm(self.vectors, axis=1) * np.linalg.norm(vector)
        return _sorted(zip(self.ids, (self.vectors @ vector / norms).tolist()))

    def held(self, query: str) -> Scored:
        """BM25 by its formula, with Lucene's idf, over the chunks that hold a term."""
        lengths = [sum(count.values()) for count in self.counts]
        average = math.fsum(lengths) / len(lengths)
        found: list[tuple[str, float]] = []
        frequencies = {term: sum(term in other for other in self.counts) for term in sorted(set(tokens(query)))}
        for name, count, length in zip(self.ids, self.counts, lengths, strict=True):
            score = 0.0
            for term, frequency in frequencies.items():
                idf = math.log(1 + (len(self.counts) - frequency + 0.5) / (frequency + 0.5))
                score += idf * count[term] * (K1 + 1) / (count[term] + K1 * (1 - B + B * length / average))
            if set(tokens(query)) & set(count):
                found.append((name, score))
        return _sorted(found)

    def answer(self, query: str, k: int, mode: str, fusion: str, alpha: float) -> Scored:
        depth = k if mode != "hybrid" else 3 * k if fusion == "minmax" else max(3 * k, 100)
        near = self.near(query)[:depth] if mode != "keyword" else []
        held = self.held(query)[:depth] if mode != "vector" else []
        if not near or not held:
            return (near or held)[:k]
        scores: dict[str, float] = {}
        for weight, scored in ((alpha, near), (1 - alpha, held)):
            values = [score for _, score in scored]
            low, high = min(values), max(values)
            for rank, (name, score) in enumerate(scored, start=1):
                part = 1 / (60 + rank) if fusion == "rrf" else weight * (
                    1.0 if high == low else (score - low) / (high - low)
                )  # fmt: skip
                scores[name] = scores.get(name, 0.0) + part
        return _sorted(scores.items())[:k]


def _sorted(scored: Iterable[tuple[str, float]]) -> Scored:
    return sorted(scored, key=lambda entry: (-round(entry[1], 10), entry[0]))


@pytest.fixture(scope="module")
def retriever(tmp_path_factory: pytest.TempPathFactory) -> Retriever:
    root: Path = tmp_path_factory.mktemp("modes")
    rng = np.random.default_rng(11)

    def page(number: int) -> str:
        words = [f"{word}{'.' if n % 9 == 8 else ''}" for n, word in enumerate(rng.choice(WORDS, 70))]
        return f"# Page {number}\n\n" + " ".join(words)

    base = knowledge_base(root, {f"{n}.md": page(n) for n in range(30)}, chunking={"size": 130, "overlap": 25})
    refreshed(base)
    write(root / "docs", {"3.md": page(100), "4.md": None, "new.md": page(101)})
    refreshed(base)
    return base.retriever()


@pytest.fixture(scope="module")
def oracle(retriever: Retriever) -> Oracle:
    return Oracle(retriever)


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    words=st.lists(st.sampled_from([*WORDS, "zebra", "page"]), min_size=1, max_size=5),
    mode=st.sampled_from(["vector", "keyword", "hybrid"]), fusion=st.sampled_from(["minmax", "rrf"]),
    alpha=st.sampled_from([0.0, 0.3, 0.5, 0.7, 1.0]), k=st.sampled_from([1, 2, 5, 20, 500]),
)  # fmt: skip
def test_every_mode_gives_what_brute_force_gives(
    retriever: Retriever, oracle: Oracle, words: list[str], mode: Any, fusion: Any, alpha: float, k: int
) -> None:
    query = " ".join(words)
    found = retriever.search(query, k, mode=mode, fusion=fusion, alpha=alpha)
    wanted = oracle.answer(query, k, mode, fusion, alpha)
    cosines, bm25 = dict(oracle.near(query)), dict(oracle.held(query))
    for hit in found.hits:
        # Each raw score is that of brute force, whatever list the hit came from.
        assert hit.cosine is None or hit.cosine == pytest.approx(cosines[hit.chunk_id], abs=1e-6)
        assert hit.bm25 is None or hit.bm25 == pytest.approx(bm25.get(hit.chunk_id, 0.0), rel=1e-6, abs=1e-6)
    # Where two scores agree to the last bits of 32, either may come first and stand in a list of either: ranks then
    # differ, so only answers without such ties are held against each other place by place.
    if _distinct(oracle.near(query)) and _distinct(oracle.held(query)) and _distinct(wanted):
        assert [hit.chunk_id for hit in found.hits] == [name for name, _ in wanted]
        assert [hit.score for hit in found.hits] == pytest.approx([score for _, score in wanted], abs=2e-6)
    assert len(found.hits) == len(wanted)


def _distinct(scored: Scored) -> bool:
    return len({round(score, 5) for _, score in scored}) == len(scored)


@pytest.mark.parametrize("fusion", ["minmax", "rrf"])
@pytest.mark.parametrize("mode", ["vector", "keyword", "hybrid"])
def test_enough_questions_have_no_ties_so_that_places_are_compared(
    retriever: Retriever, oracle: Oracle, mode: Any, fusion: Any
) -> None:
    compared = 0
    for first in WORDS:
        for second in WORDS:
            query = f"{first} {second} reset the {first}"
            wanted = oracle.answer(query, 3, mode, fusion, 0.7)
            near, held = oracle.near(query), oracle.held(query)
            if len({round(s, 5) for _, s in near[:13]}) < 13 or len({round(s, 5) for _, s in held[:13]}) < len(
                held[:13]
            ):
                continue
            if fusion == "rrf" and not _distinct(wanted):
                continue
            found = retriever.search(query, 3, mode=mode, fusion=fusion, alpha=0.7)
            if fusion == "minmax" or mode != "hybrid":
                assert [hit.chunk_id for hit in found.hits] == [name for name, _ in wanted]
                assert [hit.score for hit in found.hits] == pytest.approx([score for _, score in wanted], abs=2e-5)
            compared += 1
    assert compared > 10
