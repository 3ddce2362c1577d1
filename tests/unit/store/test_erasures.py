"""What is erased is shown by no reader, whatever release it reads; what each run saw is kept in order."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from kbcore.errors import KbError
from kbcore.knowledge_base import KnowledgeBase
from kbcore.store import layout
from kbcore.store.objects import LocalStore
from kbcore.store.repository import Repository
from tests.support import knowledge_base, refreshed

REASON = "test"


@pytest.fixture
def base(tmp_path: Path) -> KnowledgeBase:
    """One release, published and current."""
    made = knowledge_base(tmp_path)
    refreshed(made)
    return made


@pytest.fixture
def repository(base: KnowledgeBase) -> Repository:
    return base.repository


def test_readers_see_an_erasure_within_a_second(base: KnowledgeBase) -> None:
    retriever = base.retriever(mode="keyword")
    before = {hit.doc_id for hit in retriever.search("gateway answer").hits}
    assert "docs:vpn.md" in before
    writer = Repository.open(LocalStore(base.folder), base.config.kb.name)
    writer.erase([{"doc_id": "docs:vpn.md", "content_sha256": None}], reason=REASON, run=writer.begin())
    deadline = time.monotonic() + 1.0
    while "docs:vpn.md" in {hit.doc_id for hit in retriever.search("gateway answer").hits}:
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_the_repository_that_erases_sees_it_at_once(repository: Repository) -> None:
    assert repository.erased() == {}
    run = repository.begin()
    repository.erase([{"doc_id": "docs:a", "content_sha256": "1"}], reason=REASON, run=run)
    repository.erase([{"doc_id": "docs:a", "content_sha256": "2"}, {"doc_id": "docs:b"}], reason=REASON, run=run)
    assert repository.erased() == {"docs:a": frozenset({"1", "2"}), "docs:b": frozenset({None})}


def test_erasures_that_cannot_be_read_are_an_error_and_not_none(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that has no descriptor left must not show what was erased."""
    repository.erase([{"doc_id": "docs:vpn.md"}], reason=REASON, run=repository.begin())

    def exhausted(path: str) -> object:
        raise OSError(errno.EMFILE, "Too many open files", path)

    monkeypatch.setattr(os, "scandir", exhausted)
    with pytest.raises((OSError, KbError)):
        repository.erased()


def test_two_erasures_at_once_both_count(base: KnowledgeBase) -> None:
    """The one that finds its number taken takes the next."""
    raced = iter([True])

    class Raced(LocalStore):
        def put_new(self, files: Mapping[str, bytes]) -> None:
            if layout.erased_file(1) in files and next(raced, False):
                other = Repository.open(LocalStore(self.root), base.config.kb.name)
                other.erase([{"doc_id": "docs:theirs"}], reason=REASON, run=other.begin())
            super().put_new(files)

    repository = Repository.open(Raced(base.folder), base.config.kb.name)
    repository.erase([{"doc_id": "docs:mine"}], reason=REASON, run=repository.begin())
    assert set(repository.erased()) == {"docs:theirs", "docs:mine"}


def test_checks_are_numbered_and_the_newest_is_the_last(repository: Repository) -> None:
    first = repository.last_check()
    assert first is not None
    repository.write_check({"outcome": "unchanged"}, run=repository.begin())
    last = repository.last_check()
    assert last is not None
    assert (last["outcome"], last["seq"], len(repository.checks())) == ("unchanged", first["seq"] + 1, 2)
