"""The same key and the same request: one answer, done once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from starlette.responses import Response

from kbcore.serving.failures import Refusal
from kbcore.serving.http.idempotency import Remembered


class Counting:
    def __init__(self, status: int = 200) -> None:
        self.calls = 0
        self.status = status

    async def __call__(self) -> Response:
        self.calls += 1
        await asyncio.sleep(0.01)
        if self.status >= 400:
            raise Refusal(self.status, "E", "m")
        return Response(str(self.calls))


def run(check: Callable[[], Awaitable[None]]) -> None:
    async def inner() -> None:
        await check()

    asyncio.run(inner())


def test_repetitions_at_once_and_later_are_one_call() -> None:
    async def check() -> None:
        remembered, call = Remembered(), Counting()
        first = await asyncio.gather(*(remembered.once(("kb", "k1"), b"r", call) for _ in range(5)))
        again = await remembered.once(("kb", "k1"), b"r", call)
        assert call.calls == 1
        assert {id(answer) for answer in [*first, again]} == {id(again)}
        await remembered.once(("other", "k1"), b"r", call)
        assert call.calls == 2

    run(check)


def test_another_request_under_a_key_is_refused() -> None:
    async def check() -> None:
        remembered, call = Remembered(), Counting()
        await remembered.once(("kb", "k1"), b"r", call)
        with pytest.raises(Refusal, match="another request"):
            await remembered.once(("kb", "k1"), b"other", call)

    run(check)


@pytest.mark.parametrize(("status", "calls"), [(409, 1), (503, 2)])
def test_a_refusal_is_kept_and_a_failure_of_ours_is_tried_again(status: int, calls: int) -> None:
    async def check() -> None:
        remembered, call = Remembered(), Counting(status)
        for _ in range(2):
            with pytest.raises(Refusal):
                await remembered.once(("kb", "k1"), b"r", call)
        assert call.calls == calls

    run(check)


def test_only_so_many_are_kept() -> None:
    async def check() -> None:
        remembered, call = Remembered(kept=3), Counting()
        for number in range(10):
            await remembered.once(("kb", f"k{number}"), b"r", call)
        await remembered.once(("kb", "k9"), b"r", call)
        assert call.calls == 10
        await remembered.once(("kb", "k0"), b"r", call)
        assert call.calls == 11

    run(check)
