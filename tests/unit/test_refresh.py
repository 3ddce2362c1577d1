"""What a refresh makes of what the sources say."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from kbcore.embedding.hashing import HashingEmbedder
from kbcore.errors import EmbedderMismatchError, EmbeddingFailedError, KbError, LockedError, SourceError
from kbcore.ingest.recipe import Recipe
from kbcore.ingest.refresh import refresh
from kbcore.promotion import hold, lift, pin, promote, rollback, undo
from kbcore.retrieval import Retriever
from kbcore.store.lease import writer_lease
from tests.support import DOCUMENTS, answers, configure, knowledge_base, published, refreshed, tree, write


def test_touched_files_embed_nothing_and_publish_nothing(tmp_path: Path) -> None:
    base = knowledge_base(tmp_path)
    refreshed(base)
    for path in (tmp_path / "docs").iterdir():
        os.utime(path, (1, 1))
    report = refreshed(base)
    assert (report.outcome, report.texts_embedded, report.bytes_written) == ("unchanged", 0, 0)
    assert base.repository.releases() == ["r000001"]


def test_files_confirmed_by_their_validator_are_not_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from kbcore.sources.directory import DirectorySource

    base = knowledge_base(tmp_path)
    time.sleep(3.2)  # validators count once the files are older than a clock tick
    refreshed(base)
    monkeypatch.setattr(DirectorySource, "fetch", lambda *_: pytest.fail("a confirmed file was read"))
    assert refreshed(base).changes["unchanged"] == len(DOCUMENTS)


def test_a_missing_root_is_an_error_and_removes_nothing(tmp_path: Path) -> None:
    base = knowledge_base(tmp_path)
    refreshed(base)
    (tmp_path / "docs").rename(tmp_path / "unmounted")
    before = published(base)
    with pytest.raises(SourceError, match="there is no folder"):
        refreshed(base)
    assert published(base) == before


def test_removals_beyond_the_guard_are_withheld_while_additions_ship(tmp_path: Path) -> None:
    documents = {f"{n}.md": f"# Page {n}\n\nText {n}.\n" for n in range(10)}
    base = knowledge_base(tmp_path, documents)
    refreshed(base)
    write(tmp_path / "docs", {**{f"{n}.md": None for n in range(4)}, "new.md": "# New\n\nAn addition.\n"})
    report = refreshed(base)
    assert report.changes["removed"] == 0
    assert report.changes["added"] == 1
    assert len(report.withheld_removals) == 4
    approved = refreshed(base, approve_removals=3)
    assert (approved.changes["removed"], len(approved.withheld_removals)) == (3, 1)


@pytest.mark.parametrize(("held", "gone", "withheld"), [(12, 3, 0), (16, 4, 0), (15, 4, 4), (4, 3, 0), (4, 4, 4)])
def test_the_guard_needs_more_than_three_and_more_than_a_quarter(
    tmp_path: Path, held: int, gone: int, withheld: int
) -> None:
    base = knowledge_base(tmp_path, {f"{n}.md": f"# Page {n}\n\nText {n}.\n" for n in range(held)})
    refreshed(base)
    write(tmp_path / "docs", {f"{n}.md": None for n in range(gone)})
    assert len(refreshed(base).withheld_removals) == withheld


def test_a_document_that_fails_keeps_its_former_version_and_says_since_when(tmp_path: Path) -> None:
    base = knowledge_base(tmp_path)
    refreshed(base)
    write(tmp_path / "docs", {"vpn.md": b"", "printers.txt": bytes(range(256)) * 8})
    first = refreshed(base)
    second = refreshed(base)
    assert [f["doc_id"] for f in first.failures] == ["docs:printers.txt"]
    assert first.failures == second.failures
    assert first.failures_changed
    assert not second.failures_changed
    hits = base.retriever().search("badge on every floor", mode="keyword").hits
    assert hits[0].carried_over
    assert "vpn.md" in first.skipped[0]["doc_id"]


def test_a_renamed_document_is_found_under_its_new_name_only(tmp_path: Path) -> None:
    base = knowledge_base(tmp_path)
    refreshed(base)
    (tmp_path / "docs" / "vpn.md").rename(tmp_path / "docs" / "remote.md")
    report = refreshed(base)
    assert report.renamed == {"docs:vpn.md": "docs:remote.md"}
    assert report.texts_embedded == 0
    assert {h.uri for h in base.retriever().search("ERR-4012", mode="keyword").hits} == {"remote.md"}


def test_a_deleted_document_answers_nothing(tmp_path: Path) -> None:
    base = knowledge_base(tmp_path)
    refreshed(base)
    write(tmp_path / "docs", {"vpn.md": None})
    refreshed(base)
    for mode in ("vector", "keyword", "hybrid"):
        assert all(h.uri != "vpn.md" for h in base.retriever().search("ERR-4012 gateway", 50, mode=mode).hits)  # type: ignore[arg-type]
    assert base.retriever("r000001").search("ERR-4012", mode="keyword").hits


def test_an_erased_document_is_gone_from_every_release_and_does_not_come_back(tmp_path: Path) -> None:
    base = knowledge_base(tmp_path)
    refreshed(base)
    write(tmp_path / "docs", {"new.md": "# New\n\nAnother page.\n"})
    refreshed(base)
    retriever = base.retriever("r000001")
    assert retriever.search("ERR-4012", mode="keyword").hits
    run = base.repository.begin()
    base.repository.erase([{"doc_id": "docs:vpn.md", "content_sha256": None}], reason="request", run=run)
    deadline = time.monotonic() + 1.0
    while retriever.search("ERR-4012", mode="keyword").hits:
        assert time.monotonic() < deadline, "an open retriever still shows it after a second"
    rollback(base.repository, base.catalog, reason="back", run=base.repository.begin())
    assert base.retriever().search("ERR-4012", mode="keyword").outcome == "no_match"
    report = refreshed(base)
    assert report.changes["erased"] == 1
    assert base.retriever("latest").search("ERR-4012", mode="keyword").outcome == "no_match"
    assert refreshed(base).outcome == "unchanged"


def test_an_empty_source_publishes_an_empty_release_that_says_so(tmp_path: Path) -> None:
    base = knowledge_base(tmp_path, {})
    report = refreshed(base)
    assert (report.release, report.promoted) == ("r000001", True)
    for mode in ("vector", "keyword", "hybrid"):
        assert base.retriever(mode=mode).search("anything").outcome == "kb_empty"  # type: ignore[arg-type]
    write(tmp_path / "docs", DOCUMENTS)
    assert refreshed(base).changes["added"] == len(DOCUMENTS)
    assert base.retriever().search("gateway").outcome == "hits"


def test_another_chunker_publishes_with_no_document_changed_and_equals_a_rebuild(tmp_path: Path) -> None:
    text = "\n\n".join(f"Paragraph {n} speaks of subject {n * 37}." for n in range(40))
    base = knowledge_base(tmp_path / "a", {"long.md": text, **DOCUMENTS})
    refreshed(base)
    base.config = configure(tmp_path / "a", chunking={"size": 120, "overlap": 20})
    report = refreshed(base)
    assert report.outcome == "published"
    assert report.changes["changed"] == report.changes["added"] == 0
    fresh = knowledge_base(tmp_path / "b", {"long.md": text, **DOCUMENTS}, chunking={"size": 120, "overlap": 20})
    refreshed(fresh)
    assert fresh.repository.manifest("r000001").content_digest == base.repository.manifest("r000002").content_digest
    assert answers(fresh) == answers(base)


class Broken(HashingEmbedder):
    """Gives what ``spoil`` makes of the right vectors."""

    spoil = staticmethod(lambda vectors: vectors)

    def embed(self, texts: Sequence[str]):  # type: ignore[no-untyped-def]
        return self.spoil(super().embed(texts))


@pytest.mark.parametrize(
    "spoil",
    [lambda v: v[:-1], lambda v: v * np.nan, lambda v: v * 0, lambda v: v[:, :-1]],
    ids=["one missing", "not finite", "zero", "too short"],
)
def test_vectors_that_are_none_fail_the_build_and_nothing_is_published(tmp_path: Path, spoil: object) -> None:
    base = knowledge_base(tmp_path)
    recipe = Recipe.of(base.config)
    embedder = Broken(64)
    embedder.spoil = spoil  # type: ignore[assignment]
    broken = Recipe(recipe.spec, embedder, recipe.size, recipe.overlap, recipe.context)
    with pytest.raises((EmbeddingFailedError, ValueError)):
        refresh(base.repository, base.config, recipe=broken)
    assert base.repository.releases() == []
    assert base.repository.state().release is None


def test_each_new_text_is_embedded_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    embed = HashingEmbedder.embed

    def counting(self: HashingEmbedder, texts: Sequence[str]):  # type: ignore[no-untyped-def]
        seen.extend(texts)
        return embed(self, texts)

    monkeypatch.setattr(HashingEmbedder, "embed", counting)
    same = "# Equal\n\nThe same text in many places.\n"
    base = knowledge_base(tmp_path, {f"{n}.md": same for n in range(9)})
    report = refreshed(base)
    assert report.texts_embedded == 1
    assert sum("The same text" in text for text in seen) <= 2  # once to build, once as the smoke search's question
    seen.clear()
    retriever = base.retriever()
    assert seen == []
    retriever.search("one question")
    asked = len(seen)
    retriever.search("another question")
    assert len(seen) == asked + 1
    seen.clear()
    base.retriever(mode="keyword").search("same text")
    assert seen == []


def test_another_embedder_of_the_same_dimension_is_refused_with_both_fingerprints(tmp_path: Path) -> None:
    class Other(HashingEmbedder):
        def __init__(self) -> None:
            super().__init__(64)
            self.fingerprint = {**self.fingerprint, "model": "another"}

    base = knowledge_base(tmp_path)
    refreshed(base)
    manifest = base.repository.manifest("r000001")
    other = Other()
    with pytest.raises(EmbedderMismatchError) as error:
        Retriever(base.repository, manifest, base.catalog, embedder=other)
    assert manifest.embedder_id in str(error.value)
    assert other.embedder_id in str(error.value)


def test_a_second_run_is_told_who_holds_the_lease(tmp_path: Path) -> None:
    base = knowledge_base(tmp_path)
    with writer_lease(base.folder, run="20261130T000000Z-0badcafe", since="2026-11-30T00:00:00Z"):
        with pytest.raises(LockedError, match="20261130T000000Z-0badcafe"):
            refreshed(base)
        assert refreshed(base, dry_run=True).outcome == "published"
    assert refreshed(base).outcome == "published"


def test_a_dry_run_writes_nothing(tmp_path: Path) -> None:
    base = knowledge_base(tmp_path)
    before = tree(base.folder)
    report = refreshed(base, dry_run=True)
    assert (report.outcome, report.texts_to_embed) == ("published", len(DOCUMENTS))
    assert tree(base.folder) == before


def test_a_hold_keeps_every_refresh_from_promoting_until_it_is_lifted(tmp_path: Path) -> None:
    base = knowledge_base(tmp_path)
    refreshed(base)
    repository = base.repository
    hold(repository, reason="freeze", run=repository.begin())
    for number in range(5):
        write(tmp_path / "docs", {f"new{number}.md": f"# New\n\nAddition {number}.\n"})
        assert not refreshed(base).promoted
        assert repository.state().release == "r000001"
    promote(repository, "r000003", base.catalog, reason="this one", run=repository.begin())
    assert repository.state().hold is not None
    lift(repository, reason="thaw", run=repository.begin())
    assert refreshed(base).promoted
    assert repository.state().release == "r000006"


def test_content_that_was_rolled_back_from_is_blocked_also_under_a_new_number(tmp_path: Path) -> None:
    base = knowledge_base(tmp_path)
    refreshed(base)
    repository = base.repository
    write(tmp_path / "docs", {"vpn.md": "# VPN\n\nWrong.\n"})
    refreshed(base)
    rollback(repository, base.catalog, reason="wrong", run=repository.begin())
    write(tmp_path / "docs", {"vpn.md": DOCUMENTS["vpn.md"]})
    refreshed(base)
    write(tmp_path / "docs", {"vpn.md": "# VPN\n\nWrong.\n"})
    again = refreshed(base)
    assert repository.manifest("r000004").content_digest == repository.manifest("r000002").content_digest
    assert (again.release, again.promoted) == ("r000004", False)
    assert repository.state().blocked == (repository.manifest("r000002").content_digest,)


def test_every_move_wants_a_reason_and_is_recorded(tmp_path: Path) -> None:
    base = knowledge_base(tmp_path)
    refreshed(base)
    repository = base.repository
    with pytest.raises(KbError, match="reason"):
        hold(repository, reason=" ", run=repository.begin())
    pin(repository, "r000001", reason="audit", run=repository.begin("ada"))
    assert repository.state().pins == ("r000001",)
    undo(repository, base.catalog, reason="not needed", run=repository.begin("ada"))
    assert repository.state().pins == ()
    assert [repository.promotion(s).kind for s in repository.promotions()] == ["promote", "pin", "undo"]


def test_a_rollback_takes_milliseconds_beyond_its_checks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    base = knowledge_base(tmp_path)
    refreshed(base)
    write(tmp_path / "docs", {"vpn.md": "# VPN\n\nWrong.\n"})
    refreshed(base)
    monkeypatch.setattr("kbcore.promotion.check_servable", lambda *_, **__: None)
    started = time.perf_counter()
    rollback(base.repository, base.catalog, reason="wrong", run=base.repository.begin())
    assert time.perf_counter() - started < 0.25
