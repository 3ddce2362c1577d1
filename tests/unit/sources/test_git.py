"""What a git source lists and fetches, read in place from a local repository."""

from __future__ import annotations

import shutil
import subprocess
import threading
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from kbcore.config.sources import GitSection
from kbcore.errors import ConfigError, DocumentError, SourceError
from kbcore.sources import make_source
from kbcore.sources.git.blobs import Blobs
from kbcore.sources.git.source import GitSource
from tests.git_support import Work

NOW = "2026-11-30T00:00:00Z"


@pytest.fixture
def work(tmp_path: Path) -> Work:
    return Work(tmp_path / "work")


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Any]:
    """Makes sources that are closed at the end."""
    made: list[GitSource] = []

    def make(url: str | Path, **settings: Any) -> GitSource:
        section = GitSection.model_validate({"name": "docs", "type": "git", "url": str(url), **settings})
        source = make_source(section, cache=tmp_path / "cache")
        assert isinstance(source, GitSource)
        made.append(source)
        return source

    yield make
    for source in made:
        source.close()


def contents(source: GitSource) -> dict[str, bytes]:
    return {item.uri: source.fetch(item, NOW).data for item in source.list(NOW).items}


def times(source: GitSource) -> dict[str, str | None]:
    return {item.uri: item.modified_at for item in source.list(NOW).items}


def test_the_committed_state_counts_and_not_the_work_tree(work: Work, opened: Any) -> None:
    commit = work.commit({"a.md": "# A\n", "sub/b.md": "# B\n", "image.png": b"\x89PNG"})
    (work.path / "a.md").write_text("# Changed, not committed\n")
    (work.path / "c.md").write_text("# New, not committed\n")
    work.git("add", "c.md")
    listing = opened(work.path).list(NOW)
    assert [item.uri for item in listing.items] == ["a.md", "sub/b.md"]
    assert (listing.complete, listing.version, list(listing.problems)) == (True, commit, [])
    assert [item.size for item in listing.items] == [4, 4]
    assert contents(opened(work.path)) == {"a.md": b"# A\n", "sub/b.md": b"# B\n"}


def test_a_bare_repository_and_a_file_url_are_read_in_place(work: Work, opened: Any, tmp_path: Path) -> None:
    work.commit({"a.md": "# A\n"})
    work.git("clone", "-q", "--bare", ".", str(tmp_path / "bare copy.git"))
    assert contents(opened(tmp_path / "bare copy.git")) == {"a.md": b"# A\n"}
    assert contents(opened(f"file://{tmp_path}/bare%20copy.git")) == {"a.md": b"# A\n"}
    assert not list((tmp_path / "cache").glob("mirror-*"))


def test_a_linked_work_tree_shows_its_own_branch(work: Work, opened: Any, tmp_path: Path) -> None:
    work.commit({"a.md": "one"})
    work.git("worktree", "add", "-q", "-b", "side", str(tmp_path / "linked"))
    work.commit({"a.md": "two"})
    assert contents(opened(tmp_path / "linked")) == {"a.md": b"one"}


def test_a_repository_with_longer_ids_is_read(work: Work, opened: Any, tmp_path: Path) -> None:
    shutil.rmtree(work.path / ".git")
    work.git("init", "-q", "-b", "main", "--object-format=sha256")
    work.commit({"a.md": "one"})
    assert contents(opened(work.path)) == {"a.md": b"one"}
    assert len(opened(work.path).list(NOW).version) == 64


def test_a_partial_clone_fetches_nothing_and_says_what_it_is(work: Work, opened: Any, tmp_path: Path) -> None:
    work.commit({"a.md": "one"})
    work.git("config", "uploadpack.allowFilter", "true")
    work.git("clone", "-q", "--filter=blob:none", "--no-checkout", f"file://{work.path}", str(tmp_path / "partial"))
    source = opened(tmp_path / "partial")
    with pytest.raises((SourceError, DocumentError), match="partial clone"):
        contents(source)


