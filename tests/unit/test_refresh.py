"""What a refresh makes of what the sources say."""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from kbcore.clock import iso
from kbcore.differences import compare_releases
from kbcore.embedding.hashing import HashingEmbedder
from kbcore.errors import (
    ConfigError,
    CorruptReleaseError,
    DocumentError,
    EmbedderMismatchError,
    EmbedderUnavailableError,
    EmbeddingFailedError,
    KbError,
    KbUnavailableError,
    LockedError,
    RefusedError,
    SkippedDocumentError,
    SourceError,
    UsageError,
)
from kbcore.expiry import expire
from kbcore.ingest.recipe import Recipe
from kbcore.ingest.refresh import refresh
from kbcore.knowledge_base import KnowledgeBase
from kbcore.promotion import hold, lift, pin, promote, rollback, undo
from kbcore.retrieval import Retriever
from kbcore.store.lease import writer_lease
from kbcore.types import Fetched, Listed, Listing
from kbcore.verification import verify_repository
from tests.support import DOCUMENTS, answers, configure, knowledge_base, published, refreshed, served, tree, write


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
    before = served(base)
    with pytest.raises(SourceError, match="does not exist"):
        refreshed(base)
    assert served(base) == before


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
    for key in ("doc_id", "reason", "since", "carried_over"):
        assert [f[key] for f in first.failures] == [f[key] for f in second.failures]
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


