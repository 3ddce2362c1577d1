"""The views as Arrow tables: live rows of one release, and the records of the repository."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

import numpy as np
import pyarrow as pa

from kbcore.arrays import Mask
from kbcore.errors import ReleaseNotFoundError
from kbcore.releases import list_releases
from kbcore.sql import evaluations
from kbcore.sql.changes import CHANGES, COLUMNS, chunk_changes
from kbcore.store import layout
from kbcore.store.envelope import read_sealed
from kbcore.store.manifest import Manifest
from kbcore.store.repository import Repository
from kbcore.store.rows import CHUNKS, DOCUMENTS, vectors_table
from kbcore.store.segment import Segment
from kbcore.types import Json

DOCUMENT_COLUMNS = [name for name in DOCUMENTS.names if name != "first_chunk"]
CHUNK_COLUMNS = [name for name in CHUNKS.names if name != "document_row"]


def _schema(*types: tuple[pa.DataType, str]) -> pa.Schema:
    """Fields of a type each, named in one string."""
    return pa.schema([pa.field(name, kind) for kind, names in types for name in names.split()])


SCHEMAS = {
    "documents": pa.schema(
        [
            pa.field("release", pa.string()),
            *(DOCUMENTS.field(name) for name in DOCUMENT_COLUMNS),
            pa.field("carried_over", pa.bool_()),
            pa.field("withheld", pa.bool_()),
        ]
    ),
    "chunks": pa.schema(
        [
            pa.field("release", pa.string()),
            pa.field("doc_id", pa.string()),
            *(CHUNKS.field(name) for name in CHUNK_COLUMNS),
        ]
    ),
    "vectors": _schema((pa.string(), "chunk_id"), (pa.list_(pa.float32()), "vector")),
    "postings": _schema((pa.string(), "term chunk_id"), (pa.int32(), "tf")),
    "releases": _schema(
        (pa.string(), "release state created_at content_digest parent kind embedder_id chunker_id"),
        (pa.int64(), "documents chunks segments added changed removed renamed unchanged"),
        (pa.bool_(), "pinned"),
    ),
    "promotions": _schema(
        (pa.int64(), "seq"),
        (pa.string(), "kind release"),
        (pa.bool_(), "on_hold"),
        (pa.string(), "hold_reason reason by at run gate manifest_digest"),
        (pa.int64(), "restores"),
        (pa.list_(pa.string()), "stack pins blocked"),
    ),
    "checks": _schema(
        (pa.int64(), "seq"),
        (pa.string(), "run at head base outcome"),
        (pa.int64(), "failed withheld skipped listed"),
        (pa.bool_(), "complete"),
    ),
    "check_exceptions": _schema(
        (pa.int64(), "seq"), (pa.string(), "run at doc_id uri reason since"), (pa.bool_(), "carried_over")
    ),
    "evals": evaluations.EVALS,
    "eval_questions": evaluations.QUESTIONS,
    "gates": evaluations.GATES,
}


class Tables:
    """Makes the views of one release and of the repository. ReleaseNotFoundError on a release that is not there."""

    def __init__(self, repository: Repository, release: str | None) -> None:
        self.repository = repository
        self.manifest: Manifest | None = None
        self._missing: ReleaseNotFoundError | None = None
        if release is None:
            return
        try:
            self.manifest = repository.manifest(repository.resolve(release))
        except ReleaseNotFoundError as error:
            if release not in ("current", "previous", "latest", "head"):
                raise
            # Before the first promotion there is no current release; the repository's own records can be read.
            self._missing = error if repository.releases() else None

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
            "evals": lambda: _table("evals", list(evaluations.eval_rows(self.repository))),
            "eval_questions": lambda: _table("eval_questions", list(evaluations.question_rows(self.repository))),
            "gates": lambda: _table("gates", list(evaluations.gate_rows(self.repository))),
        }

    def empty(self, name: str) -> pa.Table:
        schema = SCHEMAS[name]
        if name == "vectors" and self.manifest is not None:
            dimension = int(self.manifest.embedder["dimension"])
            schema = schema.set(1, pa.field("vector", pa.list_(pa.float32(), dimension)))
        return schema.empty_table()

    def documents(self) -> pa.Table:
        parts = [self.empty("documents")]
        for segment, live, _ in self._segments():
            table = segment.documents(DOCUMENT_COLUMNS).filter(pa.array(live))
            parts.append(self._with_flags(table).select(parts[0].column_names))
        return pa.concat_tables(parts)

    def chunks(self) -> pa.Table:
        parts = [self.empty("chunks")]
        for segment, _, live in self._segments():
            table = segment.chunks().filter(pa.array(live))
            ids = segment.documents(["doc_id"]).column("doc_id").take(table.column("document_row"))
            table = table.append_column(SCHEMAS["chunks"].field("doc_id"), ids)
            parts.append(self._named(table).select(parts[0].column_names))
        return pa.concat_tables(parts)

    def vectors(self) -> pa.Table:
        parts = [self.empty("vectors")]
        for segment, _, live in self._segments():
            ids = segment.chunks(["chunk_id"]).column("chunk_id").filter(pa.array(live))
            vectors = vectors_table(segment.vectors()[live]).column("vector")
            parts.append(pa.table([ids, vectors], schema=parts[0].schema))
        return pa.concat_tables(parts)

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
            rows.append({**(values.pop("changes") or {}), **values})
        return _table("releases", rows)

    def promotions(self) -> pa.Table:
        rows = []
        for seq in self.repository.promotions():
            body = self.repository.promotion(seq).to_body()
            hold = body["hold"]
            rows.append({**body, "on_hold": hold is not None, "hold_reason": hold["reason"] if hold else None})
        return _table("promotions", rows)

    def checks(self) -> pa.Table:
        rows = [
            {
                **check,
                "failed": len(check["exceptions"]),
                "withheld": len(check["withheld"]),
                "skipped": len(check["skipped"]),
                "listed": sum(source["items"] for source in check["sources"]),
                "complete": all(source["complete"] for source in check["sources"]),
            }
            for check in self._checks()
        ]
        return _table("checks", rows)

    def check_exceptions(self) -> pa.Table:
        """Documents erased for good are left out; one erased with one content may have failed with another."""
        erased = {doc_id for doc_id, contents in self.repository.erased().items() if None in contents}
        rows = [
            {"seq": check["seq"], "run": check["run"], "at": check["at"], **entry}
            for check in self._checks()
            for entry in check["exceptions"]
            if entry["doc_id"] not in erased
        ]
        return _table("check_exceptions", rows)

    def chunk_changes(self, pairs: Iterable[tuple[str, str]]) -> pa.Table:
        """The rows of every pair, named by the words the statement used. ReleaseNotFoundError as for ``release``."""
        rows: list[Json] = []
        for old, new in sorted(pairs):
            names = self.repository.resolve(old), self.repository.resolve(new)
            before, after = (Tables(self.repository, name).chunks().select(COLUMNS).to_pylist() for name in names)
            for row in chunk_changes(self.repository, *names, before, after):
                rows.append({"for_old": old, "for_new": new, **row})
        return pa.Table.from_pylist(rows, schema=CHANGES)

    def _checks(self) -> Iterator[Json]:
        for file in self.repository.store.list(layout.CHECKS):
            yield {**read_sealed(self.repository.store, file), "seq": layout.sequence_of(file)}

    def _segments(self) -> Iterator[tuple[Segment, Mask, Mask]]:
        """Segments with their live documents and live chunks."""
        if self._missing is not None:
            raise self._missing
        if self.manifest is None:
            return
        erased = self.repository.erased()
        for segment in self.repository.segments(self.manifest):
            documents = segment.live_documents(erased)
            yield segment, documents, segment.live_chunks(documents)

    def _named(self, table: pa.Table) -> pa.Table:
        assert self.manifest is not None
        return table.append_column("release", pa.array([self.manifest.release] * len(table), pa.string()))

    def _with_flags(self, table: pa.Table) -> pa.Table:
        """What the manifest says of a document: its former version was kept, or its removal was not made."""
        assert self.manifest is not None
        carried = [entry["doc_id"] for entry in self.manifest.exceptions if entry["carried_over"]]
        withheld = [entry["doc_id"] for entry in self.manifest.withheld]
        for name, ids in (("carried_over", set(carried)), ("withheld", set(withheld))):
            flags = [doc_id in ids for doc_id in table.column("doc_id").to_pylist()]
            table = table.append_column(name, pa.array(flags, pa.bool_()))
        return self._named(table)


def _table(name: str, rows: list[Json]) -> pa.Table:
    """Rows in the columns of a view; what a row has beyond them is left out."""
    schema = SCHEMAS[name]
    chosen: list[Mapping[str, object]] = [{column: row.get(column) for column in schema.names} for row in rows]
    return pa.Table.from_pylist(chosen, schema=schema)
