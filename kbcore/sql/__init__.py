"""SQL over one release and over the repository's records, in DuckDB, read only.

Views of one release, live rows only: ``documents``, ``chunks``, ``vectors``, ``postings``. Over all: ``releases``,
``promotions``, ``checks``, ``check_exceptions``, ``evals`` (the means of every scorecard, whole and by slice),
``eval_questions`` (of the newest scorecard of each release, set and search), ``gates`` (the checks of every gate record)
and ``chunk_changes(old, new)``. What a statement does not mention is
not loaded. DuckDB is opened with files, extensions, spilling and settings shut off and is then handed the rows as data,
so that no statement can reach the repository, nor leave anything on disk.

``metadata``, ``headings`` and ``stats`` of documents are JSON texts, which DuckDB reads:
``SELECT uri, json_extract(stats, '$.flags') FROM documents WHERE json_array_length(stats, '$.flags') > 0``.
kbcore/parsing/quality.py and pdf_arbiter.py say what ``stats`` holds.
"""

from __future__ import annotations

import datetime
import math
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as pa

from kbcore.errors import UsageError
from kbcore.sql.changes import CHANGES, chunk_changes
from kbcore.sql.statement import read
from kbcore.sql.tables import Tables
from kbcore.store.repository import Repository

__all__ = ["SqlResult", "chunk_changes", "query"]

CLOSED = {
    "enable_external_access": "false",
    "python_enable_replacements": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    # Spilling is not external access to DuckDB: without this it writes rows to .tmp in the working directory.
    "temp_directory": "",
    "lock_configuration": "true",
    "threads": "2",
}
MACRO = (
    'CREATE MACRO chunk_changes("old", "new") AS TABLE SELECT * EXCLUDE (for_old, for_new) '
    'FROM internal.chunk_changes WHERE for_old = "old" AND for_new = "new"'
)
BATCH = 10_000


@dataclass(frozen=True, slots=True)
class SqlResult:
    """``rows`` are tuples in the order of ``columns``, of values that JSON knows; ``types`` are DuckDB's names of them.

    Arrays and lists are lists, structs and maps dictionaries, times ISO 8601, whole decimals int and others float,
    blobs hexadecimal, everything else its text; so are the floats that JSON has no number for (nan, inf, -inf).
    """

    columns: list[str]
    rows: list[tuple[Any, ...]]
    types: list[str]


def query(
    repository: Repository,
    release: str | None,
    statement: str,
    *,
    memory_limit: str = "1GB",
    timeout_seconds: float = 30.0,
    max_rows: int = 1_000_000,
) -> SqlResult:
    """Answer one statement that reads; rows come in the order the statement asks for, else in none.

    ``release`` is any name a release goes by; None leaves its views empty, as does a repository without a release.
    ReleaseNotFoundError if there is no such release. UsageError on a statement that writes, fails, answers with more
    than ``max_rows``, needs more than ``memory_limit``, or is not done ``timeout_seconds`` after the call.
    """
    tables = Tables(repository, release)
    try:
        with (
            duckdb.connect(":memory:", config={**CLOSED, "memory_limit": memory_limit}) as connection,
            _interrupted_after(connection, timeout_seconds),
        ):
            mentioned = read(connection, statement)
            for name, make in tables.views().items():
                connection.register(name, make() if name in mentioned.tables else tables.empty(name))
            changes = tables.chunk_changes(mentioned.changes) if mentioned.changes else CHANGES.empty_table()
            _create_chunk_changes(connection, changes)
            return _run(connection, statement, max_rows)
    except duckdb.InterruptException:
        raise UsageError(f"the statement took longer than {timeout_seconds:g} seconds and was stopped") from None
    except duckdb.Error as error:
        raise UsageError(str(error).strip()) from None


def _create_chunk_changes(connection: duckdb.DuckDBPyConnection, rows: pa.Table) -> None:
    """The table function, over a table that SHOW TABLES does not list."""
    connection.register("rows_of_changes", rows)
    connection.execute("CREATE SCHEMA internal")
    connection.execute("CREATE TABLE internal.chunk_changes AS FROM rows_of_changes")
    connection.unregister("rows_of_changes")
    connection.execute(MACRO)


@contextmanager
def _interrupted_after(connection: duckdb.DuckDBPyConnection, seconds: float) -> Iterator[None]:
    done = threading.Event()

    def watch() -> None:
        # Again and again: DuckDB forgets an interrupt that comes between two of its calls.
        wait = seconds
        while not done.wait(wait):
            connection.interrupt()
            wait = 0.05

    watcher = threading.Thread(target=watch, name="sql-limit", daemon=True)
    watcher.start()
    started = time.monotonic()
    try:
        yield
        if time.monotonic() - started > seconds:
            raise duckdb.InterruptException("the time is over")
    finally:
        done.set()
        watcher.join()


def _run(connection: duckdb.DuckDBPyConnection, statement: str, max_rows: int) -> SqlResult:
    result = connection.execute(statement)
    described = result.description or []
    rows: list[tuple[Any, ...]] = []
    while batch := result.fetchmany(BATCH):
        # Rows in Python are beyond DuckDB's memory limit, so their number has a limit of its own.
        if len(rows) + len(batch) > max_rows:
            raise UsageError(f"the answer has more than {max_rows:,} rows", remedy="aggregate, or add a LIMIT")
        rows += [tuple(map(_plain, row)) for row in batch]
    return SqlResult(_named_apart([entry[0] for entry in described]), rows, [str(entry[1]) for entry in described])


def _named_apart(names: list[str]) -> list[str]:
    """Every column under a name of its own: a second ``a`` becomes ``a_1``."""
    found: list[str] = []
    for name in names:
        own, number = name, 0
        while own in found:
            number += 1
            own = f"{name}_{number}"
        found.append(own)
    return found


def _plain(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, bytes):
        return value.hex()
    return str(value)
