"""Search: one question, one release, chunks in order, each with the figures of both matchers."""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass

import numpy as np

from kbcore import fusion as fusing
from kbcore.clock import age_days
from kbcore.embedding.catalog import Catalog
from kbcore.embedding.embedder import Embedder, mismatch
from kbcore.errors import KbUnavailableError, UsageError
from kbcore.retrieval.settings import RetrievalSettings
from kbcore.retrieval.snapshot import Part, Snapshot
from kbcore.store.confirmations import Confirmations
from kbcore.store.manifest import Manifest
from kbcore.store.repository import Repository
from kbcore.tokenization import query_terms
from kbcore.types import Fusion, Hit, Json, Mode, Outcome, SearchResult

log = logging.getLogger("kbcore.retrieval")

MAX_QUERY_CHARACTERS = 10_000
MIN_DEPTH = 100
CHECK_SECONDS = 0.5
PARTS: dict[str, tuple[Part, ...]] = {
    "vector": ("vector",),
    "keyword": ("keyword",),
    "hybrid": ("vector", "keyword"),
}


def default_depth(k: int, fusion: Fusion) -> int:
    """How many chunks each matcher names where a hybrid search is asked for ``k``."""
    return 3 * k if fusion == "minmax" else max(3 * k, MIN_DEPTH)


class Retriever:
    """Answers questions from one release; safe to share between threads.

    The query is embedded by the embedder that the release names, found by ``catalog``; in keyword mode none is made.
    ``embedder`` may hand one in: it is refused unless it is the release's own. Documents erased after this was opened
    leave the answers within a second.
    """

    def __init__(
        self,
        repository: Repository,
        manifest: Manifest,
        catalog: Catalog,
        *,
        settings: RetrievalSettings | None = None,
        mode: Mode | None = None,
        embedder: Embedder | None = None,
    ) -> None:
        settings = settings or RetrievalSettings()
        self.repository = repository
        self.manifest = manifest
        self.catalog = catalog
        self.settings = settings
        self.mode: Mode = mode or settings.mode
        if self.mode not in PARTS:
            raise UsageError(f"there is no mode {self.mode!r}", remedy="modes are vector, keyword and hybrid")
        self.snapshot = Snapshot(
            repository, manifest, erased=repository.erased(), parts=PARTS[self.mode], idf=settings.idf
        )
        if embedder is not None and embedder.embedder_id != manifest.embedder_id:
            record = repository.embedder(manifest)
            raise mismatch(manifest.release, record["fingerprint"], embedder.fingerprint)
        self._embedder = embedder
        self._lock = threading.Lock()
        self._seen = _Seen(repository, manifest)

    @property
    def release(self) -> str:
        return self.manifest.release

    @property
    def embedder(self) -> Embedder:
        """The release's embedder, checked against its fingerprint and probe vectors on first use."""
        with self._lock:
            if self._embedder is None:
                record = self.repository.embedder(self.manifest)
                self._embedder = self.catalog.find(record, release=self.release)
            return self._embedder

    def search(
        self,
        query: str,
        k: int | None = None,
        *,
        mode: Mode | None = None,
        fusion: Fusion | None = None,
        alpha: float | None = None,
        depth: int | None = None,
    ) -> SearchResult:
        """The ``k`` best chunks for ``query``, fewer where fewer match; order by score, ties by chunk id.

        ``depth`` is how many chunks each matcher of a hybrid search names (default 3 k, for reciprocal ranks at least
        100): with the depth of a smaller k, the first hits are those that a search for that k gives.

        A blank query finds nothing and embeds nothing. UsageError on k < 1, a query of more than 10,000 characters, or
        a mode this retriever was not opened for; KbUnavailableError where search could not run at all.
        """
        started = time.perf_counter()
        k = self.settings.k if k is None else k
        mode = mode or self.mode
        self._check_call(query, k, mode)
        snapshot = self._current_snapshot()
        if not snapshot.rows:
            return SearchResult(self.release, query, mode, "kb_empty", "none", (), {"rows": 0})
        if not query.strip():
            return SearchResult(
                self.release, query, mode, "no_match", "none", (), {"rows": snapshot.rows, "blank_query": True}
            )
        try:
            found = _Found.of(
                snapshot,
                self.embedder if mode != "keyword" else None,
                query,
                k,
                mode,
                fusion or self.settings.fusion,
                self.settings.alpha if alpha is None else alpha,
                depth,
            )
        except (RuntimeError, MemoryError) as error:
            raise KbUnavailableError(f"{self.release} could not be searched: {error}") from error
        hits = tuple(self._hit(snapshot, found, row, score) for row, score in found.order)
        outcome, evidence = self._judge(found, hits)
        log.info(
            "search release=%s mode=%s k=%d hits=%d outcome=%s ntotal=%d raw_labels=%d bounded=%d ms=%.1f",
            self.release, mode, k, len(hits), outcome, found.ntotal, found.raw_labels, found.bounded,
            (time.perf_counter() - started) * 1000,
        )  # fmt: skip
        return SearchResult(self.release, query, mode, outcome, found.score_kind, hits, evidence)

    def _check_call(self, query: str, k: int, mode: Mode) -> None:
        if not isinstance(query, str):
            raise UsageError(f"a query is a text, not {type(query).__name__}")
        if len(query) > MAX_QUERY_CHARACTERS:
            raise UsageError(
                f"the query has {len(query):,} characters; at most {MAX_QUERY_CHARACTERS:,} are searched",
                remedy="ask a shorter question",
            )
        if isinstance(k, bool) or not isinstance(k, int) or k < 1:
            raise UsageError(f"k is a number of hits from 1 on, not {k!r}")
        if mode not in PARTS:
            raise UsageError(f"there is no mode {mode!r}", remedy="modes are vector, keyword and hybrid")
        missing = set(PARTS[mode]) - set(self.snapshot.parts)
        if missing:
            raise UsageError(f"this retriever was opened for {self.mode} search, not for {mode}")

    def _current_snapshot(self) -> Snapshot:
        erased = self.repository.erased()
        with self._lock:
            if erased != self.snapshot.erased:
                self.snapshot = self.snapshot.without(self.repository, erased)
            return self.snapshot

    def _hit(self, snapshot: Snapshot, found: _Found, row: int, score: float) -> Hit:
        chunk = snapshot.chunk(row)
        confirmed, carried = self._seen.of(chunk)
        age = age_days(confirmed, self.repository.clock())
        target = (self.settings.freshness_days or {}).get(chunk["source"])
        return Hit(
            chunk_id=chunk["chunk_id"],
            doc_id=chunk["doc_id"],
            ordinal=chunk["ordinal"],
            source=chunk["source"],
            uri=chunk["uri"],
            title=chunk["title"],
            heading=chunk["heading"],
            page_start=chunk["page_start"],
            page_end=chunk["page_end"],
            start=chunk["start"],
            end=chunk["end"],
            text=chunk["text"],
            score=score,
            cosine=found.cosines.get(row),
            vector_rank=found.vector_ranks.get(row),
            bm25=found.bm25.get(row),
            keyword_rank=found.keyword_ranks.get(row),
            release=self.release,
            document_version=chunk["content_sha256"],
            fetched_at=chunk["fetched_at"],
            modified_at=chunk["modified_at"],
            last_confirmed=confirmed,
            age_days=age,
            over_age=target is not None and age > target,
            carried_over=carried,
            media_type=chunk["media_type"],
            metadata=chunk["metadata"],
        )

    def _judge(self, found: _Found, hits: tuple[Hit, ...]) -> tuple[Outcome, Json]:
        """The evidence rule: raw cosine and the share of the query's terms that the release holds, rare ones counting
        more, so that "how" and "to" are no evidence; never the fused score."""
        cut = self.settings.cut
        share = found.matched_share if found.by_terms else None
        evidence: Json = {
            "best_cosine": found.best_cosine,
            "query_terms": found.query_terms,
            "matched_terms": found.matched_terms,
            "matched_share": round(found.matched_share, 4),
            "cut": cut.to_json(),
            "query_tokens": found.query_tokens,
            "query_truncated": found.query_truncated,
            "ntotal": found.ntotal,
            "raw_labels": found.raw_labels,
            "bounded_labels": found.bounded,
        }
        if not hits:
            return "no_match", evidence
        return ("weak_evidence" if cut.is_weak(found.best_cosine, share) else "hits"), evidence


