"""Releases that stay open."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from kbcore.serving.opened import OpenReleases


def test_the_last_ones_used_stay_open_and_each_is_opened_once() -> None:
    opened: list[str] = []

    def make(release: str) -> Any:
        opened.append(release)
        return f"retriever of {release}"

    releases = OpenReleases(make, kept=2)
    for name in ("a", "b", "a", "c", "a", "b"):
        assert releases.get(name) == f"retriever of {name}"
    assert opened == ["a", "b", "c", "b"]
    assert releases.names() == ("a", "b")


def test_threads_that_loop_over_releases_open_one_at_a_time_and_keep_few() -> None:
    opening: list[int] = []
    most = [0, 0]
    lock = threading.Lock()

    def make(release: str) -> Any:
        with lock:
            opening.append(1)
            most[0] = max(most[0], len(opening))
        time.sleep(0.002)
        with lock:
            opening.pop()
        return release

    releases = OpenReleases(make, kept=2)

    def loop(_: int) -> None:
        for number in range(20):
            assert releases.get(f"r{number}") == f"r{number}"
            most[1] = max(most[1], len(releases.names()))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(loop, range(8)))
    assert most == [1, 2]


def test_what_could_not_be_opened_is_tried_again() -> None:
    tries: list[str] = []

    def make(release: str) -> Any:
        tries.append(release)
        if len(tries) == 1:
            raise OSError("gone")
        return release

    releases = OpenReleases(make)
    with pytest.raises(OSError, match="gone"):
        releases.get("a")
    assert releases.get("a") == "a"