def test_the_bytes_are_exactly_those_of_the_blob(work: Work, opened: Any) -> None:
    data = {"crlf.md": b"a\r\nb\r\n", "nul.txt": b"\0\n\0", "long.txt": b"line\n" * 400_000, "empty.md": b""}
    work.commit({**data, ".gitattributes": b"* text=auto eol=crlf\n*.md ident filter=shout\n"})
    # 'text' already turned CRLF to LF when it was committed: the blob is the measure, not the file.
    blobs = {name: work.git("rev-parse", f"HEAD:{name}") for name in data}
    source = opened(work.path)
    for item in source.list(NOW).items:
        fetched = source.fetch(item, NOW)
        assert (item.etag, fetched.etag) == (blobs[item.uri], blobs[item.uri])
        assert work.git("hash-object", "--stdin", data=fetched.data) == blobs[item.uri]


def test_names_with_blanks_and_other_scripts_are_listed_in_nfc(work: Work, opened: Any) -> None:
    decomposed = unicodedata.normalize("NFD", "Über uns/größe.md")
    work.commit(
        {decomposed: "# Size\n", "ein leerer name.md": "# Blank\n", "日本語.md": "# J\n", "tab\tnew\nline.md": "x"}
    )
    found = contents(opened(work.path))
    assert set(found) == {"Über uns/größe.md", "ein leerer name.md", "日本語.md", "tab\tnew\nline.md"}
    assert times(opened(work.path))["Über uns/größe.md"] == work.time()


def test_two_names_that_are_one_in_nfc_are_a_problem(work: Work, opened: Any) -> None:
    work.commit({unicodedata.normalize(form, "ü.md"): form for form in ("NFC", "NFD")})
    listing = opened(work.path).list(NOW)
    assert [item.uri for item in listing.items] == ["ü.md"]
    assert listing.problems == (("ü.md", "has the same name as another file in Unicode NFC"),)


def test_links_submodules_large_files_and_odd_names_are_problems_with_their_reason(work: Work, opened: Any) -> None:
    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:" + "0" * 64 + "\nsize 12345\n"
    (work.path / "link.md").symlink_to("/etc/passwd")
    first = work.commit({"a.md": "# A\n", "big.pdf": pointer, "quoted.md": "> " + pointer})
    work.git("update-index", "--add", "--cacheinfo", f"160000,{first},vendor/lib")
    with open(bytes(work.path) + b"/caf\xe9.md", "w") as file:
        file.write("# Latin-1\n")
    work.git("add", "--", "*.md")
    work.git("commit", "-q", "-m", "odd")
    listing = opened(work.path).list(NOW)
    problems = dict(listing.problems)
    assert [item.uri for item in listing.items] == ["a.md", "quoted.md"]
    assert set(problems) == {"link.md", "vendor/lib", "big.pdf", "caf\ufffd.md"}
    assert "symbolic link" in problems["link.md"]
    assert "submodule" in problems["vendor/lib"]
    assert "Git LFS" in problems["big.pdf"]
    assert "not fetched" in problems["big.pdf"]
    assert "UTF-8" in problems["caf\ufffd.md"]
    assert not opened(work.path, include=["*.md"], exclude=["vendor/**", "caf*", "link.md"]).list(NOW).problems


def test_a_pointer_with_extensions_is_found_when_it_is_fetched(work: Work, opened: Any) -> None:
    pointer = "version https://git-lfs.github.com/spec/v1\next-0-x sha256:" + "1" * 64 + "\noid sha256:" + "0" * 64
    work.commit({"big.md": pointer + "\nsize 12345\n"})
    source = opened(work.path)
    with pytest.raises(DocumentError, match="Git LFS"):
        source.fetch(source.list(NOW).items[0], NOW)


