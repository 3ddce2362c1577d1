"""SQL over one release and over the repository's records, in DuckDB, read only.

Views of one release, live rows only: ``documents``, ``chunks``, ``vectors``, ``postings``. Over all: ``releases``,
``promotions``, ``checks``, ``check_exceptions`` and ``chunk_changes(old, new)``. What a statement does not mention is
not loaded. Everything is handed to DuckDB as data; then access to files, extensions and settings is shut off, so
that no statement can reach the repository.
"""

from __future__ import annotations

import json
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from kbcore.differences import compare_releases
from kbcore.errors import ReleaseNotFoundError, UsageError
from kbcore.releases import list_releases
from kbcore.store.manifest import Manifest
from kbcore.store.repository import Repository
from kbcore.store.segment import CHUNKS, DOCUMENTS, Segment, vectors_table
from kbcore.types import Json

SAFE = {
    "enable_external_access": "false",
    "python_enable_replacements": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
}
READING = {"SELECT", "EXPLAIN"}
DOCUMENT_COLUMNS = [name for name in DOCUMENTS.names if name != "first_chunk"]
CHUNK_COLUMNS = [name for name in CHUNKS.names if name not in ("document_row", "length")]
CHANGES = pa.schema(
    [
        (name, pa.string())
        for name in (
            "old",
            "new",
            "change",
            "doc_id_old",
            "doc_id_new",
            "chunk_id_old",
            "chunk_id_new",
            "text_sha256",
            "text",
        )
    ]
    + [("start_old", pa.int32()), ("start_new", pa.int32())]
)
MACRO = (
    "CREATE MACRO chunk_changes(a, b) AS TABLE SELECT * EXCLUDE (old, new) FROM chunk_changes_rows "
    "WHERE old = a AND new = b"
)


@dataclass(frozen=True, slots=True)
class SqlResult:
    """``rows`` are tuples of plain Python values in the order of ``columns``."""

    columns: list[str]
    rows: list[tuple[Any, ...]]


def query(
    repository: Repository,
    release: str | None,
    statement: str,
    *,
    memory_limit: str = "1GB",
    timeout_seconds: float = 30.0,
) -> SqlResult:
    """Answer one reading statement. ``release`` may be any name a release goes by; None or nothing published leaves
    its views empty. UsageError on a statement that fails, writes, or takes longer than ``timeout_seconds``."""
    connection = duckdb.connect(":memory:", config={**SAFE, "memory_limit": memory_limit, "threads": "2"})
    try:
        _check(connection, statement)
        tables = _Tables(repository, release)
        connection.register("chunk_changes_rows", CHANGES.empty_table())
        connection.execute(MACRO)
        wanted = {name.lower() for name in connection.get_table_names(statement)}
        for name, make in tables.views().items():
            if name in wanted:
                connection.register(name, make())
        if pairs := _calls(connection, statement):
            connection.register("chunk_changes_rows", tables.chunk_changes(pairs))
        connection.execute("SET lock_configuration = true")
        return _run(connection, statement, timeout_seconds)
    except duckdb.InterruptException:
        raise UsageError(f"the statement took longer than {timeout_seconds:g} seconds and was stopped") from None
    except duckdb.Error as error:
        raise UsageError(f"{error}".strip()) from None
    finally:
        connection.close()


def _check(connection: duckdb.DuckDBPyConnection, statement: str) -> None:
    found = connection.extract_statements(statement)
    if len(found) != 1:
        raise UsageError(f"one statement at a time, not {len(found)}")
    kind = str(found[0].type).rsplit(".", 1)[-1]
    if kind not in READING:
        raise UsageError(
            f"{kind} is not a statement that reads; the repository cannot be written through SQL",
            remedy="SELECT, EXPLAIN, DESCRIBE and SHOW work",
        )


def _run(connection: duckdb.DuckDBPyConnection, statement: str, timeout_seconds: float) -> SqlResult:
    timer = threading.Timer(timeout_seconds, connection.interrupt)
    timer.start()
    try:
        result = connection.execute(statement)
        columns = [entry[0] for entry in result.description or []]
        return SqlResult(columns, result.fetchall())
    finally:
        timer.cancel()


def _calls(connection: duckdb.DuckDBPyConnection, statement: str) -> set[tuple[str, str]]:
    """The pairs of names that ``chunk_changes`` is called with, read from DuckDB's own parse of the statement."""
    # Fetched to the end: DuckDB refuses other work while a result is open.
    rows = connection.execute("SELECT json_serialize_sql(?::VARCHAR)", [statement]).fetchall()
    pairs: set[tuple[str, str]] = set()

    def walk(node: Any) -> None:
        if isinstance(node, dict):
            if node.get("function_name") == "chunk_changes":
                values = [argument["expression"].get("literal", {}).get("text") for argument in node["arguments"]]
                if len(values) != 2 or not all(isinstance(value, str) for value in values):
                    raise UsageError("chunk_changes takes two names of releases: chunk_changes('r000001', 'current')")
                pairs.add((values[0], values[1]))
            for child in node.values():
                walk(child)
        elif isinstance(node, list):
            for child in node:
                walk(child)

    walk(json.loads(rows[0][0]))
    return pairs


