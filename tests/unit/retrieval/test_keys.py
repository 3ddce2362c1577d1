"""Look-up: a key matches whole or not at all; letter case, width and blanks make no difference, and nothing else does."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kbcore.retrieval.retriever import Retriever
from tests.support import DOCUMENTS, knowledge_base, refreshed, write

NAMED = "---\naliases: [remote access, Fernzugriff]\ncode: 4711\nkey: true\n---\n# VPN  Guide\n\nERR-4012 means wait. ERR-4012.\n"


@pytest.fixture(scope="module")
def retriever(tmp_path_factory: pytest.TempPathFactory) -> Retriever:
    root = tmp_path_factory.mktemp("keys")
    documents = {"net/guide.md": NAMED, "errors.md": "# Errors\n\nERR-4013 is rare, see ERR-4012.\n"}
    base = knowledge_base(root, {**DOCUMENTS, **documents, "gone.md": "# Gone\n\nZZ-99 was here.\n"})
    refreshed(base)
    write(root / "docs", {"gone.md": None})
    refreshed(base)
    return base.retriever()


@pytest.mark.parametrize(
    ("key", "kind"),
    [
        ("docs:net/guide.md", "doc_id"),
        ("net/guide.md", "uri"),
        ("remote access", "alias"),
        ("fernzugriff", "alias"),
        ("4711", "alias"),
        ("VPN Guide", "title"),
    ],
)
def test_a_document_is_found_by_each_of_its_names(retriever: Retriever, key: str, kind: str) -> None:
    found = retriever.lookup(key)
    assert found.outcome == "hits"
    assert found.score_kind == "key"
    assert {"kind": kind, "doc_id": "docs:net/guide.md", "chunks": 1} in found.evidence["matches"]
    assert found.hits[0].doc_id == "docs:net/guide.md"


def test_a_code_finds_every_chunk_that_holds_it_and_no_other(retriever: Retriever) -> None:
    found = retriever.lookup("err-4012", 50)
    rows = [row for row in range(int(retriever.snapshot.offsets[-1]))]
    held = {
        retriever.snapshot.chunk(row)["chunk_id"] for row in rows if "ERR-4012" in retriever.snapshot.chunk(row)["text"]
    }
    assert {hit.chunk_id for hit in found.hits} == held
    assert all(match["kind"] == "code" for match in found.evidence["matches"])


def vary(key: str, flips: list[bool], wide: bool, blanks: int) -> str:
    text = "".join(letter.swapcase() if flip else letter for letter, flip in zip(key, flips + [False] * len(key)))
    if wide:
        text = "".join(chr(ord(letter) + 0xFEE0) if "!" <= letter <= "~" else letter for letter in text)
    return " " * blanks + text.replace(" ", " " * (1 + blanks)) + "\t" * blanks


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    key=st.sampled_from(["VPN Guide", "remote access", "net/guide.md", "docs:net/guide.md", "ERR-4012"]),
    flips=st.lists(st.booleans(), max_size=20),
    wide=st.booleans(),
    blanks=st.integers(0, 3),
)
def test_case_width_and_blanks_make_no_difference(
    retriever: Retriever, key: str, flips: list[bool], wide: bool, blanks: int
) -> None:
    plain, varied = retriever.lookup(key, 50), retriever.lookup(vary(key, flips, wide, blanks), 50)
    assert [hit.chunk_id for hit in varied.hits] == [hit.chunk_id for hit in plain.hits]
    assert plain.hits


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    key=st.sampled_from(["VPN Guide", "remote access", "net/guide.md", "docs:net/guide.md", "ERR-4012", "Fernzugriff"]),
    at=st.integers(0, 20),
    letter=st.sampled_from("xqö7._-"),
)
def test_anything_else_does(retriever: Retriever, key: str, at: int, letter: str) -> None:
    other = key[: at % (len(key) + 1)] + letter + key[at % (len(key) + 1) :]
    matches = retriever.keys(retriever.snapshot).find(other)
    assert not [match for match in matches if match.kind != "code"]
    # A code may be a code still with a mark at its end, or stand as a part of a longer one.
    assert all("4012" in other for _ in matches)


def test_an_unknown_key_says_so_and_names_near_ones(retriever: Retriever) -> None:
    found = retriever.lookup("ERR-4021")
    assert (found.outcome, found.hits, found.evidence["known"]) == ("no_match", (), False)
    assert "err-4012" in found.evidence["near"]
    assert retriever.lookup("net/guide.mb").evidence["near"] == ["net/guide.md"]
    assert retriever.lookup("something else entirely").evidence["near"] == []


def test_what_is_deleted_goes_by_no_name(retriever: Retriever) -> None:
    for key in ("gone.md", "docs:gone.md", "Gone", "ZZ-99"):
        assert retriever.lookup(key).outcome == "no_match"


def test_what_is_declared_as_something_else_than_a_text_or_a_number_is_no_alias(retriever: Retriever) -> None:
    assert retriever.lookup("true").outcome == "no_match"


def test_a_blank_key_finds_nothing(retriever: Retriever) -> None:
    assert retriever.lookup("  \t ").outcome == "no_match"


def test_a_question_around_a_code_is_answered_from_what_holds_it(retriever: Retriever) -> None:
    found = retriever.search("what does ERR-4013 mean?", keys=True)
    assert found.score_kind == "key"
    assert {hit.doc_id for hit in found.hits} == {"docs:errors.md"}
    other = retriever.search("what does ERR-7777 mean?", keys=True)
    assert other.score_kind != "key"
    assert other.evidence["unknown_codes"] == ["err-7777"]


def test_a_look_up_goes_through_the_filter(retriever: Retriever) -> None:
    assert {hit.doc_id for hit in retriever.lookup("ERR-4012", where="uri=errors.md").hits} == {"docs:errors.md"}
    for key in ("VPN Guide", "net/guide.md", "ERR-4013"):
        found = retriever.lookup(key, where="uri=nothing.md")
        assert (found.outcome, found.evidence["known"], found.evidence["near"]) == ("no_match", True, [])
    assert retriever.lookup("VPN Guise", where="uri=nothing.md").evidence["known"] is False


def test_what_was_erased_goes_by_no_name_at_once(tmp_path: Path) -> None:
    base = knowledge_base(tmp_path)
    refreshed(base)
    retriever = base.retriever()
    assert retriever.lookup("vpn.md").hits
    base.repository.erase(
        [{"doc_id": "docs:vpn.md", "content_sha256": None}], reason="asked for", run=base.repository.begin()
    )
    assert retriever.lookup("vpn.md").outcome == "no_match"
    assert retriever.lookup("ERR-4012").outcome == "no_match"
