"""JSON as callers may send it."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kbcore.serving.failures import Refusal
from kbcore.serving.strict_json import MAX_DEPTH, read_object

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**19), 10**19) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=12,
)


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(st.dictionaries(TEXT, VALUES, max_size=4))
def test_what_json_says_is_read_as_json_says_it(value: dict[str, object]) -> None:
    assert read_object(json.dumps(value).encode()) == value
    assert read_object(json.dumps(value, ensure_ascii=False).encode()) == value


@pytest.mark.parametrize(
    ("sent", "said"),
    [
        (b"", "not JSON"),
        (b"{", "line 1 column 2"),
        (b"[]", "not an object"),
        (b"\xff", "not UTF-8 (byte 0)"),
        (b'{"a": 1, "b": {"c": 1, "c": 2}}', "the key 'c' stands twice"),
        (b'{"a": NaN}', "NaN"),
        (b'{"a": -Infinity}', "-Infinity"),
        (b'{"a": 1e999}', "larger"),
        (b'{"a": 0.' + b"1" * 5_000 + b"}", "longer"),
        (b'{"a": ' + b"7" * 5_000 + b"}", "5,000 digits"),
        (b'{"a": "\\ud800"}', "surrogate"),
        (b'{"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "nested more than 32 deep"),
    ],
)
def test_another_is_refused_with_what_is_wrong(sent: bytes, said: str) -> None:
    with pytest.raises(Refusal) as caught:
        read_object(sent)
    assert caught.value.status == 400
    assert said in caught.value.message


def test_depth_is_counted_exactly() -> None:
    def nested(depth: int) -> bytes:
        return b'{"a":' * depth + b"1" + b"}" * depth

    read_object(nested(MAX_DEPTH))
    with pytest.raises(Refusal):
        read_object(nested(MAX_DEPTH + 1))


def test_a_megabyte_of_small_objects_takes_no_time() -> None:
    sent = b'{"a": [' + b",".join(b'{"k": %d}' % number for number in range(70_000)) + b"]}"
    started = time.process_time()
    read_object(sent)
    assert time.process_time() - started < 2.0
