"""What a statement is and what it mentions, read from DuckDB's own parse of it; nothing is run."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import duckdb

from kbcore.errors import UsageError

READING = {"SELECT", "EXPLAIN"}
READING_NODES = {"SELECT_NODE", "SET_OPERATION_NODE", "RECURSIVE_CTE_NODE", "CTE_NODE"}
# They run a text that the parse does not show, so what it mentions could not be loaded.
INDIRECT = {"query", "query_table", "json_execute_serialized_sql"}
_EXPLAIN = re.compile(r"\s*EXPLAIN\b\s*(ANALYZE\b\s*)?(\((?!\s*(SELECT|WITH|FROM|VALUES)\b)[^()]*\))?", re.IGNORECASE)
REMEDY = "SELECT, EXPLAIN, DESCRIBE, SUMMARIZE and SHOW work"


@dataclass(frozen=True, slots=True)
class Mentioned:
    """``tables`` in lower case, names of common table expressions among them; ``changes`` are the pairs (old, new)
    that ``chunk_changes`` is called with."""

    tables: frozenset[str]
    changes: frozenset[tuple[str, str]]


def read(connection: duckdb.DuckDBPyConnection, statement: str) -> Mentioned:
    """What ``statement`` mentions. UsageError unless it is one that reads; duckdb.Error if it does not parse."""
    found = connection.extract_statements(statement)
    if len(found) != 1:
        raise UsageError(f"one statement at a time, not {len(found)}")
    kind = str(found[0].type).rsplit(".", 1)[-1]
    if kind == "MULTI":
        raise UsageError(
            "PIVOT has to name its values here", remedy="PIVOT documents ON source IN ('…') USING count(*)"
        )
    if kind not in READING:
        raise _writes(kind)
    nodes = list(_nodes(_parse(connection, statement, kind)))
    for node in nodes:
        node_type = str(node.get("type", ""))
        if node_type.endswith("_NODE") and node_type not in READING_NODES:
            raise _writes(node_type.removesuffix("_NODE").removesuffix("_QUERY"))
        if node.get("function_name") in INDIRECT:
            raise UsageError(f"{node['function_name']} is not available", remedy="write out what it would run")
    return Mentioned(
        tables=frozenset(str(node["table_name"]).lower() for node in nodes if node.get("type") == "BASE_TABLE"),
        changes=frozenset(_pair(node) for node in nodes if node.get("function_name") == "chunk_changes"),
    )


def _parse(connection: duckdb.DuckDBPyConnection, statement: str, kind: str) -> Any:
    select = _EXPLAIN.sub("", statement, count=1) if kind == "EXPLAIN" else statement
    # Fetched to the end: DuckDB refuses other work while a result is open.
    rows = connection.execute("SELECT json_serialize_sql(?::VARCHAR)", [select]).fetchall()
    parsed = json.loads(rows[0][0])
    if parsed["error"]:
        if kind == "EXPLAIN":
            raise UsageError("EXPLAIN is for one SELECT here; the repository cannot be written through SQL")
        raise UsageError(f"the statement cannot be examined: {parsed['error_message']}")
    return parsed["statements"]


def _nodes(value: Any) -> Iterator[dict[str, Any]]:
    # A stack and no recursion: a statement may be nested deeper than Python calls may.
    waiting = [value]
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict):
            yield node
            waiting.extend(node.values())
        elif isinstance(node, list):
            waiting.extend(node)


def _pair(call: dict[str, Any]) -> tuple[str, str]:
    names: list[str] = ["old", "new"]
    given: dict[str, str] = {}
    for place, argument in enumerate(call["arguments"]):
        text = argument["expression"].get("literal", {}).get("text")
        if place < len(names) and isinstance(text, str):
            given[argument["name"] or names[place]] = text
    if set(given) != set(names) or len(call["arguments"]) != len(names):
        raise UsageError("chunk_changes takes the names of two releases, as in: chunk_changes('r000001', 'current')")
    return given["old"], given["new"]


def _writes(kind: str) -> UsageError:
    return UsageError(
        f"{kind} is not a statement that reads; the repository cannot be written through SQL", remedy=REMEDY
    )
