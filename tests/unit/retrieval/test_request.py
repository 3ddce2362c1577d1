"""A request is checked before anything is searched."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbcore.errors import UsageError
from kbcore.retrieval.request import MAX_NEIGHBOURS, MAX_QUERY_CHARACTERS, Request, default_depth
from kbcore.retrieval.settings import RetrievalSettings

SETTINGS = RetrievalSettings()


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"query": 7}, "a query is a text, not int"),
        ({"query": "x" * (MAX_QUERY_CHARACTERS + 1)}, "10,001 characters"),
        ({"query": "a\ud800"}, "surrogate"),
        ({"k": 0}, "from 1 on, not 0"),
        ({"k": -1}, "not -1"),
        ({"k": True}, "not True"),
        ({"k": 2.0}, "not 2.0"),
        ({"k": "5"}, "not '5'"),
        ({"depth": 0}, "depth"),
        ({"depth": 1.5}, "depth"),
        ({"neighbours": -1}, "neighbours"),
        ({"neighbours": MAX_NEIGHBOURS + 1}, "0 to 20"),
        ({"mode": "semantic"}, "no mode 'semantic'"),
        ({"fusion": "max"}, "no fusion 'max'"),
        ({"alpha": 1.1}, "alpha"),
        ({"alpha": float("nan")}, "alpha"),
        ({"alpha": True}, "alpha"),
        ({"alpha": "0.7"}, "alpha"),
    ],
)
def test_what_is_impossible_is_named(values: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError) as caught:
        Request.of(SETTINGS, **{"query": "x", **values})
    assert said in str(caught.value)


@given(
    k=st.integers(1, 500), mode=st.sampled_from(["vector", "keyword", "hybrid"]),
    fusion=st.sampled_from(["rrf", "minmax"]), merge=st.booleans(), fold=st.booleans(),
    depth=st.none() | st.integers(1, 900),
)  # fmt: skip
def test_lists_are_never_shorter_than_what_is_asked_for_unless_a_depth_says_so(
    k: int, mode: Any, fusion: Any, merge: bool, fold: bool, depth: int | None
) -> None:
    request = Request.of(SETTINGS, "x", k, mode=mode, fusion=fusion, merge=merge, fold=fold, depth=depth)
    assert request.lists == depth if depth is not None else request.lists >= k
    assert request.reach >= k
    if depth is None and mode == "hybrid":
        assert request.lists == default_depth(k, fusion)
    if not merge and not fold:
        assert request.reach == k


def test_what_is_not_given_comes_from_the_settings_and_zero_counts_as_given() -> None:
    settings = RetrievalSettings(mode="keyword", fusion="rrf", alpha=0.3, k=9)
    request = Request.of(settings, "x")
    assert (request.mode, request.fusion, request.alpha, request.k) == ("keyword", "rrf", 0.3, 9)
    assert Request.of(settings, "x", alpha=0.0).alpha == 0.0
