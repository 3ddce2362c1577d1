"""From a plan and its vectors to a release: segments first, then deletes, then the manifest that makes them one."""

from __future__ import annotations

import importlib.metadata
import platform
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

from kbcore.embedding.embedder import probe
from kbcore.fingerprint import sha256
from kbcore.ingest.folding import folded, to_fold
from kbcore.ingest.plan import Plan
from kbcore.ingest.vectors import TextVectors
from kbcore.store import envelope, layout
from kbcore.store.manifest import Manifest
from kbcore.store.repository import Repository, Run
from kbcore.store.rows import DocumentRow
from kbcore.store.segment import SegmentRef
from kbcore.store.writer import MAX_CHUNKS, write_deletes, write_segment
from kbcore.types import Json

LIBRARIES = (
    "kbcore",
    "fastembed",
    "onnxruntime",
    "tokenizers",
    "faiss-cpu",
    "pyarrow",
    "rank-bm25",
    "pypdf",
    "pypdfium2",
    "trafilatura",
    "markdownify",
    "mammoth",
    "openpyxl",
    "python-pptx",
)


@dataclass(frozen=True, slots=True)
class Published:
    manifest: Manifest
    bytes_written: int


def publish(repository: Repository, plan: Plan, vectors: TextVectors, run: Run) -> Published:
    """Write what is new and publish the release. ReleaseConflictError, with nothing published, if another run was first."""
    base, recipe = plan.base, plan.recipe
    written = 0
    refs: list[SegmentRef] = []
    left_out = _left_out(plan)
    fold = to_fold(plan, left_out)
    taken: list[DocumentRow] = []
    for number in fold:
        documents, texts, found = folded(plan.base.segments[number], left_out[number])
        vectors.add(texts, found)
        taken += documents
    if not plan.rebuild:
        kept, written = _kept_segments(repository, plan, run, left_out, set(fold))
        refs += kept
    for number, rows in enumerate(_groups([*taken, *plan.rows]), start=1):
        digests = [chunk.embedded_sha256 for row in rows for chunk in row.chunks]
        ref, size = write_segment(
            repository.store,
            f"{run.name}-{number}",
            rows,
            vectors.of(digests),
            run=run.name,
            chunker_id=recipe.chunker_id,
            analyzer_id=recipe.analyzer_id,
            embedder_id=recipe.embedder_id,
        )
        refs.append(ref)
        written += size
    embedder, size = _embedder(repository, plan)
    written += size
    manifest = Manifest(
        release="",
        parent=base.release,
        kind="refresh",
        created_at=run.started_at,
        run=run.name,
        nonce=repository.token(),
        repository_id=repository.repository_id,
        content_digest=plan.content_digest(),
        chunking=recipe.chunking,
        analyzer_id=recipe.analyzer_id,
        embedder=embedder,
        segments=tuple(refs),
        totals=_totals(plan, refs, left_out),
        changes=plan.changes(),
        work={"texts_embedded": vectors.embedded, "texts_reused": vectors.reused, "texts_resumed": vectors.resumed},
        sources=tuple(plan.sources),
        exceptions=tuple(asdict(failure) for failure in plan.failures),
        withheld=tuple({"doc_id": held.doc_id, "source": held.source} for held in plan.withheld),
        removed=tuple({"doc_id": held.doc_id, "reason": plan.reason_of(held)} for held in plan.removed),
        versions=versions(),
    )
    published = repository.publish(manifest, expected_head=base.release)
    size = len(envelope.seal(published.to_body()))
    return Published(published, written + size)


def versions() -> Json:
    """What made a release: kbcore, Python and the libraries whose output ends up in it."""
    found: Json = {"python": platform.python_version()}
    for name in LIBRARIES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = None
    return found


def _left_out(plan: Plan) -> list[frozenset[int]]:
    """For each segment of the base, the document rows that the next release leaves out; those of earlier ones too."""
    struck: dict[int, set[int]] = defaultdict(set)
    rewritten = (plan.base.held[row.doc_id] for row in plan.rows if row.doc_id in plan.base.held)
    for held in (*plan.gone, *rewritten):
        struck[held.segment].add(held.row)
    return [segment.deleted_rows | struck[number] for number, segment in enumerate(plan.base.segments)]


def _kept_segments(
    repository: Repository, plan: Plan, run: Run, left_out: Sequence[frozenset[int]], fold: set[int]
) -> tuple[list[SegmentRef], int]:
    """The base's segments with the documents that are gone or rewritten struck out; empty ones are left out, and those
    whose documents the new segment takes."""
    refs = []
    written = 0
    for number, (segment, rows) in enumerate(zip(plan.base.segments, left_out, strict=True), start=1):
        ref = segment.ref
        if len(rows) == ref.documents or number - 1 in fold:
            continue
        if rows != segment.deleted_rows:
            name = f"{run.name}-{number}.parquet"
            digest, size = write_deletes(repository.store, name, sorted(rows))
            written += size
            ref = SegmentRef(ref.name, ref.sha256, ref.documents, ref.chunks, name, digest, len(rows))
        refs.append(ref)
    return refs, written


def _groups(rows: Sequence[DocumentRow]) -> Iterator[list[DocumentRow]]:
    """Documents in order, as many to a segment as fit; one document is never divided."""
    group: list[DocumentRow] = []
    size = 0
    for row in rows:
        if group and size + len(row.chunks) > MAX_CHUNKS:
            yield group
            group, size = [], 0
        group.append(row)
        size += len(row.chunks)
    if group:
        yield group


def _embedder(repository: Repository, plan: Plan) -> tuple[Json, int]:
    """The manifest's entry for the embedder; its record is written by the first run that uses it."""
    embedder = plan.recipe.embedder
    file = layout.embedder_file(embedder.embedder_id)
    size = 0
    try:
        data = repository.store.get(file)
        envelope.unseal(data, file=file)
    except FileNotFoundError:
        body: Json = {"format": layout.FORMAT, "fingerprint": embedder.fingerprint, "probes": probe(embedder)}
        data = envelope.seal(body)
        try:
            repository.store.put_new({file: data})
            size = len(data)
        except FileExistsError:
            data = repository.store.get(file)
    return {
        "embedder_id": embedder.embedder_id,
        "sha256": sha256(data),
        "provider": embedder.fingerprint["provider"],
        "model": embedder.fingerprint["model"],
        "dimension": embedder.dimension,
    }, size


def _totals(plan: Plan, refs: Sequence[SegmentRef], left_out: Sequence[frozenset[int]]) -> Json:
    documents = sum(ref.documents - ref.deleted for ref in refs)
    new = sum(len(row.chunks) for row in plan.rows)
    reused = 0
    if not plan.rebuild:
        for segment, rows in zip(plan.base.segments, left_out, strict=True):
            counts = segment.documents(["chunk_count"]).column("chunk_count").to_pylist()
            reused += sum(count for row, count in enumerate(counts) if row not in rows)
    return {"documents": documents, "chunks": new + reused, "chunks_new": new, "chunks_reused": reused}
