"""Why this hit and not that one: every figure that led to an answer, and the stage at which a document was lost."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np

from kbcore.errors import UsageError
from kbcore.fusion import normalised
from kbcore.retrieval.keys import KeyMatch
from kbcore.retrieval.matching import Matches
from kbcore.retrieval.passages import Passage, passages
from kbcore.retrieval.request import Request
from kbcore.retrieval.retriever import Retriever
from kbcore.retrieval.snapshot import Snapshot
from kbcore.search_log import asked_by
from kbcore.store.descent import descent
from kbcore.tokenization import codes, tokens
from kbcore.types import Json, SearchResult

Stage = Literal[
    "shown",
    "joined",
    "folded",
    "withheld",
    "cut by k",
    "not retrieved",
    "filtered out",
    "no chunk",
    "not in the release",
]
RRF_K = 60
CHUNK = re.compile(r"(.+)#c(\d{1,9})")
GENERATIONS = 500


@dataclass(frozen=True, slots=True)
class Candidate:
    """One chunk that a matcher named, with its part in the fused score. ``vector_part`` and ``keyword_part`` add up to
    ``fused``: min-max, alpha times and (1 - alpha) times the normalised score; reciprocal ranks, 1 / (60 + rank).
    ``rerank`` is the reranker's score of those that it ordered anew; they come first."""

    chunk_id: str
    doc_id: str
    ordinal: int
    heading: str
    vector_rank: int | None
    cosine: float | None
    keyword_rank: int | None
    bm25: float | None
    vector_part: float | None
    keyword_part: float | None
    fused: float
    rank: int
    rerank: float | None = None


@dataclass(frozen=True, slots=True)
class DocumentPath:
    """How far a document came. ``rank`` is that of its first hit (where shown), or of its best candidate; the best rank
    that one of its chunks has among all live chunks is ``vector_rank`` and ``keyword_rank``, whatever was asked for."""

    doc_id: str
    stage: Stage
    said: str
    chunks: int
    rank: int | None = None
    vector_rank: int | None = None
    cosine: float | None = None
    keyword_rank: int | None = None
    bm25: float | None = None


@dataclass(frozen=True)
class Explanation:
    """``result`` is what the search gives; ``terms`` the question's words with how many live chunks hold each and how much
    it tells; ``candidates`` all chunks that were named, in fused order."""

    result: SearchResult
    request: Json
    tokens: tuple[str, ...]
    terms: tuple[Json, ...]
    codes: tuple[str, ...]
    candidates: tuple[Candidate, ...]
    document: DocumentPath | None

    def to_json(self) -> Json:
        return {**asdict(self), "result": asdict(self.result)}


def explain(retriever: Retriever, request: Request, document: str | None = None) -> Explanation:
    """Answer ``request`` and keep what led to the answer; ``document`` (an id or a URI, with ``#c3`` after
    it one chunk alone) is followed to where it was lost. UsageError where its name is blank."""
    if document is not None and not document.strip():
        raise UsageError("the name of the document is blank", remedy="kb documents lists them")
    snapshot = retriever.current_snapshot()
    asks = bool(snapshot.rows and request.query.strip())
    found = retriever.matches(request, snapshot) if asks else Matches([], "none", {}, {}, {}, {})
    with asked_by(None):  # whoever explains is no consumer of the release
        result = retriever.answer(request, snapshot=snapshot, found=found)
    candidates = tuple(_candidates(snapshot, found, request))
    path = _Path(retriever, snapshot, request, found, candidates, nothing="not_shown" in result.evidence)
    asked: Json = {key: value for key, value in _plain(request).items() if key != "query"}
    asked["lists"], asked["reach"] = request.lists, request.reach
    return Explanation(
        result=result,
        request=asked,
        tokens=tuple(tokens(request.query)),
        terms=tuple(_terms(snapshot, request.query)),
        codes=tuple(codes(request.query)),
        candidates=candidates,
        document=None if document is None else path.of(document),
    )


def _plain(request: Request) -> Json:
    where = request.where
    values: Json = {name: getattr(request, name) for name in request.__dataclass_fields__ if name != "where"}
    return {**values, "where": None if where is None else dict(where.body)}


