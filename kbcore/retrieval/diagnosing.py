"""Why a question does not get the document that answers it: each step on the way, in order, with what to do about it.

The steps are those of a diagnosis by hand: did the document enter the release, did its chunks, do both indexes hold them,
does the filter let them pass, did the matchers name them, are they among the hits, is there evidence, and does the context
for the model hold them?
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np

from kbcore.errors import UsageError
from kbcore.retrieval.explaining import CHUNK, Explanation, explain
from kbcore.retrieval.request import Request
from kbcore.retrieval.retriever import Retriever
from kbcore.retrieval.snapshot import Snapshot
from kbcore.search_log import asked_by
from kbcore.store.inventory import Inventory
from kbcore.tokenization import query_terms, tokens
from kbcore.types import Json, SearchResult

CONTEXT_TOKENS = 1_500
UNIT_LENGTH = 1e-3


@dataclass(frozen=True, slots=True)
class Step:
    """``ok``: True, False, or None where it is worth knowing and loses nothing by itself. ``advice`` is empty where there
    is nothing to do."""

    step: str
    ok: bool | None
    finding: str
    advice: str = ""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The steps walked, the last of them where the document was lost for good. ``doc_id`` is the id that was found for
    what was expected, or that itself."""

    release: str
    query: str
    doc_id: str
    steps: tuple[Step, ...]

    @property
    def ok(self) -> bool:
        return all(step.ok is not False for step in self.steps)

    def to_json(self) -> Json:
        return {**asdict(self), "ok": self.ok}


def diagnose(retriever: Retriever, request: Request, expected: str, max_tokens: int = CONTEXT_TOKENS) -> Diagnosis:
    """Follow the document ``expected`` (an id, or a URI; ``#c3`` after it: one chunk) through ``request``, and into a context
    of ``max_tokens``. UsageError where question or name is blank; else raises as a search does."""
    if not request.query.strip():
        raise UsageError("the question is blank", remedy="ask the one that should have found the document")
    snapshot = retriever.current_snapshot()
    found = explain(retriever, request, expected)
    assert found.document is not None
    steps = tuple(_Walk(retriever, snapshot, request, found, max_tokens).steps())
    return Diagnosis(retriever.release, request.query, found.document.doc_id, steps)


