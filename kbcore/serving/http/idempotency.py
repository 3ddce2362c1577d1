"""State changes that were asked for before: the same key with the same request is answered as it was the first time."""

from __future__ import annotations

import asyncio
import re
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from starlette.responses import Response

from kbcore.serving.failures import Refusal

KEPT = 1_000
_KEY = re.compile(r"[!-~]{1,200}")
Scoped = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Known:
    request: bytes
    answer: asyncio.Task[Response]


class Remembered:
    """The last answers by key, in memory: after a restart ``expected_seq`` alone keeps a repetition from counting."""

    def __init__(self, kept: int = KEPT) -> None:
        self._kept = kept
        self._known: OrderedDict[Scoped, _Known] = OrderedDict()

    async def once(self, key: Scoped, request: bytes, call: Callable[[], Awaitable[Response]]) -> Response:
        """What ``call`` gives, called once a ``key`` (what it is of, and the caller's own key last). One that is under way
        is waited for. Refusal (422) where the key came with another ``request``. What ended with 5xx is not kept."""
        if not _KEY.fullmatch(key[-1]):
            raise Refusal(400, "BadHeader", "an Idempotency-Key has 1 to 200 visible characters", "send a random one")
        known = self._known.get(key)
        if known is None:
            known = _Known(request, asyncio.ensure_future(call()))
            self._known[key] = known
            while len(self._known) > self._kept:
                self._known.popitem(last=False)
        elif known.request != request:
            raise Refusal(
                422, "KeyUsedBefore", "this Idempotency-Key came with another request before", "send another key"
            )
        try:
            return await asyncio.shield(known.answer)
        except BaseException as error:
            if (not isinstance(error, Refusal) or error.status >= 500) and self._known.get(key) is known:
                del self._known[key]
            raise
