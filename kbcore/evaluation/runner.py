"""Carrying an evaluation out: every question of a set is searched for on one release, as users are served."""

from __future__ import annotations

import importlib.metadata
import platform
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from kbcore.arrays import Vectors
from kbcore.clock import iso
from kbcore.config.gate import DEFAULT_MEASURES
from kbcore.embedding.catalog import Catalog
from kbcore.embedding.embedder import Embedder
from kbcore.errors import CorruptReleaseError, EvaluationError
from kbcore.evaluation import abstention, measures
from kbcore.evaluation.labels import Label, labels_of, qrels, stale, units
from kbcore.evaluation.questions import Question, QuestionSet
from kbcore.evaluation.scorecard import Answer, Ranked, Scorecard, Slice, key_of, means
from kbcore.fingerprint import canonical, sha256, text_sha256
from kbcore.retrieval.request import default_depth
from kbcore.retrieval.retriever import Retriever
from kbcore.retrieval.settings import RetrievalSettings
from kbcore.store import evals
from kbcore.store.inventory import Inventory
from kbcore.store.repository import Repository, Run
from kbcore.types import Json, Mode, Progress

CHUNKS_A_DOCUMENT = 3
"""How many chunks are asked for where a measure looks at so many documents: several hits may be of one document."""


def search_settings(settings: RetrievalSettings, names: Sequence[str]) -> Json:
    """What decides which hits an evaluation sees, as scorecards name it; ``reach`` is how many chunks are looked at."""
    reach = max(default_depth(settings.k, "minmax"), CHUNKS_A_DOCUMENT * measures.cutoff(names))
    hybrid = settings.mode == "hybrid"
    window = settings.window(settings.k)
    asked: Json = {
        "mode": settings.mode,
        "k": settings.k,
        "reach": reach,
        "fusion": settings.fusion if hybrid else None,
        "alpha": settings.alpha if hybrid and settings.fusion == "minmax" else None,
        "depth": max(default_depth(settings.k, settings.fusion), window) if hybrid else None,
        "bm25": None if settings.mode == "vector" else {"idf": settings.idf, "k1": settings.k1, "b": settings.b},
    }
    return asked | reranking(settings)


def reranking(settings: RetrievalSettings) -> Json:
    """The entry ``reranker`` of these settings: which one orders how many chunks anew; nothing where there is none."""
    if settings.reranker is None:
        return {}
    model = settings.reranker.fingerprint["model"]
    return {"reranker": {"id": settings.reranker.reranker_id, "model": model, "depth": settings.window(settings.k)}}


def evaluate(
    repository: Repository,
    release: str,
    questions: QuestionSet,
    catalog: Catalog,
    settings: RetrievalSettings,
    *,
    names: Sequence[str] = DEFAULT_MEASURES,
    baseline: str | None = None,
    run: Run,
    embedder: Embedder | None = None,
    progress: Progress | None = None,
) -> Scorecard:
    """Ask every question of the set and measure the answers; nothing is written.

    The first ``settings.k`` hits of an answer are those that a search gives; those beyond follow in the order of the same
    fusion, so that measures that look deeper have something to look at. ``baseline`` is the release whose versions of the
    documents the slices ``version`` are told from. EvaluationError where nothing in the set is judged in this release;
    errors of the search itself are passed on: no question is scored that was not asked.
    """
    names = measures.parse_measures(names)
    asked = search_settings(settings, names)
    manifest = repository.manifest(release)
    inventory = Inventory(repository, release)
    labels = labels_of(repository, inventory, questions.questions)
    retriever = Retriever(repository, manifest, catalog, settings=showing_all(settings), embedder=embedder)
    answers: list[Answer] = []
    for done, question in enumerate(questions.questions):
        if progress:
            progress("ask", done, len(questions.questions))
        answers.append(ask(retriever, question, labels[question.id], asked, settings))
    if progress:
        progress("ask", len(questions.questions), len(questions.questions))
    answers = scored(names, answers)
    judged = [answer for answer in answers if answer.measures is not None]
    if not judged and not any(question.no_answer for question in questions.questions):
        raise EvaluationError(
            f"{questions.name}: no question has a document in {release} that is judged to answer it",
            remedy="see which judgments are stale with: kb evalset check",
        )
    evidence = [answer.evidence for answer in answers]
    proposal = abstention.calibrate(evidence, "") if questions.whole else None
    return Scorecard(
        release=release,
        run=run.name,
        at=iso(repository.clock()),
        by=run.by,
        manifest_digest=manifest.digest,
        embedder_id=manifest.embedder_id,
        set={"name": questions.name, "digest": questions.digest, "questions": len(answers)},
        settings=asked,
        measures=tuple(names),
        baseline=baseline,
        counts={
            "questions": len(answers),
            "judged": len(judged),
            "no_answer": sum(answer.no_answer for answer in answers),
            "unjudged": sum(not answer.no_answer and answer.measures is None for answer in answers),
        },
        means=means(names, answers),
        slices=tuple(_slices(names, answers, inventory, _changed(repository, inventory, baseline))),
        abstention=abstention.measure(evidence, settings.cut).to_json(),
        cut=settings.cut.to_json(),
        calibration=None if proposal is None else {
            **{key: value for key, value in proposal[0].to_json().items() if key != "origin"},
            "abstention": proposal[1].to_json(),
        },
        stale=tuple(stale(labels, questions.questions)),
        erased=erased_digest(repository),
        versions={
            "python": platform.python_version(),
            **{name: importlib.metadata.version(name) for name in ("kbcore", "ir-measures")},
        },
        answers=tuple(answers),
    )  # fmt: skip


