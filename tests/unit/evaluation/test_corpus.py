"""What a candidate is made of against another release."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from kbcore.evaluation.causes import Releases
from kbcore.evaluation.corpus import CorpusChange, between
from kbcore.ingest import refresh as refreshing
from kbcore.types import Parsed
from tests.support import knowledge_base, refreshed, write

LONG = "The badge opens the door of the second floor, and the one of the cellar where the printers stand. " * 20


def page(name: str, text: str = LONG) -> str:
    return f"# {name}\n\n{text} This is {name}.\n"


PAGES = {f"{name}.md": page(name) for name in ("ash", "birch", "cedar", "elm", "fir")}


def change(tmp_path: Path, edits: dict[str, str | bytes | None]) -> CorpusChange:
    base = knowledge_base(tmp_path, PAGES)
    refreshed(base, gate=False)
    write(tmp_path / "docs", edits)
    assert refreshed(base, gate=False).release == "r000002"
    return between(Releases(base.repository, "r000001", "r000002"))


def test_a_release_against_itself_has_changed_nothing(tmp_path: Path) -> None:
    base = knowledge_base(tmp_path, PAGES)
    refreshed(base)
    found = between(Releases(base.repository, "r000001", "r000001"))
    assert (found.documents, found.removed, found.emptied, found.untitled, found.failed, found.copied) == (
        5,
        0,
        0,
        0,
        0,
        0,
    )
    assert found.characters == found.characters_before == found.kept_characters


def test_a_document_is_emptied_where_its_file_stays_and_its_text_goes(tmp_path: Path) -> None:
    found = change(tmp_path, {"ash.md": "", "birch.md": "# birch\n\nMoved.\n", "cedar.md": page("cedar", LONG[:500])})
    assert (found.emptied, found.removed) == (2, 1)


def test_a_document_whose_file_goes_is_removed_and_not_emptied(tmp_path: Path) -> None:
    found = change(tmp_path, {"ash.md": None})
    assert (found.emptied, found.removed) == (0, 1)


def test_a_renamed_document_is_neither(tmp_path: Path) -> None:
    found = change(tmp_path, {"ash.md": None, "trees/ash.md": PAGES["ash.md"]})
    assert (found.emptied, found.removed, found.copied) == (0, 0, 0)
    assert found.kept_characters == found.kept_characters_before == found.characters


def test_a_document_counts_as_failed_only_where_it_did_not_fail_before(tmp_path: Path) -> None:
    base = knowledge_base(tmp_path, {**PAGES, "scan.pdf": b"%PDF-1.7 broken"})
    refreshed(base, gate=False)
    write(tmp_path / "docs", {"ash.md": page("ash", "Other words."), "map.pdf": b"%PDF-1.7 broken too"})
    refreshed(base, gate=False)
    assert len(base.repository.manifest("r000002").exceptions) == 2
    assert between(Releases(base.repository, "r000001", "r000002")).failed == 1


def test_a_document_is_untitled_where_it_had_a_title(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    base = knowledge_base(tmp_path, PAGES)
    refreshed(base, gate=False)

    class Untitled(refreshing.ParserPool):
        def parse(self, uri: str, data: bytes, media_type: str | None = None) -> Parsed:
            parsed = super().parse(uri, data, media_type)
            return parsed if uri == "fir.md" else replace(parsed, title=" ")

    write(tmp_path / "docs", {name: text + "\nMore.\n" for name, text in PAGES.items()})
    monkeypatch.setattr(refreshing, "ParserPool", Untitled)
    refreshed(base, gate=False)
    assert between(Releases(base.repository, "r000001", "r000002")).untitled == 4


def test_new_documents_that_repeat_another_are_copies_of_it(tmp_path: Path) -> None:
    found = change(tmp_path, {f"elm-{n}.md": PAGES["elm.md"] + f"\nCopy {n}.\n" for n in range(3)})
    assert (found.copied, found.copied_most) == (3, "docs:elm.md")


def test_new_documents_with_a_text_of_their_own_are_not(tmp_path: Path) -> None:
    found = change(tmp_path, {"oak.md": page("oak", "Oaks grow slowly. " * 100)})
    assert (found.copied, found.copied_most) == (0, None)
