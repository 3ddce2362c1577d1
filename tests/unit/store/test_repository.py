"""A repository: numbers are never free again, the nonce decides whose a commit is, what is erased is not shown."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from kbcore.errors import (
    CorruptReleaseError,
    ReleaseConflictError,
    ReleaseExpiredError,
    ReleaseNotFoundError,
    RepositoryNotFoundError,
    UsageError,
)
from kbcore.knowledge_base import KnowledgeBase
from kbcore.promotion import rollback
from kbcore.store import envelope, layout
from kbcore.store import promotion as log
from kbcore.store.manifest import Manifest
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


def draft(repository: Repository, nonce: str = "mine") -> Manifest:
    """Another release of the same content, not yet numbered."""
    return replace(repository.manifest("r000001"), release="", nonce=nonce)


def publish(repository: Repository, nonce: str = "mine") -> Manifest:
    return repository.publish(draft(repository, nonce), expected_head=repository.head())


class Interfering(LocalStore):
    """Does something of its own around the creation of the files whose names begin with ``prefix``."""

    def __init__(self, root: Path, prefix: str, around: Callable[[LocalStore, Mapping[str, bytes]], None]) -> None:
        super().__init__(root)
        self.prefix = prefix
        self.around = around

    def put_new(self, files: Mapping[str, bytes]) -> None:
        if any(name.startswith(self.prefix) for name in files):
            return self.around(LocalStore(self.root), files)
        super().put_new(files)


def interfering(
    base: KnowledgeBase, prefix: str, around: Callable[[LocalStore, Mapping[str, bytes]], None]
) -> Repository:
    return Repository.open(Interfering(base.folder, prefix, around), base.config.kb.name)


def test_a_repository_is_made_once(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "kb")
    made = Repository.create(store, "kb")
    assert Repository.open(store, "kb").repository_id == made.repository_id
    with pytest.raises(UsageError, match="there is a repository already"):
        Repository.create(store, "kb")
    assert Repository.open(store, "kb").repository_id == made.repository_id


def test_a_repository_that_is_not_there_is_named_with_the_command_that_makes_it(tmp_path: Path) -> None:
    with pytest.raises(RepositoryNotFoundError) as caught:
        Repository.open(LocalStore(tmp_path), "kb")
    assert "kb init" in caught.value.remedy


@pytest.mark.parametrize("name", ["", "Upper", "../up", "a/b", ".hidden", "x" * 65])
def test_names_that_are_no_safe_folder_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError):
        Repository.create(LocalStore(tmp_path), name)


def test_another_format_is_refused(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    store.put_new({layout.REPOSITORY: envelope.seal({"format": 2, "repository_id": "x"})})
    with pytest.raises(CorruptReleaseError, match="format 2"):
        Repository.open(store, "kb")


def test_releases_are_numbered_in_order(repository: Repository) -> None:
    assert [publish(repository, f"n{i}").release for i in range(3)] == ["r000002", "r000003", "r000004"]
    assert repository.releases() == ["r000001", "r000002", "r000003", "r000004"]
    assert repository.manifest("r000004").parent == "r000003"
    assert repository.head() == "r000004"


def test_a_number_is_never_used_again_also_where_its_release_expired(repository: Repository) -> None:
    publish(repository, "a")
    publish(repository, "b")
    run = repository.begin()
    repository.expire("r000002", reason=REASON, run=run)
    assert publish(repository, "c").release == "r000004"
    assert repository.releases() == ["r000001", "r000002", "r000003", "r000004"]
    assert repository.expired() == {"r000002"}


def test_the_number_of_an_expired_newest_release_is_not_free(repository: Repository) -> None:
    """The mark is written past the guard of expire, as another program might."""
    publish(repository)
    repository.store.put_new({layout.expired_file("r000002"): envelope.seal({"release": "r000002"})})
    assert repository.head() == "r000001"
    assert publish(repository, "next").release == "r000003"


def test_current_the_newest_and_pinned_do_not_expire(repository: Repository) -> None:
    for nonce in ("a", "b", "c"):
        publish(repository, nonce)
    run = repository.begin()
    repository.append(lambda state, stamp: log.pin(state, "r000002", stamp), reason=REASON, run=run)
    for release in ("r000001", "r000002", "r000004"):
        with pytest.raises(UsageError, match="cannot expire"):
            repository.expire(release, reason=REASON, run=run)
    repository.expire("r000003", reason=REASON, run=run)
    with pytest.raises(UsageError, match="has expired already"):
        repository.expire("r000003", reason=REASON, run=run)


def test_names_of_releases(base: KnowledgeBase, repository: Repository) -> None:
    second = publish(repository)
    run = repository.begin()
    repository.append(lambda state, stamp: log.promote(state, "r000002", second.digest, stamp), reason=REASON, run=run)
    publish(repository, "third")
    found = {name: repository.resolve(name) for name in ("current", "previous", "latest", "head", "r000001", "2", "r3")}
    assert found == {
        "current": "r000002", "previous": "r000001", "latest": "r000003", "head": "r000003", "r000001": "r000001",
        "2": "r000002", "r3": "r000003",
    }  # fmt: skip
    rollback(repository, base.catalog, reason=REASON, run=run)
    assert repository.resolve("current") == "r000001"
    with pytest.raises(ReleaseNotFoundError, match="no previous release"):
        repository.resolve("previous")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("r00000", "2 releases begin with"),
        ("r", "2 releases begin with"),
        ("9", "there is no release"),
        ("9" * 5_000, "there is no release"),  # more digits than Python makes a number of
        ("", "there is no release"),
        ("r000009", "there is no release"),
        ("../r000001", "there is no release"),
        ("CURRENT", "there is no release"),
    ],
)
def test_a_name_that_names_no_single_release_is_refused(repository: Repository, name: str, said: str) -> None:
    publish(repository)
    with pytest.raises(ReleaseNotFoundError, match=said):
        repository.resolve(name)


def test_an_empty_repository_has_no_current_and_no_latest(tmp_path: Path) -> None:
    empty = knowledge_base(tmp_path).repository
    assert (empty.head(), empty.state().release, empty.last_check()) == (None, None, None)
    for name in ("current", "previous", "latest"):
        with pytest.raises(ReleaseNotFoundError):
            empty.resolve(name)


def test_what_expired_is_not_resolved_by_any_name(base: KnowledgeBase, repository: Repository) -> None:
    second = publish(repository)
    run = repository.begin()
    repository.append(lambda state, stamp: log.promote(state, "r000002", second.digest, stamp), reason=REASON, run=run)
    repository.expire("r000001", reason=REASON, run=run)
    for name in ("r000001", "1", "previous"):
        with pytest.raises(ReleaseExpiredError):
            repository.resolve(name)
    assert repository.resolve("current") == "r000002"


def test_publish_is_refused_where_the_head_moved(repository: Repository) -> None:
    publish(repository, "theirs")
    with pytest.raises(ReleaseConflictError, match="r000002 was published meanwhile"):
        repository.publish(draft(repository), expected_head="r000001")
    assert repository.releases() == ["r000001", "r000002"]


def test_publish_is_refused_where_another_run_takes_the_number(base: KnowledgeBase) -> None:
    """Between the look at the head and the creation of the file: the nonce in the file is not ours."""

    def theirs_first(store: LocalStore, files: Mapping[str, bytes]) -> None:
        other = base.repository.manifest("r000001").numbered("r000002", "r000001")
        store.put_new({next(iter(files)): envelope.seal(replace(other, nonce="theirs").to_body())})
        store.put_new(files)

    with pytest.raises(ReleaseConflictError, match="published by another run"):
        publish(interfering(base, layout.MANIFESTS, theirs_first))
    assert base.repository.manifest("r000002").nonce == "theirs"


def test_publish_whose_reply_was_lost_is_told_by_its_nonce(base: KnowledgeBase) -> None:
    """The retry of a put that had succeeded says: there is one already. It is ours."""

    def twice(store: LocalStore, files: Mapping[str, bytes]) -> None:
        store.put_new(files)
        store.put_new(files)

    published = publish(interfering(base, layout.MANIFESTS, twice))
    assert base.repository.manifest("r000002") == published


def test_publish_that_is_there_but_not_known_to_last_is_an_error(base: KnowledgeBase) -> None:
    def not_durable(store: LocalStore, files: Mapping[str, bytes]) -> None:
        store.put_new(files)
        raise OSError("the folder would not sync")

    with pytest.raises(OSError, match="would not sync"):
        publish(interfering(base, layout.MANIFESTS, not_durable))


def test_publish_that_failed_for_good_raises_what_went_wrong(base: KnowledgeBase) -> None:
    def nothing(store: LocalStore, files: Mapping[str, bytes]) -> None:
        raise OSError("no reply and no file")

    with pytest.raises(OSError, match="no reply and no file"):
        publish(interfering(base, layout.MANIFESTS, nothing))
    assert base.repository.releases() == ["r000001"]


def test_publish_never_skips_a_release_that_came_while_it_looked(base: KnowledgeBase) -> None:
    """Another run publishes right after the first look at the manifests: its changes must not be left out."""
    theirs = base.repository.manifest("r000001").numbered("r000002", "r000001")

    class Overtaken(LocalStore):
        def list(self, prefix: str) -> list[str]:
            found = super().list(prefix)
            if prefix == layout.MANIFESTS and not (self.root / layout.manifest_file("r000002")).exists():
                LocalStore(self.root).put_new({layout.manifest_file("r000002"): envelope.seal(theirs.to_body())})
            return found

    repository = Repository.open(Overtaken(base.folder), base.config.kb.name)
    mine = draft(repository)
    with pytest.raises(ReleaseConflictError):
        repository.publish(mine, expected_head="r000001")
    assert repository.releases() == ["r000001", "r000002"]


def test_a_promotion_is_refused_where_somebody_moved_first(base: KnowledgeBase) -> None:
    def theirs_first(store: LocalStore, files: Mapping[str, bytes]) -> None:
        other = Repository.open(store, base.config.kb.name)
        other.append(log.hold, reason="theirs", run=other.begin("bob"))
        store.put_new(files)

    repository = interfering(base, layout.PROMOTIONS, theirs_first)
    with pytest.raises(ReleaseConflictError, match="bob moved first"):
        repository.append(log.hold, reason=REASON, run=repository.begin("ada"))
    state = base.repository.state()
    assert (state.seq, state.by) == (2, "bob")


def test_a_record_must_follow_the_one_before_it(repository: Repository) -> None:
    with pytest.raises(UsageError, match="follows the record before it"):
        repository.append(
            lambda state, stamp: replace(log.hold(state, stamp), seq=9), reason=REASON, run=repository.begin()
        )


def test_the_manifest_of_another_repository_is_refused(base: KnowledgeBase, tmp_path: Path) -> None:
    other = knowledge_base(tmp_path / "other")
    data = base.store.get(layout.manifest_file("r000001"))
    other.store.put_new({layout.manifest_file("r000001"): data})
    with pytest.raises(CorruptReleaseError, match="another repository") as caught:
        other.repository.manifest("r000001")
    assert caught.value.release == "r000001"


def test_a_manifest_under_another_name_is_refused(base: KnowledgeBase) -> None:
    base.store.put_new({layout.manifest_file("r000002"): base.store.get(layout.manifest_file("r000001"))})
    with pytest.raises(CorruptReleaseError, match="holds the manifest of 'r000001'"):
        base.repository.manifest("r000002")


def test_a_manifest_other_than_the_one_promoted_is_refused(repository: Repository) -> None:
    digest = repository.state().manifest_digest
    assert repository.manifest("r000001", digest=digest).digest == digest
    with pytest.raises(CorruptReleaseError, match="not the manifest that was promoted"):
        repository.manifest("r000001", digest="0" * 64)


def test_a_promoted_manifest_that_is_missing_is_damage_and_any_other_is_not_found(repository: Repository) -> None:
    with pytest.raises(CorruptReleaseError, match="is missing"):
        repository.manifest("r000007", digest="0" * 64)
    with pytest.raises(ReleaseNotFoundError):
        repository.manifest("r000007")


def test_the_repository_of_another_knowledge_base_is_refused(tmp_path: Path) -> None:
    Repository.create(LocalStore(tmp_path), "handbook")
    with pytest.raises(UsageError, match="'handbook', not of 'wiki'"):
        Repository.open(LocalStore(tmp_path), "wiki")
