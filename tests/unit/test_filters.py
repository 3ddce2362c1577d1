"""Filters: what is read, what is refused, and what passes, against an oracle written out by hand."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbcore.errors import UsageError
from kbcore.filters import MAX_CONDITIONS, read_filter

DOCUMENT = {
    "doc_id": "handbook:vpn/set-up.md",
    "source": "handbook",
    "uri": "vpn/set-up.md",
    "title": "Set up",
    "media_type": "text/markdown",
    "language": "en",
    "modified_at": "2026-03-01T08:00:00Z",
    "fetched_at": "2026-04-01T00:00:00Z",
    "metadata": {"team": "net", "level": 3, "tags": ["vpn", "remote"], "owner": {"name": "desk"}, "draft": False},
}


@pytest.mark.parametrize(
    ("asked", "passes"),
    [
        ({"source": "handbook"}, True),
        ({"source": "wiki"}, False),
        ({"source": ["wiki", "handbook"]}, True),
        ({"source": {"ne": "wiki"}}, True),
        ({"uri": {"prefix": "vpn/"}}, True),
        ({"uri": {"prefix": "mail/"}}, False),
        ({"source": "handbook", "language": "de"}, False),
        ({"modified_at": {"gte": "2026-03-01"}}, True),
        ({"modified_at": {"gt": "2026-03-01T09:00:00+01:00"}}, False),
        ({"modified_at": {"gte": "2026-03-01T09:00:00+01:00", "lt": "2026-03-02"}}, True),
        ({"modified_at": "2026-03-01"}, True),
        ({"modified_at": {"ne": "2026-03-01"}}, False),
        ({"modified_at": ["2026-02-28", "2026-03-01"]}, True),
        ({"modified_at": {"lte": "2026-03-01"}}, True),
        ({"modified_at": {"lt": "2026-03-01"}}, False),
        ({"modified_at": {"gt": "2026-03-01"}}, False),
        ({"modified_at": {"gt": "2026-02-28"}}, True),
        ({"modified_at": {"lte": "2026-03-01T00:00:00Z"}}, False),
        ({"modified_at": {"gt": "2026-03-01T00:00:00Z"}}, True),
        ({"modified_at": "2026-03-01T08:00:00Z"}, True),
        ({"modified_at": "2026-03-01T08:00:01Z"}, False),
        ({"metadata.team": "net"}, True),
        ({"metadata.tags": "remote"}, True),
        ({"metadata.tags": {"ne": "remote"}}, False),
        ({"metadata.owner.name": "desk"}, True),
        ({"metadata.level": {"gt": 2}}, True),
        ({"metadata.level": 3}, True),
        ({"metadata.draft": False}, True),
        ({"metadata.level": True}, False),
        ({"metadata.absent": "x"}, False),
        ({"metadata.absent": {"ne": "x"}}, True),
        ({"metadata.absent": {"exists": False}}, True),
        ({"any": [{"source": "wiki"}, {"language": "en"}]}, True),
        ({"all": [{"source": "wiki"}, {"language": "en"}]}, False),
        ({"not": {"source": "wiki"}}, True),
        ("source=handbook", True),
        ("source = wiki | handbook", True),
        ("uri^=mail/|vpn/", True),
        ("language!=en", False),
        ("modified_at>=2026-03-01", True),
        ("metadata.level>2", True),
        ("metadata.level=3", True),
        ("metadata.draft=false", True),
        (["source=handbook", "language=de"], False),
        (["source=handbook", "language=en"], True),
    ],
)
def test_a_filter_passes_what_meets_it(asked: Any, passes: bool) -> None:
    found = read_filter(asked)
    assert found is not None
    assert found.matches(DOCUMENT) is passes


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (3, "is not a filter"),
        ([{"source": "x"}], "is not a filter"),
        ({"sorce": "x"}, "did you mean source"),
        ({"metadata": "x"}, "there is no field"),
        ({"uri": {"prefx": "x"}}, "did you mean prefix"),
        ({"uri": {"prefix": 3}}, "a text is needed"),
        ({"source": 3}, "a text is needed"),
        ({"source": []}, "a list of values"),
        ({"source": {}}, "nothing is asked"),
        ({"modified_at": "yesterday"}, "is not a date"),
        ({"any": []}, "is a list of filters"),
        ({"any": {"source": "x"}}, "is a list of filters"),
        ({"not": []}, "is not a mapping"),
        ({"metadata.level": float("nan")}, "cannot be compared"),
        ({"metadata.level": {"gt": True}}, "more or less"),
        ({"metadata.level": {"exists": 1}}, "true or false"),
        ({"source": "x" * 1001}, "characters"),
        ({"source": ["x"] * 1001}, "values"),
        ({"source": "\ud800"}, "Unicode"),
        ({3: "x"}, "name of a field"),
        ("source", "is not a condition"),
        ("source=", "missing"),
        ("source=a|", "missing"),
        ("modified_at>=2026|2027", "one value"),
        ({"any": [{"source": "x"}] * (MAX_CONDITIONS + 1)}, "conditions"),
    ],
)
def test_what_is_wrong_with_a_filter_is_said(asked: Any, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        read_filter(asked)


def test_a_filter_cannot_be_nested_without_end() -> None:
    asked: dict[str, Any] = {"source": "x"}
    for _ in range(100_000):
        asked = {"not": asked}
    with pytest.raises(UsageError, match="nested"):
        read_filter(asked)


def test_no_filter_is_none() -> None:
    assert read_filter(None) is read_filter([]) is read_filter({}) is None


def test_equal_filters_have_equal_keys() -> None:
    one, other = read_filter({"source": "a", "language": "de"}), read_filter({"language": "de", "source": "a"})
    assert one is not None
    assert other is not None
    assert one.key == other.key


CONDITIONS = st.one_of(
    st.fixed_dictionaries({"source": st.sampled_from(["a", "b", ["a", "b"], {"ne": "a"}])}),
    st.fixed_dictionaries({"uri": st.fixed_dictionaries({"prefix": st.sampled_from(["x", "x/y", "z"])})}),
    st.fixed_dictionaries(
        {"metadata.n": st.sampled_from([{"gt": 1}, {"lte": 2}, 2, {"exists": True}, {"exists": False}])}
    ),
)
FILTERS = st.recursive(
    CONDITIONS,
    lambda inner: st.one_of(
        st.fixed_dictionaries({"any": st.lists(inner, min_size=1, max_size=3)}),
        st.fixed_dictionaries({"all": st.lists(inner, min_size=1, max_size=3)}),
        st.fixed_dictionaries({"not": inner}),
    ),
    max_leaves=8,
)


def oracle(asked: dict[str, Any], document: dict[str, Any]) -> bool:
    """The meaning of a filter, once more and in another way: as Python expressions over sets."""
    ((key, value),) = asked.items()
    if key == "any":
        return bool([1 for part in value if oracle(part, document)])
    if key == "all":
        return len([1 for part in value if oracle(part, document)]) == len(value)
    if key == "not":
        return not oracle(value, document)
    have = document["metadata"].get("n") if key == "metadata.n" else document[key]
    match value:
        case {"ne": other}:
            return have != other
        case {"prefix": start}:
            return have[: len(start)] == start
        case {"gt": low}:
            return have is not None and have > low
        case {"lte": high}:
            return have is not None and have <= high
        case {"exists": there}:
            return (have is not None) == there
        case list():
            return have in value
    return have == value


@given(
    FILTERS,
    st.fixed_dictionaries(
        {
            "source": st.sampled_from(["a", "b", "c"]),
            "uri": st.sampled_from(["x/1", "x/y/2", "z", "w"]),
            "metadata": st.one_of(st.just({}), st.fixed_dictionaries({"n": st.integers(0, 3)})),
        }
    ),
)
def test_a_filter_means_what_its_parts_mean(asked: dict[str, Any], document: dict[str, Any]) -> None:
    found = read_filter(asked)
    assert found is not None
    assert found.matches(document) is oracle(asked, document)