def test_include_exclude_and_folder_choose_the_files(work: Work, opened: Any) -> None:
    work.commit({"README.md": "r", "docs/a.md": "a", "docs/deep/b.md": "b", "docs/draft/c.md": "c", "docs/x.txt": "x"})
    source = opened(work.path, folder="/docs/", include=["**/*.md"], exclude=["draft/**"])
    assert contents(source) == {"a.md": b"a", "deep/b.md": b"b"}
    for folder in ("doc", "docs/a.md", "*"):
        with pytest.raises(SourceError, match="there is no folder"):
            opened(work.path, folder=folder).list(NOW)


def test_a_branch_a_tag_and_a_commit_name_their_own_state(work: Work, opened: Any) -> None:
    first = work.commit({"a.md": "one"})
    work.git("tag", "-a", "v1", "-m", "annotated")
    work.git("branch", "topic/old")
    second = work.commit({"a.md": "two"})
    refs = {"HEAD": second, "main": second, "refs/heads/main": second, "v1": first, "topic/old": first}
    for ref, commit in {**refs, first: first, second: second, first[:12]: first}.items():
        listing = opened(work.path, ref=ref).list(NOW)
        assert listing.version == commit
        assert opened(work.path, ref=ref).probe().endswith(f"at {ref}: {commit[:12]}")


def test_a_tag_goes_before_a_branch_of_its_name_as_in_git(work: Work, opened: Any) -> None:
    first = work.commit({"a.md": "one"})
    work.git("tag", "same")
    work.commit({"a.md": "two"})
    work.git("branch", "same")
    assert opened(work.path, ref="same").list(NOW).version == first


def test_the_time_of_a_document_is_that_of_the_last_commit_that_touched_it(work: Work, opened: Any) -> None:
    work.commit({"a.md": "a", "b.md": "b", "c.md": "c"})
    work.commit({"b.md": "b2"})
    work.git("checkout", "-q", "-b", "side")
    work.commit({"side.md": "s"})
    work.git("checkout", "-q", "main")
    work.commit({"a.md": None, "moved.md": "a"})
    work.hours += 1
    work.git("merge", "-q", "--no-ff", "-m", "merge", "side")
    expected = {"b.md": 2, "c.md": 1, "moved.md": 4, "side.md": 5}
    assert times(opened(work.path)) == {uri: work.time(hour) for uri, hour in expected.items()}


def test_times_that_are_remembered_equal_those_of_a_full_walk(work: Work, opened: Any, tmp_path: Path) -> None:
    work.commit({f"docs/{n}.md": "x" for n in range(6)} | {"other.md": "o"})
    history = tmp_path / "cache" / "history.json"
    states = [
        {"docs/1.md": "y"},
        {"docs/2.md": None},
        {"docs/2.md": "again", "other.md": "p"},
        {"docs/new.md": "n"},
        {},
    ]
    for folder in ("docs", ""):
        for state in states:
            work.commit({name: f"{content}{folder}" if content else None for name, content in state.items()})
            remembered = times(opened(work.path, folder=folder))
            history.unlink()
            assert times(opened(work.path, folder=folder)) == remembered
            assert all(remembered.values())
    history.write_text('{"commit": 3, "times": []}')
    assert times(opened(work.path)) == remembered


