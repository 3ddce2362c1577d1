"""The writer's lease: held by one run, looked at by many."""

from __future__ import annotations

import fcntl
from pathlib import Path

from kbcore.store import layout
from kbcore.store.lease import is_held, writer_lease


def test_a_lease_is_held_while_its_run_lasts(tmp_path: Path) -> None:
    assert not is_held(tmp_path)
    with writer_lease(tmp_path, run="20261130T000000Z-0badcafe", since="2026-11-30T00:00:00Z"):
        assert is_held(tmp_path)
    assert not is_held(tmp_path)


def test_two_that_look_at_once_do_not_take_each_other_for_a_run(tmp_path: Path) -> None:
    with writer_lease(tmp_path, run="20261130T000000Z-0badcafe", since="2026-11-30T00:00:00Z"):
        pass
    with open(tmp_path / layout.LEASE / "lock", "rb") as other:
        fcntl.flock(other, fcntl.LOCK_SH | fcntl.LOCK_NB)
        assert not is_held(tmp_path)