def keep(repository: Repository, card: Scorecard, run: Run) -> Json:
    """Write a scorecard beside its release, its answers first; gives the record."""
    # A record is found by the run that wrote it, whichever run asked the questions.
    card = replace(card, run=run.name, by=run.by)
    answers = [answer.to_json() for answer in card.answers]
    body = {**card.to_json(), "answers": evals.write_answers(repository, card.release, card.key, answers, run=run)}
    return evals.write(repository, card.release, evals.SCORECARD, card.key, body, run=run)


def card_of(
    repository: Repository,
    release: str,
    questions: QuestionSet,
    catalog: Catalog,
    settings: RetrievalSettings,
    *,
    names: Sequence[str],
    baseline: str | None = None,
    run: Run | None = None,
    embedders: Embedders | None = None,
    progress: Progress | None = None,
) -> Scorecard:
    """The scorecard that is kept of this release, set and search; evaluated now, and kept, where there is none.

    Only then an embedder is made (by ``embedders``, or by ``catalog``): a kept one needs none, though it be gone by now."""
    known = kept(repository, release, questions, settings, names)
    if known is not None:
        return known
    run = run or repository.begin()
    card = evaluate(
        repository, release, questions, catalog, settings,
        names=names, baseline=baseline, run=run,
        embedder=embedders.of(release, settings.mode) if embedders else None, progress=progress,
    )  # fmt: skip
    keep(repository, card, run)
    return card


def kept(
    repository: Repository,
    release: str,
    questions: QuestionSet,
    settings: RetrievalSettings,
    names: Sequence[str],
) -> Scorecard | None:
    """The newest scorecard of a release for this set and these settings, with ``names`` computed anew from its rankings;
    None where there is none, or other documents were erased since."""
    names = measures.parse_measures(names)
    key = key_of(questions.digest, search_settings(settings, names))
    card = load(repository, release, key)
    if card is None or card.erased != erased_digest(repository):
        return None
    if list(card.measures) == names:
        return card
    answers = tuple(scored(names, card.answers))
    return replace(card, measures=tuple(names), answers=answers, means=means(names, answers), slices=())


def load(repository: Repository, release: str, key: str) -> Scorecard | None:
    """The newest scorecard of this key with its answers; None where there is none, or one of the two does not read."""
    body = evals.newest(repository, release, evals.SCORECARD, key)
    if body is None:
        return None
    entry = evals.Evaluated.of(release, evals.SCORECARD, key, str(body["run"]))
    try:
        return Scorecard.from_json(body, evals.read_answers(repository, entry, body["answers"]))
    except CorruptReleaseError:
        return None  # they can be asked for again


def scored(names: Sequence[str], answers: Iterable[Answer]) -> list[Answer]:
    """The answers with their measures; None for those that are not judged."""
    listed = list(answers)
    judged = {answer.id: answer for answer in listed if answer.judged}
    values = measures.score(
        names,
        {key: qrels(answer.labels, [label.live for label in answer.labels]) for key, answer in judged.items()},
        {key: units((hit.place for hit in answer.hits), answer.labels) for key, answer in judged.items()},
    )
    return [replace(answer, measures=values.get(answer.id)) for answer in listed]


