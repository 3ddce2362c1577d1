"""Many questions at once: the same answers as one by one, few calls of the embedder, and an event loop that goes on."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import numpy as np
import pytest

from kbcore.embedding.batches import TOKEN_BUDGET
from kbcore.errors import UsageError
from kbcore.knowledge_base import KnowledgeBase
from kbcore.retrieval.retriever import Retriever
from tests.support import knowledge_base, refreshed

QUESTIONS = ["ERR-4012 gateway", "reset my password", "", "lost phone", "reset my password", "  ", "zebra", "打印机"]


class Counting:
    """The embedder of a release, counting its calls."""

    def __init__(self, embedder: Any) -> None:
        self._embedder = embedder
        self.calls: list[int] = []
        self.threads: set[int] = set()
        self.pause = 0.0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._embedder, name)

    def embed_query(self, text: str) -> Any:
        self.calls.append(1)
        self.threads.add(threading.get_ident())
        time.sleep(self.pause)
        return self._embedder.embed_query(text)

    def embed_queries(self, texts: Any) -> Any:
        self.calls.append(len(texts))
        return self._embedder.embed_queries(texts)


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> KnowledgeBase:
    base = knowledge_base(tmp_path_factory.mktemp("many"), chunking={"size": 80, "overlap": 10})
    refreshed(base)
    return base


@pytest.fixture
def counting(base: KnowledgeBase) -> tuple[Retriever, Counting]:
    plain = base.retriever()
    counter = Counting(plain.embedder)
    manifest = base.repository.manifest("r000001")
    retriever = Retriever(base.repository, manifest, base.catalog, embedder=counter)  # type: ignore[arg-type]
    return retriever, counter


@pytest.mark.parametrize("mode", ["vector", "keyword", "hybrid"])
@pytest.mark.parametrize("options", [{}, {"merge": True, "fold": True}, {"keys": True}, {"where": "uri=vpn.md"}])
def test_many_are_answered_as_one_by_one(counting: tuple[Retriever, Counting], mode: Any, options: Any) -> None:
    retriever, counter = counting
    single = [retriever.search(question, 4, mode=mode, **options) for question in QUESTIONS]
    counter.calls.clear()
    assert retriever.search_many(QUESTIONS, 4, mode=mode, **options) == single
    assert counter.calls == ([] if mode == "keyword" else [5])


def test_vectors_of_one_call_are_those_of_single_ones(base: KnowledgeBase) -> None:
    embedder = base.retriever().embedder
    texts = [question for question in QUESTIONS if question.strip()]
    for text, vector in zip(texts, embedder.embed_queries(texts), strict=True):
        np.testing.assert_array_equal(vector, embedder.embed_query(text))


def test_no_question_and_blank_ones_embed_nothing(counting: tuple[Retriever, Counting]) -> None:
    retriever, counter = counting
    assert retriever.search_many([]) == []
    assert [found.outcome for found in retriever.search_many(["", " \n"])] == ["no_match", "no_match"]
    assert counter.calls == []


def test_a_long_question_is_not_embedded_beside_many_short_ones(counting: tuple[Retriever, Counting]) -> None:
    retriever, counter = counting
    short = [f"door {n}" for n in range(300)]
    retriever.search_many(["lost phone " * 400, *short], 1)
    limit = retriever.embedder.max_tokens
    lengths = [min(limit, retriever.embedder.count_tokens(text)) for text in short]
    assert sum(counter.calls) == 301
    assert 1 in counter.calls
    assert max(counter.calls) * max(lengths) <= TOKEN_BUDGET


def test_one_text_is_not_taken_for_many_questions(counting: tuple[Retriever, Counting]) -> None:
    with pytest.raises(UsageError, match="not one text"):
        counting[0].search_many("phone")


def test_one_impossible_question_is_refused_before_any_is_asked(counting: tuple[Retriever, Counting]) -> None:
    retriever, counter = counting
    with pytest.raises(UsageError):
        retriever.search_many(["fine", "x" * 10_001])
    assert counter.calls == []


def test_asearch_leaves_the_event_loop_free_and_many_run_at_once(counting: tuple[Retriever, Counting]) -> None:
    retriever, counter = counting
    counter.pause = 0.2
    ticks = 0

    async def ask() -> list[Any]:
        nonlocal ticks

        async def tick() -> None:
            nonlocal ticks
            while True:
                await asyncio.sleep(0.01)
                ticks += 1

        ticking = asyncio.create_task(tick())
        found = await asyncio.gather(*(retriever.asearch("lost phone", 2) for _ in range(4)))
        ticking.cancel()
        return list(found)

    started = time.monotonic()
    found = asyncio.run(ask())
    assert time.monotonic() - started < 4 * 0.2
    assert ticks >= 5
    assert threading.get_ident() not in counter.threads
    counter.pause = 0.0
    assert all(entry == retriever.search("lost phone", 2) for entry in found)


def test_an_error_of_asearch_is_raised_where_it_is_awaited(counting: tuple[Retriever, Counting]) -> None:
    with pytest.raises(UsageError):
        asyncio.run(counting[0].asearch("x", 0))
