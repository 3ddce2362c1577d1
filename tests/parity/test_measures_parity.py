"""What evaluations say against independent computations on public collections: measures, BM25, exact vector search."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import bm25s
import ir_measures
import numpy as np
import pytest
from ir_measures import nDCG

from kbcore.evaluation import runner
from kbcore.evaluation.questions import Expected, Question, QuestionSet
from kbcore.index.lexical import StoredBM25, build_postings
from kbcore.knowledge_base import KnowledgeBase
from kbcore.retrieval import Retriever
from kbcore.tokenization import query_terms, tokens
from tests.support import SHARED, knowledge_base, refreshed

IR = SHARED / "ir"
NAMES = ("nDCG@10", "R@5", "RR@10", "Success@1", "Judged@10", "AP@30", "P@5", "R@30")

pytestmark = [pytest.mark.data, pytest.mark.skipif(not IR.exists(), reason="the collections are not here")]


def lines(path: Path) -> Iterable[dict[str, Any]]:
    with open(path, encoding="utf-8") as file:
        yield from map(json.loads, file)


class Collection:
    """A collection in the BEIR layout: documents {id: text with its title}, questions, and judgments. With ``most``, its
    first questions with the documents judged for them and 500 others."""

    def __init__(self, name: str, most: int | None = None) -> None:
        folder = IR / name
        self.documents = {
            d["_id"]: f"{d.get('title') or ''}\n{d['text']}".strip() for d in lines(folder / "corpus.jsonl")
        }
        self.qrels: dict[str, dict[str, int]] = {}
        for path in sorted((folder / "qrels").glob("*.tsv")):
            for line in path.read_text(encoding="utf-8").splitlines()[1:]:
                query, document, grade = line.split("\t")
                self.qrels.setdefault(query, {})[document] = int(grade)
        self.queries = {q["_id"]: q["text"] for q in lines(folder / "queries.jsonl") if q["_id"] in self.qrels}
        if most is not None:
            self.queries = dict(list(self.queries.items())[:most])
            self.qrels = {query: self.qrels[query] for query in self.queries}
            judged = {name for grades in self.qrels.values() for name in grades}
            others = [name for name in self.documents if name not in judged][:500]
            self.documents = {name: text for name, text in self.documents.items() if name in {*judged, *others}}

    def files(self) -> dict[str, str]:
        return {f"{name}.txt": text for name, text in self.documents.items()}

    def questions(self) -> QuestionSet:
        found = [
            Question(
                id=query,
                question=text,
                expected=tuple(
                    Expected(doc_id=f"docs:{doc}.txt", grade=grade) for doc, grade in self.qrels[query].items()
                ),
            )
            for query, text in self.queries.items()
        ]
        return QuestionSet("collection", tuple(found))


def document(doc_id: str) -> str:
    return doc_id.removeprefix("docs:").removesuffix(".txt")


def ranked(documents: Iterable[str]) -> dict[str, float]:
    """A run as ir-measures takes it: each document once, best first."""
    return {name: -float(rank) for rank, name in enumerate(dict.fromkeys(documents))}


def per_question(
    names: Iterable[str], qrels: Mapping[str, Mapping[str, int]], run: Mapping[str, Mapping[str, float]]
) -> dict[tuple[str, str], float]:
    """ir-measures' own figures, by question and measure."""
    parsed = [ir_measures.parse_measure(name) for name in names]
    return {(m.query_id, str(m.measure)): m.value for m in ir_measures.iter_calc(parsed, qrels, run)}


def build(root: Path, collection: Collection, **sections: Any) -> KnowledgeBase:
    base = knowledge_base(root, collection.files(), **sections)
    report = refreshed(base, gate=False)
    assert report.promoted
    return base