def _terms(snapshot: Snapshot, query: str) -> Iterator[Json]:
    if snapshot.lexical is None:
        return
    for term in dict.fromkeys(tokens(query)):
        frequency = snapshot.lexical.document_frequency(term)
        yield {"term": term, "chunks": frequency, "rarity": round(snapshot.lexical.rarity(term), 4)}


def _candidates(snapshot: Snapshot, found: Matches, request: Request) -> Iterator[Candidate]:
    near, held = dict(found.near), dict(found.held)
    vector_parts, keyword_parts = _parts(found, request)
    rows = list(dict.fromkeys([*(row for row, _ in found.order), *near, *held]))
    ids = dict(zip(rows, snapshot.ids(np.array(rows, dtype=np.int64)))) if rows else {}
    fused = {row: (vector_parts.get(row) or 0.0) + (keyword_parts.get(row) or 0.0) for row in rows}
    fused |= found.fused
    # Nobody read those that were not reranked: they follow.
    said = found.reranked
    ordered = sorted(rows, key=lambda row: (row not in said, -said.get(row, 0.0), -fused[row], ids[row]))
    for rank, row in enumerate(ordered, start=1):
        chunk = snapshot.chunk(row)
        yield Candidate(
            chunk_id=ids[row],
            doc_id=chunk["doc_id"],
            ordinal=chunk["ordinal"],
            heading=chunk["heading"],
            vector_rank=found.vector_ranks.get(row),
            cosine=near.get(row, found.cosines.get(row)),
            keyword_rank=found.keyword_ranks.get(row),
            bm25=held.get(row, found.bm25.get(row)),
            vector_part=vector_parts.get(row),
            keyword_part=keyword_parts.get(row),
            fused=fused[row],
            rank=rank,
            rerank=said.get(row),
        )


def _parts(found: Matches, request: Request) -> tuple[Mapping[int, float], Mapping[int, float]]:
    """What each matcher adds to the fused score of a row; nothing where there was nothing to fuse."""
    if found.fused_kind == "minmax":
        vector, keyword = normalised(found.near), normalised(found.held)
        return (
            {row: request.alpha * value for row, value in vector.items()},
            {row: (1.0 - request.alpha) * value for row, value in keyword.items()},
        )
    if found.fused_kind == "rrf":
        return (
            {row: 1.0 / (RRF_K + rank) for row, rank in found.vector_ranks.items()},
            {row: 1.0 / (RRF_K + rank) for row, rank in found.keyword_ranks.items()},
        )
    return {}, {}


