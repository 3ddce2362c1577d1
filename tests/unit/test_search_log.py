"""The local log of searches: off by default, one line an answer whatever was asked, read by DuckDB, expired by days."""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import os
import stat
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pytest

from kbcore import lineage
from kbcore.errors import EvaluationSetError, KbUnavailableError
from kbcore.evaluation.logged import questions_of
from kbcore.knowledge_base import KnowledgeBase
from kbcore.retrieval.diagnosing import diagnose
from kbcore.retrieval.explaining import explain
from kbcore.search_log import SearchLog, asked_by, files
from kbcore.serving.bases import Bases
from kbcore.types import SearchResult
from tests.support import knowledge_base, refreshed, write

HOSTILE = 'two\nlines\r\u2028\x1b[31m "quoted" \x00 \u202e},{"time":"x"} 你好 \\'


def lines(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for file in files(folder) for line in file.read_bytes().splitlines()]


def made(root: Path, **settings: Any) -> KnowledgeBase:
    base = knowledge_base(root, search_log={"path": str(root / "log"), **settings})
    refreshed(base)
    return base


def result(question: str = "q", outcome: Any = "hits") -> SearchResult:
    return SearchResult("r000001", question, "hybrid", outcome, "none", ())


def test_nothing_is_logged_unless_a_path_is_configured(tmp_path: Path) -> None:
    base = knowledge_base(tmp_path)
    refreshed(base)
    base.retriever().search("gateway")
    assert base.search_log is None
    assert not list(tmp_path.rglob("searches-*"))


def test_an_answer_is_a_line_without_payloads(tmp_path: Path) -> None:
    base = made(tmp_path)
    retriever = base.retriever()
    with asked_by("http:web"):
        found = retriever.search("ERR-4012 gateway", 2)
    retriever.lookup("no-such-key-1")
    first, second = lines(tmp_path / "log")
    assert first.pop("latency_ms") > 0
    assert datetime.fromisoformat(first.pop("time")).tzinfo is not None
    assert first == {
        "kb": "test", "release": "r000001", "consumer": "http:web", "mode": "hybrid", "k": 2, "outcome": found.outcome,
        "hits": 2,
    }  # fmt: skip
    assert (second["consumer"], second["outcome"], second["hits"]) == ("python", "no_match", 0)
    assert "gateway" not in files(tmp_path / "log")[0].read_text()


def test_whoever_explains_or_diagnoses_is_no_consumer(tmp_path: Path) -> None:
    retriever = made(tmp_path).retriever()
    request = retriever.request("ERR-4012 gateway")
    explain(retriever, request, "vpn.md")
    assert diagnose(retriever, request, "vpn.md").steps[-1].step == "context"
    assert lines(tmp_path / "log") == []


def test_with_payloads_question_and_ids_are_kept_and_a_hostile_one_is_one_line(tmp_path: Path) -> None:
    base = made(tmp_path, payloads=True)
    found = base.retriever().search(HOSTILE)
    (line,) = lines(tmp_path / "log")
    assert line["question"] == HOSTILE
    assert line["chunk_ids"] == [hit.chunk_id for hit in found.hits]
    assert files(tmp_path / "log")[0].read_bytes().isascii()
    assert questions_of(tmp_path / "log", "test").questions[0].question == HOSTILE


def test_blank_questions_of_whatever_blanks_are_none_to_compare(tmp_path: Path) -> None:
    retriever = made(tmp_path, payloads=True).retriever()
    for question in ("", " ", "\t\n", "\u00a0\u2003", "gateway"):
        retriever.search(question)
    assert [entry.question for entry in questions_of(tmp_path / "log", "test", most=1).questions] == ["gateway"]


def test_the_log_is_its_owners_alone(tmp_path: Path) -> None:
    SearchLog(tmp_path / "log").wrote("kb", result(), 5, 0.1)
    assert stat.S_IMODE((tmp_path / "log").stat().st_mode) == 0o700
    assert stat.S_IMODE(files(tmp_path / "log")[0].stat().st_mode) == 0o600


def test_a_file_a_day_and_old_days_go(tmp_path: Path) -> None:
    now = datetime(2026, 11, 28, 23, 59, tzinfo=UTC)
    log = SearchLog(tmp_path, keep_days=2, clock=lambda: now)
    (tmp_path / "searches-notes.jsonl").write_text("mine")
    for _ in range(4):
        log.wrote("kb", result(), 5, 0.1)
        now += timedelta(days=1)
    assert [file.name for file in files(tmp_path)] == ["searches-2026-11-30.jsonl", "searches-2026-12-01.jsonl"]
    assert (tmp_path / "searches-notes.jsonl").exists()


def test_a_log_that_cannot_be_written_fails_no_search_and_warns_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("in the way")
    log = SearchLog(tmp_path / "file" / "log")
    for _ in range(3):
        log.wrote("kb", result(), 5, 0.1)
    assert len([record for record in caplog.records if "not logged" in record.message]) == 1


