"""Moves against the record that somebody has seen: whoever moved since wins."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kbcore import promotion
from kbcore.errors import ReleaseConflictError
from kbcore.knowledge_base import KnowledgeBase
from tests.support import knowledge_base, refreshed, write

Move = Callable[[KnowledgeBase, int | None], Any]
MOVES: dict[str, Move] = {
    "promote": lambda base, seq: promotion.promote(
        base.repository, "r000001", base.catalog, reason="r", run=base.repository.begin("t"), expected=seq
    ),
    "rollback": lambda base, seq: promotion.rollback(
        base.repository, base.catalog, reason="r", run=base.repository.begin("t"), expected=seq
    ),
    "hold": lambda base, seq: promotion.hold(base.repository, reason="r", run=base.repository.begin("t"), expected=seq),
    "lift": lambda base, seq: promotion.lift(base.repository, reason="r", run=base.repository.begin("t"), expected=seq),
}


@pytest.mark.parametrize("act", MOVES)
def test_a_move_that_expects_another_record_than_the_newest_changes_nothing(tmp_path: Path, act: str) -> None:
    base = knowledge_base(tmp_path)
    refreshed(base)
    write(tmp_path / "docs", {"new.md": "# New\n\nSomething.\n"})
    refreshed(base)
    if act == "lift":
        MOVES["hold"](base, None)
    seq = base.repository.state().seq
    for wrong, said in (
        (seq - 1, f"record {seq}, not {seq - 1}"),
        (seq + 1, f"no record {seq + 1} in the promotion log; the newest is {seq}"),
        (0, f"record {seq}, not 0"),
    ):
        with pytest.raises(ReleaseConflictError, match=said):
            MOVES[act](base, wrong)
    assert base.repository.state().seq == seq
    MOVES[act](base, seq)
    assert base.repository.state().seq == seq + 1