class _Seen:
    """What the sources last said of the documents of a release: the newest check of a run that had it as its head.

    Followed while a retriever is open: a run that ends writes another check.
    """

    def __init__(self, repository: Repository, manifest: Manifest) -> None:
        self._repository = repository
        self._manifest = manifest
        self._lock = threading.Lock()
        self._file: str | None = ""
        self._looked = float("-inf")
        self._confirmations = Confirmations()

    def of(self, chunk: Json) -> tuple[str, bool]:
        """When its source last said that this version is its current one, and whether it is served although the source
        has another one, or none, by now."""
        with self._lock:
            if time.monotonic() - self._looked >= CHECK_SECONDS:
                self._look()
            seen = self._confirmations
        return seen.of_document(chunk["doc_id"], chunk["source"], chunk["fetched_at"])

    def _look(self) -> None:
        self._looked = time.monotonic()
        newest = self._repository.newest_check_file()
        if newest == self._file:
            return
        self._file = newest
        self._confirmations = Confirmations.of(self._repository, self._manifest)


@dataclass
class _Found:
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
    ) -> _Found:
        found = cls([], "none", {}, {}, {}, {})
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
        nearest = snapshot.dense.search(self.query_vector, depth, snapshot.ids)
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
        rows, scores = snapshot.lexical.top(terms, depth)
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
