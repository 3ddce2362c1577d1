"""The writer's lease: held by one run, looked at by many."""

from __future__ import annotations

import fcntl
import json
import os
import socket
import time
from pathlib import Path

import pytest

from kbcore.errors import LockedError
from kbcore.store import layout
from kbcore.store import lease as lease_module
from kbcore.store.lease import is_held, writer_lease

RUN, SINCE = "20261130T000000Z-0badcafe", "2026-11-30T00:00:00Z"


def test_a_lease_is_held_while_its_run_lasts(tmp_path: Path) -> None:
    assert not is_held(tmp_path)
    with writer_lease(tmp_path, run=RUN, since=SINCE):
        assert is_held(tmp_path)
    assert not is_held(tmp_path)


def test_two_that_look_at_once_do_not_take_each_other_for_a_run(tmp_path: Path) -> None:
    with writer_lease(tmp_path, run=RUN, since=SINCE):
        pass
    with open(tmp_path / layout.LEASE / "lock", "rb") as other:
        fcntl.flock(other, fcntl.LOCK_SH | fcntl.LOCK_NB)
        assert not is_held(tmp_path)


def note(root: Path, **changes: object) -> Path:
    """A note as a run leaves it that did not give its lease back."""
    folder = root / layout.LEASE
    folder.mkdir(exist_ok=True)
    (folder / "lock").touch()
    holder = folder / "holder.json"
    values = {"run": "20261129T000000Z-0badcafe", "since": "2026-11-29T00:00:00Z", "user": "kb", "pid": 1, **changes}
    holder.write_text(json.dumps({"host": socket.gethostname(), **values}))
    return holder


def test_a_run_of_this_machine_that_died_is_taken_over_at_once_and_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    note(tmp_path)
    assert not is_held(tmp_path)
    with writer_lease(tmp_path, run=RUN, since=SINCE) as lease:
        assert lease.took_over is not None
        assert "20261129T000000Z-0badcafe" in lease.took_over
        assert "without giving the lease back" in lease.took_over
    assert "taken over" in caplog.text
    with writer_lease(tmp_path, run=RUN, since=SINCE) as lease:
        assert lease.took_over is None


def test_a_run_of_another_machine_holds_the_lease_while_it_is_heard_of(tmp_path: Path) -> None:
    holder = note(tmp_path, host="elsewhere")
    assert is_held(tmp_path)
    with pytest.raises(LockedError, match="on elsewhere"), writer_lease(tmp_path, run=RUN, since=SINCE):
        pass
    assert json.loads(holder.read_text())["host"] == "elsewhere"


def test_a_run_of_another_machine_that_fell_silent_is_taken_over(tmp_path: Path) -> None:
    holder = note(tmp_path, host="elsewhere")
    then = time.time() - lease_module.EXPIRY_SECONDS - 5
    os.utime(holder, (then, then))
    assert not is_held(tmp_path)
    with writer_lease(tmp_path, run=RUN, since=SINCE) as lease:
        assert lease.took_over is not None
        assert "not been heard of for 12" in lease.took_over
        assert json.loads(holder.read_text())["run"] == RUN


def test_a_holder_renews_its_note_and_leaves_one_that_is_anothers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(lease_module, "BEAT_SECONDS", 0.05)
    holder = tmp_path / layout.LEASE / "holder.json"
    with writer_lease(tmp_path, run=RUN, since=SINCE):
        old = time.time() - 1000
        os.utime(holder, (old, old))
        deadline = time.monotonic() + 10
        while time.time() - holder.stat().st_mtime > 500:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        note(tmp_path, run="20261130T101010Z-11112222", host="elsewhere")
        while "was taken over by 20261130T101010Z-11112222" not in caplog.text:
            assert time.monotonic() < deadline
            time.sleep(0.02)
    assert json.loads(holder.read_text())["run"] == "20261130T101010Z-11112222"


def test_a_note_that_does_not_read_stops_nobody(tmp_path: Path) -> None:
    note(tmp_path).write_text("{half")
    with writer_lease(tmp_path, run=RUN, since=SINCE) as lease:
        assert lease.took_over is None
