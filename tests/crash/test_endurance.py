"""A schedule left running while people edit, the runner is killed again and again, and a reader searches all the while.

``KB_ENDURANCE_SECONDS`` says for how long (900 by default); printed at the end: what happened, for the record.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import pytest

from kbcore.config import load
from kbcore.knowledge_base import KnowledgeBase, open_repository
from kbcore.verification import verify_repository
from tests.support import ROOT, knowledge_base, refreshed

SECONDS = float(os.environ.get("KB_ENDURANCE_SECONDS", "900"))
WORDS = [f"word{n}" for n in range(400)]


class Editor(threading.Thread):
    """Adds, edits, renames and deletes files at random."""

    def __init__(self, folder: Path, ended: threading.Event) -> None:
        super().__init__(daemon=True)
        self.folder, self.ended, self.random = folder, ended, random.Random(7)
        self.done: Counter[str] = Counter()

    def text(self, name: str) -> str:
        return f"# Page {name}\n\nmarker {' '.join(self.random.choice(WORDS) for _ in range(120))}\n"

    def add(self) -> None:
        name = f"{self.random.randrange(8)}/{self.random.getrandbits(40):x}.md"
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self.text(name))
        self.done["added"] += 1

    def run(self) -> None:
        while not self.ended.wait(self.random.uniform(0.1, 0.5)):
            files = sorted(self.folder.rglob("*.md"))
            act = self.random.random()
            if len(files) < 40 or act < 0.3:
                self.add()
            elif act < 0.6:
                path = self.random.choice(files)
                path.write_text(self.text(path.name))
                self.done["edited"] += 1
            elif act < 0.8:
                self.random.choice(files).rename(self.folder / f"{self.random.getrandbits(40):x}.md")
                self.done["renamed"] += 1
            else:
                self.random.choice(files).unlink()
                self.done["deleted"] += 1


class Reader(threading.Thread):
    """Searches what is current, over and over; every answer must be of one whole release."""

    def __init__(self, config: Path, ended: threading.Event) -> None:
        super().__init__(daemon=True)
        self.config, self.ended = config, ended
        self.searches = 0
        self.releases: set[str] = set()
        self.errors: list[str] = []

    def run(self) -> None:
        base = open_repository(self.config)
        retriever = base.retriever()
        while not self.ended.is_set():
            try:
                if base.repository.state().release != retriever.release:
                    retriever = base.retriever()
                found = retriever.search("marker word1 word2", k=20)
                mixed = {hit.release for hit in found.hits} - {retriever.release}
                if mixed or not found.hits:
                    self.errors.append(f"{retriever.release}: {len(found.hits)} hits, of {mixed or 'one release'}")
                self.searches += 1
                self.releases.add(retriever.release)
            except Exception as error:
                self.errors.append(f"{type(error).__name__}: {error}")
            time.sleep(0.02)


@pytest.mark.long
def test_readers_never_see_an_error_or_a_mixed_release_and_the_end_is_that_of_a_fresh_build(tmp_path: Path) -> None:
    folder = tmp_path / "docs"
    folder.mkdir()
    config = tmp_path / "kb.toml"
    config.write_text(
        f'[kb]\nname = "endure"\nrepository = "{tmp_path}/releases"\n[[sources]]\nname = "docs"\npath = "{folder}"\n'
        '[sources.guard]\nremovals_percent = 100.0\n[embedder]\nprovider = "hashing"\n'
    )
    ended, read = threading.Event(), threading.Event()
    editor, reader = Editor(folder, ended), Reader(config, read)
    for _ in range(60):
        editor.add()
    base = KnowledgeBase(load(config))
    base.create()
    refreshed(base)
    editor.start()
    reader.start()
    environment = {**os.environ, "KB_CONFIG": str(config)}
    chance = random.Random(3)
    runs: Counter[str] = Counter()
    until = time.monotonic() + SECONDS
    next_kill = time.monotonic() + chance.uniform(1, 5)
    while time.monotonic() < until:
        running = subprocess.Popen(
            [sys.executable, "-m", "kbcore.cli", "refresh"], cwd=ROOT, env=environment,
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True,
        )  # fmt: skip
        while running.poll() is None:
            if time.monotonic() > next_kill:
                os.killpg(running.pid, signal.SIGKILL)
                runs["killed"] += 1
                # About once a minute in a run of a quarter of an hour, and at least some times in a short one.
                next_kill = time.monotonic() + chance.uniform(0.3, 2.0) * min(60.0, SECONDS / 12)
            time.sleep(0.01)
        assert running.stderr
        said = running.stderr.read().decode()
        running.stderr.close()
        assert "Traceback" not in said, said
        runs[f"ended with {running.returncode}"] += 1
        time.sleep(chance.uniform(0.0, 0.5))
    ended.set()
    editor.join(10)
    time.sleep(3.5)  # the last edits are old enough to be told apart by their times
    last = refreshed(base)
    if not last.promoted and last.release != base.repository.state().release:
        last = refreshed(base)
    time.sleep(1.0)
    read.set()
    reader.join(30)
    print(
        f"\n{SECONDS:.0f} s: {sum(editor.done.values())} edits {dict(editor.done)}; runs {dict(runs)}; "
        f"{len(base.repository.releases())} releases; {reader.searches} searches over {len(reader.releases)} releases, "
        f"{len(reader.errors)} errors"
    )
    assert reader.errors == []
    assert base.repository.state().release == base.repository.head()
    assert verify_repository(base.repository, base.repository.releases()[-5:]) == []
    documents = {path.relative_to(folder).as_posix(): path.read_bytes() for path in sorted(folder.rglob("*.md"))}
    fresh = knowledge_base(tmp_path / "fresh", documents, embedder={"provider": "hashing"})
    refreshed(fresh)
    head = base.repository.manifest(str(base.repository.head()))
    assert fresh.repository.manifest("r000001").content_digest == head.content_digest
