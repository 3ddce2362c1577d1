"""Threads, places to wait, and time."""

from __future__ import annotations

import asyncio
import threading

import pytest

from kbcore.serving.failures import Refusal
from kbcore.serving.pools import Pool


def test_a_call_gives_what_it_gives_and_raises_what_it_raises() -> None:
    async def run() -> None:
        pool = Pool("t", threads=1, waiting=0, seconds=5)
        assert await pool.run(lambda a: a + 1, 1) == 2
        with pytest.raises(TimeoutError):  # the call's own, not the pool's
            await pool.run(_raise, TimeoutError())
        await asyncio.sleep(0)
        assert pool.pending == 0
        pool.close()

    asyncio.run(run())


def test_more_than_may_wait_are_turned_away_at_once() -> None:
    async def run() -> None:
        pool = Pool("t", threads=1, waiting=2, seconds=5)
        go = threading.Event()
        kept = [asyncio.ensure_future(pool.run(go.wait, 5)) for _ in range(3)]
        await asyncio.sleep(0.05)
        with pytest.raises(Refusal) as caught:
            await pool.run(int)
        assert (caught.value.status, caught.value.headers["retry-after"], pool.turned_away) == (503, "1", 1)
        go.set()
        assert await asyncio.gather(*kept) == [True] * 3
        pool.close()

    asyncio.run(run())


def test_a_call_that_is_given_up_keeps_its_place_until_it_ends() -> None:
    async def run() -> None:
        pool = Pool("t", threads=1, waiting=1, seconds=0.05)
        go = threading.Event()
        with pytest.raises(Refusal) as caught:
            await pool.run(go.wait, 5)
        assert caught.value.error == "TooSlow"
        assert pool.pending == 1
        started = threading.Event()
        with pytest.raises(Refusal):  # no thread takes it up in its time, so it never begins
            await pool.run(started.set)
        go.set()
        for _ in range(100):
            await asyncio.sleep(0.01)
            if not pool.pending:
                break
        assert pool.pending == 0
        assert not started.is_set()
        pool.close()

    asyncio.run(run())


def _raise(error: Exception) -> None:
    raise error
