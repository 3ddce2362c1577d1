"""Search: one question, one release, chunks in order, each with the figures of both matchers."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import TypedDict, Unpack

import numpy as np

from kbcore import telemetry
from kbcore.arrays import Vectors
from kbcore.clock import age_days
from kbcore.embedding.batches import batches
from kbcore.embedding.catalog import Catalog
from kbcore.embedding.embedder import Embedder, mismatch
from kbcore.errors import KbUnavailableError, UsageError
from kbcore.retrieval.confirming import Confirming
from kbcore.retrieval.context import UNTRUSTED, Context, build_context
from kbcore.retrieval.keys import Keys
from kbcore.retrieval.matching import Matches
from kbcore.retrieval.passages import Passage, passages
from kbcore.retrieval.request import Request, Where
from kbcore.retrieval.settings import RetrievalSettings
from kbcore.retrieval.snapshot import Part, Snapshot
from kbcore.search_log import SearchLog
from kbcore.store.manifest import Manifest
from kbcore.store.repository import Repository
from kbcore.tokenization import codes, query_terms
from kbcore.types import Fusion, Hit, Json, Mode, Outcome, SearchResult

log = logging.getLogger("kbcore.retrieval")

PARTS: dict[str, tuple[Part, ...]] = {
    "vector": ("vector",),
    "keyword": ("keyword",),
    "hybrid": ("vector", "keyword"),
}


class Options(TypedDict, total=False):
    """What a search may be asked with beside the question and k."""

    mode: Mode | None
    fusion: Fusion | None
    alpha: float | None
    depth: int | None
    where: Where
    keys: bool
    merge: bool
    neighbours: int
    fold: bool
    rerank: int | None


class Retriever:
    """Answers questions from one release; safe to share between threads.

    The query is embedded by the embedder that the release names, found by ``catalog``; in keyword mode none is made.
    ``embedder`` may hand one in: it is refused unless it is the release's own. Documents erased after this was opened
    leave the answers within a second. Every answer has a span (see ``kbcore.telemetry``), and a line in ``search_log``.
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
        search_log: SearchLog | None = None,
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
            repository, manifest, erased=repository.erased(), parts=PARTS[self.mode],
            idf=settings.idf, k1=settings.k1, b=settings.b,
        )  # fmt: skip
        if embedder is not None and embedder.embedder_id != manifest.embedder_id:
            record = repository.embedder(manifest)
            raise mismatch(manifest.release, record["fingerprint"], embedder.fingerprint)
        self._embedder = embedder
        self._lock = threading.Lock()
        self._known_keys: tuple[Snapshot, Keys] | None = None
        self._search_log = search_log
        self._seen = Confirming(repository, manifest)

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

    def search(self, query: str, k: int | None = None, **options: Unpack[Options]) -> SearchResult:
        """The ``k`` best chunks for ``query``, fewer where fewer match; order by score, ties by chunk id.

        ``mode``, ``fusion`` and ``alpha`` go before the settings of the retriever. ``depth`` is how many chunks each matcher
        of a hybrid search names (default 3 k, for reciprocal ranks at least 100): with the depth of a smaller k, the first
        hits are those that a search for that k gives.

        ``where`` is a filter (see ``kbcore.filters``): only documents that pass it can answer, and both matchers look at
        these alone, so that a filter that leaves three chunks gives those three; scores stay what they are without it.

        ``merge``, ``neighbours`` and ``fold`` make passages of chunks (see ``kbcore.retrieval.passages``): then a hit is a
        passage, and there are ``k`` of them where enough chunks were found.

        ``rerank`` is how many chunks the configured reranker orders anew (default: as configured), 0 for none; then
        ``score_kind`` is ``rerank``, and what the chunks were found with stands in each hit's ``fused``. It looks at chunks
        only; whether evidence is weak does not depend on it.

        With ``keys`` a question that is a key (see ``lookup``), or that holds codes which stand in the release, is
        answered from what goes by them alone; any other is searched for. Codes that stand nowhere are named in the evidence.

        A blank query finds nothing and embeds nothing. UsageError on k < 1, a query of more than 10,000 characters, a mode
        this retriever was not opened for, or a filter that is not well-formed; KbUnavailableError where search could not
        run at all.
        """
        return self.answer(self.request(query, k, **options))

    def search_many(
        self, queries: Sequence[str], k: int | None = None, **options: Unpack[Options]
    ) -> list[SearchResult]:
        """The same for many questions, in their order: they are embedded in batches, each once, and all see the same
        documents. UsageError, before any is asked, where one of them cannot be."""
        if isinstance(queries, str):
            raise UsageError("many questions are a list of texts, not one text", remedy="ask one with search")
        requests = [self.request(query, k, **options) for query in queries]
        asked = list(dict.fromkeys(r.query for r in requests if r.mode != "keyword" and r.query.strip()))
        snapshot = self.current_snapshot()
        vectors = self._vectors(asked) if asked and snapshot.rows else {}
        return [self.answer(request, snapshot=snapshot, vector=vectors.get(request.query)) for request in requests]

    def _vectors(self, queries: Sequence[str]) -> dict[str, Vectors]:
        embedder = self.embedder
        # Padded to the longest of a batch: beside one long question hundreds of short ones would take gigabytes.
        lengths = [min(embedder.count_tokens(query), embedder.max_tokens) for query in queries]
        found: dict[str, Vectors] = {}
        for group in batches(lengths):
            texts = [queries[place] for place in group]
            found |= zip(texts, embedder.embed_queries(texts))
        return found

    async def asearch(self, query: str, k: int | None = None, **options: Unpack[Options]) -> SearchResult:
        """``search`` in a thread of its own: the event loop goes on meanwhile."""
        return await asyncio.to_thread(self.search, query, k, **options)

    def request(self, query: str, k: int | None = None, **options: Unpack[Options]) -> Request:
        """A question as this retriever would answer it. UsageError as ``search`` raises it."""
        options["mode"] = options.get("mode") or self.mode
        request = Request.of(self.settings, query, k, **options)
        if set(PARTS[request.mode]) - set(self.snapshot.parts):
            raise UsageError(f"this retriever was opened for {self.mode} search, not for {request.mode}")
        return request

    def answer(
        self,
        request: Request,
        *,
        snapshot: Snapshot | None = None,
        vector: Vectors | None = None,
        found: Matches | None = None,
    ) -> SearchResult:
        """What a request comes to; ``vector`` is the question's, where it was embedded before, and ``found`` what the
        matchers said of it, where they were asked before."""
        started = time.perf_counter()
        with self._span(request) as span:
            result = self._answer(request, snapshot or self.current_snapshot(), vector, found)
            span.answered(result)
        self._logged(request, result, started)
        return result

    def _span(self, request: Request) -> AbstractContextManager[telemetry.Retrieval]:
        return telemetry.retrieval(
            self.repository.name,
            release=self.release,
            embedder_id=self.manifest.embedder_id,
            mode=request.mode,
            k=request.k,
        )

    def _logged(self, request: Request, result: SearchResult, started: float) -> None:
        seconds = time.perf_counter() - started
        log.info(
            "search release=%s mode=%s k=%d hits=%d outcome=%s ntotal=%s raw_labels=%s bounded=%s ms=%.1f",
            self.release, request.mode, request.k, len(result.hits), result.outcome,
            *(result.evidence.get(name, 0) for name in ("ntotal", "raw_labels", "bounded_labels")), seconds * 1000,
        )  # fmt: skip
        if self._search_log is not None:
            self._search_log.wrote(self.repository.name, result, request.k, seconds)

    def _answer(
        self, request: Request, snapshot: Snapshot, vector: Vectors | None, found: Matches | None
    ) -> SearchResult:
        if not snapshot.rows:
            return self._nothing(request, "kb_empty", {"rows": 0})
        if not request.query.strip():
            return self._nothing(request, "no_match", {"rows": snapshot.rows, "blank_query": True})
        if request.keys and (known := self._by_key(snapshot, request, codes(request.query))):
            return known
        selection = snapshot.select(request.where) if request.where else None
        found = self.matches(request, snapshot, vector) if found is None else found
        parts = passages(
            snapshot, found.order, request.k, merge=request.merge, neighbours=request.neighbours, fold=request.fold
        )
        hits = tuple(self._hit(snapshot, found, part) for part in parts)
        outcome, evidence = found.judged(self.settings.cut, len(hits))
        kind = found.score_kind
        if outcome == "no_match":
            hits, kind = (), "none"
        if unknown := self.keys(snapshot).unknown_codes(request.query) if request.keys else []:
            evidence["unknown_codes"] = unknown
        if selection is not None:
            evidence["filter"] = {"documents": selection.documents, "rows": int(selection.rows.sum())}
        return SearchResult(self.release, request.query, request.mode, outcome, kind, hits, evidence)

    def matches(self, request: Request, snapshot: Snapshot, vector: Vectors | None = None) -> Matches:
        """What both matchers say of a request. KbUnavailableError where they could not be asked."""
        try:
            found = Matches.of(
                snapshot,
                self.embedder if request.mode != "keyword" else None,
                request,
                allowed=snapshot.select(request.where).rows if request.where else None,
                vector=vector,
            )
            if request.rerank and self.settings.reranker is not None:
                found.rerank(snapshot, self.settings.reranker, request.query, request.rerank)
            return found
        except (RuntimeError, MemoryError) as error:
            raise KbUnavailableError(f"{self.release} could not be searched: {error}", transient=True) from error

    def context(
        self, query: str, max_tokens: int, k: int | None = None, *, note: str = UNTRUSTED, **options: Unpack[Options]
    ) -> tuple[SearchResult, Context]:
        """A search, and its hits packed for a language model into ``max_tokens`` (see ``build_context``), counted by the
        release's embedder, in keyword mode as words and marks. Chunks that overlap are joined, near-copies folded."""
        options = {"merge": True, "fold": True, **options}
        result = self.search(query, k, **options)
        return result, self.pack(result, max_tokens, note=note)

    def pack(self, result: SearchResult, max_tokens: int, *, note: str = UNTRUSTED) -> Context:
        """The context of a result (see ``context``)."""
        if result.mode == "keyword":
            return build_context(result.hits, max_tokens, note=note)
        unit = f"tokens of {self.manifest.embedder['model']}"
        return build_context(result.hits, max_tokens, count=self.embedder.count_tokens, unit=unit, note=note)

    def lookup(self, key: str, k: int | None = None, *, where: Where = None) -> SearchResult:
        """What goes by exactly this name: a document id, URI, declared alias or title, or a code in the text.

        Hits are the first ``k`` chunks of the documents by kind of name, or all that hold the code; ``score_kind`` is
        ``key``, and no score tells one from another. A key that is not known gives ``no_match``, with ``known`` False and
        those that are spelled nearly like it in the evidence; one of which the filter leaves nothing gives it with ``known``
        True. Raises as ``search`` does.
        """
        started = time.perf_counter()
        request = self.request(key, k, where=where)
        with self._span(request) as span:
            result = self._looked_up(request)
            span.answered(result)
        self._logged(request, result, started)
        return result

    def _looked_up(self, request: Request) -> SearchResult:
        snapshot = self.current_snapshot()
        key = request.query
        if not snapshot.rows:
            return self._nothing(request, "kb_empty", {"rows": 0})
        found = self._by_key(snapshot, request, [])
        if found is not None:
            return found
        index = self.keys(snapshot)
        if index.find(key):  # and the filter leaves it out, or there is no text in it
            return self._nothing(request, "no_match", {"key": key, "known": True, "near": []})
        return self._nothing(request, "no_match", {"key": key, "known": False, "near": index.near(key)})

    def _nothing(self, request: Request, outcome: Outcome, evidence: Json) -> SearchResult:
        return SearchResult(self.release, request.query, request.mode, outcome, "none", (), evidence)

    def _by_key(self, snapshot: Snapshot, request: Request, within: Sequence[str]) -> SearchResult | None:
        """What goes by the query as a whole, else by the codes ``within`` it; None where nothing does."""
        index = self.keys(snapshot)
        matches = index.find(request.query)
        for code in within if not matches else ():
            matches += index.find(code)
        allowed = snapshot.select(request.where).rows if request.where else None
        rows = dict.fromkeys(row for match in matches for row in match.rows if allowed is None or allowed[row])
        if not rows:
            return None
        found = Matches([], "key", {}, {}, {}, {})
        ordered = list(rows)
        if snapshot.lexical is not None and within:
            # A question around a code: the chunk that says most of the rest comes first.
            scores = snapshot.lexical.score_rows(query_terms(request.query), ordered)
            found.bm25 = dict(zip(ordered, scores.tolist()))
            names = dict(zip(ordered, snapshot.ids(np.array(ordered, dtype=np.int64))))
            ordered.sort(key=lambda row: (-found.bm25[row], names[row]))
        hits = tuple(self._hit(snapshot, found, Passage(row, 1.0, row, row)) for row in ordered[: request.k])
        evidence: Json = {
            "key": request.query,
            "known": True,
            "matches": [{"kind": match.kind, "doc_id": match.doc_id, "chunks": len(match.rows)} for match in matches],
        }
        return SearchResult(self.release, request.query, request.mode, "hits", "key", hits, evidence)

    def keys(self, snapshot: Snapshot) -> Keys:
        """The names that documents of a snapshot go by."""
        with self._lock:
            if self._known_keys is None or self._known_keys[0] is not snapshot:
                self._known_keys = snapshot, Keys(snapshot)
            return self._known_keys[1]

    def current_snapshot(self) -> Snapshot:
        """The release as it is open, less what was erased meanwhile."""
        erased = self.repository.erased()
        with self._lock:
            if erased != self.snapshot.erased:
                self.snapshot = self.snapshot.without(self.repository, erased)
            return self.snapshot

    def _hit(self, snapshot: Snapshot, found: Matches, passage: Passage) -> Hit:
        row = passage.row
        chunk = snapshot.chunk(row)
        first = chunk if passage.first == row else snapshot.chunk(passage.first)
        last = chunk if passage.last == row else snapshot.chunk(passage.last)
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
            page_start=first["page_start"],
            page_end=last["page_end"],
            start=first["start"],
            end=last["end"],
            text=chunk["text"] if first is last else snapshot.text(passage.first, passage.last),
            score=passage.score,
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
            first_ordinal=first["ordinal"],
            last_ordinal=last["ordinal"],
            fused=found.fused.get(row) if found.reranked else None,
            copies=tuple(snapshot.ids(np.array(passage.copies, dtype=np.int64))) if passage.copies else (),
        )
