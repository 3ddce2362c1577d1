"""What both matchers say of one question, and how their lists are fused."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kbcore import fusion as fusing
from kbcore.arrays import Mask
from kbcore.embedding.embedder import Embedder
from kbcore.retrieval.snapshot import Snapshot
from kbcore.tokenization import query_terms
from kbcore.types import Fusion, Mode

MIN_DEPTH = 100


def default_depth(k: int, fusion: Fusion) -> int:
    """How many chunks each matcher names where a hybrid search is asked for ``k``."""
    return 3 * k if fusion == "minmax" else max(3 * k, MIN_DEPTH)


@dataclass
class Matches:
    """What the matchers said of one question, by global row."""

    order: list[tuple[int, float]]
    score_kind: str
    cosines: dict[int, float]
    bm25: dict[int, float]
    vector_ranks: dict[int, int]
    keyword_ranks: dict[int, int]
    query_terms: int = 0
    matched_terms: int = 0
    matched_share: float = 0.0
    by_terms: bool = False
    best_cosine: float | None = None
    query_tokens: int | None = None
    query_truncated: bool = False
    ntotal: int = 0
    raw_labels: int = 0
    bounded: int = 0
    allowed: Mask | None = None

    @classmethod
    def of(
        cls,
        snapshot: Snapshot,
        embedder: Embedder | None,
        query: str,
        k: int,
        mode: Mode,
        fusion: Fusion,
        alpha: float,
        depth: int | None,
        allowed: Mask | None = None,
    ) -> Matches:
        """``allowed`` (bool [all rows]) restricts what both matchers may name, not the statistics that words are weighed
        by: a filter changes no score."""
        found = cls([], "none", {}, {}, {}, {})
        found.allowed = allowed
        depth = k if mode != "hybrid" else depth or default_depth(k, fusion)
        vector = found._vector(snapshot, embedder, query, depth) if embedder is not None else []
        keyword = found._keyword(snapshot, query, depth) if snapshot.lexical and mode != "vector" else []
        if mode == "hybrid" and vector and keyword:
            found._fuse(snapshot, vector, keyword, k, fusion, alpha)
        else:
            # One side alone passes through with its own scores, and the kind of score says so.
            found.order = (vector or keyword)[:k]
            found.score_kind = "cosine" if vector else "bm25" if keyword else "none"
        found._complete(snapshot, query)
        return found

    def _vector(self, snapshot: Snapshot, embedder: Embedder, query: str, depth: int) -> list[tuple[int, float]]:
        assert snapshot.dense is not None
        self.query_tokens = embedder.count_tokens(query)
        self.query_truncated = self.query_tokens > embedder.max_tokens
        self.query_vector = embedder.embed_query(query)
        nearest = snapshot.dense.search(self.query_vector, depth, snapshot.ids, self.allowed)
        self.ntotal, self.raw_labels, self.bounded = nearest.ntotal, nearest.raw_labels, nearest.bounded_labels
        self.vector_ranks = {row: rank for rank, (row, _) in enumerate(nearest.hits, start=1)}
        # Of the list, not of the hits: it is the same however many of them are asked for.
        self.best_cosine = nearest.hits[0][1] if nearest.hits else None
        return list(nearest.hits)

    def _keyword(self, snapshot: Snapshot, query: str, depth: int) -> list[tuple[int, float]]:
        assert snapshot.lexical is not None
        terms = query_terms(query)
        self.by_terms = True
        self.query_terms = len(terms)
        held = [term for term in terms if snapshot.lexical.document_frequency(term)]
        self.matched_terms = len(held)
        weight = {term: snapshot.lexical.rarity(term) for term in terms}
        self.matched_share = sum(weight[term] for term in held) / sum(weight.values()) if terms else 0.0
        if not self.matched_terms:
            return []
        rows, scores = snapshot.lexical.top(terms, depth, self.allowed)
        ids = snapshot.ids(rows)
        ordered = sorted(zip(rows.tolist(), scores.tolist(), ids), key=lambda entry: (-entry[1], entry[2]))[:depth]
        self.keyword_ranks = {row: rank for rank, (row, _, _) in enumerate(ordered, start=1)}
        return [(row, score) for row, score, _ in ordered]

    def _fuse(
        self,
        snapshot: Snapshot,
        vector: list[tuple[int, float]],
        keyword: list[tuple[int, float]],
        k: int,
        fusion: Fusion,
        alpha: float,
    ) -> None:
        rows = {row for row, _ in (*vector, *keyword)}
        ordered_rows = sorted(rows)
        names = dict(zip(ordered_rows, snapshot.ids(np.array(ordered_rows, dtype=np.int64))))
        back = {name: row for row, name in names.items()}
        if fusion == "minmax":
            scores = fusing.minmax(
                [(names[row], score) for row, score in vector], [(names[row], score) for row, score in keyword], alpha
            )
        else:
            scores = fusing.rrf([[names[row] for row, _ in vector], [names[row] for row, _ in keyword]])
        self.order = [(back[name], score) for name, score in fusing.ranked(scores)[:k]]
        self.score_kind = fusion

    def _complete(self, snapshot: Snapshot, query: str) -> None:
        """Both raw scores of every hit, also where it came from one list only."""
        rows = np.array([row for row, _ in self.order], dtype=np.int64)
        if not len(rows):
            return
        if snapshot.dense is not None and hasattr(self, "query_vector"):
            cosines = snapshot.dense.cosines(self.query_vector, rows)
            self.cosines = dict(zip(rows.tolist(), cosines.tolist()))
        if snapshot.lexical is not None and self.query_terms:
            scores = snapshot.lexical.score_rows(query_terms(query), rows)
            self.bm25 = dict(zip(rows.tolist(), scores.tolist()))
