"""How many connections a process may hold."""

from __future__ import annotations

import resource

import pytest

from kbcore.serving.http.connections import RESERVED_DESCRIPTORS, Patience, connections, most_connections


@pytest.mark.parametrize(
    ("soft", "hard", "wanted", "most", "raised"),
    [
        (20_000, 20_000, 2_000, 2_000, None),
        (1_024, 1_024, 2_000, 1_024 - RESERVED_DESCRIPTORS, None),
        (1_024, 4_096, 2_000, 2_000, 2_000 + RESERVED_DESCRIPTORS),
        (1_024, 2_000, 2_000, 2_000 - RESERVED_DESCRIPTORS, 2_000),
        (256, 256, 2_000, 16, None),
        (resource.RLIM_INFINITY, resource.RLIM_INFINITY, 2_000, 2_000, None),
    ],
)
def test_as_many_connections_as_files_may_be_open_and_the_bound_is_raised_where_it_may_be(
    monkeypatch: pytest.MonkeyPatch, soft: int, hard: int, wanted: int, most: int, raised: int | None
) -> None:
    asked: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: (soft, hard))
    monkeypatch.setattr(resource, "setrlimit", lambda _, limits: asked.append(limits))
    assert most_connections(wanted) == most
    assert [limits[0] for limits in asked] == ([] if raised is None else [raised])


def test_each_server_has_a_list_of_its_own_of_those_that_wait() -> None:
    one, two = connections(Patience()), connections(Patience())
    assert one.idle is not two.idle