def erased_digest(repository: Repository) -> str:
    """What is erased from all releases, as one digest."""
    listed = sorted((doc_id, sorted(map(str, contents))) for doc_id, contents in repository.erased().items())
    return sha256(canonical([[doc_id, contents] for doc_id, contents in listed]))[:16]


def showing_all(settings: RetrievalSettings) -> RetrievalSettings:
    """The same settings without the bound below which nothing is shown: a ranking is measured whatever the evidence, and
    who is turned away apart from it."""
    return replace(settings, cut=replace(settings.cut, no_match_cosine=None, no_match_share=None))


def ask(
    retriever: Retriever, question: Question, labels: Sequence[Label], asked: Json, settings: RetrievalSettings
) -> Answer:
    """What the retriever's release answers, not measured yet. ``asked`` are the settings of ``search_settings``; the first
    ``settings.k`` hits are those that are served, none where the evidence is too weak by ``settings.cut``; the retriever
    itself shows all (see ``showing_all``)."""
    window = asked["reranker"]["depth"] if "reranker" in asked else None
    result = retriever.search(question.question, asked["reach"], depth=asked["depth"], rerank=window)
    evidence: Mapping[str, Any] = result.evidence
    best_cosine = evidence.get("best_cosine")
    matched_share = evidence.get("matched_share") if evidence.get("query_terms") else None
    nothing = settings.cut.is_nothing(best_cosine, matched_share)
    return Answer(
        id=question.id,
        question=question.question,
        tags=question.tags,
        no_answer=question.no_answer,
        labels=tuple(labels),
        served=0 if nothing else min(settings.k, len(result.hits)),
        hits=tuple(
            Ranked(hit.doc_id, hit.start, hit.end, text_sha256(hit.text), hit.score, hit.cosine, hit.bm25)
            for hit in result.hits
        ),
        best_cosine=best_cosine,
        matched_share=matched_share,
        outcome="no_match" if nothing else result.outcome,
        measures=None,
    )


def _changed(repository: Repository, inventory: Inventory, baseline: str | None) -> Callable[[str], bool] | None:
    """Whether a document of the release is another one than the baseline has; None where there is no baseline."""
    if baseline is None or baseline == inventory.release:
        return None
    before = {doc_id: held.doc_digest for doc_id, held in Inventory(repository, baseline).held.items()}
    return lambda doc_id: before.get(doc_id) != inventory.held[doc_id].doc_digest


def _slices(
    names: Sequence[str], answers: Sequence[Answer], inventory: Inventory, changed: Callable[[str], bool] | None
) -> Iterable[Slice]:
    groups: dict[tuple[str, str], list[Answer]] = {}
    for answer in answers:
        if answer.measures is None:
            continue
        there = sorted({doc_id for label in answer.labels if label.live for doc_id in label.documents})
        keys = [("tag", tag) for tag in answer.tags]
        keys += [("source", source) for source in sorted({inventory.held[doc_id].source for doc_id in there})]
        if changed is not None:
            keys.append(("version", "changed" if any(map(changed, there)) else "unchanged"))
        for key in keys:
            groups.setdefault(key, []).append(answer)
    for (by, value), group in sorted(groups.items()):
        yield Slice(by, value, len(group), means(names, group))


class Embedders:
    """The embedders of releases that are asked the same questions: each is made once, and each embeds a question once."""

    def __init__(self, repository: Repository, catalog: Catalog) -> None:
        self._repository = repository
        self._catalog = catalog
        self._known: dict[str, Embedder] = {}

    def of(self, release: str, mode: Mode) -> Embedder | None:
        """The release's own, None in keyword mode, which needs none."""
        if mode == "keyword":
            return None
        manifest = self._repository.manifest(release)
        if manifest.embedder_id not in self._known:
            found = self._catalog.find(self._repository.embedder(manifest), release=release)
            self._known[manifest.embedder_id] = cast(Embedder, AskedOnce(found))
        return self._known[manifest.embedder_id]


class AskedOnce:
    """An embedder that embeds a question once, however many releases it is asked of."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._known: dict[str, Vectors] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._embedder, name)

    def embed_query(self, text: str) -> Vectors:
        if text not in self._known:
            self._known[text] = self._embedder.embed_query(text)
        return self._known[text]
