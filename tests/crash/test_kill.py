"""kill -9 at random moments of a real refresh, and two refreshes at once."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kbcore.knowledge_base import open_repository
from kbcore.store import layout
from kbcore.verification import verify_repository
from tests.support import ROOT, write

COUNT = 320


def page(number: int, edition: int) -> str:
    return f"# Page {number}\n\nEdition {edition} of page {number} tells about the subject {number * 7919 % 1009}.\n"


def set_up(root: Path) -> Path:
    write(root / "docs", {f"{n:03}.md": page(n, 0) for n in range(COUNT)})
    config = root / "kb.toml"
    config.write_text(
        f'[kb]\nname = "test"\nrepository = "{root}/releases"\n'
        f'[[sources]]\nname = "docs"\npath = "{root}/docs"\n'
        '[embedder]\nprovider = "hashing"\n'
    )
    process = command(config, "init")
    process.communicate()
    assert process.returncode == 0
    return config


def command(config: Path, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "kbcore.cli", *arguments, "--config", str(config), "--json"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def kill(process: subprocess.Popen[str]) -> None:
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.communicate()


def trials(root: Path, count: int, seed: int) -> None:
    rng = random.Random(seed)
    config = set_up(root)
    started = time.monotonic()
    process = command(config, "refresh")
    process.communicate()
    duration = time.monotonic() - started
    base = open_repository(config)
    assert base.repository.state().release == "r000001"
    for trial in range(count):
        for number in rng.sample(range(COUNT), 12):
            write(root / "docs", {f"{number:03}.md": page(number, trial + 1)})
        before = base.repository.state().release
        process = command(config, "refresh")
        time.sleep(rng.uniform(0, 1.1 * duration))
        kill(process)
        current = base.repository.state().release
        newest = base.repository.releases()[-1]
        assert current in (before, newest), (seed, trial)
        assert base.retriever(mode="keyword").search("subject").hits, (seed, trial)
    out, err = command(config, "refresh").communicate()
    assert json.loads(out)["outcome"] in ("published", "unchanged"), err
    repository = base.repository
    assert verify_repository(repository, repository.releases()) == []
    state = repository.state()
    assert state.release == repository.releases()[-1]

    fresh = root / "fresh.toml"
    fresh.write_text(config.read_text().replace('name = "test"', 'name = "fresh"'))
    command(fresh, "init").communicate()
    command(fresh, "refresh").communicate()
    rebuilt = open_repository(fresh).repository.manifest("r000001")
    assert state.release is not None
    assert rebuilt.content_digest == repository.manifest(state.release).content_digest


def test_a_dozen_kills_never_leave_a_torn_release_and_the_next_refresh_converges(tmp_path: Path) -> None:
    trials(tmp_path, 12, seed=17)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(5))
def test_a_hundred_kills(tmp_path: Path, seed: int) -> None:
    trials(tmp_path, 100, seed=1000 + seed)


def test_a_first_build_that_was_killed_late_embeds_nothing_again_that_it_had_written(tmp_path: Path) -> None:
    config = set_up(tmp_path)
    folder = tmp_path / "releases" / "test" / layout.STAGING
    process = command(config, "refresh")
    while process.poll() is None and not list(folder.rglob("*.part.parquet")):
        time.sleep(0.001)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    base = open_repository(config)
    if base.repository.releases():
        pytest.skip("the build was over before it could be killed")
    assert base.repository.state().release is None
    out, err = command(config, "refresh").communicate()
    report = json.loads(out)
    assert report["release"] == "r000001", err
    assert report["texts_resumed"] >= 256
    assert report["texts_embedded"] + report["texts_resumed"] == COUNT
    assert list(folder.rglob("*.part.parquet")) == []


def test_of_two_refreshes_at_once_one_publishes_and_none_is_lost(tmp_path: Path) -> None:
    config = set_up(tmp_path)
    processes = [command(config, "refresh") for _ in range(2)]
    outcomes = [(p.communicate(), p.returncode) for p in processes]
    codes = sorted(code for _, code in outcomes)
    assert codes in ([0, 0], [0, 11]), outcomes
    for (_, err), code in outcomes:
        if code == 11:
            message = json.loads(err.strip().splitlines()[-1])
            assert "another run is under way" in message["message"]
    repository = open_repository(config).repository
    assert repository.releases() == ["r000001"]
    assert verify_repository(repository, ["r000001"]) == []


def test_a_run_that_lost_the_race_plans_again_on_the_new_head(tmp_path: Path) -> None:
    from kbcore.ingest import refresh as module
    from kbcore.store.repository import Repository
    from tests.support import knowledge_base, refreshed

    base = knowledge_base(tmp_path)
    refreshed(base)
    write(tmp_path / "docs", {"one.md": "# One\n\nThe first addition.\n"})
    publish = Repository.publish
    raced = []

    def racing(self, draft, *, expected_head):  # type: ignore[no-untyped-def]
        if not raced:
            # Another host, which does not see our lease, publishes the same base first.
            raced.append(publish(self, draft, expected_head=expected_head))
            write(tmp_path / "docs", {"two.md": "# Two\n\nThe second addition.\n"})
        return publish(self, draft, expected_head=expected_head)

    patch = pytest.MonkeyPatch()
    patch.setattr(Repository, "publish", racing)
    try:
        report = module.refresh(base.repository, base.config)
    finally:
        patch.undo()
    assert (report.release, report.parent) == ("r000003", "r000002")
    assert report.changes["added"] == 1
    assert base.repository.releases() == ["r000001", "r000002", "r000003"]
    assert base.retriever().search("second addition", mode="keyword").hits
