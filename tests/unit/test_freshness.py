"""How old what readers get is: from the last listing that confirmed it, not from when anybody looked."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from kbcore.clock import iso
from kbcore.freshness import Freshness, measure
from kbcore.knowledge_base import KnowledgeBase
from kbcore.promotion import hold
from tests.support import DOCUMENTS, knowledge_base, refreshed, write


class Clock:
    def __init__(self) -> None:
        self.now = datetime(2026, 3, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now

    def day(self, number: int) -> str:
        self.now = datetime(2026, 3, number, tzinfo=UTC)
        return iso(self.now)


@pytest.fixture
def clock() -> Clock:
    return Clock()


def made(root: Path, clock: Clock, **source: Any) -> KnowledgeBase:
    write(root / "more", {"more.md": "# More\n\nOf everything.\n"})
    sources = [
        {"name": "docs", "path": str(root / "docs"), "freshness_target": "7d", **source},
        {"name": "more", "path": str(root / "more")},
    ]
    base = knowledge_base(root, sources=sources)
    base.clock = base.repository.clock = clock
    return base


def look(base: KnowledgeBase) -> Freshness:
    return measure(base.repository, base.config, base.repository.resolve("current"))


def test_a_source_ages_from_its_last_complete_listing(tmp_path: Path, clock: Clock) -> None:
    base = made(tmp_path, clock)
    clock.day(1)
    refreshed(base)
    second = clock.day(2)
    refreshed(base)  # nothing changed, but it was confirmed
    clock.day(9)
    found = look(base)
    docs, more = found.sources
    assert (docs.source, docs.confirmed_at, docs.age_days, docs.stale) == ("docs", second, 7.0, False)
    assert (docs.documents, more.documents, more.target_days, more.stale) == (len(DOCUMENTS), 1, None, False)
    assert not found.stale
    clock.day(10)
    found = look(base)
    assert found.stale
    assert found.sources[0].stale
    assert [document.stale for document in found.documents if document.source == "docs"] == [True] * len(DOCUMENTS)


def test_a_source_that_cannot_be_listed_says_why_and_goes_on_ageing(tmp_path: Path, clock: Clock) -> None:
    base = made(tmp_path, clock)
    first = clock.day(1)
    refreshed(base)
    (tmp_path / "docs").rename(tmp_path / "away")
    tenth = clock.day(10)
    refreshed(base)
    docs = look(base).sources[0]
    assert (docs.listed_at, docs.confirmed_at, docs.age_days, docs.stale) == (tenth, first, 9.0, True)
    assert "does not exist" in str(docs.error)


def test_what_readers_get_under_a_hold_ages_although_a_newer_release_is_fresh(tmp_path: Path, clock: Clock) -> None:
    base = made(tmp_path, clock)
    first = clock.day(1)
    refreshed(base)
    hold(base.repository, reason="freeze", run=base.repository.begin())
    clock.day(9)
    write(tmp_path / "docs", {"new.md": "# New\n\nSomething about laptops.\n"})
    assert not refreshed(base).promoted
    assert (look(base).sources[0].confirmed_at, look(base).stale) == (first, True)
    assert not measure(base.repository, base.config, "r000002").stale


def test_documents_that_were_carried_over_or_whose_removal_is_withheld_are_named(tmp_path: Path, clock: Clock) -> None:
    base = made(tmp_path, clock, guard={"removals": 0, "removals_percent": 0.0})
    first = clock.day(1)
    refreshed(base)
    second = clock.day(2)
    write(tmp_path / "docs", {"phones.html": b"\x00\x01\x02" * 100, "printers.txt": None})
    refreshed(base)
    found = look(base)
    assert (found.sources[0].carried_over, found.sources[0].withheld) == (1, 1)
    named = {document.doc_id: document for document in found.documents if document.reason}
    assert set(named) == {"docs:phones.html", "docs:printers.txt"}
    assert named["docs:phones.html"].since == second
    assert all(document.confirmed_at == first for document in named.values())


def test_a_source_that_is_not_configured_any_more_is_still_shown(tmp_path: Path, clock: Clock) -> None:
    base = made(tmp_path, clock)
    refreshed(base)
    config = base.config.model_copy(update={"sources": base.config.sources[:1]})
    found = measure(base.repository, config, "r000001")
    assert [(source.source, source.type, source.documents) for source in found.sources] == [
        ("docs", "directory", len(DOCUMENTS)),
        ("more", None, 1),
    ]
