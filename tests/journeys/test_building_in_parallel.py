"""The same release whoever builds it: this process, workers of this machine, or a Dask cluster that loses one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kbcore.errors import ConfigError, KbError
from kbcore.ingest.documents import IN_PROCESS
from kbcore.knowledge_base import KnowledgeBase
from tests.support import ROOT, answers, configure, knowledge_base, refreshed, write

COUNT = 3 * IN_PROCESS
DOCUMENTS: dict[str, str | bytes] = {
    f"{n % 7}/{n}.md": f"# Page {n}\n\n" + " ".join(f"word{n * k % 997}" for k in range(1, 120)) for n in range(COUNT)
}
HOSTILE: dict[str, str | bytes] = {f"bad/{n}.pdf": b"%PDF-1.7\n" + bytes([n]) * 50 for n in range(4)}


def built(root: Path, **build: Any) -> KnowledgeBase:
    base = knowledge_base(root, {**DOCUMENTS, **HOSTILE}, **({"build": build} if build else {}))
    report = refreshed(base)
    assert report.changes["added"] == COUNT
    assert sorted(failure["uri"] for failure in report.failures) == sorted(HOSTILE)
    return base


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> KnowledgeBase:
    return built(tmp_path_factory.mktemp("alone"))


def digest(base: KnowledgeBase) -> str:
    return base.repository.manifest("r000001").content_digest


def test_processes_build_the_same_release(tmp_path: Path, alone: KnowledgeBase) -> None:
    base = built(tmp_path, jobs=2)
    assert digest(base) == digest(alone)
    assert answers(base) == answers(alone)


def test_everything_cut_anew_by_processes_is_the_same_as_alone(tmp_path: Path, alone: KnowledgeBase) -> None:
    base = built(tmp_path, jobs=2)
    again = KnowledgeBase(configure(tmp_path, build={"jobs": 2}, chunking={"size": 90, "overlap": 10}))
    report = refreshed(again)
    assert report.changes["unchanged"] == COUNT
    fresh = knowledge_base(tmp_path / "fresh", DOCUMENTS, chunking={"size": 90, "overlap": 10})
    refreshed(fresh)
    assert again.repository.manifest("r000002").content_digest == digest(fresh)
    assert digest(base) == digest(alone)


class Cluster:
    """A real scheduler and two real worker processes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.processes: list[subprocess.Popen[bytes]] = []
        self.environment = {**os.environ, "PYTHONPATH": str(ROOT), "DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "5"}
        self.start("scheduler", "--port", "0", "--no-dashboard", "--scheduler-file", str(folder / "scheduler.json"))
        self.workers = [self.worker() for _ in range(2)]

    def start(self, kind: str, *arguments: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "distributed.cli.dask_" + kind, *arguments]
        running = subprocess.Popen(
            command, env=self.environment, cwd=self.folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        self.processes.append(running)
        return running

    def worker(self) -> subprocess.Popen[bytes]:
        return self.start(
            "worker", "--scheduler-file", str(self.folder / "scheduler.json"), "--no-nanny", "--nthreads", "1",
            "--no-dashboard", "--local-directory", str(self.folder),
        )  # fmt: skip

    @property
    def address(self) -> str:
        import json

        deadline = time.monotonic() + 60
        file = self.folder / "scheduler.json"
        while not file.exists():
            assert time.monotonic() < deadline, "the scheduler did not start"
            time.sleep(0.1)
        return str(json.loads(file.read_text())["address"])

    def wait_for_workers(self) -> None:
        from distributed import Client

        with Client(self.address, set_as_default=False) as client:
            client.wait_for_workers(2, timeout=60)

    def stop(self) -> None:
        for process in reversed(self.processes):
            process.kill()
            process.wait(10)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    folder = tmp_path / "cluster"
    folder.mkdir()
    cluster = Cluster(folder)
    try:
        yield cluster
    finally:
        cluster.stop()


def test_a_cluster_that_loses_a_worker_in_the_midst_builds_the_same_release(
    tmp_path: Path, cluster: Cluster, alone: KnowledgeBase
) -> None:
    cluster.wait_for_workers()
    base = knowledge_base(
        tmp_path / "kb", {**DOCUMENTS, **HOSTILE}, build={"executor": "dask", "address": cluster.address}
    )
    killed = []

    def progress(stage: str, done: int, total: int) -> None:
        if stage == "read" and done > IN_PROCESS + 40 and not killed:
            os.kill(cluster.workers[0].pid, signal.SIGKILL)
            killed.append(cluster.workers[0].wait(10))

    report = refreshed(base, progress=progress)
    assert killed == [-signal.SIGKILL]
    assert report.changes["added"] == COUNT
    assert digest(base) == digest(alone)
    assert answers(base) == answers(alone)


def test_a_cluster_that_is_not_there_is_a_setting_to_mend(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kbcore.workers.CONNECT_SECONDS", 1)
    base = knowledge_base(tmp_path, DOCUMENTS, build={"executor": "dask", "address": "tcp://127.0.0.1:9"})
    with pytest.raises(ConfigError, match=r"no Dask scheduler at tcp://127\.0\.0\.1:9"):
        refreshed(base)
    assert base.repository.releases() == []


def test_a_worker_process_that_dies_fails_the_run_and_publishes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = knowledge_base(tmp_path, DOCUMENTS, build={"jobs": 2})

    def kill_workers(stage: str, done: int, total: int) -> None:
        if stage == "read" and done == IN_PROCESS + 40:
            import multiprocessing

            for child in multiprocessing.active_children():
                child.kill()

    with pytest.raises(KbError, match="worker process"):
        refreshed(base, progress=kill_workers)
    assert base.repository.releases() == []
    write(tmp_path / "docs", {"more.md": "# More\n"})
    assert refreshed(base).changes["added"] == COUNT + 1