def test_a_walk_that_begins_where_the_last_one_did_reads_one_commit(
    work: Work, opened: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kbcore.sources.git.program import Stream

    work.commit({"old.md": "x"})
    for n in range(9):
        work.commit({"new.md": str(n)})
    read: list[bytes | None] = []
    until = Stream.until
    monkeypatch.setattr(Stream, "until", lambda self, stop: read.append(until(self, stop)) or read[-1])

    def commits() -> int:
        return sum(1 for part in read if part and part.split(b" ")[0] != b"100644")

    before = times(opened(work.path))
    whole = commits()
    read.clear()
    assert times(opened(work.path)) == before
    assert commits() == 1 < whole


def test_in_a_shallow_clone_the_time_is_unknown_where_history_ends(work: Work, opened: Any, tmp_path: Path) -> None:
    work.commit({"a.md": "a", "b.md": "b"})
    work.commit({"x.md": "x"})
    work.commit({"b.md": "b2"})
    work.git("clone", "-q", "--depth=2", f"file://{work.path}", str(tmp_path / "shallow"))
    assert times(opened(tmp_path / "shallow")) == {"a.md": None, "b.md": work.time(), "x.md": None}


def test_a_document_beyond_max_bytes_is_not_read(work: Work, opened: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    work.commit({"a.md": "x" * 1000, "b.md": "y" * 999})
    source = opened(work.path, max_bytes=999)
    large, fits = source.list(NOW).items
    read: list[str] = []
    blobs_read = Blobs.read
    monkeypatch.setattr(Blobs, "read", lambda self, *a: read.append(a[0]) or blobs_read(self, *a))
    with pytest.raises(DocumentError, match=r"1000 bytes, more than max_bytes \(999\)"):
        source.fetch(large, NOW)
    assert read == []
    assert source.fetch(fits, NOW).data == b"y" * 999


def test_many_documents_are_read_by_one_process_also_from_threads(
    work: Work, opened: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    work.commit({f"{n}.md": f"text {n} " * n for n in range(1, 200)})
    source = opened(work.path)
    started: list[Any] = []
    popen = subprocess.Popen
    monkeypatch.setattr(subprocess, "Popen", lambda *a, **k: started.append(a[0]) or popen(*a, **k))
    items = source.list(NOW).items
    found: dict[str, bytes] = {}

    def read(part: list[Any]) -> None:
        for item in part:
            found[item.uri] = source.fetch(item, NOW).data

    threads = [threading.Thread(target=read, args=(list(items)[n::4],)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {f"{n}.md": (f"text {n} " * n).encode() for n in range(1, 200)}
    assert sum("cat-file" in call for call in started) == 1


def test_a_process_that_died_is_replaced_and_the_error_says_to_try_again(work: Work, opened: Any) -> None:
    work.commit({"a.md": "# A\n"})
    source = opened(work.path)
    item = source.list(NOW).items[0]
    assert source.fetch(item, NOW).data == b"# A\n"
    process = source._blobs._process
    process.kill()
    process.wait()
    with pytest.raises(DocumentError) as error:
        source.fetch(item, NOW)
    assert error.value.transient
    assert source.fetch(item, NOW).data == b"# A\n"


def test_a_closed_source_leaves_no_process(work: Work, opened: Any) -> None:
    work.commit({"a.md": "# A\n"})
    source = opened(work.path)
    source.fetch(source.list(NOW).items[0], NOW)
    process = source._blobs._process
    source.close()
    assert process.poll() is not None
    with pytest.raises(DocumentError, match="last listing"):
        source.fetch(source.list(NOW).items[0].__class__("a.md"), NOW)


def test_a_blob_that_is_damaged_or_gone_is_an_error_of_its_document_only(work: Work, opened: Any) -> None:
    work.commit({"a.md": "# A\n", "b.md": "# B\n", "c.md": "# C\n"})
    source = opened(work.path)
    items = {item.uri: item for item in source.list(NOW).items}
    work.loose("a.md").unlink()
    work.loose("b.md").chmod(0o644)
    work.loose("b.md").write_bytes(work.loose("c.md").read_bytes())
    for name in ("a.md", "b.md"):
        with pytest.raises(DocumentError, match=r"its blob|ended early"):
            source.fetch(items[name], NOW)
    assert source.fetch(items["c.md"], NOW).data == b"# C\n"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda path: None, "there is no repository"),
        (lambda path: path.mkdir(), "is not a git repository"),
        (lambda path: Work(path), "is an empty repository"),
    ],
    ids=["not there", "not a repository", "empty"],
)
def test_what_is_no_repository_with_a_commit_is_an_error_that_says_so(
    tmp_path: Path, opened: Any, make: Any, message: str
) -> None:
    make(tmp_path / "docs")
    source = opened(tmp_path / "docs")
    for call in (source.probe, lambda: source.list(NOW)):
        with pytest.raises(SourceError, match=message) as error:
            call()
        assert error.value.remedy
        assert not error.value.transient


def test_a_folder_inside_a_repository_is_not_taken_for_it(work: Work, opened: Any) -> None:
    work.commit({"sub/a.md": "# A\n"})
    with pytest.raises(SourceError, match="is not a git repository"):
        opened(work.path / "sub").list(NOW)


def test_an_unknown_ref_is_told_with_those_that_are_near(work: Work, opened: Any) -> None:
    work.commit({"a.md": "# A\n"})
    work.git("branch", "release-2026")
    with pytest.raises(SourceError, match=r"no branch, tag or commit 'relase-2026'; did you mean release-2026\?"):
        opened(work.path, ref="relase-2026").list(NOW)
    with pytest.raises(SourceError, match=r"no branch, tag or commit '0{40}'"):
        opened(work.path, ref="0" * 40).probe()
    blob = work.git("rev-parse", "HEAD:a.md")
    with pytest.raises(SourceError, match="no branch, tag or commit"):
        opened(work.path, ref=blob).list(NOW)


def test_without_the_git_program_the_error_says_to_install_it(
    work: Work, opened: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    work.commit({"a.md": "# A\n"})
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SourceError, match="no git program") as error:
        opened(work.path).probe()
    assert "install git" in error.value.remedy


def test_a_repository_of_another_user_is_read(work: Work, opened: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    work.commit({"a.md": "# A\n"})
    monkeypatch.setattr("kbcore.sources.git.program.INHERITED", ("PATH", "GIT_TEST_ASSUME_DIFFERENT_OWNER"))
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
    assert contents(opened(work.path)) == {"a.md": b"# A\n"}


def test_a_call_that_takes_too_long_is_ended_and_may_be_tried_again(
    work: Work, opened: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    work.commit({"a.md": "# A\n"})
    program = tmp_path / "bin" / "git"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\necho $$ > {tmp_path}/pid\nexec sleep 60\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    with pytest.raises(SourceError, match=r"gave no answer in 1 s") as error:
        opened(work.path, timeout_seconds=1).list(NOW)
    assert error.value.transient
    assert not Path(f"/proc/{(tmp_path / 'pid').read_text().strip()}").exists()


def test_a_repository_and_the_environment_run_no_programs_of_theirs(
    work: Work, opened: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    trap = tmp_path / "trap"
    trap.write_text(f"#!/bin/sh\necho $0 $@ >> {tmp_path}/sprung\nexit 1\n")
    trap.chmod(0o755)
    work.commit({"a.md": "# A\n", ".gitattributes": "*.md diff=x filter=x\n"})
    work.git("branch", "other")
    keys = ["core.fsmonitor", "core.pager", "core.sshCommand", "core.askPass", "core.editor", "diff.external"]
    keys += ["diff.x.textconv", "diff.x.command", "filter.x.smudge", "filter.x.process", "gpg.program"]
    for key in [*keys, "credential.helper", "remote.origin.uploadpack", "uploadpack.packObjectsHook", "alias.log"]:
        work.git("config", key, str(trap))
    for key, value in {
        "log.showSignature": "true",
        "remote.origin.url": f"ext::{trap}",
        "log.showRoot": "false",
    }.items():
        work.git("config", key, value)
    work.git("config", "remote.origin.promisor", "true")
    work.git("config", "diff.relative", "true")
    for hook in ("post-checkout", "reference-transaction", "post-index-change", "pre-auto-gc"):
        (work.path / ".git" / "hooks").mkdir(exist_ok=True)
        (work.path / ".git" / "hooks" / hook).symlink_to(trap)
    for variable in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_CONFIG"):
        monkeypatch.setenv(variable, str(tmp_path / "elsewhere"))
    for variable in ("GIT_EXTERNAL_DIFF", "GIT_SSH_COMMAND", "GIT_ASKPASS", "GIT_PAGER", "GIT_PROXY_COMMAND"):
        monkeypatch.setenv(variable, str(trap))
    source = opened(work.path)
    assert contents(source) == {"a.md": b"# A\n"}
    assert times(source) == {"a.md": work.time()}
    source.probe()
    work.loose("a.md").unlink()
    with pytest.raises(DocumentError, match="is not in the repository"):
        contents(opened(work.path))
    assert not (tmp_path / "sprung").exists()


@pytest.mark.parametrize(
    "url",
    [
        "--upload-pack=touch /tmp/x",
        "-u",
        "",
        "ext::sh -c whoami",
        "ext::sh -c 'x://y'",
        "fd::17",
        "http://example.org/x.git",
        "git://example.org/x.git",
        "ssh://example.org/x.git",
        "ftp://example.org/x.git",
        "git@example.org:x.git",
        "example.org:x.git",
        "https://",
        "https:///x.git",
        "https://example.org/x.git?a=b",
        "https://example.org/x\n.git",
    ],
)
def test_only_local_paths_and_https_are_taken(url: str) -> None:
    with pytest.raises(ValidationError):
        GitSection.model_validate({"name": "docs", "type": "git", "url": url})


@pytest.mark.parametrize(
    "ref", ["-x", "--all", "", "a..b", "main~1", "main^", "main:docs", "main@{1}", "a b", "x\0", "/x", "x/"]
)
def test_only_names_of_branches_tags_and_commits_are_refs(ref: str) -> None:
    with pytest.raises(ValidationError):
        GitSection.model_validate({"name": "docs", "type": "git", "url": "repo", "ref": ref})


@pytest.mark.parametrize(
    "url", ["https://ada:hunter2@example.org/x.git", "http://ada:hunter2@x", "https://hunter2@example.org/x"]
)
def test_a_secret_in_the_url_is_refused_and_not_shown(url: str, tmp_path: Path) -> None:
    from kbcore.config import load

    file = tmp_path / "kb.toml"
    file.write_text(f'[kb]\nname = "x"\nrepository = "r"\n[[sources]]\nname = "d"\ntype = "git"\nurl = "{url}"\n')
    with pytest.raises(ConfigError, match="token_env") as error:
        load(file)
    assert "hunter2" not in str(error.value)


@pytest.mark.parametrize("folder", ["..", "a/../b", "./a", "a//b", "a\0"])
def test_a_folder_stays_inside_the_repository(folder: str) -> None:
    with pytest.raises(ValidationError):
        GitSection.model_validate({"name": "docs", "type": "git", "url": "repo", "folder": folder})


def test_a_tree_that_lists_without_end_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Trees that share a subtree many times are small on disk and endless to list."""
    monkeypatch.setattr("kbcore.sources.git.source.MOST_ENTRIES", 1000)
    work = Work(tmp_path / "bomb")
    blob = work.git("hash-object", "-w", "--stdin", data=b"x").strip()
    tree = work.git("mktree", data="".join(f"100644 blob {blob}\t{n}.md\n" for n in range(10)).encode()).strip()
    for _ in range(9):
        tree = work.git("mktree", data="".join(f"040000 tree {tree}\t{n}\n" for n in range(10)).encode()).strip()
    commit = work.git("commit-tree", "-m", "bomb", tree).strip()
    work.git("update-ref", "refs/heads/main", commit)
    section = GitSection(name="bomb", type="git", url=str(work.path))
    with pytest.raises(SourceError, match="more than 1,000 files"):
        GitSource(section, cache=tmp_path / "cache").list("2026-11-30T04:00:00Z")
