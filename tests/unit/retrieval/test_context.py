"""Contexts: whole sentences with citations that hold, within a budget, and what was cut is said."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kbcore.citations import check_citations, cited
from kbcore.retrieval.context import UNTRUSTED, build_context, count_words, split_sentences
from kbcore.retrieval.retriever import Retriever
from kbcore.types import Hit
from tests.support import DOCUMENTS, knowledge_base, refreshed

GUIDE = "\n\n".join(
    f"## Step {n}\n\nOpen window {n} of the client. Is the badge there? Then press *Go*!\n\n- take the key {n}\n- lock it"
    for n in range(12)
)


@pytest.fixture(scope="module")
def retriever(tmp_path_factory: pytest.TempPathFactory) -> Retriever:
    base = knowledge_base(
        tmp_path_factory.mktemp("context"), {**DOCUMENTS, "guide.md": GUIDE}, chunking={"size": 150, "overlap": 40}
    )
    refreshed(base)
    return base.retriever()


@pytest.fixture(scope="module")
def hits(retriever: Retriever) -> tuple[Hit, ...]:
    return retriever.search("open the client with the badge and key", 12).hits


@settings(max_examples=300)
@given(st.text(alphabet=st.sampled_from("ab .!?…。！\n\t-*1)\"'”»|#>你好"), max_size=80) | st.text(max_size=80))
def test_sentences_joined_are_the_text(text: str) -> None:
    parts = split_sentences(text)
    assert "".join(parts) == text
    assert all(parts)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("One. Two! Three?", ["One. ", "Two! ", "Three?"]),
        ("第一句。第二句！", ["第一句。", "第二句！"]),
        ('He said "stop." Then left.', ['He said "stop." ', "Then left."]),
        ("Title\n\nText", ["Title\n\n", "Text"]),
        ("Take:\n- a\n- b\n1. c", ["Take:\n", "- a\n", "- b\n", "1. c"]),
        ("v2.1.3 and 3.5 are numbers", ["v2.1.3 and 3.5 are numbers"]),
    ],
)
def test_sentences_end_where_they_end(text: str, parts: list[str]) -> None:
    assert split_sentences(text) == parts


budgets = st.integers(0, 900)
counts = st.sampled_from([count_words, len, lambda text: len(text.encode()), lambda text: len(text) // 4 + 1])
quietly = settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@quietly
@given(budget=budgets, count=counts, k=st.integers(0, 12), note=st.sampled_from(["", UNTRUSTED]))
def test_a_context_keeps_its_promises(
    hits: tuple[Hit, ...], retriever: Retriever, budget: int, count, k: int, note: str
) -> None:
    asked = hits[:k]
    found = build_context(asked, budget, count=count, unit="x", note=note)
    assert found.tokens == count(found.text) if found.text else found.tokens == 0
    assert found.tokens <= budget or not found.text
    by_citation = {hit.citation: hit for hit in asked}
    assert list(cited(found.text)) == [passage.citation for passage in found.passages]
    for passage, block in zip(found.passages, _blocks(found.text, note), strict=True):
        hit = by_citation[passage.citation]
        sentences = split_sentences(hit.text)
        assert passage.sentences + passage.sentences_cut == len(sentences)
        assert passage.sentences > 0
        body = block.split("\n", 1)[1]
        whole = "".join(sentences[: passage.sentences]).strip()
        assert body in (whole, whole + " […]")
        assert body == whole or passage.sentences_cut
    said = {passage.citation for passage in found.passages} | set(found.left_out)
    repeated = [hit for hit in asked if hit.citation not in said]
    for hit in repeated:  # it stands in a passage already
        assert any(
            by_citation[other].doc_id == hit.doc_id
            and by_citation[other].first_ordinal <= hit.first_ordinal
            and hit.last_ordinal <= by_citation[other].last_ordinal
            for other in said
        )
    assert found.complete == (not found.left_out and not any(p.sentences_cut for p in found.passages))
    assert all(entry.state == "ok" for entry in check_citations(retriever.repository, found.text, retriever.release))


def _blocks(text: str, note: str) -> list[str]:
    rest = text.removeprefix(note)
    starts = [match.start() for match in re.finditer(r"\[r\d{6} [^\n]+?#c\d+(?:-\d+)?\]", rest)]
    ends = [*starts[1:], len(rest)]
    return [rest[a:b].rstrip("\n") for a, b in zip(starts, ends)]


def test_a_later_hit_may_fit_where_an_earlier_one_did_not(hits: tuple[Hit, ...]) -> None:
    long = dataclasses.replace(hits[0], text="one sentence " * 200 + "without an end")
    found = build_context([long, hits[-1]], 80)
    assert found.left_out == (long.citation,)
    assert [passage.citation for passage in found.passages] == [hits[-1].citation]


def test_a_context_of_nothing_says_that_all_was_left_out(hits: tuple[Hit, ...]) -> None:
    found = build_context(hits[:2], 3)
    assert (found.text, found.tokens, found.complete) == ("", 0, False)
    assert found.left_out == tuple(hit.citation for hit in hits[:2])


def test_a_context_counts_in_the_tokens_of_the_embedder_and_warns_of_its_material(retriever: Retriever) -> None:
    result, found = retriever.context("reset a password", 60)
    assert found.text.startswith(UNTRUSTED)
    assert found.untrusted
    assert found.tokens == retriever.embedder.count_tokens(found.text)
    assert result.hits
    keyword = retriever.context("reset a password", 60, mode="keyword")[1]
    assert keyword.unit == "words and marks"
    assert keyword.tokens == count_words(keyword.text)


def test_a_title_with_a_line_break_stays_on_the_line_of_its_citation(hits: tuple[Hit, ...], tmp_path: Path) -> None:
    odd = dataclasses.replace(hits[0], title="Two\nlines", heading="")
    found = build_context([odd], 400, note="")
    assert found.text.split("\n")[0] == f"{odd.citation} Two lines"
