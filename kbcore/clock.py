"""Times as kbcore writes them, and the names of runs. The clock and the randomness are parameters everywhere else."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from datetime import UTC, datetime

Clock = Callable[[], datetime]
Token = Callable[[], str]


def system_clock() -> datetime:
    return datetime.now(UTC)


def random_token() -> str:
    """16 hex digits nobody else has."""
    return secrets.token_hex(8)


def iso(moment: datetime) -> str:
    """``2026-11-30T04:16:44Z``, in UTC, whole seconds."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def parse(text: str) -> datetime:
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


def age_days(then: str, now: datetime) -> float:
    """Days from ``then`` to ``now``, to two places; never negative, since clocks may lie."""
    return max(0.0, round((now - parse(then)).total_seconds() / 86_400, 2))


def run_name(moment: datetime, token: str) -> str:
    """The name of a run: when it began, and eight hex digits nobody else has."""
    return moment.astimezone(UTC).strftime("%Y%m%dT%H%M%SZ") + "-" + token[:8]
