"""How well questions without an answer are told from those with one, at a cut calibrated on other questions.

    python tests/bench/bench_abstention.py IR --cache FOLDER

IR holds collections in the BEIR layout. Each case is a release with 200 questions, 150 that it answers and 50 that it does
not. Half of both kinds calibrates the cut, the other half is measured: precision is the share of those turned away that
have no answer, recall the share of those without one that are turned away. One split is printed, the mean
of 20, and what the default cut, calibrated on nothing, comes to.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from cached_embedder import CachedEmbedder, OneOf, released

from kbcore.config import Config
from kbcore.embedding.onnx import BUNDLED
from kbcore.evaluation import abstention, runner
from kbcore.evaluation.abstention import Evidence
from kbcore.evaluation.questions import Expected, Question, QuestionSet
from kbcore.knowledge_base import KnowledgeBase
from kbcore.retrieval.evidence import default_cut
from kbcore.retrieval.settings import RetrievalSettings
from kbcore.types import Mode

SPLITS = 20


def lines(path: Path) -> Iterable[dict[str, Any]]:
    with open(path, encoding="utf-8") as file:
        yield from map(json.loads, file)


def judged(folder: Path) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for path in sorted((folder / "qrels").glob("*.tsv")):
        for line in path.read_text(encoding="utf-8").splitlines()[1:]:
            query, document, _ = line.split("\t")
            found.setdefault(query, []).append(document)
    return found


@dataclass(frozen=True)
class Case:
    name: str
    documents: dict[str, str]
    questions: QuestionSet


def case(name: str, documents: dict[str, str], asked: dict[str, tuple[str, list[str]]], others: dict[str, str]) -> Case:
    rng = random.Random(7)
    answered = [
        Question(id=key, question=text, expected=tuple(Expected(doc_id=f"docs:{d}.txt") for d in found))
        for key, (text, found) in rng.sample(sorted(asked.items()), 150)
    ]
    unanswered = [
        Question(id=f"none-{key}", question=text, no_answer=True)
        for key, text in rng.sample(sorted(others.items()), 50)
    ]
    return Case(name, documents, QuestionSet(name, (*answered, *unanswered)))


def cases(folder: Path) -> Iterable[Case]:
    titles, texts = {}, {}
    for d in lines(folder / "xquad-en" / "corpus.jsonl"):
        titles[d["_id"]], texts[d["_id"]] = d.get("title") or "", d["text"]
    answers = judged(folder / "xquad-en")
    queries = {q["_id"]: q["text"] for q in lines(folder / "xquad-en" / "queries.jsonl") if q["_id"] in answers}
    pages = {key: f"{titles[key].replace('_', ' ')}\n\n{text}" for key, text in texts.items()}
    asked = {key: (text, answers[key]) for key, text in queries.items()}
    medical = {f"medline-{q['_id']}": q["text"] for q in lines(folder / "medline" / "queries.jsonl")}
    claims = {f"scifact-{q['_id']}": q["text"] for q in lines(folder / "scifact" / "queries.jsonl")}
    # As many from each of the two, so that neither's way of asking decides.
    others = {**dict(sorted(medical.items())[:25]), **dict(sorted(claims.items())[:25])}
    yield case("XQuAD-en, asked 50 questions of Medline and SciFact", pages, asked, others)

    topics = sorted(set(titles.values()))
    left_out = set(random.Random(7).sample(topics, len(topics) // 4))
    kept = {key: text for key, text in pages.items() if titles[key] not in left_out}
    inside = {key: value for key, value in asked.items() if value[1][0] in kept}
    outside = {key: text for key, (text, found) in asked.items() if found[0] not in kept}
    yield case("XQuAD-en less a quarter of its articles, asked 50 questions of those", kept, inside, outside)

    answers = judged(folder / "scifact")
    asked = {
        q["_id"]: (q["text"], answers[q["_id"]])
        for q in lines(folder / "scifact" / "queries.jsonl")
        if q["_id"] in answers
    }
    abstracts = {d["_id"]: f"{d.get('title') or ''}\n\n{d['text']}" for d in lines(folder / "scifact" / "corpus.jsonl")}
    chosen = dict(random.Random(7).sample(sorted(asked.items()), 150))
    needed = {document for _, found in chosen.values() for document in found}
    rest = random.Random(7).sample(sorted(set(abstracts) - needed), 800)
    some = {key: abstracts[key] for key in sorted([*needed, *rest])}
    yield case(f"SciFact, {len(some)} of its abstracts, asked 50 questions of XQuAD-en", some, chosen, queries)


def build(root: Path, documents: dict[str, str], embedder: CachedEmbedder) -> KnowledgeBase:
    (root / "docs").mkdir(parents=True)
    for key, text in documents.items():
        (root / "docs" / f"{key}.txt").write_text(text, encoding="utf-8")
    config = Config.model_validate(
        {
            "kb": {"name": "abstention", "repository": str(root / "kb")},
            "sources": [{"name": "docs", "path": str(root / "docs")}],
        }
    )
    return released(config, embedder)


def halves(evidence: Sequence[Evidence], seed: int) -> tuple[list[Evidence], list[Evidence]]:
    """Half of each kind for calibration, the other half for measurement."""
    first: list[Evidence] = []
    second: list[Evidence] = []
    for kind in (True, False):
        some = [entry for entry in evidence if entry.answerable is kind]
        random.Random(seed).shuffle(some)
        first += some[: len(some) // 2]
        second += some[len(some) // 2 :]
    return first, second


def figure(value: float | None) -> str:
    return "none" if value is None else f"{value:.2f}"


def report(mode: str, evidence: Sequence[Evidence]) -> None:
    shown = ""
    sums = [0.0, 0.0, 0.0]
    for seed in range(SPLITS):
        known, unseen = halves(evidence, seed)
        proposal = abstention.calibrate(known, "bench")
        assert proposal is not None
        found = abstention.measure(unseen, proposal[0])
        wrongly = found.answerable_abstained / found.answerable
        sums = [total + value for total, value in zip(sums, (found.precision or 0.0, found.recall or 0.0, wrongly))]
        if seed == 0:
            cut = proposal[0]
            shown = (
                f"cut cosine {cut.cosine:.3f}, share {cut.share:.2f}: precision {figure(found.precision)}, recall "
                f"{figure(found.recall)}, {found.answerable_abstained} of {found.answerable} with an answer turned away"
            )
    means = [total / SPLITS for total in sums]
    print(f"  {mode:8} {shown}; mean of {SPLITS} splits: precision {means[0]:.2f}, recall {means[1]:.2f}, "
          f"{100 * means[2]:.0f} % with an answer turned away", flush=True)  # fmt: skip
    found = abstention.measure(evidence, default_cut(BUNDLED))
    print(f"  {'':8} at the default cut, all questions: precision {figure(found.precision)}, recall "
          f"{figure(found.recall)}, {found.answerable_abstained} of {found.answerable} turned away", flush=True)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--cache", type=Path, required=True)
    parser.add_argument("--dump", type=Path, help="write the figures of every question here, as JSON")
    arguments = parser.parse_args()
    embedder = CachedEmbedder(arguments.cache / "vectors.sqlite")
    dumped: dict[str, Any] = {}
    for number, one in enumerate(cases(arguments.folder)):
        with tempfile.TemporaryDirectory() as folder:
            base = build(Path(folder), one.documents, embedder)
            manifest = base.repository.manifest("r000001")
            print(
                f"{one.name}: {manifest.totals['documents']} documents, {manifest.totals['chunks']} chunks", flush=True
            )
            for mode in get_args(Mode):
                card = runner.evaluate(
                    base.repository, "r000001", one.questions, OneOf(embedder), RetrievalSettings(mode=mode),
                    names=["nDCG@10"], run=base.repository.begin(),
                )  # fmt: skip
                report(mode, [answer.evidence for answer in card.answers])
                dumped[f"{number} {mode}"] = [answer.to_json() for answer in card.answers]
    if arguments.dump:
        arguments.dump.write_text(json.dumps(dumped))


if __name__ == "__main__":
    main()