class _Tables:
    """Makes the views as Arrow tables."""

    def __init__(self, repository: Repository, release: str | None) -> None:
        self.repository = repository
        self.manifest: Manifest | None = None
        if release is not None:
            try:
                self.manifest = repository.manifest(repository.resolve(release))
            except ReleaseNotFoundError:
                if repository.releases() and release not in ("current", "previous"):
                    raise

    def views(self) -> dict[str, Callable[[], pa.Table]]:
        return {
            "documents": self.documents,
            "chunks": self.chunks,
            "vectors": self.vectors,
            "postings": self.postings,
            "releases": self.releases,
            "promotions": self.promotions,
            "checks": self.checks,
            "check_exceptions": self.check_exceptions,
        }

    def empty(self, name: str) -> pa.Table:
        schemas = {
            "documents": pa.schema(
                [("release", pa.string()), *((n, DOCUMENTS.field(n).type) for n in DOCUMENT_COLUMNS)]
            ),
            "chunks": pa.schema(
                [("release", pa.string()), ("doc_id", pa.string()), *((n, CHUNKS.field(n).type) for n in CHUNK_COLUMNS)]
            ),
            "vectors": pa.schema([("chunk_id", pa.string()), ("vector", pa.list_(pa.float32()))]),
            "postings": pa.schema([("term", pa.string()), ("chunk_id", pa.string()), ("tf", pa.int32())]),
        }
        return schemas[name].empty_table()

    def documents(self) -> pa.Table:
        parts = [self.empty("documents")]
        for segment, documents, _ in self._segments():
            table = segment.documents(DOCUMENT_COLUMNS).filter(pa.array(documents))
            parts.append(_named(table, release=segment.release).select(parts[0].column_names).cast(parts[0].schema))
        return pa.concat_tables(parts)

    def chunks(self) -> pa.Table:
        parts = [self.empty("chunks")]
        for segment, _, live in self._segments():
            table = segment.chunks().filter(pa.array(live))
            ids = segment.documents(["doc_id"]).column("doc_id").take(table.column("document_row"))
            table = _named(table, release=segment.release).append_column("doc_id", ids)
            parts.append(table.select(parts[0].column_names).cast(parts[0].schema))
        return pa.concat_tables(parts)

    def vectors(self) -> pa.Table:
        parts = []
        for segment, _, live in self._segments():
            table = vectors_table(segment.vectors()[live])
            ids = segment.chunks(["chunk_id"]).column("chunk_id").filter(pa.array(live))
            parts.append(pa.table({"chunk_id": ids, "vector": table.column("vector")}))
        return pa.concat_tables(parts) if parts else self.empty("vectors")

    def postings(self) -> pa.Table:
        parts = [self.empty("postings")]
        for segment, _, live in self._segments():
            postings = segment.postings()
            terms = np.repeat(np.arange(len(postings.counts)), postings.counts)
            kept = live[postings.rows]
            ids = segment.chunks(["chunk_id"]).column("chunk_id")
            columns = {
                "term": postings.terms.take(pa.array(terms[kept])),
                "chunk_id": ids.take(pa.array(postings.rows[kept])),
                "tf": pa.array(postings.frequencies[kept], pa.int32()),
            }
            parts.append(pa.table(columns))
        return pa.concat_tables(parts)

    def releases(self) -> pa.Table:
        rows = []
        for row in list_releases(self.repository):
            values = row.to_json()
            changes = values.pop("changes") or {}
            rows.append(
                {**values, **{key: changes.get(key) for key in ("added", "changed", "removed", "renamed", "unchanged")}}
            )
        schema = pa.schema(
            [
                (n, pa.string())
                for n in (
                    "release",
                    "state",
                    "created_at",
                    "content_digest",
                    "parent",
                    "kind",
                    "embedder_id",
                    "chunker_id",
                )
            ]
            + [
                (n, pa.int64())
                for n in ("documents", "chunks", "segments", "added", "changed", "removed", "renamed", "unchanged")
            ]
            + [("pinned", pa.bool_())]
        )
        return pa.Table.from_pylist(rows, schema=schema)

    def promotions(self) -> pa.Table:
        texts = ("kind", "release", "reason", "by", "at", "run", "manifest_digest", "hold_reason")
        schema = pa.schema(
            [("seq", pa.int64()), ("on_hold", pa.bool_())]
            + [(name, pa.string()) for name in texts]
            + [(name, pa.list_(pa.string())) for name in ("stack", "pins")]
        )
        rows = []
        for seq in self.repository.promotions():
            body = self.repository.promotion(seq).to_body()
            hold = body["hold"]
            rows.append({**body, "on_hold": hold is not None, "hold_reason": hold["reason"] if hold else None})
        return pa.Table.from_pylist(rows, schema=schema)

    def checks(self) -> pa.Table:
        schema = pa.schema(
            [(n, pa.string()) for n in ("run", "at", "head", "base", "outcome")]
            + [(n, pa.int64()) for n in ("failed", "withheld", "skipped", "listed")]
            + [("complete", pa.bool_())]
        )
        rows = [
            {
                **{name: check[name] for name in ("run", "at", "head", "base", "outcome")},
                "failed": len(check["exceptions"]),
                "withheld": len(check["withheld"]),
                "skipped": len(check["skipped"]),
                "listed": sum(source["items"] for source in check["sources"]),
                "complete": all(source["complete"] for source in check["sources"]),
            }
            for check in self.repository.checks()
        ]
        return pa.Table.from_pylist(rows, schema=schema)

    def check_exceptions(self) -> pa.Table:
        schema = pa.schema(
            [
                *((n, pa.string()) for n in ("run", "at", "doc_id", "uri", "reason", "since")),
                ("carried_over", pa.bool_()),
            ]
        )
        rows = [
            {"run": check["run"], "at": check["at"], **entry}
            for check in self.repository.checks()
            for entry in check["exceptions"]
        ]
        return pa.Table.from_pylist(rows, schema=schema)

    def chunk_changes(self, pairs: set[tuple[str, str]]) -> pa.Table:
        rows: list[Json] = []
        for old, new in sorted(pairs):
            for row in chunk_changes(self.repository, self.repository.resolve(old), self.repository.resolve(new)):
                rows.append({"old": old, "new": new, **row})
        return pa.Table.from_pylist(rows, schema=CHANGES)

    def _segments(self) -> Iterator[tuple[Segment, Any, Any]]:
        if self.manifest is None:
            return
        erased = self.repository.erased()
        for segment in self.repository.segments(self.manifest):
            documents = segment.live_documents(erased)
            yield segment, documents, segment.live_chunks(documents)


