"""Trying again what a source may answer better the next time."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from tenacity import Retrying, retry_if_exception, stop_after_attempt, wait_random_exponential

from kbcore.errors import KbError

ATTEMPTS = 4
LONGEST_SECONDS = 30.0

T = TypeVar("T")


def retried(call: Callable[[], T], *, base_seconds: float = 1.0) -> T:
    """What ``call`` gives. An error that says it is transient is met with another attempt, four in all, after a random
    wait of up to 1, 2 and 4 times ``base_seconds`` (full jitter, so that many do not come back at once); any other
    error, and the last one, is raised as it is."""
    attempts = Retrying(
        retry=retry_if_exception(lambda error: isinstance(error, KbError) and error.transient),
        wait=wait_random_exponential(multiplier=base_seconds, max=LONGEST_SECONDS),
        stop=stop_after_attempt(ATTEMPTS),
        reraise=True,
    )
    return attempts(call)
