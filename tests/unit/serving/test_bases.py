"""Knowledge bases by name, and the releases they hold open."""

from __future__ import annotations

from pathlib import Path

import pytest

from kbcore.promotion import rollback
from kbcore.serving.bases import Bases
from tests.support import knowledge_base, refreshed, write


def test_a_release_that_is_open_already_is_not_opened_again(tmp_path: Path) -> None:
    base = knowledge_base(tmp_path)
    refreshed(base)
    write(tmp_path / "docs", {"new.md": "# New\n\nSomething.\n"})
    refreshed(base)
    entry = Bases([base])["test"]
    assert entry.opened() == ()
    current = entry.retriever()
    assert entry.retriever("r000002") is entry.retriever("latest") is current
    older = entry.retriever("r000001")
    assert entry.retriever("previous") is older
    assert entry.opened() == ("r000002", "r000001")


def test_a_base_whose_storage_fails_has_a_problem_and_raises_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = knowledge_base(tmp_path)
    refreshed(base)
    bases = Bases([base])
    assert bases.problems() == {}

    def broken(*_: object, **__: object) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(bases["test"].live(), "search", broken)
    assert bases.problems() == {"test": "OSError: Input/output error"}
    monkeypatch.undo()
    assert bases.problems() == {}


def test_a_release_that_expired_is_refused_although_it_is_open(tmp_path: Path) -> None:
    from kbcore.errors import ReleaseExpiredError

    base = knowledge_base(tmp_path)
    refreshed(base)
    write(tmp_path / "docs", {"new.md": "# New\n\nSomething.\n"})
    refreshed(base)
    entry = Bases([base])["test"]
    assert entry.retriever("r000001").release == "r000001"
    base.repository.expire("r000001", reason="r", run=base.repository.begin("t"))
    with pytest.raises(ReleaseExpiredError):
        entry.retriever("r000001")
    assert entry.retriever().release == "r000002"


def test_a_rollback_needs_no_opening_of_what_was_answered_from_before(tmp_path: Path) -> None:
    base = knowledge_base(tmp_path)
    refreshed(base)
    entry = Bases([base])["test"]
    before = entry.retriever()
    write(tmp_path / "docs", {"new.md": "# New\n\nSomething.\n"})
    refreshed(base)
    rollback(base.repository, base.catalog, reason="r", run=base.repository.begin("t"))
    assert entry.retriever("r000001") is before