def chunk_changes(repository: Repository, old: str, new: str) -> Iterator[Json]:
    """Chunks of ``new`` that ``old`` has not (added), the reverse (removed), and those that moved, by document.

    Documents are followed over renames; equal texts of one document are paired in order, so a chunk counts as moved
    only when its place in the text or its document's id is another.
    """
    difference = compare_releases(repository, old, new)
    follow = {pair["old"]: pair["new"] for pair in difference.renamed}
    left, right = _chunk_rows(repository, old), _chunk_rows(repository, new)
    before: dict[tuple[str, str, int], Json] = {}
    for doc_id, rows in left.items():
        for key, row in _keyed(rows):
            before[(follow.get(doc_id, doc_id), *key)] = row
    for doc_id, rows in right.items():
        for key, row in _keyed(rows):
            other = before.pop((doc_id, *key), None)
            if other is None or (other["doc_id"], other["start"]) != (row["doc_id"], row["start"]):
                yield _change("added" if other is None else "moved", other, row)
    for row in before.values():
        yield _change("removed", row, None)


def _keyed(rows: list[Json]) -> Iterator[tuple[tuple[str, int], Json]]:
    seen: Counter[str] = Counter()
    for row in rows:
        yield (row["text_sha256"], seen[row["text_sha256"]]), row
        seen[row["text_sha256"]] += 1


def _chunk_rows(repository: Repository, release: str) -> dict[str, list[Json]]:
    found: dict[str, list[Json]] = defaultdict(list)
    for row in (
        _Tables(repository, release).chunks().select(["doc_id", "chunk_id", "text_sha256", "text", "start"]).to_pylist()
    ):
        found[row["doc_id"]].append(row)
    return found


def _change(kind: str, old: Json | None, new: Json | None) -> Json:
    shown = new or old or {}
    return {
        "change": kind,
        **{f"{name}_old": old and old[name] for name in ("doc_id", "chunk_id", "start")},
        **{f"{name}_new": new and new[name] for name in ("doc_id", "chunk_id", "start")},
        "text_sha256": shown["text_sha256"],
        "text": shown["text"],
    }


def _named(table: pa.Table, release: str | None) -> pa.Table:
    return table.append_column("release", pa.array([release] * len(table), pa.string()))