def drift(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same files give other vectors, as another processor or library may."""
    embed = HashingEmbedder.embed

    def turned(self: HashingEmbedder, texts: Sequence[str]):  # type: ignore[no-untyped-def]
        vectors = embed(self, texts) + np.float32(0.02)
        return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)

    monkeypatch.setattr(HashingEmbedder, "embed", turned)


def test_an_embedder_that_drifted_embeds_nothing_beside_the_old_vectors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = knowledge_base(tmp_path)
    refreshed(base)
    write(tmp_path / "docs", {"new.md": "# New\n\nSomething about laptops.\n"})
    before = published(base)
    drift(monkeypatch)
    with pytest.raises(EmbedderUnavailableError, match="nothing is embedded") as caught:
        refreshed(base)
    assert "edition = 2" in caught.value.remedy
    assert published(base) == before
    # Another edition embeds all of it anew, and its release answers by its own vectors.
    anew = knowledge_base_of(tmp_path, embedder={"provider": "hashing", "dimension": 64, "edition": 2})
    report = refreshed(anew)
    assert (report.promoted, report.texts_reused) == (True, 0)
    assert anew.retriever().search("laptops", mode="vector").hits
    monkeypatch.undo()
    assert answers(anew, "r000001")


def knowledge_base_of(root: Path, **sections: object) -> KnowledgeBase:
    """The repository that is at ``root``, under other settings."""
    return KnowledgeBase(configure(root, **sections))


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def test_readers_leave_a_current_release_whose_manifest_is_damaged(tmp_path: Path) -> None:
    base = knowledge_base(tmp_path)
    refreshed(base)
    write(tmp_path / "docs", {"new.md": "# New\n\nSomething about laptops.\n"})
    refreshed(base)
    flip(base.folder / "manifests" / "r000002.json")
    record = rollback(base.repository, base.catalog, reason="damage", run=base.repository.begin())
    assert (record.release, record.hold is not None) == ("r000001", True)
    # The next refresh says how to go on without it, and does once that was done.
    with pytest.raises(CorruptReleaseError) as caught:
        refreshed(base)
    assert "kb expire r000002" in caught.value.remedy
    expire(base.repository, "r000002", reason="damage", run=base.repository.begin())
    report = refreshed(base)
    assert (report.release, report.parent) == ("r000003", "r000001")


def test_an_intact_newest_release_does_not_expire(tmp_path: Path) -> None:
    base = knowledge_base(tmp_path)
    refreshed(base)
    refreshed(base)
    write(tmp_path / "docs", {"new.md": "# New\n\nSomething about laptops.\n"})
    refreshed(base, promote=False)
    with pytest.raises(UsageError, match="newest"):
        expire(base.repository, "r000002", reason="tidy", run=base.repository.begin())
    with pytest.raises(UsageError, match="reason"):
        expire(base.repository, "r000002", reason=" ", run=base.repository.begin())


def test_an_expired_release_is_not_promoted(tmp_path: Path) -> None:
    base = knowledge_base(tmp_path)
    refreshed(base)
    for number in range(2):
        write(tmp_path / "docs", {"new.md": f"# New\n\nSomething about laptops {number}.\n"})
        refreshed(base)
    expire(base.repository, "r000001", reason="old", run=base.repository.begin())
    with pytest.raises(RefusedError, match="expired"):
        promote(base.repository, "r000001", base.catalog, reason="back", run=base.repository.begin())


@pytest.mark.parametrize("stray", ["checks/.DS_Store", "erased/notes.txt", "promotions/000001.json.bak", "expired/x"])
def test_files_that_are_no_records_stop_nobody_and_verify_names_them(tmp_path: Path, stray: str) -> None:
    base = knowledge_base(tmp_path)
    refreshed(base)
    before = answers(base)
    path = base.folder / stray
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"left by a file manager")
    assert answers(base) == before
    assert refreshed(base).outcome == "unchanged"
    assert [f.file for f in verify_repository(base.repository, ["r000001"])] == [stray]


def test_a_damaged_check_keeps_nobody_from_searching_or_moving(tmp_path: Path) -> None:
    base = knowledge_base(tmp_path)
    refreshed(base)
    before = answers(base)
    (check,) = (base.folder / "checks").iterdir()
    flip(check)
    assert answers(base) == before
    assert refreshed(base).outcome == "unchanged"
    assert [f.file for f in verify_repository(base.repository, ["r000001"])] == [f"checks/{check.name}"]


def test_documents_of_a_source_that_is_not_configured_any_more_are_removals_under_the_guard(tmp_path: Path) -> None:
    base = knowledge_base(tmp_path)
    refreshed(base)
    other = tmp_path / "other"
    write(other, {"other.md": "# Other\n\nAnother subject.\n"})
    changed = knowledge_base_of(tmp_path, sources=[{"name": "other", "path": str(other)}])
    report = refreshed(changed)
    assert report.changes["added"] == 1
    assert len(report.withheld_removals) == len(DOCUMENTS)
    approved = refreshed(changed, approve_removals=len(DOCUMENTS))
    assert (approved.changes["removed"], approved.withheld_removals) == (len(DOCUMENTS), [])
    assert changed.retriever().search("printing").hits == () or all(
        hit.source == "other" for hit in changed.retriever().search("printing").hits
    )


def test_a_source_under_another_name_is_a_rename_of_its_documents(tmp_path: Path) -> None:
    base = knowledge_base(tmp_path)
    refreshed(base)
    changed = knowledge_base_of(
        tmp_path, sources=[{"name": "handbook", "path": str(tmp_path / "docs"), "include": ["**/*"]}]
    )
    report = refreshed(changed)
    assert (report.changes["renamed"], report.texts_embedded) == (len(DOCUMENTS), 0)
    assert changed.repository.manifest("r000002").totals["documents"] == len(DOCUMENTS)


def test_approved_removals_are_at_most_that_many_over_all_sources(tmp_path: Path) -> None:
    folders = {name: tmp_path / name for name in ("one", "two")}
    for folder in folders.values():
        write(folder, {f"{n}.md": f"# {folder.name} {n}\n\nA page of its own {folder.name} {n}.\n" for n in range(6)})
    sections = {"sources": [{"name": name, "path": str(folder)} for name, folder in folders.items()]}
    base = knowledge_base(tmp_path, **sections)
    refreshed(base)
    for folder in folders.values():
        write(folder, {f"{n}.md": None for n in range(5)})
    assert len(refreshed(base).withheld_removals) == 10
    report = refreshed(base, approve_removals=7)
    assert (report.changes["removed"], len(report.withheld_removals)) == (7, 3)


def test_a_validator_of_other_bytes_than_the_base_holds_confirms_nothing(tmp_path: Path) -> None:
    """The cache may be newer than the manifests: after a restore, or a copy."""
    base = knowledge_base(tmp_path)
    old = time.time() - 100
    for path in (tmp_path / "docs").iterdir():
        os.utime(path, (old, old))
    time.sleep(3.2)  # validators count once the files are older than a clock tick
    refreshed(base)
    shutil.copytree(base.folder, tmp_path / "saved")
    write(tmp_path / "docs", {"vpn.md": "# VPN\n\nThe second edition speaks of the zebra profile.\n"})
    time.sleep(3.2)
    refreshed(base)
    cache = (base.folder / "cache" / "validators.json").read_bytes()
    shutil.rmtree(base.folder)
    (tmp_path / "saved").rename(base.folder)
    (base.folder / "cache" / "validators.json").write_bytes(cache)
    restored = knowledge_base_of(tmp_path)
    assert refreshed(restored).changes["changed"] == 1
    assert restored.retriever().search("zebra profile", mode="keyword").hits


def test_an_erased_document_does_not_come_back_when_its_source_is_away_and_all_is_cut_anew(tmp_path: Path) -> None:
    write(tmp_path / "law", {"legal.md": "# Legal\n\nThe secret word is xylophone.\n"})
    sources = [{"name": "docs", "path": str(tmp_path / "docs")}, {"name": "law", "path": str(tmp_path / "law")}]
    base = knowledge_base(tmp_path, sources=sources)
    refreshed(base)
    base.repository.erase([{"doc_id": "law:legal.md"}], reason="by law", run=base.repository.begin())
    (tmp_path / "law").rename(tmp_path / "away")
    again = knowledge_base_of(tmp_path, sources=sources, chunking={"size": 100, "overlap": 10})
    report = refreshed(again)
    assert report.changes["erased"] == 1
    newest = [path for path in (base.folder / "segments").iterdir() if report.run in path.name]
    assert newest
    assert not any(b"xylophone" in path.read_bytes() for segment in newest for path in segment.glob("*.parquet"))


def confirmed(base: KnowledgeBase, question: str) -> tuple[str | None, bool]:
    hit = base.retriever().search(question, k=1, mode="keyword").hits[0]
    return hit.last_confirmed, hit.carried_over


class Days:
    """A clock that stands until it is set."""

    def __init__(self) -> None:
        self.now = datetime(2026, 1, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now

    def day(self, number: int) -> str:
        self.now = datetime(2026, 1, number, tzinfo=UTC)
        return iso(self.now)


def test_a_removal_that_is_withheld_is_not_confirmed_by_the_listing_that_missed_it(tmp_path: Path) -> None:
    clock = Days()
    documents = {f"{n}.md": f"# Page {n}\n\nThe subject number {n} is alpha{n}.\n" for n in range(8)}
    base = knowledge_base(tmp_path, documents)
    base.clock = base.repository.clock = clock
    first = clock.day(1)
    refreshed(base)
    second = clock.day(5)
    write(tmp_path / "docs", {f"{n}.md": None for n in range(5)})
    assert len(refreshed(base).withheld_removals) == 5
    assert confirmed(base, "alpha1") == (first, True)
    assert confirmed(base, "alpha7") == (second, False)


def test_a_source_that_is_away_for_a_day_leaves_its_last_confirmation_and_its_failures(tmp_path: Path) -> None:
    clock = Days()
    write(tmp_path / "more", {"more.md": "# More\n\nOf everything.\n"})
    sources = [{"name": name, "path": str(tmp_path / name)} for name in ("docs", "more")]
    base = knowledge_base(tmp_path, sources=sources)
    base.clock = base.repository.clock = clock
    clock.day(1)
    refreshed(base)
    # A document that fails keeps its former version.
    second = clock.day(2)
    write(tmp_path / "docs", {"phones.html": b"\x00\x01\x02" * 100})
    failures = refreshed(base).failures
    assert [failure["doc_id"] for failure in failures] == ["docs:phones.html"]
    clock.day(3)
    (tmp_path / "docs").rename(tmp_path / "away")
    report = refreshed(base)
    assert report.failures == failures
    assert not report.failures_changed
    assert confirmed(base, "badge on every floor") == (second, False)
    assert confirmed(base, "lost phone")[1]
    clock.day(4)
    (tmp_path / "away").rename(tmp_path / "docs")
    assert [failure["since"] for failure in refreshed(base).failures] == [second]


def test_an_open_retriever_follows_what_later_runs_confirm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kbcore.retrieval.confirming.CHECK_SECONDS", 0.0)
    clock = Days()
    base = knowledge_base(tmp_path)
    base.clock = base.repository.clock = clock
    clock.day(1)
    refreshed(base)
    retriever = base.retriever()
    later = clock.day(9)
    refreshed(base)
    hit = retriever.search("gateway", k=1).hits[0]
    assert (hit.last_confirmed, hit.age_days) == (later, 0.0)


def test_a_run_that_was_held_keeps_the_confirmation_it_had_as_head(tmp_path: Path) -> None:
    clock = Days()
    base = knowledge_base(tmp_path)
    base.clock = base.repository.clock = clock
    clock.day(1)
    refreshed(base)
    third = clock.day(3)
    refreshed(base)
    hold(base.repository, reason="freeze", run=base.repository.begin())
    clock.day(5)
    write(tmp_path / "docs", {"new.md": "# New\n\nSomething about laptops.\n"})
    assert not refreshed(base).promoted
    assert confirmed(base, "gateway") == (third, False)


def test_a_folder_that_became_a_link_removes_nothing(tmp_path: Path) -> None:
    base = knowledge_base(tmp_path, {**DOCUMENTS, "sub/deep.md": "# Deep\n\nBelow a folder.\n"})
    refreshed(base)
    (tmp_path / "docs" / "sub").rename(tmp_path / "moved")
    (tmp_path / "docs" / "sub").symlink_to(tmp_path / "moved")
    write(tmp_path / "docs", {"printers.txt": None})
    report = refreshed(base)
    assert report.changes["removed"] == 1
    assert [failure["uri"] for failure in report.failures] == ["sub"]
    assert base.retriever().search("Below a folder", mode="keyword").hits


def test_two_names_that_are_one_in_unicode_are_told_apart(tmp_path: Path) -> None:
    base = knowledge_base(tmp_path, {})
    folder = tmp_path / "docs"
    (folder / "caf\u00e9.md").write_text("# Composed\n\nThe first file.\n")
    try:
        (folder / "cafe\u0301.md").write_text("# Decomposed\n\nThe second file.\n")
    except OSError:
        pytest.skip("this file system normalises names")
    if len(list(folder.iterdir())) < 2:
        pytest.skip("this file system normalises names")
    report = refreshed(base)
    assert report.changes["added"] == 1
    assert len(report.failures) == 1
    assert report.failures[0]["doc_id"] != "docs:caf\u00e9.md"
    assert not report.failures[0]["carried_over"]


def test_words_split_by_another_analyzer_are_not_searched_as_if_they_were_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = knowledge_base(tmp_path)
    monkeypatch.setattr("kbcore.ingest.recipe.ANALYZER_ID", "words-0-old")
    monkeypatch.setattr("kbcore.retrieval.snapshot.ANALYZER_ID", "words-0-old")
    refreshed(base)
    monkeypatch.undo()
    with pytest.raises(KbUnavailableError, match="words-0-old"):
        base.retriever()
    assert base.retriever(mode="vector").search("gateway").hits


def test_drafts_of_killed_runs_are_cleared_once_they_are_a_day_old(tmp_path: Path) -> None:
    base = knowledge_base(tmp_path)
    refreshed(base)
    staging = base.folder / "staging"
    for name, age in (("draft-1-old", 90_000), ("draft-2-young", 60)):
        (staging / name).write_bytes(b"half")
        os.utime(staging / name, (time.time() - age, time.time() - age))
    refreshed(base)
    assert [path.name for path in staging.iterdir()] == ["draft-2-young"]


def test_without_a_source_nothing_is_published(tmp_path: Path) -> None:
    base = knowledge_base(tmp_path, sources=[])
    with pytest.raises(ConfigError, match="no source"):
        refreshed(base)
    assert base.repository.releases() == []


def test_a_report_says_where_readers_were_moved_from_and_which_settings_changed(tmp_path: Path) -> None:
    base = knowledge_base(tmp_path)
    assert refreshed(base).promoted_from is None
    again = knowledge_base_of(tmp_path, chunking={"size": 100, "overlap": 10})
    plan = refreshed(again, dry_run=True)
    assert {setting["name"]: (setting["old"], setting["new"]) for setting in plan.settings} == {
        "chunking size": (512, 100),
        "chunking overlap": (50, 10),
    }
    assert plan.not_promoted is None
    report = refreshed(again)
    assert (report.promoted_from, report.promoted) == ("r000001", True)
    undo(again.repository, again.catalog, reason="try", run=again.repository.begin())
    assert refreshed(again, dry_run=True).not_promoted is None
    assert refreshed(again).promoted_from == "r000001"


def test_a_run_in_which_most_documents_failed_publishes_nothing_until_it_is_accepted(tmp_path: Path) -> None:
    pages = {f"{n}.html": f"<html><body><h1>Page {n}</h1><p>Of subject number {n}.</p></body></html>" for n in range(9)}
    section = {"name": "docs", "path": str(tmp_path / "docs"), "guard": {"failures": 3}}
    base = knowledge_base(tmp_path, pages, sources=[section])
    refreshed(base)
    before = answers(base)
    # Something in front of the files answers for most of them, as a share that is full of zeroes after a crash.
    write(tmp_path / "docs", {f"{n}.html": b"\x00" * 200 for n in range(6)})
    write(tmp_path / "docs", {"new.md": "# New\n\nSomething about laptops.\n"})
    report = refreshed(base)
    assert (report.outcome, report.release, report.promoted) == ("refused", "r000001", False)
    assert "6 of 10 documents failed" in report.refused[0]
    assert base.repository.releases() == ["r000001"]
    assert answers(base) == before
    check = base.repository.last_check()
    assert check is not None
    assert (check["outcome"], check["refused"]) == ("refused", report.refused)
    # A plan says so too, and writes nothing.
    assert refreshed(base, dry_run=True).refused == report.refused
    accepted = refreshed(base, accept_failures=True)
    assert (accepted.outcome, accepted.changes["carried_over"]) == ("published", 6)


def test_a_first_build_is_refused_as_well_and_a_wider_guard_lets_it_through(tmp_path: Path) -> None:
    pages: dict[str, str | bytes] = {f"{n}.html": b"\x00" * 200 for n in range(11)}
    base = knowledge_base(tmp_path, {**pages, "good.md": "# Good\n\nThe one that reads.\n"})
    assert refreshed(base).outcome == "refused"
    assert base.repository.releases() == []
    source = {"name": "docs", "path": str(tmp_path / "docs"), "guard": {"failures_percent": 100.0}}
    assert refreshed(knowledge_base_of(tmp_path, sources=[source])).outcome == "published"


def test_text_that_is_doubtful_counts_as_failed_does_and_is_named(tmp_path: Path) -> None:
    garbled = "Ã©tÃ© Ã  la plage, câ€™est lâ€™Ã©tÃ©. " * 20
    pages = {f"{n}.txt": f"Page {n}. {garbled}" for n in range(14)}
    base = knowledge_base(tmp_path, pages)
    report = refreshed(base)
    assert report.outcome == "refused"
    assert "14 more have doubtful text" in report.refused[0]
    assert report.flagged[0]["doc_id"] == "docs:0.txt"
    assert "mojibake" in report.flagged[0]["flags"]


def test_a_document_that_failed_is_left_alone_for_longer_each_time_until_its_bytes_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kbcore.sources.directory import DirectorySource

    fetched: list[str] = []
    fetch = DirectorySource.fetch
    monkeypatch.setattr(DirectorySource, "fetch", lambda s, item, at: (fetched.append(item.uri), fetch(s, item, at))[1])
    # The base's own clock decides when a validator can be trusted, so the files have to be older than it.
    clock = Days()
    base = knowledge_base(tmp_path, {**DOCUMENTS, "broken.html": b"\x00\x01\x02" * 100})
    base.clock = base.repository.clock = clock
    start = datetime.now(UTC) + timedelta(days=1)

    def at(hours: float) -> list[str]:
        clock.now = start + timedelta(hours=hours)
        fetched.clear()
        refreshed(base)
        return [uri for uri in fetched if uri == "broken.html"]

    tries = {hours: len(at(hours)) for hours in (0, 0.5, 1.1, 1.5, 2.9, 3.2, 5, 7.3, 10, 15.4, 20, 31.5, 40, 56, 57)}
    assert [hours for hours, count in tries.items() if count] == [0, 1.1, 3.2, 7.3, 15.4, 31.5, 56]
    failure = base.repository.last_check()["exceptions"][0]  # type: ignore[index]
    assert failure["tries"] == 7
    # By hand at once, and when the file is another one.
    clock.now = start + timedelta(hours=58)
    fetched.clear()
    refreshed(base, retry_failed=True)
    assert "broken.html" in fetched
    write(tmp_path / "docs", {"broken.html": "<html><body><h1>Mended</h1><p>It reads again.</p></body></html>"})
    assert at(58.1) == ["broken.html"]
    assert base.repository.last_check()["exceptions"] == []  # type: ignore[index]


def test_a_plan_says_which_release_a_refresh_would_make_and_the_refresh_makes_it(tmp_path: Path) -> None:
    base = knowledge_base(tmp_path)
    for change in (
        {},
        {"new.md": "# New\n\nSomething about laptops.\n"},
        {"printers.txt": None, "floors/printers.txt": DOCUMENTS["printers.txt"]},
        {"vpn.md": None},
    ):
        write(tmp_path / "docs", change)
        plan = refreshed(base, dry_run=True)
        report = refreshed(base)
        assert plan.content_digest == report.content_digest
        assert plan.texts_to_embed == report.texts_embedded
        assert plan.changes == report.changes
        assert base.repository.manifest(str(report.release)).content_digest == report.content_digest
    assert refreshed(base, dry_run=True).content_digest == report.content_digest


def test_a_plan_estimates_by_the_last_rate_of_this_machine(tmp_path: Path) -> None:
    base = knowledge_base(tmp_path)
    assert refreshed(base, dry_run=True).estimated_seconds is None
    embedded = refreshed(base).texts_embedded
    rate = base.repository.last_check()["embedding"]  # type: ignore[index]
    assert rate["texts"] == embedded
    refreshed(base)  # a run that embeds nothing says nothing of the rate
    write(tmp_path / "docs", {"new.md": "# New\n\nSomething about laptops.\n"})
    plan = refreshed(base, dry_run=True)
    assert plan.estimated_seconds == round(rate["seconds"] / rate["texts"], 1)


def test_a_removed_document_leaves_a_tombstone_that_a_difference_shows(tmp_path: Path) -> None:
    write(tmp_path / "law", {"legal.md": "# Legal\n\nOf contracts.\n"})
    sources = [{"name": name, "path": str(tmp_path / name), "include": ["**/*"]} for name in ("docs", "law")]
    base = knowledge_base(tmp_path, sources=sources)
    refreshed(base)
    write(tmp_path / "docs", {"vpn.md": None})
    refreshed(base)
    write(tmp_path / "docs", {"new.md": "# New\n\nSomething about laptops.\n"})
    refreshed(base)
    dropped = knowledge_base_of(tmp_path, sources=sources[:1])
    assert refreshed(dropped).withheld_removals == ["law:legal.md"]
    refreshed(dropped, approve_removals=1)
    found = compare_releases(dropped.repository, "r000001", "r000004")
    assert found.removed == ["docs:vpn.md", "law:legal.md"]
    second, fourth = dropped.repository.manifest("r000002"), dropped.repository.manifest("r000004")
    assert found.tombstones == [
        {"doc_id": "docs:vpn.md", "reason": "its source does not list it any more", "release": "r000002",
         "at": second.created_at},
        {"doc_id": "law:legal.md", "reason": "its source is not configured any more", "release": "r000004",
         "at": fourth.created_at},
    ]  # fmt: skip


class Fake:
    """A source whose items and failures a test decides."""

    type = "fake"
    parallel = 1

    def __init__(self, name: str, items: dict[str, str]) -> None:
        self.name = name
        self.items = items
        self.failing: dict[str, DocumentError] = {}
        self.complete = True
        self.down = False
        self.twice = False
        self.fetched: list[str] = []

    def list(self, listed_at: str) -> Listing:
        if self.down:
            raise SourceError(f"{self.name} is down", remedy="wait")
        items = [Listed(uri, f"v-{hash(text)}") for uri, text in sorted(self.items.items())]
        return Listing(self.name, listed_at, [*items, *items] if self.twice else items, self.complete)

    def fetch(self, item: Listed, fetched_at: str) -> Fetched:
        self.fetched.append(item.uri)
        if item.uri in self.failing:
            raise self.failing[item.uri]
        return Fetched(self.items[item.uri].encode(), item.etag, None, fetched_at)

    def probe(self) -> str:
        return self.name


def pages(count: int, word: str = "subject") -> dict[str, str]:
    return {f"{n}.md": f"# Page {n}\n\nThe {word} number {n} is alpha{n}.\n" for n in range(count)}


def fakes(root: Path, *names: str) -> KnowledgeBase:
    return knowledge_base_of(root, sources=[{"name": name, "path": str(root)} for name in names])


def test_documents_that_fail_under_a_new_name_are_not_lost_under_the_old_one(tmp_path: Path) -> None:
    knowledge_base(tmp_path)
    source = Fake("old", pages(20))
    base = fakes(tmp_path, "old")
    refreshed(base, sources=[source])
    # Moved within the source, below the guard's bounds.
    moved = {uri if n > 3 else f"sub/{uri}": text for n, (uri, text) in enumerate(sorted(source.items.items()))}
    source.items = moved
    source.failing = {uri: DocumentError("timed out") for uri in moved if uri.startswith("sub/")}
    report = refreshed(base, sources=[source])
    assert (report.changes["removed"], len(report.withheld_removals), len(report.failures)) == (0, 4, 4)
    source.failing = {}
    report = refreshed(base, sources=[source], retry_failed=True)
    assert (report.changes["renamed"], report.withheld_removals) == (4, [])
    # Under another name of the source, of which some time out.
    new = Fake("new", dict(source.items))
    new.failing = {uri: DocumentError("timed out") for uri in list(new.items)[:5]}
    renamed = fakes(tmp_path, "new")
    report = refreshed(renamed, sources=[new])
    assert (report.changes["renamed"], report.changes["removed"], len(report.withheld_removals)) == (15, 0, 5)


def test_a_dropped_source_of_a_few_documents_waits_for_a_person_too(tmp_path: Path) -> None:
    knowledge_base(tmp_path)
    refreshed(fakes(tmp_path, "a", "b"), sources=[Fake("a", pages(2)), Fake("b", pages(9, "thing"))])
    report = refreshed(fakes(tmp_path, "b"), sources=[Fake("b", pages(9, "thing"))])
    assert report.withheld_removals == ["a:0.md", "a:1.md"]


def test_a_refused_run_does_not_keep_the_next_from_trying_again(tmp_path: Path) -> None:
    knowledge_base(tmp_path)
    source = Fake("s", pages(20))
    source.failing = {f"{n}.md": DocumentError("broken for now") for n in range(12)}
    base = fakes(tmp_path, "s")
    assert refreshed(base, sources=[source]).outcome == "refused"
    source.failing = {}
    report = refreshed(base, sources=[source])
    assert (report.outcome, report.changes["added"]) == ("published", 20)


def test_failures_that_were_accepted_do_not_refuse_the_next_release(tmp_path: Path) -> None:
    knowledge_base(tmp_path)
    source = Fake("s", pages(20))
    source.failing = {f"{n}.md": DocumentError("a scan without text") for n in range(12)}
    base = fakes(tmp_path, "s")
    assert refreshed(base, sources=[source]).outcome == "refused"
    assert refreshed(base, sources=[source], accept_failures=True).outcome == "published"
    source.items["19.md"] += "More.\n"
    assert refreshed(base, sources=[source]).outcome == "published"
    source.failing |= {f"{n}.md": DocumentError("and others") for n in range(12)}
    source.items["18.md"] += "More.\n"
    assert refreshed(base, sources=[source], retry_failed=True).outcome == "refused"


def test_a_mass_failure_is_refused_where_nothing_else_changed_and_promotes_nothing(tmp_path: Path) -> None:
    knowledge_base(tmp_path)
    source = Fake("s", pages(41))
    base = fakes(tmp_path, "s")
    refreshed(base, sources=[source])
    source.items["40.md"] += "More.\n"
    assert not refreshed(base, sources=[source], promote=False).promoted
    source.failing = {f"{n}.md": DocumentError("Permission denied") for n in range(30)}
    # Their validators changed, their bytes cannot be read: no document is added, changed or removed.
    source.items |= {name: text + " " for name, text in source.items.items() if name in source.failing}
    planned = refreshed(base, sources=[source], dry_run=True)
    report = refreshed(base, sources=[source])
    assert (planned.outcome, planned.refused) == ("refused", report.refused)
    assert "30 of 41 documents failed" in report.refused[0]
    assert (report.outcome, report.release, report.promoted) == ("refused", "r000002", False)
    assert base.repository.state().release == "r000001"
    # A person who looked at them may go on, and is not asked again about the same ones, only about others.
    assert refreshed(base, sources=[source], accept_failures=True).outcome == "unchanged"
    again = refreshed(base, sources=[source], retry_failed=True)
    assert (again.outcome, len(again.failures)) == ("unchanged", 30)
    assert refreshed(base, sources=[source]).outcome == "unchanged"
    source.failing = {name: DocumentError("another reason") for name in source.failing}
    assert refreshed(base, sources=[source], retry_failed=True).outcome == "refused"


def test_failures_of_a_source_that_is_down_refuse_nothing(tmp_path: Path) -> None:
    knowledge_base(tmp_path)
    away, here = Fake("away", pages(100)), Fake("here", pages(2))
    base = fakes(tmp_path, "away", "here")
    refreshed(base, sources=[away, here])
    away.failing = {f"{n}.md": DocumentError("broken") for n in range(20)}
    away.items |= {name: away.items[name] + " " for name in away.failing}
    assert refreshed(base, sources=[away, here]).outcome == "unchanged"
    away.down = True
    here.items["new.md"] = "# New\n\nSomething about laptops.\n"
    assert refreshed(base, sources=[away, here]).outcome == "published"


def test_of_a_listing_in_part_the_share_that_failed_is_counted_over_all_that_is_held(tmp_path: Path) -> None:
    knowledge_base(tmp_path)
    source = Fake("s", pages(100))
    base = fakes(tmp_path, "s")
    refreshed(base, sources=[source])
    source.failing = {f"{n}.md": DocumentError("broken") for n in range(20)}
    source.items = {name: text + " " for name, text in source.items.items() if name in source.failing}
    source.complete = False
    assert refreshed(base, sources=[source]).outcome == "unchanged"


def test_a_failure_that_may_pass_is_tried_again_at_the_next_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kbcore.ingest.fetching.retried", lambda call: call())
    knowledge_base(tmp_path)
    source = Fake("s", pages(3))
    source.failing = {"0.md": DocumentError("timed out", transient=True), "1.md": DocumentError("broken")}
    base = fakes(tmp_path, "s")
    refreshed(base, sources=[source])
    source.fetched.clear()
    report = refreshed(base, sources=[source])
    assert source.fetched == ["0.md"]
    assert {f["uri"]: f["retry_at"] is None for f in report.failures} == {"0.md": True, "1.md": False}


def test_a_setting_that_may_mend_a_failure_ends_its_rest(tmp_path: Path) -> None:
    write(tmp_path / "docs", {"large.md": "# Large\n\n" + "words " * 500})
    small = [{"name": "docs", "path": str(tmp_path / "docs"), "max_bytes": 1000}]
    base = knowledge_base(tmp_path, sources=small)
    base.clock = base.repository.clock = lambda: datetime.now(UTC) + timedelta(days=1)
    assert [f["uri"] for f in refreshed(base).failures] == ["large.md"]
    larger = knowledge_base_of(tmp_path, sources=[{**small[0], "max_bytes": 100_000}])
    larger.clock = larger.repository.clock = base.clock
    report = refreshed(larger)
    assert (report.failures, report.changes["added"]) == ([], 1)


def test_a_refused_run_confirms_nothing(tmp_path: Path) -> None:
    clock = Days()
    knowledge_base(tmp_path)
    source = Fake("s", pages(20))
    base = fakes(tmp_path, "s")
    base.clock = base.repository.clock = clock
    first = clock.day(1)
    refreshed(base, sources=[source])
    clock.day(2)
    source.items = pages(20, "matter")
    source.failing = {f"{n}.md": DocumentError("broken") for n in range(12)}
    assert refreshed(base, sources=[source]).outcome == "refused"
    assert confirmed(base, "alpha19") == (first, False)


def test_what_has_nothing_to_index_when_it_is_fetched_is_skipped_and_no_failure(tmp_path: Path) -> None:
    knowledge_base(tmp_path)
    source = Fake("s", pages(6))
    base = fakes(tmp_path, "s")
    refreshed(base, sources=[source])
    source.items["2.md"] = ""
    source.failing = {"2.md": SkippedDocumentError("the article is blank")}
    report = refreshed(base, sources=[source])
    assert (report.changes["removed"], report.failures) == (1, [])
    assert base.repository.manifest("r000002").removed == (
        {"doc_id": "s:2.md", "reason": "there is nothing to index in it any more: the article is blank"},
    )


def test_a_listing_in_part_forgets_no_failure(tmp_path: Path) -> None:
    knowledge_base(tmp_path)
    source = Fake("s", pages(6))
    base = fakes(tmp_path, "s")
    refreshed(base, sources=[source])
    source.items["1.md"] += "x"
    source.failing = {"1.md": DocumentError("broken")}
    before = refreshed(base, sources=[source]).failures
    del source.items["1.md"]
    source.complete = False
    report = refreshed(base, sources=[source])
    assert (report.failures, report.failures_changed) == (before, False)


def test_an_item_that_is_listed_twice_is_one_document(tmp_path: Path) -> None:
    knowledge_base(tmp_path)
    source = Fake("s", pages(3))
    source.twice = True
    report = refreshed(fakes(tmp_path, "s"), sources=[source])
    assert (report.changes["added"], report.promoted) == (3, True)


def test_a_run_in_which_every_source_is_down_is_written_down(tmp_path: Path) -> None:
    knowledge_base(tmp_path)
    source = Fake("s", pages(3))
    base = fakes(tmp_path, "s")
    refreshed(base, sources=[source])
    source.down = True
    with pytest.raises(SourceError, match="s is down"):
        refreshed(base, sources=[source])
    check = base.repository.last_check()
    assert check is not None
    assert (check["outcome"], check["sources"][0]["error"]) == ("failed", "s is down")
    with pytest.raises(SourceError):
        refreshed(base, sources=[source], dry_run=True)


def test_fetches_end_before_their_source_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Slow(Fake):
        parallel = 4

        def __init__(self) -> None:
            super().__init__("s", pages(40))
            self.under_way = 0
            self.when_closed: int | None = None
            self.lock = threading.Lock()

        def fetch(self, item: Listed, fetched_at: str) -> Fetched:
            with self.lock:
                self.under_way += 1
            time.sleep(0.1)
            found = super().fetch(item, fetched_at)
            with self.lock:
                self.under_way -= 1
            return found

        def close(self) -> None:
            self.when_closed = self.under_way

    def broken(*_: object) -> object:
        raise KbError("a parser that ends the run")

    knowledge_base(tmp_path)
    source = Slow()
    monkeypatch.setattr("kbcore.ingest.documents.build", broken)
    with pytest.raises(KbError, match="ends the run"):
        refreshed(fakes(tmp_path, "s"), sources=[source])
    assert source.when_closed == 0
    assert len(source.fetched) < 40


def test_a_link_to_a_folder_that_is_excluded_is_not_a_failure(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    source = {"name": "docs", "path": str(tmp_path / "docs"), "exclude": ["linked/**"]}
    base = knowledge_base(tmp_path, sources=[source])
    (tmp_path / "docs" / "linked").symlink_to(tmp_path / "elsewhere")
    assert refreshed(base).failures == []
