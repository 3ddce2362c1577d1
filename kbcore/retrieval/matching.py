"""What both matchers say of one question, and how their lists are fused."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from kbcore import fusion as fusing
from kbcore.arrays import Mask, Vectors
from kbcore.embedding.embedder import Embedder
from kbcore.embedding.reranking import Reranker
from kbcore.retrieval.evidence import EvidenceCut
from kbcore.retrieval.request import Request
from kbcore.retrieval.snapshot import Snapshot
from kbcore.tokenization import query_terms
from kbcore.types import Json, Outcome


@dataclass
class Matches:
    """What the matchers said of one question, by global row: ``near`` and ``held`` are the lists of the two, best first,
    ``order`` the fused one. Where a reranker ordered anew, ``order`` and ``score_kind`` are its own, ``reranked`` its scores,
    and ``fused`` and ``fused_kind`` those it found."""

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
    query_vector: Vectors | None = None
    near: list[tuple[int, float]] = field(default_factory=list)
    held: list[tuple[int, float]] = field(default_factory=list)
    fused: dict[int, float] = field(default_factory=dict)
    fused_kind: str = "none"
    reranked: dict[int, float] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        snapshot: Snapshot,
        embedder: Embedder | None,
        request: Request,
        *,
        allowed: Mask | None = None,
        vector: Vectors | None = None,
    ) -> Matches:
        """``embedder`` is None in keyword mode; ``vector`` is the question's, where it was embedded with others.

        ``allowed`` (bool [all rows]) restricts what both matchers may name, not the statistics that words are weighed by: a
        filter changes no score.
        """
        found = cls([], "none", {}, {}, {}, {}, allowed=allowed)
        if embedder is not None:
            found.near = found._vector(snapshot, embedder, request, vector)
        if snapshot.lexical is not None and request.mode != "vector":
            found.held = found._keyword(snapshot, request)
        if request.mode == "hybrid" and found.near and found.held:
            found._fuse(snapshot, request)
        else:
            # One side alone passes through with its own scores, and the kind of score says so.
            found.order = (found.near or found.held)[: request.reach]
            found.score_kind = "cosine" if found.near else "bm25" if found.held else "none"
        found.fused, found.fused_kind = dict(found.order), found.score_kind
        found._complete(snapshot, request.query)
        return found

    def _vector(
        self, snapshot: Snapshot, embedder: Embedder, request: Request, vector: Vectors | None
    ) -> list[tuple[int, float]]:
        assert snapshot.dense is not None
        self.query_tokens = embedder.count_tokens(request.query)
        self.query_truncated = self.query_tokens > embedder.max_tokens
        self.query_vector = embedder.embed_query(request.query) if vector is None else vector
        nearest = snapshot.dense.search(self.query_vector, request.lists, snapshot.ids, self.allowed)
        self.ntotal, self.raw_labels, self.bounded = nearest.ntotal, nearest.raw_labels, nearest.bounded_labels
        self.vector_ranks = {row: rank for rank, (row, _) in enumerate(nearest.hits, start=1)}
        # Of the list, not of the hits: it is the same however many of them are asked for.
        self.best_cosine = nearest.hits[0][1] if nearest.hits else None
        return list(nearest.hits)

    def _keyword(self, snapshot: Snapshot, request: Request) -> list[tuple[int, float]]:
        assert snapshot.lexical is not None
        terms = query_terms(request.query)
        depth = request.lists
        self.by_terms = True
        self.query_terms = len(terms)
        held = [term for term in terms if snapshot.lexical.document_frequency(term)]
        self.matched_terms = len(held)
        if not self.matched_terms:
            return []
        rows, scores = snapshot.lexical.top(terms, depth, self.allowed)
        ids = snapshot.ids(rows)
        ordered = sorted(zip(rows.tolist(), scores.tolist(), ids), key=lambda entry: (-entry[1], entry[2]))[:depth]
        self.keyword_ranks = {row: rank for rank, (row, _, _) in enumerate(ordered, start=1)}
        if ordered:
            # Of the best chunk, not of the release: a large one holds every word somewhere, whatever is asked.
            weight = {term: snapshot.lexical.rarity(term) for term in terms}
            best = snapshot.lexical.terms_in(terms, ordered[0][0])
            self.matched_share = sum(weight[term] for term in best) / sum(weight.values())
        return [(row, score) for row, score, _ in ordered]

    def _fuse(self, snapshot: Snapshot, request: Request) -> None:
        ordered_rows = sorted({row for row, _ in (*self.near, *self.held)})
        names = dict(zip(ordered_rows, snapshot.ids(np.array(ordered_rows, dtype=np.int64))))
        back = {name: row for row, name in names.items()}
        near = [(names[row], score) for row, score in self.near]
        held = [(names[row], score) for row, score in self.held]
        if request.fusion == "minmax":
            scores = fusing.minmax(near, held, request.alpha)
        else:
            scores = fusing.rrf([[name for name, _ in near], [name for name, _ in held]])
        self.order = [(back[name], score) for name, score in fusing.ranked(scores)[: request.reach]]
        self.score_kind = request.fusion

    def rerank(self, snapshot: Snapshot, reranker: Reranker, query: str, most: int) -> None:
        """Order the first ``most`` chunks by how well each answers, ties by id. Those that follow keep their places below
        them and count as the last of them: nobody read them."""
        first, rest = [row for row, _ in self.order[:most]], [row for row, _ in self.order[most:]]
        if not first:
            return
        scores = reranker.score(query, [str(snapshot.chunk(row)["text"]) for row in first])
        self.reranked = dict(zip(first, scores, strict=True))
        names = dict(zip(first, snapshot.ids(np.array(first, dtype=np.int64))))
        ordered = sorted(self.reranked.items(), key=lambda entry: (-entry[1], names[entry[0]]))
        self.order = ordered + [(row, ordered[-1][1]) for row in rest]
        self.score_kind = "rerank"

    def _complete(self, snapshot: Snapshot, query: str) -> None:
        """Both raw scores of every hit, also where it came from one list only."""
        rows = np.array([row for row, _ in self.order], dtype=np.int64)
        if not len(rows):
            return
        if snapshot.dense is not None and self.query_vector is not None:
            cosines = snapshot.dense.cosines(self.query_vector, rows)
            self.cosines = dict(zip(rows.tolist(), cosines.tolist()))
        if snapshot.lexical is not None and self.query_terms:
            scores = snapshot.lexical.score_rows(query_terms(query), rows)
            self.bm25 = dict(zip(rows.tolist(), scores.tolist()))

    def judged(self, cut: EvidenceCut, hits: int) -> tuple[Outcome, Json]:
        """The evidence rule: raw cosine and the share of the query's terms that the release holds, rare ones counting
        more, so that "how" and "to" are no evidence; never the fused score. Where hits are there and the outcome is
        ``no_match``, they are not shown, and ``not_shown`` counts them."""
        # Judged as it is reported: an evaluation that reads the evidence comes to the same outcome.
        share = round(self.matched_share, 4) if self.by_terms and self.query_terms else None
        evidence: Json = {
            "best_cosine": self.best_cosine,
            "query_terms": self.query_terms,
            "matched_terms": self.matched_terms,
            "matched_share": round(self.matched_share, 4),
            "cut": cut.to_json(),
            "query_tokens": self.query_tokens,
            "query_truncated": self.query_truncated,
            "ntotal": self.ntotal,
            "raw_labels": self.raw_labels,
            "bounded_labels": self.bounded,
        }
        if not hits:
            return "no_match", evidence
        if cut.is_nothing(self.best_cosine, share):
            return "no_match", {**evidence, "not_shown": hits}
        return ("weak_evidence" if cut.is_weak(self.best_cosine, share) else "hits"), evidence
