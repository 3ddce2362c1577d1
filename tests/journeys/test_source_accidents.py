"""What happens to a source folder by accident never takes documents away from readers."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from kbcore.errors import SourceError
from kbcore.knowledge_base import KnowledgeBase
from tests.support import answers, knowledge_base, refreshed, served, write

COUNT = 40
PAGES = {f"{n % 4}/{n}.md": f"# Page {n}\n\nThe subject {n} is alpha{n}. " + "Some words. " * 9 for n in range(COUNT)}


@pytest.fixture
def base(tmp_path: Path) -> KnowledgeBase:
    made = knowledge_base(tmp_path, PAGES)
    refreshed(made)
    return made


def test_an_empty_folder_removes_nothing_and_additions_still_ship(base: KnowledgeBase, tmp_path: Path) -> None:
    before = answers(base)
    shutil.rmtree(tmp_path / "docs")
    (tmp_path / "docs").mkdir()
    report = refreshed(base)
    assert (report.outcome, report.changes["removed"], len(report.withheld_removals)) == ("unchanged", 0, COUNT)
    assert answers(base) == before
    write(tmp_path / "docs", {"new.md": "# New\n\nSomething about zebras.\n"})
    report = refreshed(base)
    assert (report.outcome, report.changes["added"], len(report.withheld_removals)) == ("published", 1, COUNT)
    assert base.retriever().search("zebras", mode="keyword").hits
    assert base.retriever().search("alpha7", mode="keyword").hits


@pytest.mark.parametrize("kind", ["file", "missing", "link to nothing"])
def test_a_folder_that_is_none_is_an_error_and_removes_nothing(base: KnowledgeBase, tmp_path: Path, kind: str) -> None:
    before = served(base)
    shutil.rmtree(tmp_path / "docs")
    if kind == "file":
        (tmp_path / "docs").write_text("a file")
    elif kind == "link to nothing":
        (tmp_path / "docs").symlink_to(tmp_path / "nowhere")
    with pytest.raises(SourceError):
        refreshed(base)
    assert served(base) == before


def test_a_half_that_cannot_be_read_removes_nothing(base: KnowledgeBase, tmp_path: Path) -> None:
    if os.geteuid() == 0:
        import kbcore.sources.directory as directory

        scandir = os.scandir

        def denied(path: str = ".") -> object:
            if str(path).endswith(("/docs/2", "/docs/3")):
                raise PermissionError(13, "Permission denied", str(path))
            return scandir(path)

        patch = pytest.MonkeyPatch()
        patch.setattr(directory.os, "scandir", denied)
    else:
        patch = pytest.MonkeyPatch()
        for part in ("2", "3"):
            (tmp_path / "docs" / part).chmod(0)
    try:
        write(tmp_path / "docs", {"0/0.md": None, "0/new.md": "# New\n\nSomething about zebras.\n"})
        report = refreshed(base)
    finally:
        patch.undo()
        for part in ("2", "3"):
            (tmp_path / "docs" / part).chmod(0o755)
    assert (report.changes["added"], report.changes["removed"]) == (1, 0)
    assert not report.sources[0]["complete"]
    assert [failure["reason"] for failure in report.failures] == ["folder cannot be read: Permission denied"] * 2
    assert base.retriever().search("alpha2", mode="keyword").hits
    # Once all can be read again, the one that is really gone goes.
    assert refreshed(base).changes["removed"] == 1


def test_every_file_moved_one_folder_down_is_a_rename_that_embeds_nothing(base: KnowledgeBase, tmp_path: Path) -> None:
    before = [[score for _, score in found] for found in answers(base)]
    (tmp_path / "docs").rename(tmp_path / "all")
    (tmp_path / "docs").mkdir()
    (tmp_path / "all").rename(tmp_path / "docs" / "all")
    report = refreshed(base)
    assert (report.changes["renamed"], report.changes["removed"], report.texts_embedded) == (COUNT, 0, 0)
    assert report.withheld_removals == []
    assert [[score for _, score in found] for found in answers(base)] == before
    assert {hit.uri.split("/")[0] for hit in base.retriever().search("alpha7", k=50).hits} == {"all"}


def test_a_second_knowledge_base_is_one_more_file(tmp_path: Path) -> None:
    """Two configurations, one folder of repositories, and neither sees the other."""
    from kbcore.config import load
    from kbcore.knowledge_base import open_repository

    for name, words in (("people", "holidays"), ("machines", "gearboxes")):
        write(tmp_path / name, {"page.md": f"# {name}\n\nAll about {words}.\n"})
        (tmp_path / f"{name}.toml").write_text(
            f'[kb]\nname = "{name}"\nrepository = "{tmp_path}/releases"\n'
            f'[[sources]]\nname = "pages"\npath = "{tmp_path}/{name}"\n[embedder]\nprovider = "hashing"\n'
        )
        base = KnowledgeBase(load(tmp_path / f"{name}.toml"))
        base.create()
        refreshed(base)
    people = open_repository(tmp_path / "people.toml").retriever()
    assert people.search("holidays", mode="keyword").hits
    assert people.search("gearboxes", mode="keyword").hits == ()
    assert sorted(path.name for path in (tmp_path / "releases").iterdir()) == ["machines", "people"]