@pytest.mark.parametrize(
    ("name", "most", "mode"), [("adi", None, "hybrid"), ("medline", None, "vector"), ("scifact", 200, "keyword")]
)
def test_the_measures_of_each_question_are_those_that_ir_measures_gives_for_the_ranking(
    tmp_path: Path, name: str, most: int | None, mode: Any
) -> None:
    collection = Collection(name, most)
    base = build(tmp_path, collection)
    manifest = base.repository.manifest("r000001")
    settings = base.settings(manifest, mode)
    questions = collection.questions()
    card = runner.evaluate(
        base.repository, "r000001", questions, base.catalog, settings, names=NAMES, run=base.repository.begin()
    )

    reach, depth = card.settings["reach"], card.settings["depth"]
    assert reach >= 90, "a measure to rank 30 needs more than 30 chunks, of which several may be of one document"
    retriever = Retriever(base.repository, manifest, base.catalog, settings=settings)
    run = {
        q.id: ranked(document(hit.doc_id) for hit in retriever.search(q.question, reach, depth=depth).hits)
        for q in questions.questions
    }
    theirs = per_question(card.measures, collection.qrels, run)
    ours = {(answer.id, name): value for answer in card.answers for name, value in (answer.measures or {}).items()}
    assert len(ours) == len(collection.queries) * len(NAMES)
    assert ours == pytest.approx({key: theirs.get(key, 0.0) for key in ours}, abs=1e-12)
    aggregated = ir_measures.calc_aggregate(
        [ir_measures.parse_measure(m) for m in card.measures], collection.qrels, run
    )
    assert dict(card.means) == pytest.approx({str(measure): value for measure, value in aggregated.items()}, abs=1e-9)


def test_bm25_with_lucenes_parameters_is_as_good_on_scifact_as_that_of_bm25s() -> None:
    collection = Collection("scifact")
    ids = list(collection.documents)
    corpus = [tokens(text) for text in collection.documents.values()]
    ours = StoredBM25([(build_postings(corpus), None)], k1=0.9, b=0.4)
    other = bm25s.BM25(method="lucene", k1=0.9, b=0.4)
    other.index(corpus, show_progress=False)
    runs: tuple[dict[str, dict[str, float]], dict[str, dict[str, float]]] = ({}, {})
    for query, text in collection.queries.items():
        terms = query_terms(text)
        rows, _ = ours.top(terms, 100)
        runs[0][query] = ranked(ids[row] for row in rows[:100])
        scores = other.get_scores(terms)
        runs[1][query] = ranked(ids[row] for row in np.argsort(-scores, kind="stable")[:100])
    assert len(runs[0]) == 809
    figures = [ir_measures.calc_aggregate([nDCG @ 10], collection.qrels, run)[nDCG @ 10] for run in runs]
    assert figures[0] == pytest.approx(figures[1], abs=0.01)
    assert figures[0] > 0.66, "far below what is published of this collection"


@pytest.mark.parametrize(("name", "most"), [("adi", None), pytest.param("xquad-en", 100, marks=pytest.mark.long)])
def test_vector_search_with_the_default_embedder_is_as_good_as_an_exact_search_over_the_same_vectors(
    tmp_path: Path, name: str, most: int | None
) -> None:
    collection = Collection(name, most)
    base = build(tmp_path, collection, embedder={"provider": "fastembed"})
    manifest = base.repository.manifest("r000001")
    questions = collection.questions()
    card = runner.evaluate(
        base.repository, "r000001", questions, base.catalog, base.settings(manifest, "vector"),
        names=["nDCG@10"], run=base.repository.begin(),
    )  # fmt: skip

    (segment,) = base.repository.segments(manifest)
    vectors = np.asarray(segment.vectors(), dtype=np.float64)
    doc_ids = segment.documents(["doc_id"]).column("doc_id").to_pylist()
    owners = [document(doc_ids[row]) for row in segment.chunks(["document_row"]).column("document_row").to_pylist()]
    embedder = base.catalog.find(base.repository.embedder(manifest), release="r000001")
    run = {}
    for question in questions.questions:
        cosines = vectors @ embedder.embed_query(question.question).astype(np.float64)
        run[question.id] = ranked(owners[row] for row in np.argsort(-cosines, kind="stable"))
    asked = {question.id: collection.qrels[question.id] for question in questions.questions}
    exact = ir_measures.calc_aggregate([nDCG @ 10], asked, run)[nDCG @ 10]
    assert card.means["nDCG@10"] == pytest.approx(exact, abs=0.01)
    assert exact > 0.4, "these vectors find nothing"