class _Walk:
    def __init__(
        self, retriever: Retriever, snapshot: Snapshot, request: Request, found: Explanation, max_tokens: int
    ) -> None:
        assert found.document is not None
        self.retriever = retriever
        self.snapshot = snapshot
        self.request = request
        self.found = found
        self.path = found.document
        self.max_tokens = max_tokens
        self.doc_id, self.ordinal = self.path.doc_id, None
        rows = self._rows_of(self.doc_id)
        if rows is None and (chunk := CHUNK.fullmatch(self.doc_id)):
            self.doc_id, self.ordinal = chunk[1], int(chunk[2])
            rows = self._rows_of(self.doc_id)
        if self.ordinal is not None:
            rows = (rows or [])[self.ordinal : self.ordinal + 1]
        self.rows = rows if rows and self.path.stage != "no chunk" else []

    def _rows_of(self, doc_id: str) -> list[int] | None:
        found = self.retriever.keys(self.snapshot).find(doc_id)
        return next((list(match.rows) for match in found if match.doc_id == doc_id), None)

    def steps(self) -> Iterator[Step]:
        """Until one leaves nothing to look at."""
        entered = self._release()
        yield entered
        if not entered.ok:
            return
        cut = self._chunks()
        yield cut
        if not self.rows:
            return
        if self.snapshot.dense is not None:
            yield self._vectors()
        if self.snapshot.lexical is not None:
            yield self._postings()
        if self.request.where is not None:
            passing = self._filter()
            yield passing
            if not passing.ok:
                return
        yield from self._matchers()
        shown = self._hits()
        yield shown
        yield self._evidence()
        if shown.ok is not False:
            yield self._context()

    def _release(self) -> Step:
        if self.path.stage == "not in the release":
            newer = self._newer()
            if newer is not None:
                return Step(
                    "release", False, f"{self.retriever.release} does not hold it; {newer} does, and is the newest",
                    f"compare and promote it: kb promote {newer}, or ask it: --release {newer}",
                )  # fmt: skip
            near = self.retriever.keys(self.snapshot).near(self.doc_id)
            return Step(
                "release", False, self.path.said,
                (f"did you mean {near[0]}? " if near else "")
                + "kb plan says what the sources list now, kb show --failures what failed, kb documents what is held",
            )  # fmt: skip
        if not self.rows:
            return Step("release", True, f"{self.retriever.release} holds it")
        chunk = self.snapshot.chunk(self.rows[0])
        hit = next((hit for hit in self.found.result.hits if hit.doc_id == self.doc_id), None)
        said = f"{self.retriever.release} holds it, fetched {chunk['fetched_at']}"
        if hit is not None and hit.carried_over:
            return Step(
                "release", None, f"{said}; the source has another version by now, or none, that could not be had",
                "see why: kb show --failures",
            )  # fmt: skip
        return Step("release", True, said)

    def _newer(self) -> str | None:
        """The newest release, where that is another one and holds the document."""
        repository = self.retriever.repository
        head = repository.head()
        if head is None or head == self.retriever.release:
            return None
        inventory = Inventory(repository, head)
        held = self.doc_id in inventory.held or inventory.with_uri(self.doc_id)
        return head if held else None

    def _chunks(self) -> Step:
        if not self.rows:
            advice = (
                "ask for one of these"
                if self.path.chunks
                else "look at the file: a scan needs text, kb show --failures"
            )
            return Step("chunks", False, self.path.said, advice)
        parts = [self.snapshot.chunk(row) for row in self.rows]
        if self.ordinal is not None:
            return Step("chunks", True, f"chunk {self.ordinal} of it, {len(parts[0]['text']):,} characters")
        text = self.snapshot.document_text(self.rows[0])
        at, lost = 0, 0
        for part in parts:
            lost += len(text[at : part["start"]].strip())
            at = max(at, part["end"])
        lost += len(text[at:].strip())
        said = f"{len(parts)} chunks of {len(text):,} characters"
        if lost:
            return Step(
                "chunks", False, f"{said}; {lost:,} characters are in none", "cut it anew: kb refresh after kb verify"
            )
        return Step("chunks", True, f"{said}, every one of them in a chunk")

    def _vectors(self) -> Step:
        assert self.snapshot.dense is not None
        missing = []
        for row in self.rows:
            number, local = self.snapshot.place(row)
            vector = self.snapshot.segments[number].vectors()[local].astype(np.float64)
            if not np.isfinite(vector).all() or abs(float(np.linalg.norm(vector)) - 1.0) > UNIT_LENGTH:
                missing.append(row)
        named = self.retriever.manifest.embedder
        if missing:
            return Step(
                "vectors", False, f"{len(missing)} of {len(self.rows)} chunks have no usable vector",
                "check the release: kb verify; embed anew: kb refresh",
            )  # fmt: skip
        return Step("vectors", True, f"each chunk has one, of {named['model']}, {named['dimension']} numbers")

    def _postings(self) -> Step:
        blank = 0
        for row in self.rows:
            number, local = self.snapshot.place(row)
            length = int(self.snapshot.segments[number].postings().lengths[local])
            blank += length == 0 and bool(tokens(str(self.snapshot.chunk(row)["text"])))
        if blank:
            return Step(
                "postings", False, f"the words of {blank} of {len(self.rows)} chunks are not indexed",
                "check the release: kb verify",
            )  # fmt: skip
        return Step("postings", True, "the words of each chunk are indexed")

    def _filter(self) -> Step:
        assert self.request.where is not None
        passing = int(self.snapshot.select(self.request.where).rows[self.rows].sum())
        if not passing:
            return Step(
                "filter", False, "it leaves this document out", "drop a condition, or see its fields: kb lookup"
            )
        return Step("filter", True, f"{passing} of its {len(self.rows)} chunks pass")

    def _matchers(self) -> Iterator[Step]:
        ids = set(self.snapshot.ids(np.array(self.rows, dtype=np.int64)))
        mine = [entry for entry in self.found.candidates if entry.chunk_id in ids]
        ranks = {
            "by meaning": min((e.vector_rank for e in mine if e.vector_rank), default=None),
            "by words": min((e.keyword_rank for e in mine if e.keyword_rank), default=None),
        }
        named = any(rank is not None for rank in ranks.values())
        evidence = self.found.result.evidence
        lists = self.request.lists
        if self.request.mode != "keyword":
            labels = (
                f"{evidence.get('ntotal', 0)} vectors, {evidence.get('raw_labels', 0)} labels, "
                f"{evidence.get('bounded_labels', 0)} of them in bounds"
            )
            place = self._place("cosine", self.path.vector_rank, self.path.cosine)
            yield Step(
                "by meaning", _either(ranks["by meaning"], named),
                _ranked(ranks["by meaning"], lists, place) + f"; {labels}",
                "" if ranks["by meaning"] else _deeper(self.path.vector_rank, lists),
            )  # fmt: skip
        if self.request.mode != "vector":
            wanted = query_terms(self.request.query)
            held = {term for row in self.rows for term in tokens(str(self.snapshot.chunk(row)["text"]))}
            shared = [term for term in wanted if term in held]
            words = f"it holds {len(shared)} of {len(wanted)} words of the question" + (
                f" ({', '.join(shared[:6])})" if shared else ""
            )
            place = self._place("bm25", self.path.keyword_rank, self.path.bm25)
            advice = _deeper(self.path.keyword_rank, lists) if shared else "ask in its words, or declare an alias in it"
            yield Step(
                "by words", _either(ranks["by words"], named),
                _ranked(ranks["by words"], lists, place) + f"; {words}", "" if ranks["by words"] else advice,
            )  # fmt: skip

    def _place(self, kind: str, rank: int | None, score: float | None) -> str:
        return "" if rank is None or score is None else f"its best chunk is {rank} of all by {kind} ({score:.3f})"

    def _hits(self) -> Step:
        path, k = self.path, self.request.k
        if path.stage == "shown":
            return Step("hits", True, f"it is hit {path.rank} of {len(self.found.result.hits)}")
        if path.stage in ("joined", "folded"):
            return Step("hits", None, path.said, "ask without --fold" if path.stage == "folded" else "")
        advice = {
            "cut by k": f"ask for more (-k {max(path.rank or k, k + 1)}), fold copies (--fold), or configure a reranker",
            "not retrieved": "see the two matchers above",
            "withheld": "ask more closely; the bound is [retrieval] no_match_cosine, else what kb eval calibrated",
        }
        return Step("hits", False, path.said, advice.get(path.stage, ""))

    def _evidence(self) -> Step:
        result = self.found.result
        evidence = result.evidence
        cut = evidence.get("cut", {})
        best = evidence.get("best_cosine")
        said = f"{result.outcome}: best cosine {'none' if best is None else f'{best:.3f}'}"
        if cut:
            said += f" (weak below {cut['cosine']:.3f}), matched share {evidence['matched_share']:.2f}"
            said += f" (weak below {cut['share']:.2f})"
        if result.outcome == "hits":
            return Step("evidence", True, said)
        return Step("evidence", None, said, "ask more closely; where the cut is wrong, kb eval calibrates it")

    def _context(self) -> Step:
        """Of the same hits, unless they are to be joined for a context anyway."""
        joined = replace(self.request, merge=True, fold=True)
        with asked_by(None):  # as explain does: whoever diagnoses is no consumer of the release
            result = self.retriever.answer(joined, snapshot=self.snapshot)
        packed = self.retriever.pack(result, self.max_tokens)
        mine = self._cited(result)
        inside = [passage for passage in packed.passages if passage.citation in mine]
        size = f"{packed.tokens:,} of {packed.max_tokens:,} {packed.unit}"
        if not inside:
            if not mine:
                return Step("context", None, "folded under a text that nearly repeats it", "")
            return Step(
                "context", False, f"no sentence of it fits: {size}", "raise --max-tokens, or ask for fewer hits"
            )
        lost = sum(passage.sentences_cut for passage in inside)
        kept = sum(passage.sentences for passage in inside)
        if lost:
            return Step("context", None, f"{kept} sentences are in it, {lost} were cut: {size}", "raise --max-tokens")
        return Step("context", True, f"whole, {kept} sentences: {size}")

    def _cited(self, result: SearchResult) -> set[str]:
        mine = [hit for hit in result.hits if hit.doc_id == self.doc_id]
        return {
            hit.citation
            for hit in mine
            if self.ordinal is None or hit.first_ordinal <= self.ordinal <= hit.last_ordinal
        }


def _either(rank: int | None, named: bool) -> bool | None:
    """What one matcher does not name the other may."""
    return True if rank is not None else (None if named else False)


def _ranked(rank: int | None, lists: int, place: str) -> str:
    said = f"rank {rank} of the {lists} it names" if rank is not None else f"not among the {lists} it names"
    return said if not place or rank is not None else f"{said}; {place}"


def _deeper(rank: int | None, lists: int) -> str:
    if rank is None or rank <= lists:
        return ""
    return f"a larger -k looks further than {lists}; rank {rank} also asks for other words, or other chunks"


def failed(steps: Sequence[Step]) -> Step | None:
    """The first step that lost the document."""
    return next((step for step in steps if step.ok is False), None)