class _Path:
    """Follows one document through a search."""

    def __init__(
        self,
        retriever: Retriever,
        snapshot: Snapshot,
        request: Request,
        found: Matches,
        candidates: tuple[Candidate, ...],
        *,
        nothing: bool,
    ) -> None:
        self.retriever = retriever
        self.snapshot = snapshot
        self.request = request
        self.found = found
        self.candidates = candidates
        self.nothing = nothing

    def of(self, name: str) -> DocumentPath:
        matches, ordinal = self._known(name), None
        if not matches and (chunk := CHUNK.fullmatch(name)):
            matches, ordinal = self._known(chunk[1]), int(chunk[2])
        if not matches:
            return DocumentPath(name, "not in the release", self._absent(name), 0)
        doc_id, rows = matches[0].doc_id, list(matches[0].rows)
        if not rows:
            return DocumentPath(doc_id, "no chunk", "it is in the release and has no chunk: there is no text in it", 0)
        if ordinal is not None:
            if ordinal >= len(rows):
                return DocumentPath(doc_id, "no chunk", f"it has {len(rows)} chunks: c0 to c{len(rows) - 1}", len(rows))
            doc_id, rows = f"{doc_id}#c{ordinal}", [rows[ordinal]]
        figures = self._figures(rows)
        allowed = self.snapshot.select(self.request.where).rows if self.request.where else None
        if allowed is not None and not allowed[rows].any():
            said = "its chunks are there, and the filter leaves them out"
            return DocumentPath(doc_id, "filtered out", said, len(rows), **figures)
        stage, said, rank = self._stage(rows)
        return DocumentPath(doc_id, stage, said, len(rows), rank, **figures)

    def _known(self, name: str) -> list[KeyMatch]:
        found = self.retriever.keys(self.snapshot).find(name)
        return [match for match in found if match.kind in ("doc_id", "uri")]

    def _stage(self, rows: list[int]) -> tuple[Stage, str, int | None]:
        stage, said, rank = self._place(rows)
        if self.nothing and stage in ("shown", "joined", "folded"):
            return "withheld", f"{said}, and the evidence is too weak for anything to be shown", rank
        return stage, said, rank

    def _place(self, rows: list[int]) -> tuple[Stage, str, int | None]:
        request, k = self.request, self.request.k
        shown = passages(
            self.snapshot, self.found.order, k,
            merge=request.merge, neighbours=request.neighbours, fold=request.fold,
        )  # fmt: skip
        mine = set(rows)
        for rank, passage in enumerate(shown, start=1):
            if passage.row in mine:
                return "shown", f"it is hit {rank}", rank
        for rank, passage in enumerate(shown, start=1):
            if mine & set(passage.copies):
                return "folded", f"its text nearly repeats hit {rank}, under which it is counted", rank
            if self._inside(passage, mine):
                return "joined", f"its chunk was joined to hit {rank}", rank
        chunk_ids = set(self.snapshot.ids(np.array(rows, dtype=np.int64)))
        best = next((entry.rank for entry in self.candidates if entry.chunk_id in chunk_ids), None)
        if best is not None:
            return "cut by k", f"it is candidate {best} of {len(self.candidates)}, and k is {k}", best
        return "not retrieved", f"none of its chunks is among the {request.lists} that each matcher names", None

    def _inside(self, passage: Passage, mine: set[int]) -> bool:
        return any(row in mine for row in range(passage.first, passage.last + 1))

    def _figures(self, rows: list[int]) -> dict[str, Any]:
        """The best rank and score of these rows by each matcher among all live rows."""
        snapshot = self.snapshot
        live = np.flatnonzero(np.concatenate(snapshot.live_chunks))
        figures: dict[str, Any] = {}
        if snapshot.dense is not None and self.found.query_vector is not None:
            mine = float(snapshot.dense.cosines(self.found.query_vector, rows).max())
            every = snapshot.dense.cosines(self.found.query_vector, live)
            figures["cosine"], figures["vector_rank"] = mine, int((every > mine).sum()) + 1
        if snapshot.lexical is not None and self.request.mode != "vector":
            terms = tokens(self.request.query)
            scores = snapshot.lexical.scores(terms)
            held = snapshot.lexical.matched(terms)
            best = max((float(scores[row]) for row in rows if held[row]), default=None)
            if best is not None:
                figures["bm25"], figures["keyword_rank"] = best, int((scores[held] > best).sum()) + 1
        return figures

    def _absent(self, name: str) -> str:
        """Why a release does not hold a document, from what it and those before it say."""
        repository, manifest = self.retriever.repository, self.retriever.manifest
        if any(name == doc_id or doc_id.endswith(f":{name}") for doc_id in repository.erased()):
            return "it was erased from all releases"
        for entry in manifest.exceptions:
            if name in (entry["doc_id"], entry["uri"]):
                return f"it could not be had: {entry['reason']} (since {entry['since']})"
        check = repository.last_check(manifest.release) or {}
        for entry in check.get("exceptions", ()):
            if name in (entry["doc_id"], entry["uri"]):
                return f"it could not be had since: {entry['reason']} (since {entry['since']})"
        for doc_id, reason in check.get("skipped", ()):
            if name == doc_id or doc_id.endswith(f":{name}"):
                return f"there is nothing to index in it: {reason}"
        for now in itertools.islice(descent(repository, manifest), GENERATIONS):
            for entry in now.removed:
                if name == entry["doc_id"] or entry["doc_id"].endswith(f":{name}"):
                    return f"it was removed in {now.release} ({now.created_at}): {entry['reason']}"
        return "no release that led to this one removed it: no source ever listed it, or it goes by another name"
