"""JSON as a caller may send it: one reading of it, and none that costs more than its length."""

from __future__ import annotations

import json
import math
from typing import Any

from kbcore.serving.failures import Refusal

MAX_DEPTH = 32
MAX_DIGITS = 20


def read_object(data: bytes) -> dict[str, Any]:
    """The object that a body holds. Refusal (400) says what is wrong with another: not UTF-8, not JSON, a key that stands
    twice, NaN or Infinity, a number too long, more than 32 levels, half of a surrogate pair."""
    try:
        text = data.decode("utf-8")
        value = json.loads(
            text, object_pairs_hook=_once, parse_constant=_constant, parse_int=_integer, parse_float=_float
        )
        _shallow(value)
        if "\\u" in text:
            json.dumps(value, ensure_ascii=False).encode("utf-8")
    except UnicodeDecodeError as error:
        raise _refused(f"the body is not UTF-8 (byte {error.start})") from None
    except UnicodeEncodeError:
        raise _refused("the body holds half of a surrogate pair") from None
    except RecursionError:
        raise _refused(f"the body is nested more than {MAX_DEPTH} deep") from None
    except json.JSONDecodeError as error:
        raise _refused(f"the body is not JSON: {error.msg}, line {error.lineno} column {error.colno}") from None
    if not isinstance(value, dict):
        raise _refused("the body is JSON and not an object")
    return value


def _refused(message: str) -> Refusal:
    return Refusal(400, "InvalidJson", message, 'send one JSON object, such as {"query": "how do I reset my password"}')


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise _refused(f"the key {twice[:80]!r} stands twice in one object")
    return found


def _constant(name: str) -> Any:
    raise _refused(f"{name} is not a number in JSON")


def _integer(digits: str) -> int:
    if len(digits.lstrip("-")) > MAX_DIGITS:
        raise _refused(f"a number has {len(digits):,} digits; at most {MAX_DIGITS} are read")
    return int(digits)


def _float(text: str) -> float:
    value = float(text) if len(text) <= 2 * MAX_DIGITS else math.inf
    if not math.isfinite(value):
        raise _refused("a number is larger, or longer, than can be read")
    return value


def _shallow(value: Any) -> None:
    """Level by level, so that depth costs no stack."""
    level = [value]
    for _ in range(MAX_DEPTH + 1):
        level = [
            child
            for parent in level
            if isinstance(parent, dict | list)
            for child in (parent.values() if isinstance(parent, dict) else parent)
        ]
        if not level:
            return
    raise RecursionError
