"""Filtered search against brute force: every live chunk scored by numpy, then filtered, then sorted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from kbcore import fusion
from kbcore.filters import read_filter
from kbcore.knowledge_base import KnowledgeBase
from kbcore.retrieval.retriever import Retriever
from kbcore.tokenization import query_terms
from tests.support import knowledge_base, refreshed, write

WORDS = "vpn gateway password reset badge printer phone wipe error network profile client ERR-4012 router mail".split()  # noqa: SIM905


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> KnowledgeBase:
    """Some forty documents of random words in two folders and three formats, in several segments with deletes."""
    root = tmp_path_factory.mktemp("filters")
    rng = np.random.default_rng(7)

    def page(number: int) -> str:
        text = " ".join(rng.choice(WORDS, 60))
        return f"---\nteam: {'net' if number % 3 else 'desk'}\nlevel: {number % 5}\n---\n# Page {number}\n\n{text}\n"

    names = [f"{'vpn' if n % 2 else 'mail'}/{n}.{'txt' if n % 7 == 0 else 'md'}" for n in range(40)]
    base = knowledge_base(root, {name: page(n) for n, name in enumerate(names)}, chunking={"size": 120, "overlap": 20})
    refreshed(base)
    write(root / "docs", {names[1]: page(101), names[2]: None, "vpn/new.md": page(102)})
    refreshed(base)
    return base


@pytest.fixture(scope="module")
def retriever(desk: KnowledgeBase) -> Retriever:
    return desk.retriever()


def brute_force(retriever: Retriever, query: str, asked: Any, mode: str, k: int) -> list[tuple[str, float]]:
    """(chunk id, score) of the k best chunks that pass, in order."""
    snapshot = retriever.snapshot
    chosen = read_filter(asked)
    assert chosen is not None
    rows = [row for row in range(int(snapshot.offsets[-1])) if np.concatenate(snapshot.live_chunks)[row]]
    passing = [row for row in rows if chosen.matches(snapshot.chunk(row))]
    ids = {row: snapshot.chunk(row)["chunk_id"] for row in passing}
    vector = retriever.embedder.embed_query(query).astype(np.float64)
    vectors = np.concatenate([segment.vectors() for segment in snapshot.segments]).astype(np.float64)
    assert snapshot.lexical is not None
    terms = query_terms(query)
    scores, matched = snapshot.lexical.scores(terms), snapshot.lexical.matched(terms)
    cosines = {row: float(vectors[row] @ vector / np.linalg.norm(vector)) for row in passing}
    depth = k if mode != "hybrid" else 3 * k
    near = sorted(((ids[row], cosines[row]) for row in passing), key=lambda entry: (-round(entry[1], 12), entry[0]))[
        :depth
    ]
    found = sorted(
        ((ids[row], float(scores[row])) for row in passing if matched[row]), key=lambda entry: (-entry[1], entry[0])
    )[:depth]
    if mode == "vector":
        return near
    if mode == "keyword" or not near:
        return found[:k]
    return near[:k] if not found else fusion.ranked(fusion.minmax(near, found, 0.5))[:k]


FILTERS = st.sampled_from(
    [
        {"uri": {"prefix": "vpn/"}},
        {"uri": {"prefix": "mail/"}, "metadata.team": "net"},
        {"media_type": "text/plain"},
        {"metadata.level": {"gte": 3}},
        {"any": [{"metadata.level": 0}, {"metadata.team": "desk"}]},
        {"not": {"metadata.team": "net"}},
        {"doc_id": ["docs:vpn/new.md", "docs:vpn/1.md"]},
        {"fetched_at": {"lt": "1999-01-01"}},
        {"modified_at": {"gt": "1999-01-01"}},
    ]
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    asked=FILTERS,
    words=st.lists(st.sampled_from(WORDS), min_size=1, max_size=4),
    mode=st.sampled_from(["vector", "keyword", "hybrid"]),
    k=st.sampled_from([1, 3, 10, 200]),
)
# The tenth and the eleventh have the same cosine.
@example(
    asked={"any": [{"metadata.level": 0}, {"metadata.team": "desk"}]}, words=["wipe", "client", "client", "router"],
    mode="vector", k=10,
)  # fmt: skip
def test_a_filter_gives_what_brute_force_gives(
    retriever: Retriever, asked: Any, words: list[str], mode: Any, k: int
) -> None:
    query = " ".join(words)
    found = retriever.search(query, k, mode=mode, where=asked)
    wanted = brute_force(retriever, query, asked, mode, k)
    # Cosines that are equal but for their last bits may stand in either order: told apart by score, not by place.
    assert [hit.score for hit in found.hits] == pytest.approx([score for _, score in wanted], abs=1e-6)
    # Of one matcher all that passes, for what is cut off by k may be equal to the last that is not.
    wider = brute_force(retriever, query, asked, mode, 200) if mode != "hybrid" else wanted
    theirs = dict(wider)
    for hit in found.hits:
        assert hit.score == pytest.approx(theirs.get(hit.chunk_id, hit.score), abs=1e-6)
        assert mode == "hybrid" or hit.chunk_id in theirs
    if mode == "hybrid":
        if len({round(score, 6) for _, score in wanted}) == len(wanted):
            assert [hit.chunk_id for hit in found.hits] == [chunk_id for chunk_id, _ in wanted]
        return
    for place, (chunk_id, _) in enumerate(wanted):
        if stands_alone(wider, place):
            assert found.hits[place].chunk_id == chunk_id


def stands_alone(scored: list[tuple[str, float]], place: int) -> bool:
    """Whether neither neighbour in a sorted list has a score that is equal but for its last bits."""
    score = scored[place][1]
    return all(
        abs(score - other) > 2e-6 for _, other in scored[max(0, place - 1) : place] + scored[place + 1 : place + 2]
    )


def test_most_places_of_one_matcher_are_told_apart_by_score(retriever: Retriever) -> None:
    for mode in ("vector", "keyword"):
        wider = brute_force(retriever, "wipe client router", {"not": {"metadata.team": "net"}}, mode, 200)
        assert sum(stands_alone(wider, place) for place in range(len(wider))) > len(wider) / 2


def test_a_filter_that_leaves_three_chunks_gives_those_three(retriever: Retriever) -> None:
    snapshot = retriever.snapshot
    counts: dict[str, int] = {}
    for row in np.flatnonzero(np.concatenate(snapshot.live_chunks)):
        counts[snapshot.chunk(int(row))["doc_id"]] = counts.get(snapshot.chunk(int(row))["doc_id"], 0) + 1
    doc_id, count = min(counts.items(), key=lambda entry: (abs(entry[1] - 3), entry[0]))
    found = retriever.search("badge printer", 50, mode="vector", where={"doc_id": doc_id})
    assert len(found.hits) == count
    assert {hit.doc_id for hit in found.hits} == {doc_id}


def test_a_filter_changes_no_score(retriever: Retriever) -> None:
    plain = {hit.chunk_id: (hit.cosine, hit.bm25) for hit in retriever.search("vpn gateway", 200).hits}
    for hit in retriever.search("vpn gateway", 200, where={"uri": {"prefix": "vpn/"}}).hits:
        if hit.chunk_id in plain:
            assert (hit.cosine, hit.bm25) == plain[hit.chunk_id]


def test_a_filter_that_nothing_passes_says_so(retriever: Retriever) -> None:
    found = retriever.search("vpn", where="source=elsewhere")
    assert found.outcome == "no_match"
    assert found.evidence["filter"] == {"documents": 0, "rows": 0}


def test_erased_documents_leave_a_filter_that_was_used_before(tmp_path: Path) -> None:
    base = knowledge_base(tmp_path)
    refreshed(base)
    retriever = base.retriever()
    assert retriever.search("gateway", where="uri=vpn.md").hits
    base.repository.erase(
        [{"doc_id": "docs:vpn.md", "content_sha256": None}], reason="asked for", run=base.repository.begin()
    )
    assert not retriever.search("gateway", where="uri=vpn.md").hits
