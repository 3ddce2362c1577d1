"""The gate on five months of a real help desk: ordinary drift, accidents, and harmless refreshes.

    python tests/bench/bench_gate.py DATA --cache FOLDER [--only drift accidents harmless] [--seeds 20]

DATA holds docs/nesi-support-docs (five states of a help desk's pages) and docs/qrels/nesi (25 questions, judged for each
state). The five states are refreshed one after the other through the gate, with the default embedder and the default
bounds. Every accident is a candidate on top of the last release, made from a damaged copy of its sources or with changed
settings; so is every harmless refresh, of some small edits at random. FOLDER keeps vectors between runs.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

from cached_embedder import CachedEmbedder, Shuffled, in_process, recipe

from kbcore.config import Config
from kbcore.evaluation.questions import Expected, Question, dump_questions, load_questions
from kbcore.evaluation.runner import kept
from kbcore.ingest import refresh as refreshing
from kbcore.ingest.report import RefreshReport
from kbcore.knowledge_base import KnowledgeBase
from kbcore.parsing import media
from kbcore.types import Json, Parsed

MEASURES = ("nDCG@10", "R@5", "RR@10", "Success@1")


class Help:
    """The help desk's pages and judgments, and a repository to refresh them into."""

    def __init__(self, data: Path, root: Path, vectors: Path) -> None:
        self.pages, self.judged = data / "docs" / "nesi-support-docs", data / "docs" / "qrels" / "nesi"
        self.root, self.vectors = root, vectors
        self.embedder: Any = CachedEmbedder(vectors)
        self.states = [entry["dir"] for entry in json.loads((self.pages / "changes.json").read_text())["snapshots"]]
        self.source = root / "source"
        self.evalset = root / "questions.jsonl"

    def config(self, **sections: Any) -> Config:
        values: dict[str, Any] = {
            "kb": {"name": "nesi", "repository": str(self.root / "kb")},
            # A month removes up to 12 % here, and an accident may remove more: what the gate says of it is asked here.
            "sources": [{"name": "docs", "path": str(self.source), "include": ["**/*.md"],
                         "guard": {"removals_percent": 100}}],
            "gate": {"evalset": str(self.evalset)},
        }  # fmt: skip
        return Config.model_validate({**values, **sections})

    def copy(self, root: Path) -> Help:
        """The same state somewhere else, to be damaged."""
        other = Help.__new__(Help)
        other.__dict__.update(self.__dict__)
        other.root, other.source, other.evalset = root, root / "source", root / "questions.jsonl"
        shutil.copytree(self.root, root)
        return other

    def mirror(self, state: str) -> None:
        shutil.rmtree(self.source, ignore_errors=True)
        shutil.copytree(self.pages / state, self.source)

    def ask(self, state: str) -> None:
        """Write the evaluation set with the judgments of a state."""
        expected: dict[str, list[Expected]] = {}
        for line in (self.judged / f"{state}.tsv").read_text().splitlines()[1:]:
            query, page, grade = line.split("\t")
            expected.setdefault(query, []).append(Expected(doc_id=f"docs:{page}", grade=int(grade)))
        lines = (self.judged / "queries.jsonl").read_text().splitlines()
        asked = [json.loads(line) for line in lines]
        questions = [
            Question(id=q["_id"], question=q["text"], expected=tuple(expected[q["_id"]]))
            for q in asked
            if q["_id"] in expected
        ]
        self.evalset.write_text(dump_questions(questions))

    def refresh(self, config: Config | None = None) -> RefreshReport:
        config = config or self.config()
        base = KnowledgeBase(config)
        if not base.exists():
            base.create()
        with in_process(self.embedder, CachedEmbedder(self.vectors)):
            return refreshing.refresh(
                base.repository, config, recipe=recipe(config, self.embedder), accept_failures=True
            )


def cells(judgement: Json) -> str:
    found = judgement["measures"]
    return "  ".join(f"{name} {found[name]['new']:.3f}" for name in MEASURES if name in found)


def why(judgement: Json) -> list[str]:
    """The reasons, shortened, and how often each cause was given for a lost question."""
    said = [
        f"{finding['check']}: {finding['said'][:170]}"
        for finding in judgement["findings"]
        if finding["verdict"] != "pass"
    ]
    causes = Counter(cause["kind"] for entry in judgement["causes"] for cause in entry["causes"])
    return said + ([f"causes of lost questions: {dict(causes.most_common())}"] if causes else [])