def test_a_log_whose_folder_was_moved_away_goes_on_in_a_new_one(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log = SearchLog(tmp_path / "log")
    log.wrote("kb", result("a"), 5, 0.1)
    (tmp_path / "log").rename(tmp_path / "archive")
    log.wrote("kb", result("b"), 5, 0.1)
    assert [len(lines(tmp_path / folder)) for folder in ("archive", "log")] == [1, 1]
    assert stat.S_IMODE((tmp_path / "log").stat().st_mode) == 0o700
    assert not caplog.records


def test_half_a_line_is_taken_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = SearchLog(tmp_path)
    log.wrote("kb", result("a"), 5, 0.1)
    whole = files(tmp_path)[0].read_bytes()
    plain = os.write
    monkeypatch.setattr("kbcore.search_log.os.write", lambda fd, data: plain(fd, data[: len(data) // 2]))
    log.wrote("kb", result("b"), 5, 0.1)
    monkeypatch.undo()
    assert files(tmp_path)[0].read_bytes() == whole


def _write_many(folder: str, name: str) -> None:
    log = SearchLog(folder, payloads=True)
    with asked_by(name):
        for number in range(200):
            log.wrote("kb", result(f"{name} {number} " + "x" * 9000), 5, 0.1)


def test_lines_of_many_threads_and_processes_are_never_torn(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=_write_many, args=(str(tmp_path), f"p{n}")) for n in range(2)]
    for process in processes:
        process.start()
    threads = [threading.Thread(target=_write_many, args=(str(tmp_path), f"t{n}")) for n in range(3)]
    for thread in threads:
        thread.start()
    for each in (*threads, *processes):
        each.join()
    assert len({line["question"] for line in lines(tmp_path)}) == 1000


def test_a_check_of_health_and_an_evaluation_are_not_logged(tmp_path: Path) -> None:
    base = made(tmp_path)
    assert Bases([base]).problems() == {}
    assert lines(tmp_path / "log") == []
    with asked_by("evil" * 100):
        base.retriever().search("x")
    assert len(lines(tmp_path / "log")[0]["consumer"]) == 200


def test_the_label_goes_along_into_the_thread_of_asearch(tmp_path: Path) -> None:
    base = made(tmp_path)
    retriever = base.retriever()

    async def ask(name: str) -> None:
        with asked_by(name):
            await retriever.asearch("gateway")

    async def both() -> None:
        await asyncio.gather(*(ask(f"agent {n}") for n in range(5)))

    asyncio.run(both())
    assert sorted(line["consumer"] for line in lines(tmp_path / "log")) == [f"agent {n}" for n in range(5)]


@pytest.fixture
def logged(tmp_path: Path) -> KnowledgeBase:
    base = made(tmp_path, payloads=True)
    first = base.retriever()
    with asked_by("web"):
        for question in ("ERR-4012 gateway", "ERR-4012 gateway", "lost phone", "   "):
            first.search(question)
    with asked_by("agent"):
        first.search("lost phone")
    write(tmp_path / "docs", {"new.md": "# New\n\nA page.\n"})
    refreshed(base)
    with asked_by("web"):
        base.retriever().search("lost phone")
    return base


def test_lineage_says_who_asked_which_release_what_and_how_often(logged: KnowledgeBase, tmp_path: Path) -> None:
    folder = tmp_path / "log"
    found = lineage.consumers(folder, "test")
    assert [(entry.release, entry.consumer, entry.searches) for entry in found] == [
        ("r000002", "web", 1), ("r000001", "web", 4), ("r000001", "agent", 1),
    ]  # fmt: skip
    web = found[1]
    assert web.outcomes["no_match"] == 1
    assert sum(web.outcomes.values()) == 4
    assert web.questions == (("ERR-4012 gateway", 2), ("   ", 1), ("lost phone", 1))
    assert web.distinct_questions == 3
    assert web.first <= web.last
    assert 0 < web.p50_ms <= web.p95_ms
    assert [entry.consumer for entry in lineage.consumers(folder, "test", "r000002")] == ["web"]
    assert lineage.consumers(folder, "another") == []
    assert lineage.consumers(tmp_path / "nowhere", "test") == []


def test_duckdb_reads_the_files_as_they_are(logged: KnowledgeBase, tmp_path: Path) -> None:
    (row,) = duckdb.sql(
        f"SELECT count(*), count(DISTINCT consumer), max(len(chunk_ids)) FROM read_json('{tmp_path}/log/searches-*.jsonl')"
    ).fetchall()
    assert row[:2] == (6, 2)
    assert row[2] > 0


def test_a_line_that_does_not_read_spoils_no_other(logged: KnowledgeBase, tmp_path: Path) -> None:
    with files(tmp_path / "log")[0].open("ab") as file:
        file.write(b'{"time": "half a li\n[]\nnothing\n')
    assert sum(entry.searches for entry in lineage.consumers(tmp_path / "log", "test")) == 6


def test_a_log_that_cannot_be_read_is_an_error_with_its_cause(logged: KnowledgeBase, tmp_path: Path) -> None:
    """As where it is read by another user than the one who serves; here a folder bears the name of a day's file."""
    (tmp_path / "log" / "searches-2026-01-01.jsonl").mkdir()
    with pytest.raises(
        KbUnavailableError, match=r"the log of searches cannot be read: .*searches-2026-01-01"
    ) as refused:
        lineage.consumers(tmp_path / "log", "test")
    assert "\n" not in refused.value.message


def test_the_questions_of_a_log_make_a_set_most_frequent_first(logged: KnowledgeBase, tmp_path: Path) -> None:
    found = questions_of(tmp_path / "log", "test")
    assert [entry.question for entry in found.questions] == ["lost phone", "ERR-4012 gateway"]
    assert len({entry.id for entry in found.questions}) == 2
    assert not any(entry.expected or entry.no_answer for entry in found.questions)
    assert questions_of(tmp_path / "log", "test").digest == found.digest
    assert len(questions_of(tmp_path / "log", "test", most=1).questions) == 1
    assert [q.question for q in questions_of(tmp_path / "log", "test", release="r000002").questions] == ["lost phone"]
    with pytest.raises(EvaluationSetError, match="holds no question"):
        questions_of(tmp_path / "log", "another")
