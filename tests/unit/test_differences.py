"""What a comparison of two releases says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kbcore.differences import compare_releases, text_diff
from kbcore.errors import ReleaseNotFoundError, UsageError
from kbcore.knowledge_base import KnowledgeBase
from tests.support import DOCUMENTS, configure, knowledge_base, refreshed, write

PAGE = "\n\n".join(f"## Part {n}\n\n" + f"Sentence {n} of a longer page. " * 14 for n in range(4))


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> KnowledgeBase:
    """r000001 to r000005: all documents; one added; one edited at its end; one renamed; one deleted."""
    root = tmp_path_factory.mktemp("differences")
    made = knowledge_base(root, {**DOCUMENTS, "page.md": PAGE})
    refreshed(made)
    for change in (
        {"new.md": "# New\n\nA page about laptops.\n"},
        {"page.md": PAGE + "\n\n## End\n\n" + "A closing that was not there. " * 14},
        {"printers.txt": None, "floors/printers.txt": DOCUMENTS["printers.txt"]},
        {"passwords.md": None},
    ):
        write(root / "docs", change)
        refreshed(made)
    return made


def test_each_kind_of_change_is_named(base: KnowledgeBase) -> None:
    steps = [compare_releases(base.repository, f"r00000{n}", f"r00000{n + 1}") for n in range(1, 5)]
    assert [(s.added, s.removed, s.renamed, [c["doc_id"] for c in s.changed], s.unchanged) for s in steps] == [
        (["docs:new.md"], [], [], [], 5),
        ([], [], [], ["docs:page.md"], 5),
        ([], [], [{"old": "docs:printers.txt", "new": "docs:floors/printers.txt"}], [], 5),
        ([], ["docs:passwords.md"], [], [], 5),
    ]
    assert all(step.differs and not step.settings for step in steps)


def test_a_whole_history_is_one_difference(base: KnowledgeBase) -> None:
    found = compare_releases(base.repository, "r000001", "r000005")
    assert found.added == ["docs:new.md"]
    assert found.removed == ["docs:passwords.md"]
    assert found.renamed == [{"old": "docs:printers.txt", "new": "docs:floors/printers.txt"}]
    assert found.unchanged == 2


def test_backwards_is_the_reverse(base: KnowledgeBase) -> None:
    forth = compare_releases(base.repository, "r000001", "r000005")
    back = compare_releases(base.repository, "r000005", "r000001")
    assert (back.added, back.removed) == (forth.removed, forth.added)
    assert back.renamed == [{"old": pair["new"], "new": pair["old"]} for pair in forth.renamed]
    assert [(c["kept"], c["new"], c["gone"]) for c in back.changed] == [
        (c["kept"], c["gone"], c["new"]) for c in forth.changed
    ]


def test_chunks_of_a_changed_document_are_kept_new_or_gone(base: KnowledgeBase) -> None:
    (change,) = compare_releases(base.repository, "r000002", "r000003").changed
    counts = [
        next(
            row["chunk_count"]
            for segment in base.repository.segments(base.repository.manifest(release))
            for row, live in zip(segment.documents().to_pylist(), segment.live_documents())
            if live and row["doc_id"] == "docs:page.md"
        )
        for release in ("r000002", "r000003")
    ]
    assert [change["kept"] + change["gone"], change["kept"] + change["new"]] == counts
    assert change["kept"] >= 3
    assert change["new"] >= 1


def test_a_release_does_not_differ_from_itself(base: KnowledgeBase) -> None:
    found = compare_releases(base.repository, "r000003", "r000003")
    assert not found.differs
    assert found.unchanged == 6


def test_the_difference_is_json_with_the_totals_of_both(base: KnowledgeBase) -> None:
    body = compare_releases(base.repository, "r000001", "r000002").to_json()
    assert json.loads(json.dumps(body)) == body
    assert {name: total["documents"] for name, total in body["totals"].items()} == {"r000001": 5, "r000002": 6}
    assert body["differs"] is True


def test_settings_that_differ_are_named_with_both_values(tmp_path: Path) -> None:
    base = knowledge_base(tmp_path)
    refreshed(base)
    other = configure(
        tmp_path, chunking={"size": 200, "overlap": 20}, embedder={"provider": "hashing", "dimension": 32}
    )
    refreshed(KnowledgeBase(other))
    settings = {
        s["name"]: (s["old"], s["new"]) for s in compare_releases(base.repository, "r000001", "r000002").settings
    }
    assert settings["chunking size"] == (512, 200)
    assert settings["chunking overlap"] == (50, 20)
    old, new = (base.repository.manifest(release).embedder_id for release in ("r000001", "r000002"))
    assert old != new
    assert settings["embedder"][0].endswith(old)
    assert settings["embedder"][1].endswith(new)


def test_carried_over_and_withheld_documents_are_listed(tmp_path: Path) -> None:
    base = knowledge_base(tmp_path, {f"{n}.md": f"# Page {n}\n\nText {n}.\n" for n in range(10)})
    refreshed(base)
    write(
        tmp_path / "docs", {**{f"{n}.md": None for n in range(4)}, "9.md": b"\x00" * 64, "new.md": "# New\n\nMore.\n"}
    )
    refreshed(base)
    found = compare_releases(base.repository, "r000001", "r000002")
    assert [entry["doc_id"] for entry in found.carried_over] == ["docs:9.md"]
    assert sorted(found.withheld) == [f"docs:{n}.md" for n in range(4)]
    assert (found.removed, found.changed, found.unchanged) == ([], [], 10)


def test_erased_documents_do_not_show(tmp_path: Path) -> None:
    base = knowledge_base(tmp_path, {**DOCUMENTS, **{f"{n}.md": f"# Page {n}\n\nText {n}.\n" for n in range(10)}})
    refreshed(base)
    gone: dict[str, str | bytes | None] = {f"{n}.md": None for n in range(4)}
    write(
        tmp_path / "docs", {**gone, "vpn.md": "# VPN\n\nOther.\n", "9.md": b"\x00" * 64, "new.md": "# New\n\nMore.\n"}
    )
    refreshed(base)
    erased = ["docs:vpn.md", "docs:9.md", "docs:0.md", "docs:new.md"]
    before = compare_releases(base.repository, "r000001", "r000002")
    assert all(doc_id in json.dumps(before.to_json()) for doc_id in erased)
    base.repository.erase(
        [{"doc_id": doc_id, "content_sha256": None} for doc_id in erased],
        reason="asked",
        run=base.repository.begin("ann"),
    )
    found = compare_releases(base.repository, "r000001", "r000002")
    assert not any(doc_id in json.dumps(found.to_json()) for doc_id in erased)
    with pytest.raises(UsageError, match="neither"):
        text_diff(base.repository, "r000001", "r000002", "docs:vpn.md")


def test_text_diff_is_unified_and_empty_where_texts_are_equal(base: KnowledgeBase) -> None:
    diff = text_diff(base.repository, "r000002", "r000003", "docs:page.md").split("\n")
    assert diff[:2] == ["--- r000002/docs:page.md", "+++ r000003/docs:page.md"]
    assert any(line.startswith("+A closing") for line in diff)
    assert text_diff(base.repository, "r000001", "r000002", "docs:page.md") == ""


def test_text_diff_of_a_document_in_one_release_alone_is_all_of_it(base: KnowledgeBase) -> None:
    added = text_diff(base.repository, "r000001", "r000002", "docs:new.md").split("\n")
    assert all(line.startswith("+") for line in added[3:])
    removed = text_diff(base.repository, "r000004", "r000005", "docs:passwords.md").split("\n")
    assert all(line.startswith("-") for line in removed[3:])


def test_texts_that_differ_in_a_line_separator_alone_differ(tmp_path: Path) -> None:
    base = knowledge_base(tmp_path, {"a.txt": "One line\u2028and another of it.\n"})
    refreshed(base)
    write(tmp_path / "docs", {"a.txt": "One line\nand another of it.\n"})
    refreshed(base)
    texts = [
        segment.documents(["text"]).column("text").to_pylist()
        for release in ("r000001", "r000002")
        for segment in base.repository.segments(base.repository.manifest(release))
    ]
    assert texts[0] != texts[-1]
    assert text_diff(base.repository, "r000001", "r000002", "docs:a.txt") != ""


def test_unknown_releases_and_documents_are_errors(base: KnowledgeBase) -> None:
    with pytest.raises(ReleaseNotFoundError):
        compare_releases(base.repository, "r000001", "r000099")
    with pytest.raises(UsageError, match="neither r000001 nor r000002 holds"):
        text_diff(base.repository, "r000001", "r000002", "docs:none.md")


def test_text_diff_follows_a_rename_by_either_id(base: KnowledgeBase) -> None:
    assert text_diff(base.repository, "r000003", "r000004", "docs:printers.txt") == ""
    assert text_diff(base.repository, "r000003", "r000004", "docs:floors/printers.txt") == ""
