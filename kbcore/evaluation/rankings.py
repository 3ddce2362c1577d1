"""Two releases on questions that nobody judged: how alike are their answers, and which differ most?"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from kbcore.embedding.catalog import Catalog
from kbcore.errors import EvaluationSetError
from kbcore.evaluation.causes import Releases
from kbcore.evaluation.runner import CHUNKS_A_DOCUMENT, Embedders, reranking
from kbcore.fingerprint import text_sha256
from kbcore.retrieval.request import default_depth
from kbcore.retrieval.retriever import Retriever
from kbcore.retrieval.settings import RetrievalSettings
from kbcore.statistics import overlap, rank_biased_overlap
from kbcore.types import Hit, Json, Progress, SearchResult

DEPTH = 10
MAX_PROBLEMS = 20
SHAPE = 'write one question a line, or JSON lines with a "question"'


@dataclass(frozen=True, slots=True)
class Asked:
    """A question without judgments: the line it stands on, its own id where it has one."""

    id: str
    question: str


@dataclass(frozen=True, slots=True)
class RankedHit:
    """One hit, ``rank`` from 1. ``state`` says of its document whether it is new, renamed, changed or unchanged since the
    old release; of a hit of the old one whether it is deleted, renamed, changed or unchanged in the new."""

    rank: int
    doc_id: str
    start: int
    end: int
    text_sha256: str
    score: float
    state: str


@dataclass(frozen=True, slots=True)
class ComparedQuestion:
    """How alike two rankings are: ``overlap`` and ``rbo`` of the documents, ``passages`` the share of equal texts among
    the hits that a search shows. ``differs``: any of that, or whether it is answered at all."""

    id: str
    question: str
    overlap: float
    rbo: float
    passages: float
    differs: bool
    old_outcome: str
    new_outcome: str
    old_hits: tuple[RankedHit, ...]
    new_hits: tuple[RankedHit, ...]


@dataclass(frozen=True)
class RankingComparison:
    """``questions``: those that changed most first, then as they were asked. ``depth`` is the k of overlap@k, in
    documents; means go over all questions."""

    old: str
    new: str
    file: str
    settings: Json
    depth: int
    overlap: float
    rbo: float
    passages: float
    differing: int
    questions: tuple[ComparedQuestion, ...]

    @property
    def differs(self) -> bool:
        return self.differing > 0

    def to_json(self) -> Json:
        return {**asdict(self), "differs": self.differs}


def load_asked(path: str | Path) -> tuple[Asked, ...]:
    """The questions of a file, one a line, or JSON lines with a ``question`` (as in a search log or an evaluation set);
    each is taken once. EvaluationSetError names the lines that do not read."""
    file = Path(path)
    try:
        text = file.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise EvaluationSetError(f"{file} cannot be read: {error}", remedy=f"{SHAPE}, in UTF-8") from None
    found: dict[str, Asked] = {}
    problems: list[str] = []
    for number, line in enumerate(text.split("\n"), start=1):
        said = line.strip()
        if not said:
            continue
        try:
            asked = _asked(said, number)
        except ValueError as error:
            problems.append(f"line {number}: {error}")
            continue
        found.setdefault(asked.question, asked)
    if problems:
        more = [f"and {len(problems) - MAX_PROBLEMS} more"] if len(problems) > MAX_PROBLEMS else []
        raise EvaluationSetError(f"{file}: " + "; ".join([*problems[:MAX_PROBLEMS], *more]), remedy=SHAPE)
    if not found:
        raise EvaluationSetError(f"{file} holds no question", remedy=SHAPE)
    return tuple(found.values())


def _asked(line: str, number: int) -> Asked:
    if not line.startswith("{"):
        return Asked(f"line {number}", line)
    try:
        value = json.loads(line)
    except ValueError as error:
        raise ValueError(f"is not JSON: {error}") from None
    question = value.get("question")
    if not isinstance(question, str) or not question.strip():
        raise ValueError('has no "question"')
    known = value.get("id")
    return Asked(str(known) if isinstance(known, str | int) and known != "" else f"line {number}", question.strip())


def compare_rankings(
    releases: Releases,
    asked: Sequence[Asked],
    catalog: Catalog,
    settings: RetrievalSettings,
    *,
    file: str,
    depth: int = DEPTH,
    progress: Progress | None = None,
) -> RankingComparison:
    """Ask both releases every question, searched alike, and compare the first ``depth`` documents. A document that was
    renamed with equal bytes is the same document. Errors of the search are passed on: none is passed over."""
    repository = releases.repository
    names = (releases.old.release, releases.new.release)
    embedders = Embedders(repository, catalog)
    retrievers = [
        Retriever(
            repository,
            repository.manifest(name),
            catalog,
            settings=settings,
            embedder=embedders.of(name, settings.mode),
        )
        for name in names
    ]
    # What is reranked is what a search for k reranks: a wider window would give other hits than those that are served.
    window = settings.window(settings.k)
    served = max(default_depth(settings.k, settings.fusion), window) if settings.mode == "hybrid" else None
    reach = max(default_depth(settings.k, "minmax"), CHUNKS_A_DOCUMENT * depth)
    found: list[ComparedQuestion] = []
    for done, question in enumerate(asked):
        if progress:
            progress("ask", done, len(asked))
        old, new = (retriever.search(question.question, reach, depth=served, rerank=window) for retriever in retrievers)
        found.append(_compared(question, old, new, releases, settings.k, depth))
    if progress:
        progress("ask", len(asked), len(asked))
    # Sorting is stable: equals stay in the order in which they were asked.
    found.sort(key=lambda entry: (not entry.differs, entry.rbo, entry.overlap, entry.passages))
    count = max(1, len(found))
    return RankingComparison(
        old=names[0],
        new=names[1],
        file=file,
        settings={
            "mode": settings.mode,
            "fusion": settings.fusion if settings.mode == "hybrid" else None,
            "alpha": settings.alpha if settings.mode == "hybrid" and settings.fusion == "minmax" else None,
            "k": settings.k,
            **reranking(settings),
        },
        depth=depth,
        overlap=sum(entry.overlap for entry in found) / count,
        rbo=sum(entry.rbo for entry in found) / count,
        passages=sum(entry.passages for entry in found) / count,
        differing=sum(entry.differs for entry in found),
        questions=tuple(found),
    )


def _compared(
    question: Asked, old: SearchResult, new: SearchResult, releases: Releases, k: int, depth: int
) -> ComparedQuestion:
    before = list(dict.fromkeys(hit.doc_id for hit in old.hits))[:depth]
    after = list(dict.fromkeys(releases.old_id(hit.doc_id) for hit in new.hits))[:depth]
    shown_before = [(hit.doc_id, hit.text) for hit in old.hits[:k]]
    shown_after = [(releases.old_id(hit.doc_id), hit.text) for hit in new.hits[:k]]
    outcomes = tuple("answered" if result.outcome == "hits" else "turned away" for result in (old, new))
    return ComparedQuestion(
        id=question.id,
        question=question.question,
        overlap=overlap(before, after, depth),
        rbo=rank_biased_overlap(before, after),
        passages=overlap(shown_before, shown_after, k),
        differs=before != after or shown_before != shown_after or outcomes[0] != outcomes[1],
        old_outcome=outcomes[0],
        new_outcome=outcomes[1],
        old_hits=_hits(old.hits, k, releases.fate),
        new_hits=_hits(new.hits, k, releases.standing),
    )


def _hits(hits: Sequence[Hit], k: int, state: Callable[[str], str]) -> tuple[RankedHit, ...]:
    return tuple(
        RankedHit(rank, hit.doc_id, hit.start, hit.end, text_sha256(hit.text), hit.score, state(hit.doc_id))
        for rank, hit in enumerate(hits[:k], start=1)
    )
