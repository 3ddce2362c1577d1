"""A knowledge base refreshed from a git source, over several commits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kbcore.errors import SourceError
from kbcore.knowledge_base import KnowledgeBase
from kbcore.sources.git.source import GitSource
from kbcore.store.manifest import Manifest
from tests.git_support import Work
from tests.support import DOCUMENTS, answers, configure, knowledge_base, refreshed


@pytest.fixture
def work(tmp_path: Path) -> Work:
    return Work(tmp_path / "work")


def from_git(root: Path, work: Work, **settings: Any) -> KnowledgeBase:
    source = {"name": "docs", "type": "git", "url": str(work.path), "include": ["**/*"], **settings}
    base = KnowledgeBase(configure(root, sources=[source]))
    base.create()
    return base


def latest(base: KnowledgeBase) -> Manifest:
    return base.repository.manifest(base.repository.releases()[-1])


@pytest.fixture
def fetched(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The URIs that git sources fetch."""
    uris: list[str] = []
    fetch = GitSource.fetch
    monkeypatch.setattr(GitSource, "fetch", lambda self, item, at: uris.append(item.uri) or fetch(self, item, at))
    return uris


def test_every_commit_gives_the_release_that_a_folder_with_its_files_gives(
    tmp_path: Path, work: Work, fetched: list[str]
) -> None:
    work.commit(DOCUMENTS)
    base = from_git(tmp_path / "git", work)
    folder = knowledge_base(tmp_path / "folder", {})

    def compare(commit: str, reads: set[str]) -> None:
        work.archive(commit, tmp_path / "folder" / "docs")
        fetched.clear()
        report, other = refreshed(base), refreshed(folder)
        assert set(fetched) == reads
        assert report.changes == other.changes
        assert latest(base).content_digest == latest(folder).content_digest
        assert latest(base).sources[0]["version"] == commit

    compare(work.git("rev-parse", "HEAD"), set(DOCUMENTS))
    work.commit({"vpn.md": "# VPN\n\nChanged.\n", "sub/ünï cödé.md": "# New\n"})
    work.git("mv", "printers.txt", "sub/printers.txt")
    compare(work.commit({"phones.html": None}), {"vpn.md", "sub/ünï cödé.md", "sub/printers.txt"})
    before_force = work.git("rev-parse", "HEAD")
    work.git("checkout", "-q", "-b", "side", "HEAD~1")
    work.commit({"side.md": "# Side\n\nFrom a side branch.\n"})
    work.git("checkout", "-q", "main")
    work.git("merge", "-q", "--no-ff", "-m", "merge", "side")
    compare(work.git("rev-parse", "HEAD"), {"side.md"})
    work.git("reset", "-q", "--hard", before_force + "~1")
    compare(work.git("rev-parse", "HEAD"), {"printers.txt", "phones.html"})
    assert answers(base) == answers(folder)


def test_a_commit_that_changes_nothing_fetches_and_publishes_nothing(
    tmp_path: Path, work: Work, fetched: list[str]
) -> None:
    work.commit({f"{n}.md": f"# Page {n}\n\nText.\n" for n in range(40)})
    base = from_git(tmp_path, work)
    refreshed(base)
    assert len(fetched) == 40
    fetched.clear()
    work.commit(message="an empty commit")
    report = refreshed(base)
    assert (report.outcome, report.changes["unchanged"], fetched) == ("unchanged", 40, [])
    work.commit({"7.md": "# Page 7\n\nAnother text.\n"})
    assert refreshed(base).changes["changed"] == 1
    assert fetched == ["7.md"]


def test_a_rename_in_a_commit_is_recognised_and_embeds_nothing(tmp_path: Path, work: Work) -> None:
    work.commit(DOCUMENTS)
    base = from_git(tmp_path, work)
    refreshed(base)
    work.git("mv", "vpn.md", "remote.md")
    work.commit()
    report = refreshed(base)
    assert report.renamed == {"docs:vpn.md": "docs:remote.md"}
    assert report.texts_embedded == 0


def test_a_release_made_from_a_tag_does_not_change_when_the_branch_moves(
    tmp_path: Path, work: Work, fetched: list[str]
) -> None:
    first = work.commit(DOCUMENTS)
    work.git("tag", "-a", "v1", "-m", "first")
    base = from_git(tmp_path, work, ref="v1")
    refreshed(base)
    before = answers(base)
    work.commit({"vpn.md": "# VPN\n\nChanged on the branch.\n", "phones.html": None})
    fetched.clear()
    report = refreshed(base)
    assert (report.outcome, fetched) == ("unchanged", [])
    assert latest(base).sources[0]["version"] == first
    assert answers(base) == before


def test_the_time_of_a_document_is_that_of_its_commit(tmp_path: Path, work: Work) -> None:
    work.commit(DOCUMENTS)
    work.commit({"new.md": "# New\n\nOnly this page speaks of zeppelins.\n"})
    base = from_git(tmp_path, work)
    refreshed(base)
    (hit, *_) = base.retriever().search("zeppelins", mode="keyword").hits
    assert hit.modified_at == work.time(2)


def test_a_repository_that_cannot_be_listed_removes_nothing(tmp_path: Path, work: Work) -> None:
    work.commit(DOCUMENTS)
    base = from_git(tmp_path, work)
    refreshed(base)
    work.path.rename(tmp_path / "unmounted")
    with pytest.raises(SourceError, match="there is no repository"):
        refreshed(base)
    assert base.repository.releases() == ["r000001"]
    assert len(base.retriever().search("gateway", 50).hits) > 0


def test_a_document_that_became_a_link_keeps_its_former_version_and_is_reported(tmp_path: Path, work: Work) -> None:
    work.commit(DOCUMENTS)
    base = from_git(tmp_path, work)
    refreshed(base)
    (work.path / "vpn.md").unlink()
    (work.path / "vpn.md").symlink_to("printers.txt")
    work.commit()
    report = refreshed(base)
    assert [(f["uri"], f["reason"]) for f in report.failures] == [("vpn.md", "is a symbolic link, not a regular file")]
    assert report.changes["carried_over"] == 1
    assert base.retriever().search("ERR-4012", mode="keyword").hits


def test_a_refresh_leaves_no_git_process(tmp_path: Path, work: Work, monkeypatch: pytest.MonkeyPatch) -> None:
    import subprocess

    started: list[subprocess.Popen[bytes]] = []
    popen = subprocess.Popen

    def start(*arguments: Any, **settings: Any) -> Any:
        process = popen(*arguments, **settings)
        if arguments[0][0] == "git":
            started.append(process)
        return process

    work.commit(DOCUMENTS)
    base = from_git(tmp_path, work)
    monkeypatch.setattr(subprocess, "Popen", start)
    refreshed(base)
    assert started
    assert all(process.returncode is not None for process in started)