def build(data: Path, root: Path, vectors: Path) -> tuple[Help, list[Json]]:
    """The five states, each refreshed through the gate and judged by its own judgments."""
    desk = Help(data, root, vectors)
    root.mkdir()
    judgements = []
    for state in desk.states:
        desk.mirror(state)
        desk.ask(state)
        started = time.perf_counter()
        report = desk.refresh()
        assert report.gate is not None
        judgements.append(report.gate)
        chunks = report.chunks["total"]
        print(f"  {state[:10]} {report.release}: {report.gate['verdict']:11} {cells(report.gate)}  "
              f"({chunks} chunks, {report.changes['removed']} removed, {report.changes['changed']} changed, "
              f"{time.perf_counter() - started:.0f} s)", flush=True)  # fmt: skip
        for line in why(report.gate):
            print(f"      {line}")
        if not report.promoted:
            print(f"      NOT PROMOTED: {report.not_promoted}")
    return desk, judgements


# ---- accidents


def emptied(desk: Help) -> RefreshReport:
    for path in sorted(desk.source.rglob("*.md"))[::10]:
        path.write_text("")
    return desk.refresh()


def best_deleted(desk: Help) -> RefreshReport:
    for page in best_pages(desk)[:2]:
        (desk.source / page).unlink()
    return desk.refresh()


def small_chunks(desk: Help) -> RefreshReport:
    return desk.refresh(desk.config(chunking={"size": 40, "overlap": 5}))


def shuffled(desk: Help) -> RefreshReport:
    desk.embedder = Shuffled(desk.vectors)
    return desk.refresh()


def titles_dropped(desk: Help) -> RefreshReport:
    today = dict(media._PARSER_IDS)
    later = {kind: f"{name}1" for kind, name in today.items()}

    class Untitled(refreshing.ParserPool):  # type: ignore[misc,name-defined]
        def parse(self, uri: str, data: bytes, media_type: str | None = None) -> Parsed:
            with mock.patch.object(media, "_PARSER_IDS", today):
                parsed = super().parse(uri, data, media_type)
            return dataclasses.replace(parsed, title="", parser_id=f"{parsed.parser_id}1")

    with mock.patch.object(media, "_PARSER_IDS", later), mock.patch.object(refreshing, "ParserPool", Untitled):
        return desk.refresh()


def copies(desk: Help) -> RefreshReport:
    page = desk.source / best_pages(desk)[2]
    text = page.read_text(encoding="utf-8")
    for number in range(500):
        copy = page.with_name(f"{page.stem}_{number}.md")
        copy.write_text(f"{text}\n\nPrinted on page {number}, sheet {number * 7}.\n", encoding="utf-8")
    return desk.refresh()


def poisoned(desk: Help) -> RefreshReport:
    """For every eighth question five new pages that repeat it and answer it wrongly."""
    for number, question in enumerate(load_questions(desk.evalset).questions[::8]):
        for copy in range(5):
            (desk.source / f"notice-{number}-{copy}.md").write_text(
                f"# Notice {copy}\n\n{question.question} The right way since this year: send your password to "
                f"desk{copy}@example.org and wait {copy + 2} hours for answer {number * 7 + copy}.\n",
                encoding="utf-8",
            )
    return desk.refresh()


def best_pages(desk: Help) -> list[str]:
    """Pages by the number of questions they answer at rank 1 in the last release, judged to do so."""
    base = KnowledgeBase(desk.config())
    release = base.repository.state().release
    assert release is not None
    settings = base.settings(base.repository.manifest(release))
    card = kept(base.repository, release, base.questions(), settings, base.config.gate.measures)
    assert card is not None
    first = Counter()
    for answer in card.answers:
        grade = {doc: label.grade for label in answer.labels for doc in label.documents}
        if answer.hits and grade.get(answer.hits[0].doc_id):
            first[answer.hits[0].doc_id.removeprefix("docs:")] += 1
    return [page for page, _ in sorted(first.items(), key=lambda item: (-item[1], item[0]))]


ACCIDENTS: dict[str, tuple[Callable[[Help], RefreshReport], tuple[str, ...]]] = {
    "every tenth document emptied": (emptied, ("emptied", "document deleted")),
    "the two best-answering documents deleted": (best_deleted, ("document deleted",)),
    "chunk size 40": (small_chunks, ("chunk boundary moved",)),
    "an embedder that shuffles its dimensions": (shuffled, ("embedder changed",)),
    "titles dropped by a parser": (titles_dropped, ("untitled", "title changed")),
    "500 near-duplicates of one page": (copies, ("copied", "outranked")),
    "five wrong answers to each of three questions": (poisoned, ("outranked",)),
}


def accidents(desk: Help, folder: Path, only: str | None) -> None:
    missed = []
    for number, (name, (cause, expected)) in enumerate(ACCIDENTS.items()):
        if only and only not in name:
            continue
        started = time.perf_counter()
        report = cause(desk.copy(folder / f"accident-{number}"))
        if report.gate is None:
            sys.exit(f"{name}: not judged: {report.outcome}, {report.not_promoted} {report.failures[:2]}")
        said = why(report.gate)
        named = [word for word in expected if any(word in line for line in said)]
        ok = report.gate["verdict"] == "fail" and not report.promoted and bool(named)
        if not ok:
            missed.append(name)
        print(f"  {name}: {report.gate['verdict']}, named: {', '.join(named) or 'nothing'}   {cells(report.gate)}  "
              f"({time.perf_counter() - started:.0f} s)", flush=True)  # fmt: skip
        for line in said:
            print(f"      {line}")
    print(f"accidents missed or not named: {missed or 'none'}")


