"""Citations are checked against the releases they name, and what is wrong with each is told apart."""

from __future__ import annotations

from pathlib import Path

import pytest

from kbcore.citations import MAX_CITATIONS, check_citations
from kbcore.knowledge_base import KnowledgeBase
from kbcore.store.inventory import Inventory
from tests.support import knowledge_base, refreshed, write


@pytest.fixture
def base(tmp_path: Path) -> KnowledgeBase:
    base = knowledge_base(tmp_path, chunking={"size": 60, "overlap": 10})
    refreshed(base)
    write(
        tmp_path / "docs", {"vpn.md": "# VPN\n\nIt is called Remote now.\n", "blank [1] #c2.md": "# Odd\n\nOdd name.\n"}
    )
    refreshed(base)
    return base


def states(base: KnowledgeBase, answer: str, release: str | None = None) -> list[str]:
    return [entry.state for entry in check_citations(base.repository, answer, release)]


def test_a_citation_that_holds_gives_the_text_it_cites(base: KnowledgeBase) -> None:
    inventory = Inventory(base.repository, "r000001")
    spans = inventory.chunk_spans("docs:vpn.md")
    found = check_citations(base.repository, "So [r000001 docs:vpn.md#c0-1] it is.")[0]
    assert (found.state, found.said, found.offset) == ("ok", "", 3)
    text = inventory.text("docs:vpn.md")
    assert text is not None
    assert found.text == text[spans[0][0] : spans[1][1]]
    assert found.to_json()["cited"] == "[r000001 docs:vpn.md#c0-1]"


@pytest.mark.parametrize(
    ("citation", "state", "said"),
    [
        ("[r000001 docs:vpn.md#c0]", "other release", "it cites r000001, the answer was asked of r000002"),
        ("[r000009 docs:vpn.md#c0]", "no release", "there is no release r000009"),
        ("[r000002 docs:gone.md#c0]", "no document", "r000002 holds no document docs:gone.md"),
        ("[r000002 docs:passwords.md#c99]", "no chunk", "c0 to c"),
        ("[r000002 docs:passwords.md#c1-0]", "no chunk", "c0 to c"),
        ("[r000002 docs:vpn.md#c0]", "ok", ""),
        ("[r000002 docs:blank [1] #c2.md#c0]", "ok", ""),
    ],
)
def test_what_is_wrong_with_a_citation_is_told_apart(base: KnowledgeBase, citation: str, state: str, said: str) -> None:
    found = check_citations(base.repository, f"x {citation} y", "r000002")
    assert [(entry.cited, entry.state) for entry in found] == [(citation, state)]
    assert said in found[0].said


def test_an_expired_release_is_not_a_missing_one(base: KnowledgeBase) -> None:
    base.repository.expire("r000001", reason="old", run=base.repository.begin())
    assert states(base, "[r000001 docs:vpn.md#c0]") == ["expired"]
    assert states(base, "[r000002 docs:vpn.md#c0]") == ["ok"]


def test_a_damaged_release_says_so(base: KnowledgeBase) -> None:
    manifest = next((base.folder / "manifests").glob("r000001*"))
    manifest.write_bytes(manifest.read_bytes()[:-20])
    found = check_citations(base.repository, "[r000001 docs:vpn.md#c0] [r000002 docs:vpn.md#c0]")
    assert [entry.state for entry in found] == ["unreadable", "ok"]
    assert "damaged" in found[0].said


def test_an_erased_document_is_cited_no_more(base: KnowledgeBase) -> None:
    base.repository.erase(
        [{"doc_id": "docs:vpn.md", "content_sha256": None}], reason="asked for", run=base.repository.begin()
    )
    found = check_citations(base.repository, "[r000001 docs:vpn.md#c0]")[0]
    assert (found.state, found.text) == ("no document", None)


def test_what_only_looks_like_a_citation_is_not_one(base: KnowledgeBase) -> None:
    assert states(base, "[r1 a#c0] [r000001 a] [r000001\na#c0] (r000001 a#c0) [r000001 docs:vpn.md#c]") == []


def test_every_citation_of_an_answer_is_looked_at_up_to_the_bound(base: KnowledgeBase) -> None:
    assert len(states(base, "[r000002 docs:vpn.md#c0] " * (MAX_CITATIONS + 5))) == MAX_CITATIONS


def test_every_hit_of_every_mode_cites_what_holds(base: KnowledgeBase) -> None:
    retriever = base.retriever()
    for mode in ("vector", "keyword", "hybrid"):
        result = retriever.search("password client gateway", 20, mode=mode, merge=True, neighbours=1)  # type: ignore[arg-type]
        for hit, entry in zip(
            result.hits, check_citations(base.repository, " ".join(hit.citation for hit in result.hits)), strict=True
        ):
            assert (entry.state, entry.text) == ("ok", hit.text)


def test_the_chunk_after_the_last_one_is_none(base: KnowledgeBase) -> None:
    count = len(Inventory(base.repository, "r000002").chunk_spans("docs:passwords.md"))
    cited = [f"[r000002 docs:passwords.md#c{n}]" for n in (count - 1, count, f"0-{count}")]
    assert states(base, " ".join(cited)) == ["ok", "no chunk", "no chunk"]


def test_a_citation_that_is_not_finished_hides_none_that_follows_it(base: KnowledgeBase) -> None:
    answer = "See [r000001 docs:vpn.md] and [r000002 docs:vpn.md#c0], not [r000002 [r000002 docs:vpn.md#c99]."
    found = check_citations(base.repository, answer)
    assert [entry.cited for entry in found] == ["[r000002 docs:vpn.md#c0]", "[r000002 docs:vpn.md#c99]"]
    assert [entry.state for entry in found] == ["ok", "no chunk"]
