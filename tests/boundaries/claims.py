"""One line for each claim that a boundary test measures: what is claimed, what was measured, ok."""

from __future__ import annotations

from collections.abc import Callable

Claim = Callable[[str, object, bool], None]


def line(boundary: str, said: str, measured: object, holds: bool) -> str:
    return f"{boundary}: {said}: {measured}: {'ok' if holds else 'BROKEN'}"
