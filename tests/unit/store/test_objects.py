"""A local store: whole files under names nobody had, or an error and no trace of the attempt."""

from __future__ import annotations

import errno
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from kbcore.errors import StorageFullError
from kbcore.fingerprint import sha256
from kbcore.store.layout import STAGING
from kbcore.store.objects import FULL, FileSystem, LocalStore


def drafts(store: LocalStore) -> list[str]:
    return store.list(STAGING)


class Failing(FileSystem):
    """One kind of operation fails with ``number``; with ``after``, once it was carried out."""

    def __init__(self, operation: str, number: int, *, after: bool = False) -> None:
        self.operation, self.number, self.after = operation, number, after

    def _fail(self, operation: str, after: bool) -> None:
        if (operation, after) == (self.operation, self.after):
            raise OSError(self.number, os.strerror(self.number))

    def write(self, path: str, data: bytes) -> None:
        self._fail("write", False)
        super().write(path, data)

    def fsync(self, path: str) -> None:
        self._fail("fsync", False)
        super().fsync(path)

    def link(self, source: str, target: str) -> None:
        self._fail("link", False)
        super().link(source, target)
        self._fail("link", True)

    def rename(self, source: str, target: str) -> None:
        self._fail("rename", False)
        super().rename(source, target)


def test_a_taken_name_is_refused_and_keeps_its_content(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    store.put_new({"a/one.json": b"first"})
    with pytest.raises(FileExistsError):
        store.put_new({"a/one.json": b"second"})
    assert store.get("a/one.json") == b"first"
    assert drafts(store) == []


def test_several_files_in_nested_folders_are_created_at_once(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    files = {"a/b/c/one": b"1", "a/b/two": b"", "three": b"3" * 100_000}
    store.put_new(files)
    assert {name: store.get(name) for name in files} == files
    assert store.list("a") == ["a/b/c/one", "a/b/two"]
    assert drafts(store) == []


def test_a_store_may_be_made_before_its_folder(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "not" / "yet")
    store.put_new({"a/one": b"1"})
    assert store.get("a/one") == b"1"


def test_a_published_file_has_one_name_and_lies_in_the_root(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    store.put_new({"a/one": b"1"})
    path = store.local_path("a/one")
    assert path == tmp_path / "a" / "one"
    assert path.stat().st_nlink == 1


def test_of_many_writers_of_one_name_one_wins(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    start = threading.Barrier(16)

    def put(number: int) -> bool:
        start.wait(30)
        try:
            store.put_new({"a/one": b"%d" % number})
        except FileExistsError:
            return False
        return True

    with ThreadPoolExecutor(16) as pool:
        won = list(pool.map(put, range(16)))
    assert won.count(True) == 1
    assert store.get("a/one") == b"%d" % won.index(True)
    assert drafts(store) == []


def test_a_name_that_is_not_there(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    with pytest.raises(FileNotFoundError):
        store.get("a/none")
    assert store.list("a") == []
    store.delete("a/none")


def test_delete_removes_one_file(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    store.put_new({"a/one": b"1", "a/two": b"2"})
    store.delete("a/one")
    assert store.list("a") == ["a/two"]
    store.put_new({"a/one": b"again"})
    assert store.get("a/one") == b"again"


def test_replace_writes_over_and_gives_the_version(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    first = store.replace("cache/x", b"1")
    assert first == sha256(b"1")
    second = store.replace("cache/x", b"2", if_version=first)
    assert (store.get("cache/x"), second) == (b"2", sha256(b"2"))
    with pytest.raises(FileExistsError):
        store.replace("cache/x", b"3", if_version=first)
    assert store.get("cache/x") == b"2"
    assert drafts(store) == []


def test_replace_of_a_version_refuses_a_file_that_is_not_there(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    with pytest.raises(FileExistsError):
        store.replace("cache/x", b"1", if_version=sha256(b"0"))
    assert store.replace("cache/x", b"1", if_version="") == sha256(b"1")


@pytest.mark.parametrize("number", sorted(FULL), ids=lambda number: errno.errorcode[number])
@pytest.mark.parametrize("operation", ["write", "fsync", "link"])
def test_storage_that_is_full_is_named_and_leaves_no_draft(tmp_path: Path, operation: str, number: int) -> None:
    LocalStore(tmp_path).put_new({"a/kept": b"kept"})
    store = LocalStore(tmp_path, Failing(operation, number))
    with pytest.raises(StorageFullError) as caught:
        store.put_new({"a/one": b"1"})
    assert str(tmp_path) in caught.value.message
    assert caught.value.remedy
    assert store.list("a") == ["a/kept"]
    assert drafts(store) == []


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EMFILE])
def test_these_mean_full(number: int) -> None:
    assert number in FULL


@pytest.mark.parametrize("operation", ["write", "rename"])
def test_replace_names_full_storage_and_leaves_the_file_that_was(tmp_path: Path, operation: str) -> None:
    LocalStore(tmp_path).replace("cache/x", b"1")
    store = LocalStore(tmp_path, Failing(operation, errno.ENOSPC))
    with pytest.raises(StorageFullError):
        store.replace("cache/x", b"2")
    assert store.get("cache/x") == b"1"
    assert drafts(store) == []


def test_another_error_is_raised_as_it_is_and_leaves_no_draft(tmp_path: Path) -> None:
    store = LocalStore(tmp_path, Failing("fsync", errno.EIO))
    with pytest.raises(OSError, match="Input/output") as caught:
        store.put_new({"a/one": b"1"})
    assert caught.value.errno == errno.EIO
    assert drafts(store) == []


def test_a_file_half_written_is_no_file(tmp_path: Path) -> None:
    class Torn(FileSystem):
        def write(self, path: str, data: bytes) -> None:
            super().write(path, data[:2])
            raise OSError(errno.ENOSPC, "full")

    store = LocalStore(tmp_path, Torn())
    with pytest.raises(StorageFullError):
        store.put_new({"a/one": b"12345"})
    assert store.list("a") == []
    assert drafts(store) == []


def test_a_link_whose_reply_was_lost_is_a_success(tmp_path: Path) -> None:
    """A network file system may make the link and report an error, EEXIST included."""
    for number in (errno.EIO, errno.EEXIST):
        store = LocalStore(tmp_path, Failing("link", number, after=True))
        store.put_new({f"a/{number}": b"mine"})
        assert store.get(f"a/{number}") == b"mine"
        assert drafts(store) == []


def test_a_lost_reply_is_not_taken_for_success_where_the_name_is_anothers(tmp_path: Path) -> None:
    LocalStore(tmp_path).put_new({"a/one": b"theirs"})
    store = LocalStore(tmp_path, Failing("link", errno.EIO))
    with pytest.raises(OSError, match="Input/output"):
        store.put_new({"a/one": b"mine"})
    assert store.get("a/one") == b"theirs"
    assert drafts(store) == []


def test_content_is_durable_before_its_name_and_the_name_before_the_return(tmp_path: Path) -> None:
    steps: list[tuple[str, str]] = []

    class Recording(FileSystem):
        def write(self, path: str, data: bytes) -> None:
            steps.append(("write", os.path.basename(os.path.dirname(path))))
            super().write(path, data)

        def fsync(self, path: str) -> None:
            steps.append(("fsync", "draft" if os.path.isfile(path) else os.path.basename(path)))
            super().fsync(path)

        def link(self, source: str, target: str) -> None:
            steps.append(("link", os.path.basename(target)))
            super().link(source, target)

    store = LocalStore(tmp_path)
    store.put_new({"a/zero": b"0"})
    store = LocalStore(tmp_path, Recording())
    store.put_new({"a/one": b"1"})
    assert steps == [("write", STAGING), ("fsync", "draft"), ("link", "one"), ("fsync", "a")]


def test_a_process_without_a_descriptor_left_is_told_which_limit_to_raise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = LocalStore(tmp_path)
    store.put_new({"a/one": b"1"})

    def exhausted(*_: object) -> None:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr("builtins.open", exhausted)
    with pytest.raises(StorageFullError) as caught:
        store.get("a/one")
    monkeypatch.undo()
    assert "ulimit -n" in caught.value.remedy
