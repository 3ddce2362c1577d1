"""What SQL refuses and what stops it: no statement writes, leaves the release, or runs on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pytest

from kbcore.errors import UsageError
from kbcore.knowledge_base import KnowledgeBase
from kbcore.sql import query
from tests.support import knowledge_base, refreshed, tree

WRITING = [
    "COPY documents TO 'out.csv'",
    "COPY (SELECT 1) TO 'out.parquet'",
    "EXPORT DATABASE 'out'",
    "ATTACH 'out.db' AS out",
    "INSERT INTO documents SELECT * FROM documents",
    "UPDATE releases SET state = 'current'",
    "DELETE FROM documents",
    "CREATE TABLE t (a INT)",
    "CREATE MACRO f() AS 1",
    "DROP VIEW documents",
    "ALTER TABLE documents ADD COLUMN x INT",
    "SET enable_external_access = true",
    "SET memory_limit = '100GB'",
    "RESET lock_configuration",
    "USE memory",
    "INSTALL httpfs",
    "LOAD httpfs",
    "PRAGMA database_list",
    "CALL pragma_version()",
    "CHECKPOINT",
    "VACUUM",
    "BEGIN",
    "PREPARE p AS SELECT 1",
    "WITH t AS (INSERT INTO documents SELECT * FROM documents RETURNING *) SELECT * FROM t",
    "WITH t AS (DELETE FROM internal.chunk_changes RETURNING *) SELECT * FROM t",
    "WITH t AS (COPY documents TO 'out.csv') SELECT * FROM t",
    "EXPLAIN ANALYZE INSERT INTO documents SELECT * FROM documents",
    "EXPLAIN ANALYZE COPY documents TO 'out.csv'",
]
REACHING = [
    "SELECT * FROM read_csv('/etc/passwd')",
    "SELECT * FROM '/etc/passwd'",
    "SELECT * FROM read_text('/etc/passwd')",
    "SELECT * FROM read_blob('/etc/passwd')",
    "SELECT * FROM read_json('repository.json')",
    "SELECT * FROM read_parquet('**/documents.parquet')",
    "SELECT * FROM sniff_csv('/etc/passwd')",
    "SELECT * FROM glob('*')",
    "SELECT getenv('HOME')",
    "EXPLAIN ANALYZE SELECT * FROM read_text('/etc/passwd')",
    "SELECT * FROM query('SELECT * FROM ' || 'documents')",
    "SELECT * FROM query_table('documents')",
    "SELECT * FROM json_execute_serialized_sql(json_serialize_sql('SELECT * FROM documents'))",
    "SELECT * FROM WRITING",
    "SELECT * FROM base",
    "SELECT 1; SELECT 2",
    "SELECT 1; COPY documents TO 'out.csv'",
    "",
    "-- nothing",
    "SELECT FROM WHERE",
    "SELECT nothing FROM documents",
    "SELECT * FROM nothing",
    "PIVOT documents ON source USING count(*)",
]


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> KnowledgeBase:
    made = knowledge_base(tmp_path_factory.mktemp("sql"))
    refreshed(made)
    return made


def ask(base: KnowledgeBase, statement: str, **limits: Any) -> list[tuple[Any, ...]]:
    return query(base.repository, "current", statement, **limits).rows


@pytest.mark.parametrize("statement", WRITING)
def test_what_writes_is_refused_and_says_so(
    base: KnowledgeBase, statement: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    before = tree(base.folder)
    with pytest.raises(UsageError, match="cannot be written"):
        ask(base, statement)
    assert tree(base.folder) == before
    assert tree(tmp_path) == {}


@pytest.mark.parametrize("statement", REACHING)
def test_what_reaches_beyond_the_views_is_refused(
    base: KnowledgeBase, statement: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    before = tree(base.folder)
    with pytest.raises(UsageError):
        ask(base, statement)
    assert tree(base.folder) == before
    assert tree(tmp_path) == {}


def test_a_python_variable_is_not_a_table(base: KnowledgeBase) -> None:
    secret = duckdb.sql("SELECT 42 AS answer").to_arrow_table()
    with pytest.raises(UsageError, match="secret does not exist"):
        ask(base, "SELECT * FROM secret")
    assert secret.num_rows == 1


def test_a_failing_statement_says_what_duckdb_says(base: KnowledgeBase) -> None:
    with pytest.raises(UsageError, match='"titel" not found'):
        ask(base, "SELECT titel FROM documents")
    with pytest.raises(UsageError, match="syntax error"):
        ask(base, "SELEC 1")


@pytest.mark.parametrize(
    "statement",
    ["SELECT count(*) FROM range(1000000) a, range(1000000) b WHERE hash(a.range + b.range) = 1",
     "EXPLAIN ANALYZE SELECT count(*) FROM range(1000000) a, range(1000000) b WHERE hash(a.range + b.range) = 1",
     "WITH RECURSIVE t AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM t) SELECT count(*) FROM t"],
)  # fmt: skip
def test_a_runaway_statement_is_stopped_by_the_time_limit(base: KnowledgeBase, statement: str) -> None:
    with pytest.raises(UsageError, match=r"longer than 0\.5 seconds"):
        ask(base, statement, timeout_seconds=0.5)


def test_a_limit_that_is_over_before_the_statement_starts_still_stops_it(base: KnowledgeBase) -> None:
    with pytest.raises(UsageError, match="longer than 0 seconds"):
        ask(base, "SELECT count(*) FROM range(1000000) a, range(1000000) b", timeout_seconds=0)


def test_the_memory_limit_stops_a_statement_and_nothing_spills_to_disk(
    base: KnowledgeBase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match="Out of Memory"):
        ask(base, "SELECT i, md5(i::VARCHAR) FROM range(3000000) t(i) ORDER BY 2", memory_limit="60MB")
    assert list(tmp_path.iterdir()) == []


def test_an_answer_beyond_the_row_limit_is_an_error_and_not_cut_short(base: KnowledgeBase) -> None:
    assert len(ask(base, "FROM range(10000)", max_rows=10_000)) == 10_000
    with pytest.raises(UsageError, match="more than 10,000 rows"):
        ask(base, "FROM range(10001)", max_rows=10_000)