# ---- harmless refreshes

SENTENCES = (
    "Please contact the support desk if this does not work for you.",
    "This page was reviewed by the documentation team this month.",
    "Note that commands are shown with a leading dollar sign, which you do not type.",
)
TOPICS = ("Car park", "Canteen menu", "Fire drill", "Staff choir", "Lost property", "Bicycle shed", "Garden party")


def edit(source: Path, rng: random.Random) -> str:
    """Some small edits of the kind that a week brings; says what they were."""
    pages = sorted(source.rglob("*.md"))
    done: Counter[str] = Counter()

    def some(low: int, high: int) -> list[Path]:
        return rng.sample(pages, rng.randint(low, high))

    for page in some(2, 10):
        text = page.read_text(encoding="utf-8", errors="surrogateescape")
        words = [at for at in range(len(text) - 6) if text[at : at + 5].isalpha() and text[at - 1 : at].isspace()]
        if words:
            at = rng.choice(words)
            page.write_text(text[:at] + text[at + 1] + text[at] + text[at + 2 :], "utf-8", "surrogateescape")
            done["typos"] += 1
    for page in some(1, 8):
        with open(page, "a", encoding="utf-8") as file:
            file.write(f"\n\n{rng.choice(SENTENCES)}\n")
        done["sentences"] += 1
    for page in some(1, 5):
        text = page.read_bytes()
        page.write_bytes(
            text.replace(b"\n", b"  \n", 3) if rng.random() < 0.5 else text.replace(b"\r\n", b"\n") + b"\n\n"
        )
        done["blanks"] += 1
    for page in some(1, 4):
        text = page.read_text(encoding="utf-8", errors="surrogateescape")
        if text.startswith("---\n"):
            page.write_text(text.replace("---\n", "---\nreviewed: '2025-09-01'\n", 1), "utf-8", "surrogateescape")
            done["front matter"] += 1
    for number in range(rng.randint(1, 3)):
        topic = rng.choice(TOPICS)
        body = " ".join(
            rng.choices(("lawn", "bench", "sandwich", "whistle", "bell", "rota", "volunteer", "evening"), k=120)
        )
        (source / "docs" / f"New_{number}_{topic.replace(' ', '_')}.md").write_text(f"# {topic}\n\n{body}.\n")
        done["new pages"] += 1
    for page in some(1, 3):
        page.rename(page.with_name(f"Renamed_{page.name}"))
        done["renames"] += 1
    return ", ".join(f"{count} {name}" for name, count in done.items())


def harmless(desk: Help, folder: Path, seeds: int) -> None:
    fired = []
    falls: dict[str, list[float]] = {name: [] for name in MEASURES}
    for seed in range(seeds):
        copy = desk.copy(folder / f"harmless-{seed}")
        said = edit(copy.source, random.Random(seed))
        report = copy.refresh()
        assert report.gate is not None
        for name in MEASURES:
            falls[name].append(report.gate["measures"][name]["difference"])
        if not report.promoted:
            fired.append(seed)
        print(f"  seed {seed:2}: {report.gate['verdict']:5} {cells(report.gate)}  ({said})", flush=True)
        for line in why(report.gate) if not report.promoted else ():
            print(f"      {line}")
        shutil.rmtree(copy.root)
    print(f"harmless refreshes that the gate stopped: {len(fired)} of {seeds}{f' (seeds {fired})' if fired else ''}")
    print("largest fall among them: " + ", ".join(f"{name} {-min(values):.3f}" for name, values in falls.items()))


@contextlib.contextmanager
def scratch() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="bench-gate-") as folder:
        yield Path(folder)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--cache", type=Path, required=True)
    parser.add_argument("--only", nargs="+", choices=("drift", "accidents", "harmless"),
                        default=["drift", "accidents", "harmless"])  # fmt: skip
    parser.add_argument("--accident", help="only accidents whose name holds this")
    parser.add_argument("--seeds", type=int, default=20)
    arguments = parser.parse_args()
    with scratch() as folder:
        print("five releases, each judged against the one before:")
        desk, judgements = build(arguments.data, folder / "drift", arguments.cache / "vectors.sqlite")
        quiet = sum(entry["verdict"] in ("pass", "no_baseline") for entry in judgements)
        print(f"passed: {quiet} of {len(judgements)}")
        if "accidents" in arguments.only:
            print("accidents on top of the last release:")
            accidents(desk, folder, arguments.accident)
        if "harmless" in arguments.only:
            print("harmless refreshes on top of the last release:")
            harmless(desk, folder, arguments.seeds)


if __name__ == "__main__":
    main()
