"""A git source on an https server: a real git http-backend behind TLS, with a certificate made by the test."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kbcore.config.sources import GitSection
from kbcore.errors import DocumentError, SourceError
from kbcore.sources.git.source import GitSource
from tests.git_support import Server, Work
from tests.support import tree

NOW = "2026-11-30T00:00:00Z"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    paths = subprocess.run(["git", "--exec-path"], capture_output=True, text=True, check=True).stdout.strip()
    if not all(os.access(f"{paths}/{program}", os.X_OK) for program in ("git-http-backend", "git-remote-https")):
        pytest.skip("this git cannot serve or read https")
    running = Server(tmp_path_factory.mktemp("served"), tmp_path_factory.mktemp("certificates"))
    yield running
    running.close()


@pytest.fixture(autouse=True)
def fresh(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    server.token = server.status = server.moved = None
    server.asked.clear()
    for variable in ("https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY", "GIT_SSL_CAPATH", "SSL_CERT_FILE"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("GIT_SSL_CAINFO", str(server.authority))


@pytest.fixture
def work(server: Server, request: pytest.FixtureRequest) -> Work:
    return Work(server.root / request.node.name.partition("[")[0])


@pytest.fixture
def opened(server: Server, work: Work, tmp_path: Path) -> Iterator[Any]:
    made: list[GitSource] = []

    def make(**settings: Any) -> GitSource:
        url = settings.pop("url", server.url(f"{work.path.name}/.git"))
        section = GitSection.model_validate({"name": "docs", "type": "git", "url": url, **settings})
        made.append(GitSource(section, cache=tmp_path / "cache"))
        return made[-1]

    yield make
    for source in made:
        source.close()


def contents(source: GitSource) -> dict[str, bytes]:
    return {item.uri: source.fetch(item, NOW).data for item in source.list(NOW).items}


def test_each_listing_shows_the_branch_as_it_is_now_also_after_a_force_push(work: Work, opened: Any) -> None:
    first = work.commit({"a.md": "one", "b.md": "b"})
    source = opened(ref="main")
    assert contents(source) == {"a.md": b"one", "b.md": b"b"}
    second = work.commit({"a.md": "two", "ünï cödé.md": "u"})
    listing = source.list(NOW)
    assert listing.version == second
    assert [item.modified_at for item in listing.items] == [work.time(2), work.time(1), work.time(2)]
    assert contents(source) == {"a.md": b"two", "b.md": b"b", "ünï cödé.md": b"u"}
    work.git("reset", "-q", "--hard", first)
    rewound = work.commit({"a.md": "three"})
    assert source.list(NOW).version == rewound
    assert contents(source) == {"a.md": b"three", "b.md": b"b"}


def test_only_the_one_ref_is_mirrored_and_nothing_is_checked_out(work: Work, opened: Any, tmp_path: Path) -> None:
    work.commit({"a.md": "one"})
    work.git("tag", "-a", "v1", "-m", "annotated")
    work.git("checkout", "-q", "-b", "other")
    other = work.commit({"secret.md": "other branch"})
    assert contents(opened(ref="v1")) == {"a.md": b"one"}
    (mirror,) = (tmp_path / "cache").glob("mirror-*")
    found = subprocess.run(["git", f"--git-dir={mirror}", "cat-file", "-e", other], capture_output=True)
    assert found.returncode != 0
    assert not [name for name in tree(mirror) if name.endswith(".md")]


def test_only_what_is_new_is_transferred(work: Work, opened: Any, tmp_path: Path) -> None:
    work.commit({"big.md": os.urandom(300_000).hex()})
    opened().list(NOW)
    before = sum(map(len, tree(tmp_path / "cache").values()))
    work.commit({"small.md": "small"})
    opened().list(NOW)
    assert sum(map(len, tree(tmp_path / "cache").values())) < before + 10_000


def test_a_tag_a_full_name_and_a_commit_are_fetched(work: Work, server: Server, opened: Any) -> None:
    first = work.commit({"a.md": "one"})
    work.git("tag", "-a", "v1", "-m", "annotated")
    work.commit({"a.md": "two"})
    for ref in ("v1", "refs/tags/v1", first):
        source = opened(ref=ref)
        assert source.list(NOW).version == first
        assert source.probe().endswith(f"at {ref}: {first[:12]}")
    server.asked.clear()
    assert opened(ref=first).list(NOW).version == first
    assert server.asked == []


def test_a_repository_with_longer_ids_is_mirrored(work: Work, opened: Any) -> None:
    shutil.rmtree(work.path / ".git")
    work.git("init", "-q", "-b", "main", "--object-format=sha256")
    for text in ("one", "two"):
        commit = work.commit({"a.md": text})
        assert opened().list(NOW).version == commit
        assert contents(opened()) == {"a.md": text.encode()}
        assert opened(ref=commit).list(NOW).version == commit


def test_with_depth_only_so_much_history_is_fetched_and_older_times_are_unknown(
    work: Work, opened: Any, tmp_path: Path
) -> None:
    work.commit({"a.md": "one", "b.md": "b"})
    for text in ("two", "three", "four"):
        work.commit({"a.md": text})
    source = opened(depth=2)
    assert {item.uri: item.modified_at for item in source.list(NOW).items} == {"a.md": work.time(), "b.md": None}
    work.commit({"b.md": "b2"})
    assert {item.uri: item.modified_at for item in source.list(NOW).items}["b.md"] == work.time()
    assert contents(source) == {"a.md": b"four", "b.md": b"b2"}
    assert {item.modified_at for item in opened().list(NOW).items} == {work.time(4), work.time(5)}
    assert len(list((tmp_path / "cache").glob("mirror-*"))) == 1


def test_a_token_goes_to_the_server_and_shows_nowhere(
    work: Work, server: Server, opened: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    work.commit({"a.md": "one"})
    server.token = "hunter2-secret"
    monkeypatch.setenv("DOCS_TOKEN", "hunter2-secret")
    calls: list[Any] = []
    popen = subprocess.Popen
    monkeypatch.setattr(subprocess, "Popen", lambda *a, **k: calls.append(a[0]) or popen(*a, **k))
    url = server.url(f"{work.path.name}/.git").replace("://", "://ada@")
    source = opened(token_env="DOCS_TOKEN", url=url)
    assert contents(source) == {"a.md": b"one"}
    assert source.probe()
    assert "hunter2" not in str(calls) + repr(vars(source._mirror)) + source.probe()
    assert not [name for name, data in tree(tmp_path / "cache").items() if b"hunter2" in data]
    for value, message in (("wrong-hunter3", "the token in DOCS_TOKEN was refused"), ("", "holds no token|is not set")):
        monkeypatch.setenv("DOCS_TOKEN", value)
        for call in (source.probe, lambda: source.list(NOW)):
            with pytest.raises(SourceError, match=message) as error:
                call()
            assert "hunter" not in str(error.value)
            assert not error.value.transient
    with pytest.raises(SourceError, match="no token_env is configured"):
        opened().list(NOW)


def test_a_token_is_not_taken_to_where_a_server_sends_on_to(
    work: Work, server: Server, opened: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    work.commit({"a.md": "one"})
    server.moved = ("/old/", f"/{work.path.name}/")
    assert contents(opened(url=server.url("old/.git"))) == {"a.md": b"one"}
    monkeypatch.setenv("DOCS_TOKEN", "hunter2")
    server.asked.clear()
    source = opened(url=server.url("old/.git"), token_env="DOCS_TOKEN")
    for call in (source.probe, lambda: source.list(NOW)):
        with pytest.raises(SourceError, match="sends on to another address"):
            call()
    assert all(path.startswith("/old/") for path in server.asked)


def test_what_the_user_and_the_machine_configured_for_git_plays_no_part(
    work: Work, server: Server, opened: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    work.commit({"a.md": "one"})
    (tmp_path / ".gitconfig").write_text(f'[url "https://localhost:1/"]\n\tinsteadOf = {server.url("")}\n')
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / ".gitconfig"))
    monkeypatch.setenv("GIT_CONFIG_SYSTEM", str(tmp_path / ".gitconfig"))
    monkeypatch.setenv("GIT_TRACE_CURL", str(tmp_path / "trace"))
    # git would also take the configuration of a repository that it is started in.
    here = Work(tmp_path / "here")
    here.git("config", "url.https://localhost:1/.insteadOf", server.url(""))
    monkeypatch.chdir(here.path)
    assert opened().probe()
    assert contents(opened()) == {"a.md": b"one"}
    assert not (tmp_path / "trace").exists()


def test_what_a_server_says_is_told_apart_and_only_the_passing_is_tried_again(
    work: Work, server: Server, opened: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    work.commit({"a.md": "one"})
    work.git("branch", "release-2026")
    opened().list(NOW)
    good = tree(tmp_path / "cache")

    def fails(message: str, transient: bool = False, **settings: Any) -> None:
        source = opened(**settings)
        for call in (source.probe, lambda: source.list(NOW)):
            with pytest.raises(SourceError, match=message) as error:
                call()
            assert error.value.transient is transient
            assert error.value.remedy

    fails("no branch, tag or commit 'relase-2026'; did you mean release-2026", ref="relase-2026")
    with pytest.raises(SourceError, match=r"has no commit 1{40}"):
        opened(ref="1" * 40).list(NOW)
    for status, message, transient in (
        (503, "cannot be reached", True),
        (429, "cannot be reached", True),
        (403, "wants a user who may read it", False),
        (418, "failed", False),
    ):
        server.status = status
        fails(message, transient)
    server.status = None
    assert tree(tmp_path / "cache") == good
    assert opened().list(NOW).items
    monkeypatch.delenv("GIT_SSL_CAINFO")
    fails("certificate")
    monkeypatch.setenv("GIT_SSL_CAINFO", str(server.authority))
    fails("there is no repository", url=server.url("nothing.git"))
    fails("cannot be reached", True, url="https://localhost:1/x.git")
    fails("cannot be reached", True, url="https://no-such-host.invalid/x.git")


def test_an_empty_repository_is_an_error(work: Work, opened: Any) -> None:
    for call in (opened().probe, lambda: opened().list(NOW)):
        with pytest.raises(SourceError, match="empty repository"):
            call()


def test_a_half_clone_is_noticed_and_made_anew(work: Work, opened: Any, tmp_path: Path) -> None:
    work.commit({"a.md": "one", "b.md": "b"})
    source = opened()
    expected = contents(source)
    (mirror,) = (tmp_path / "cache").glob("mirror-*")
    whole = tmp_path / "whole"
    shutil.copytree(mirror, whole)

    def spoil_head() -> None:
        (mirror / "HEAD").unlink()

    def spoil_objects() -> None:
        shutil.rmtree(mirror / "objects")
        (mirror / "objects").mkdir()

    def spoil_all() -> None:
        shutil.rmtree(mirror)
        mirror.mkdir()

    def spoil_lock() -> None:
        (mirror / "refs" / "kbcore" / "source.lock").touch()
        work.commit({"b.md": "newer"})
        expected["b.md"] = b"newer"

    def spoil_beside() -> None:
        shutil.copytree(whole, mirror.with_suffix(".new"))

    for spoil in (spoil_head, spoil_objects, spoil_all, spoil_lock, spoil_beside):
        spoil()
        assert contents(opened()) == expected, spoil.__name__
        assert list((tmp_path / "cache").glob("mirror-*")) == [mirror]


def test_a_damaged_blob_in_the_mirror_is_mended_by_the_next_listing(work: Work, opened: Any, tmp_path: Path) -> None:
    work.commit({"a.md": "one", "b.md": "b"})
    source = opened()
    items = source.list(NOW).items
    (mirror,) = (tmp_path / "cache").glob("mirror-*")
    blob = mirror / "objects" / items[0].etag[:2] / items[0].etag[2:]
    blob.unlink()
    source.close()
    source = opened()
    items = source.list(NOW).items
    with pytest.raises(DocumentError, match="is not in the repository"):
        source.fetch(items[0], NOW)
    assert contents(source) == {"a.md": b"one", "b.md": b"b"}


def test_a_fetch_that_is_killed_leaves_nothing_that_the_next_one_trusts(
    work: Work, server: Server, opened: Any, tmp_path: Path
) -> None:
    work.commit({"a.md": os.urandom(2_000_000).hex()})
    script = (
        "import sys; from pathlib import Path; from kbcore.config.sources import GitSection\n"
        "from kbcore.sources.git.source import GitSource\n"
        "s = GitSection.model_validate({'name': 'docs', 'type': 'git', 'url': sys.argv[1]})\n"
        "GitSource(s, cache=Path(sys.argv[2])).list('2026-11-30T00:00:00Z')\n"
    )
    cache = tmp_path / "cache"
    for _ in range(3):
        url = server.url(f"{work.path.name}/.git")
        child = subprocess.Popen([sys.executable, "-c", script, url, str(cache)], stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 10
        while not list(cache.glob("mirror-*.new/*")) and time.monotonic() < deadline:
            time.sleep(0.005)
        child.send_signal(signal.SIGKILL)
        child.wait()
    assert len(contents(opened())["a.md"]) == 4_000_000
    assert len(list(cache.glob("mirror-*"))) == 1


def test_two_runs_at_once_take_turns_in_the_cache(work: Work, opened: Any) -> None:
    commit = work.commit({f"{n}.md": str(n) for n in range(50)})
    versions: list[str] = []
    sources = [opened() for _ in range(4)]
    threads = [threading.Thread(target=lambda s=s: versions.append(s.list(NOW).version)) for s in sources]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert versions == [commit] * 4


def test_a_probe_transfers_no_objects(work: Work, server: Server, opened: Any, tmp_path: Path) -> None:
    work.commit({"a.md": "one"})
    opened().probe()
    assert not (tmp_path / "cache").exists()
    assert len(server.asked) == 2  # what the server can, and its refs
