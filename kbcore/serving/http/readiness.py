"""Whether every knowledge base answers: a real search each, and one look for all who ask."""

from __future__ import annotations

import asyncio
import time

from kbcore.serving.bases import Base, Bases
from kbcore.serving.failures import Refusal
from kbcore.serving.pools import Pool

READY_SECONDS = 1.0


class Readiness:
    """The last look, for a second: however many ask, each base is searched once a second."""

    def __init__(self, bases: Bases, pool: Pool) -> None:
        self._bases = bases
        self._pool = pool
        self._lock = asyncio.Lock()
        self._looked = float("-inf")
        self._missing: list[str] = []

    async def missing(self) -> list[str]:
        """The names of knowledge bases that do not answer, or answer from another release than the promoted one."""
        async with self._lock:
            if time.monotonic() - self._looked >= READY_SECONDS:
                self._missing = [name for name, entry in self._bases.items() if not await self._answers(entry)]
                self._looked = time.monotonic()
            return self._missing

    async def _answers(self, entry: Base) -> bool:
        try:
            return await self._pool.run(entry.problem) is None
        except Refusal:  # it did not answer in time
            return False
