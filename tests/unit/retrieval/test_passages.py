"""Passages: exact slices of documents that never overlap, k of them, and each chunk counted once."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kbcore.retrieval.passages import Passage, passages, resemblance
from kbcore.retrieval.retriever import Retriever
from kbcore.store.inventory import Inventory
from tests.support import knowledge_base, refreshed, write

LONG = "\n\n".join(
    f"## Part {n}\n\nThe gateway of room {n} is reset with the badge.  \n\n\n Then wait {n} minutes. 服务台 helps."
    for n in range(9)
)
COPY = (
    "The quarterly notice says that all printers on the second floor are replaced in the first week of May by the desk."
)


@pytest.fixture(scope="module")
def retriever(tmp_path_factory: pytest.TempPathFactory) -> Retriever:
    """Documents of many chunks, with overlap and with blanks between chunks, near-copies among them, and a deleted one."""
    root = tmp_path_factory.mktemp("passages")
    documents = {"long.md": LONG, "other.md": LONG.replace("gateway", "router"), "short.md": "Nothing but a line.\n"}
    documents |= {f"copy{n}.md": f"{COPY} Issue {n}.\n" for n in range(4)}
    base = knowledge_base(root, documents, chunking={"size": 60, "overlap": 15})
    refreshed(base)
    write(root / "docs", {"short.md": None, "later.md": LONG.replace("badge", "key")})
    refreshed(base)
    return base.retriever()


def live_rows(retriever: Retriever) -> list[int]:
    return [int(row) for row in np.flatnonzero(np.concatenate(retriever.snapshot.live_chunks))]


def ordered(retriever: Retriever, seed: int) -> list[tuple[int, float]]:
    rows = live_rows(retriever)
    random.Random(seed).shuffle(rows)
    return [(row, 1.0 - at / len(rows)) for at, row in enumerate(rows)]


made = st.fixed_dictionaries(
    {
        "seed": st.integers(0, 10_000),
        "count": st.integers(0, 60),
        "k": st.integers(1, 12),
        "merge": st.booleans(),
        "neighbours": st.integers(0, 3),
        "fold": st.booleans(),
    }
)
quietly = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def make(retriever: Retriever, values: dict[str, int]) -> tuple[list[tuple[int, float]], list[Passage]]:
    values = dict(values)
    order = ordered(retriever, values.pop("seed"))[: values.pop("count")]
    return order, passages(retriever.snapshot, order, values.pop("k"), **values)  # type: ignore[arg-type]


@quietly
@given(made)
def test_a_passage_is_the_exact_slice_of_its_document(retriever: Retriever, values: dict[str, int]) -> None:
    snapshot, inventory = retriever.snapshot, Inventory(retriever.repository, retriever.release)
    for passage in make(retriever, values)[1]:
        first, last = snapshot.chunk(passage.first), snapshot.chunk(passage.last)
        assert first["doc_id"] == last["doc_id"] == snapshot.chunk(passage.row)["doc_id"]
        assert passage.first <= passage.row <= passage.last
        text = inventory.text(first["doc_id"])
        assert text is not None
        assert snapshot.text(passage.first, passage.last) == text[first["start"] : last["end"]]


@quietly
@given(made)
def test_joined_passages_never_overlap_nor_touch(retriever: Retriever, values: dict[str, int]) -> None:
    _, found = make(retriever, {**values, "merge": True})
    for a in found:
        for b in found:
            if a is not b and retriever.snapshot.same_document(a.first, b.first):
                assert a.last + 1 < b.first or b.last + 1 < a.first


@quietly
@given(made)
def test_there_are_k_passages_where_enough_chunks_were_found(retriever: Retriever, values: dict[str, int]) -> None:
    order, found = make(retriever, values)
    everything = make(retriever, {**values, "k": 1000})[1]
    assert len(found) <= values["k"]
    if len(found) < values["k"]:
        # Then nothing was left to make another one of.
        assert [(p.row, p.first, p.last, p.copies) for p in found] == [
            (p.row, p.first, p.last, p.copies) for p in everything
        ]
    assert len(found) == len(order[: values["k"]]) or values["merge"] or values["fold"]


@quietly
@given(made)
def test_every_chunk_is_counted_once_and_the_order_is_kept(retriever: Retriever, values: dict[str, int]) -> None:
    order, found = make(retriever, values)
    places = {row: at for at, (row, _) in enumerate(order)}
    copies = [row for passage in found for row in passage.copies]
    assert len(copies) == len(set(copies))
    assert not {passage.row for passage in found} & set(copies)
    ranking = [places[passage.row] for passage in found]
    assert ranking == sorted(ranking)
    assert [passage.score for passage in found] == [order[at][1] for at in ranking]
    if not values["fold"]:
        assert not copies


def test_without_joining_each_chunk_is_a_passage(retriever: Retriever) -> None:
    order = ordered(retriever, 1)
    assert [(p.row, p.score) for p in passages(retriever.snapshot, order, 7)] == order[:7]


def test_near_copies_take_one_place_and_are_named(retriever: Retriever) -> None:
    plain = retriever.search("quarterly notice printers second floor", 4, mode="keyword")
    assert len({hit.doc_id for hit in plain.hits if "copy" in hit.doc_id}) > 1
    folded = retriever.search("quarterly notice printers second floor", 4, mode="keyword", fold=True)
    first = folded.hits[0]
    assert len(first.copies) == 3
    assert first.chunk_id not in first.copies
    shown = [hit.chunk_id for hit in folded.hits]
    assert not {copy for hit in folded.hits for copy in hit.copies} & set(shown)


def test_a_hit_of_joined_chunks_says_what_it_spans(retriever: Retriever) -> None:
    found = retriever.search("gateway room badge", 1, merge=True, neighbours=1, where="uri=long.md").hits[0]
    assert found.first_ordinal < found.last_ordinal
    assert f"#c{found.first_ordinal}-{found.last_ordinal}]" in found.citation
    text = Inventory(retriever.repository, retriever.release).text(found.doc_id)
    assert text is not None
    assert found.text == text[found.start : found.end]


def test_neighbours_stop_at_the_ends_of_a_document(retriever: Retriever) -> None:
    for row in live_rows(retriever):
        first, last = retriever.snapshot.neighbourhood(row, 500)
        names = {retriever.snapshot.chunk(other)["doc_id"] for other in range(first, last + 1)}
        assert names == {retriever.snapshot.chunk(row)["doc_id"]}
        assert retriever.snapshot.chunk(first)["ordinal"] == 0


@given(st.frozensets(st.integers(0, 9)), st.frozensets(st.integers(0, 9)))
def test_resemblance_is_a_share_of_the_union(a: frozenset[int], b: frozenset[int]) -> None:
    left, right = (frozenset((str(n),) for n in numbers) for numbers in (a, b))
    value = resemblance(left, right)
    assert 0.0 <= value <= 1.0
    assert (value == 1.0) == (a == b)
    assert value == resemblance(right, left)
