"""Storage that cannot keep a release's promises is refused before the first release, by trying it out."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from kbcore.errors import StorageFullError, StorageUnsupportedError
from kbcore.store import probe
from kbcore.store.layout import STAGING
from kbcore.store.objects import FileSystem, LocalStore
from kbcore.store.probe import probe_storage, require_storage


def failed(store: LocalStore) -> dict[str, str]:
    return {result.name: result.detail for result in probe_storage(store) if result.ok is False}


class FakeFileSystem(FileSystem):
    """A file system whose named operations are replaced."""

    def __init__(self, **operations: Callable[..., None]) -> None:
        for name, operation in operations.items():
            setattr(self, name, operation)


def refuse(number: int) -> Callable[..., None]:
    def operation(*paths: Any) -> None:
        raise OSError(number, os.strerror(number))

    return operation


def test_a_local_file_system_passes_every_probe_and_nothing_is_left(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    results = probe_storage(store)
    assert [r.name for r in results] == ["sync", "link", "link onto a taken name", "create race", "lock", "free space"]
    assert all(result.ok is not False and result.detail for result in results)
    require_storage(store)
    assert store.list("") == []


@pytest.mark.parametrize(
    ("operation", "number", "expected"),
    [("link", errno.EPERM, "link"), ("fsync", errno.EINVAL, "sync"), ("write", errno.EROFS, "sync")],
    ids=["no hard links", "no fsync", "read-only"],
)
def test_an_operation_that_is_refused_is_found_and_named(
    tmp_path: Path, operation: str, number: int, expected: str
) -> None:
    store = LocalStore(tmp_path, FakeFileSystem(**{operation: refuse(number)}))
    assert os.strerror(number) in failed(store)[expected]
    with pytest.raises(StorageUnsupportedError, match=str(tmp_path)):
        require_storage(store)
    assert store.list("") == []


def test_folders_that_do_not_sync_are_found(tmp_path: Path) -> None:
    def fsync(path: str) -> None:
        if os.path.isdir(path):
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))

    assert "Invalid argument" in failed(LocalStore(tmp_path, FakeFileSystem(fsync=fsync)))["sync"]


def test_a_link_that_is_a_copy_is_found_by_its_count_of_names(tmp_path: Path) -> None:
    def copy(source: str, target: str) -> None:
        if os.path.exists(target):
            raise FileExistsError(errno.EEXIST, "taken")
        shutil.copyfile(source, target)

    found = failed(LocalStore(tmp_path, FakeFileSystem(link=copy)))
    assert found["link"] == "a linked file counts 1 names, not 2"


def test_a_link_that_writes_over_a_taken_name_is_found(tmp_path: Path) -> None:
    def link(source: str, target: str) -> None:
        if os.path.exists(target):
            os.unlink(target)
        os.link(source, target)

    found = failed(LocalStore(tmp_path, FakeFileSystem(link=link)))
    assert found["link onto a taken name"] == "linking onto a taken name went through"


def test_a_taken_name_that_is_refused_with_another_error_is_found(tmp_path: Path) -> None:
    def link(source: str, target: str) -> None:
        if os.path.exists(target):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        os.link(source, target)

    assert "Input/output" in failed(LocalStore(tmp_path, FakeFileSystem(link=link)))["link onto a taken name"]


def test_a_create_race_that_all_win_is_found(tmp_path: Path) -> None:
    class Everybody(LocalStore):
        def put_new(self, files: Mapping[str, bytes]) -> None:
            for name, data in files.items():
                self.replace(name, data)

    found = failed(Everybody(tmp_path))
    assert found["create race"] == "16 of 16 writers of one name were told that it is theirs"


def test_a_create_race_whose_winner_was_told_otherwise_is_found(tmp_path: Path) -> None:
    class Wrong(LocalStore):
        def get(self, name: str) -> bytes:
            return b"another" if name.endswith("/race") else super().get(name)

    assert failed(Wrong(tmp_path))["create race"] == "the name holds another writer's content"


def test_a_new_file_that_is_not_listed_is_found(tmp_path: Path) -> None:
    class Late(LocalStore):
        def list(self, prefix: str) -> list[str]:
            return []

    assert failed(Late(tmp_path))["create race"] == "a file that was just written is not listed"


def test_content_that_reads_otherwise_than_it_was_written_is_found(tmp_path: Path) -> None:
    def write(path: str, data: bytes) -> None:
        FileSystem().write(path, data[:-1])

    found = failed(LocalStore(tmp_path, FakeFileSystem(write=write)))
    assert found["sync"] == "a file does not read as it was written"


@pytest.mark.parametrize("refusal", [None, OSError(errno.ENOLCK, "No locks available")], ids=["granted", "no locks"])
def test_a_lock_that_does_not_exclude_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refusal: OSError | None
) -> None:
    def flock(file: object, operation: int) -> None:
        if refusal:
            raise refusal

    monkeypatch.setattr(fcntl, "flock", flock)
    assert "lock" in failed(LocalStore(tmp_path))


def test_little_space_is_a_remark_and_no_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "LOW_SPACE", 1 << 62)
    results = {result.name: result for result in probe_storage(LocalStore(tmp_path))}
    assert results["free space"].ok is None
    require_storage(LocalStore(tmp_path))


def test_a_folder_that_cannot_be_made_is_the_only_finding(tmp_path: Path) -> None:
    (tmp_path / STAGING).write_text("a file where the folder should be")
    assert list(failed(LocalStore(tmp_path))) == ["write"]
    with pytest.raises(StorageUnsupportedError, match="cannot be made"):
        require_storage(LocalStore(tmp_path))


def test_every_probe_that_failed_is_named_in_one_error(tmp_path: Path) -> None:
    store = LocalStore(tmp_path, FakeFileSystem(link=refuse(errno.EPERM), fsync=refuse(errno.EINVAL)))
    with pytest.raises(StorageUnsupportedError) as caught:
        require_storage(store)
    assert all(f"{name}: " in caught.value.message for name in ("sync", "link", "create race"))
    assert "ext4" in caught.value.remedy


@pytest.mark.parametrize("operation", ["mkdir", "write", "link"])
def test_storage_without_room_is_full_and_not_called_unfit(tmp_path: Path, operation: str) -> None:
    store = LocalStore(tmp_path, FakeFileSystem(**{operation: refuse(errno.ENOSPC)}))
    with pytest.raises(StorageFullError, match="No space"):
        require_storage(store)
