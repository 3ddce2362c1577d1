"""Five monthly states of a real help desk, mirrored one after another into one folder and refreshed."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kbcore.config import Config
from kbcore.differences import compare_releases
from kbcore.evaluation.bisection import bisect
from kbcore.ingest.refresh import RefreshReport, refresh
from kbcore.knowledge_base import KnowledgeBase
from kbcore.promotion import hold, lift, rollback, undo
from kbcore.verification import verify_repository

DATA = Path(__file__).parents[2].parent / "shared" / "data" / "docs" / "nesi-support-docs"
QUESTIONS = (
    "How do I reset my password?",
    "nearline long term storage",
    "sbatch job stuck in the queue",
    "ssh connection refused MobaXTerm",
    "What is the quota of my home directory?",
    "JupyterHub",
)

pytestmark = [pytest.mark.data, pytest.mark.skipif(not DATA.exists(), reason="the real data is not here")]


def mirror(state: Path, folder: Path) -> None:
    """Make ``folder`` hold what ``state`` holds, touching only what differs."""
    wanted = {p.relative_to(state) for p in state.rglob("*") if p.is_file()}
    for path in [p for p in folder.rglob("*") if p.is_file() and p.relative_to(folder) not in wanted]:
        path.unlink()
    for relative in wanted:
        target = folder / relative
        data = (state / relative).read_bytes()
        if not target.exists() or target.read_bytes() != data:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)


def knowledge_base(root: Path, folder: Path, name: str = "nesi") -> KnowledgeBase:
    # KB_TEST_EMBEDDER=fastembed runs the same journey with the real model.
    provider = os.environ.get("KB_TEST_EMBEDDER", "hashing")
    config = Config.model_validate(
        {
            "kb": {"name": name, "repository": str(root)},
            # A month removes up to 12 % here: approved beforehand by a wider bound.
            "sources": [
                {"name": "docs", "path": str(folder), "include": ["**/*.md"], "guard": {"removals_percent": 50}}
            ],
            "embedder": {"provider": provider},
            # After a rollback the gate compares with the first month: five months remove more than a quarter.
            "gate": {"removed_percent": 50},
        }
    )
    base = KnowledgeBase(config)
    base.create()
    return base


def answers(base: KnowledgeBase, release: str = "current") -> list[list[tuple[str, float]]]:
    retriever = base.retriever(release)
    return [
        [(hit.chunk_id, hit.score) for hit in retriever.search(question, 10, mode=mode).hits]
        for question in QUESTIONS
        for mode in ("vector", "keyword", "hybrid")
    ]


class History:
    def __init__(self, root: Path) -> None:
        self.folder = root / "source"
        self.folder.mkdir()
        self.base = knowledge_base(root / "kb", self.folder)
        self.changes = json.loads((DATA / "changes.json").read_text())
        self.states = [DATA / snapshot["dir"] for snapshot in self.changes["snapshots"]]
        self.reports: list[RefreshReport] = []
        self.unknown_texts: list[int] = []
        self.again: list[RefreshReport] = []
        for state in self.states:
            mirror(state, self.folder)
            plan = refresh(self.base.repository, self.base.config, dry_run=True)
            self.unknown_texts.append(plan.texts_to_embed or 0)
            self.reports.append(refresh(self.base.repository, self.base.config))
            self.again.append(refresh(self.base.repository, self.base.config))
        self.first_answers = answers(self.base, "r000001")


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Iterator[History]:
    root = tmp_path_factory.mktemp("nesi")
    yield History(root)
    shutil.rmtree(root)


def markdown(names: list[Any]) -> list[Any]:
    return [n for n in names if (n if isinstance(n, str) else n["to"]).endswith(".md")]


def test_each_refresh_finds_the_changes_that_the_history_names(history: History) -> None:
    for step, report in zip(history.changes["changes"], history.reports[1:], strict=True):
        old, new = history.states[0].parent / step["from"], history.states[0].parent / step["to"]
        renames = [(r["from"], r["to"]) if isinstance(r, dict) else tuple(r) for r in step["renamed"]]
        renames = [(a, b) for a, b in renames if a.endswith(".md") and b.endswith(".md")]
        identical = [(a, b) for a, b in renames if (old / a).read_bytes() == (new / b).read_bytes()]
        added = len(markdown(step["added"])) + len(renames)
        removed = len(markdown(step["deleted"])) + len(renames)
        assert report.changes["added"] + report.changes["renamed"] == added
        assert report.changes["removed"] + report.changes["renamed"] == removed
        assert report.changes["changed"] == len(markdown(step["modified"]))
        assert report.changes["renamed"] >= len(identical)
        assert report.outcome == "published"
        assert report.promoted


def test_no_text_that_the_base_holds_is_embedded_again(history: History) -> None:
    for report, unknown in zip(history.reports, history.unknown_texts, strict=True):
        assert report.texts_embedded <= unknown
    assert sum(r.texts_embedded for r in history.reports[1:]) < history.reports[0].texts_embedded


def test_a_second_refresh_publishes_nothing_and_embeds_nothing(history: History) -> None:
    for report in history.again:
        assert (report.outcome, report.texts_embedded, report.bytes_written) == ("unchanged", 0, 0)
    assert len(history.base.repository.releases()) == len(history.states)


def test_all_releases_verify(history: History) -> None:
    repository = history.base.repository
    assert verify_repository(repository, repository.releases()) == []


def test_a_fresh_build_of_the_last_state_is_the_incremental_one(history: History, tmp_path: Path) -> None:
    fresh = knowledge_base(tmp_path / "fresh", history.folder)
    refresh(fresh.repository, fresh.config)
    incremental = history.base.repository.manifest(f"r{len(history.states):06d}")
    assert fresh.repository.manifest("r000001").content_digest == incremental.content_digest
    assert answers(fresh, "r000001") == answers(history.base, incremental.release)


def test_a_byte_identical_rename_embeds_nothing(history: History, tmp_path: Path) -> None:
    folder = tmp_path / "source"
    shutil.copytree(history.states[-1], folder)
    base = knowledge_base(tmp_path / "kb", folder)
    refresh(base.repository, base.config)
    moved = sorted(folder.rglob("*.md"))[:20]
    for path in moved:
        path.rename(path.with_name("moved-" + path.name))
    report = refresh(base.repository, base.config)
    assert report.changes["renamed"] == len(moved)
    assert (report.changes["added"], report.changes["removed"], report.texts_embedded) == (0, 0, 0)
    found = compare_releases(base.repository, "r000001", "r000002")
    assert len(found.renamed) == len(moved)


def test_rollback_restores_answers_and_undo_works_at_each_step(history: History) -> None:
    base = history.base
    repository, catalog = base.repository, base.catalog
    last = f"r{len(history.states):06d}"
    phrase = "zanzibarquota"
    assert repository.state().release == last

    rollback(repository, catalog, to="r000001", reason="answers got worse", run=repository.begin())
    assert answers(base) == history.first_answers
    assert repository.state().hold is not None

    held = refresh(repository, base.config)
    assert (held.outcome, held.promoted) == ("unchanged", False)
    assert repository.state().release == "r000001"

    page = next(history.folder.rglob("*.md"))
    text = page.read_bytes()
    page.write_bytes(text + f"\n\nThe {phrase} applies to all.\n".encode())
    candidate = refresh(repository, base.config)
    assert (candidate.outcome, candidate.promoted) == ("published", False)
    assert base.retriever().search(phrase, mode="keyword").outcome == "no_match"
    assert base.retriever("latest").search(phrase, mode="keyword").hits

    lift(repository, reason="fixed", run=repository.begin())
    lifted = refresh(repository, base.config)
    assert (lifted.outcome, lifted.promoted) == ("unchanged", True)
    assert repository.state().release == candidate.release
    assert base.retriever().search(phrase, mode="keyword").hits

    seqs = repository.promotions()
    for expected in ("r000001", candidate.release):
        undo(repository, catalog, reason="back and forth", run=repository.begin())
        assert repository.state().release == expected
    hold(repository, reason="freeze", run=repository.begin())
    undo(repository, catalog, reason="thaw", run=repository.begin())
    assert repository.state().hold is None
    assert len(repository.promotions()) == len(seqs) + 4
    page.write_bytes(text)


def test_pages_of_a_retired_service_answer_nothing_afterwards(history: History) -> None:
    retired = ("Nearline_Long_Term_Storage_Service.md", "Mahuika_Maui_Differences.md")
    for number in range(2, len(history.states) + 1):
        retriever = history.base.retriever(f"r{number:06d}")
        for question in ("nearline long term storage service", "differences between Mahuika and Maui"):
            for mode in ("vector", "keyword", "hybrid"):
                hits = retriever.search(question, 50, mode=mode).hits
                assert not [hit.uri for hit in hits if hit.uri.endswith(retired)]


def test_bisect_names_the_release_that_retired_a_service_and_why(history: History) -> None:
    base = history.base
    held = {row["uri"] for row in documents(base, "r000001")}
    (uri,) = [name for name in held if name.endswith("/Nearline_Long_Term_Storage_Service.md")]
    found = bisect(
        base.repository, base.catalog, base.settings(base.repository.manifest("r000005")),
        "nearline long term storage", uri, newest="r000005", names=("nDCG@10",),
    )  # fmt: skip
    assert found.steps[0].served
    assert [step.state for step in found.steps[1:]] == ["not in the release"] * 4
    (change,) = found.changes
    assert (change.release, change.kind) == ("r000002", "lost")
    assert change.causes[0].kind == "document deleted"
    assert "in r000002" in change.causes[0].said


def documents(base: KnowledgeBase, release: str) -> list[dict[str, Any]]:
    segments = base.repository.segments(base.repository.manifest(release))
    return [row for segment in segments for row in segment.documents(["uri"]).to_pylist()]
