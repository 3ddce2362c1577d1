"""Is a release what it was when it was published? Everything is read in full and compared, not sampled."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import asdict, dataclass
from functools import partial

from kbcore.embedding.catalog import Catalog
from kbcore.errors import CorruptReleaseError, KbError, KbUnavailableError
from kbcore.fingerprint import content_digest
from kbcore.retrieval.retriever import Retriever
from kbcore.retrieval.settings import RetrievalSettings
from kbcore.retrieval.snapshot import Snapshot
from kbcore.store import envelope, evals, layout
from kbcore.store.manifest import Manifest
from kbcore.store.repository import Repository
from kbcore.store.segment import Segment
from kbcore.types import Json, Mode, Progress


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is not as it was written; ``release`` is None for files that belong to no single one."""

    release: str | None
    file: str
    reason: str

    def to_json(self) -> Json:
        return asdict(self)


def check_servable(
    repository: Repository, manifest: Manifest, catalog: Catalog, *, check_embedder: bool = True
) -> None:
    """What promote and rollback demand first: files present and intact, rows aligned, embedder here with an equal
    fingerprint and equal probe vectors, and a search that answers. Raises what is wrong; nothing is moved."""
    mode: Mode = "hybrid" if check_embedder else "keyword"
    retriever = Retriever(repository, manifest, catalog, settings=RetrievalSettings(mode="hybrid"))
    for segment in retriever.snapshot.segments:
        segment.verify()
    if retriever.snapshot.rows:
        first = retriever.snapshot.chunk(_first_live(retriever.snapshot))
        result = retriever.search(first["text"][:200], k=1, mode=mode)
        if check_embedder and not result.hits:
            raise KbUnavailableError(f"{manifest.release}: a {mode} search for its own text found nothing")
    elif check_embedder:
        _ = retriever.embedder


def verify_release(repository: Repository, release: str, *, checked: dict[str, Segment] | None = None) -> list[Finding]:
    """Read every file that a release refers to, in full; gives what is wrong, nothing where all is well.

    ``checked`` carries segments already read through from release to release.
    """
    findings: list[Finding] = []
    checked = {} if checked is None else checked
    try:
        manifest = repository.manifest(release)
    except (KbError, OSError) as error:
        return [_finding(release, error, layout.manifest_file(release))]
    _collect(findings, release, lambda: repository.embedder(manifest))
    digests: list[str] = []
    whole = True
    for ref in manifest.segments:
        try:
            segment = Segment(repository.store, ref, release=release)
            if ref.name not in checked or checked[ref.name].ref.sha256 != ref.sha256:
                segment.verify()
                checked[ref.name] = segment
            known = checked[ref.name]
            live = segment.deleted_rows
            rows = known.documents(["doc_digest"]).column("doc_digest").to_pylist()
            digests += [digest for row, digest in enumerate(rows) if row not in live]
            for file in list(known.body["files"]):
                if file != layout.DOCUMENTS_FILE:
                    known.drop(file)
        except (KbError, OSError) as error:
            whole = False
            findings.append(_finding(release, error, f"{layout.SEGMENTS}/{ref.name}"))
    if whole:
        found = content_digest(
            chunker_id=manifest.chunking["chunker_id"],
            analyzer_id=manifest.analyzer_id,
            embedder_id=manifest.embedder_id,
            doc_digests=digests,
        )
        if found != manifest.content_digest or len(digests) != manifest.totals["documents"]:
            findings.append(
                Finding(release, layout.manifest_file(release), "its documents do not come to its content digest")
            )
    return findings


def verify_repository(
    repository: Repository, releases: Iterable[str], *, progress: Progress | None = None
) -> list[Finding]:
    """Verify these releases, the promotion chain, and every other record of the repository."""
    findings: list[Finding] = []
    names = list(releases)
    checked: dict[str, Segment] = {}
    for done, release in enumerate(names):
        if progress:
            progress("verify", done, len(names))
        findings += verify_release(repository, release, checked=checked)
    if progress:
        progress("verify", len(names), len(names))
    gates = _verify_evals(repository, findings)
    findings += _verify_chain(repository, gates)
    for folder in (layout.PROMOTIONS, layout.CHECKS, layout.ERASED, layout.EXPIRED, layout.EVALS):
        for file in repository.store.list(folder):
            if not layout.is_record(file):
                findings.append(Finding(None, file, "is not a record of kbcore's; move it out of the repository"))
    for folder in (layout.CHECKS, layout.ERASED, layout.EXPIRED):
        files = repository.records(folder)
        for file in files:
            _collect(findings, None, partial(repository.record, file))
        if folder != layout.EXPIRED:
            # Two runs that ended at once, on two machines, may have given their checks the same number.
            numbers = {layout.sequence_of(file) for file in files}
            for number in sorted(set(range(1, max(numbers, default=0) + 1)) - numbers):
                findings.append(Finding(None, f"{folder}/{number:06d}", "the record of this number is missing"))
    return findings


def _verify_evals(repository: Repository, findings: list[Finding]) -> set[tuple[str, str]]:
    """Every record of an evaluation is as it was written and belongs to its release; a scorecard has the answers that it
    sums up. Gives release and digest of the gate records that read."""
    gates: set[tuple[str, str]] = set()
    manifests: dict[str, str | None] = {}
    for entry in evals.listed(repository):
        try:
            body = evals.read(repository, entry)
            if entry.kind == evals.GATE:
                gates.add((entry.release, envelope.digest(body)))
            elif entry.kind == evals.SCORECARD:
                # The answers lie in a file of their own, which is listed too: here it is their pairing that is looked at.
                evals.read_answers(repository, entry, body["answers"])
        except (KbError, OSError) as error:
            finding = _finding(entry.release, error, entry.file)
            if finding not in findings:
                findings.append(finding)
            continue
        if entry.release not in manifests:
            try:
                manifests[entry.release] = repository.manifest(entry.release).digest
            except CorruptReleaseError:
                manifests[entry.release] = None  # said already
            except (KbError, OSError) as error:
                manifests[entry.release] = None
                findings.append(_finding(entry.release, error, entry.file))
        named, there = body.get("manifest_digest"), manifests[entry.release]
        if named is not None and there is not None and named != there:
            findings.append(Finding(entry.release, entry.file, "was made of another manifest than the release has"))
    return gates


def _verify_chain(repository: Repository, gates: Collection[tuple[str, str]]) -> list[Finding]:
    """Each promotion names the record before it, the manifest it made current, and the gate record that let it pass."""
    findings: list[Finding] = []
    previous: str | None = None
    expected = 1
    for seq in repository.promotions():
        file = layout.promotion_file(seq)
        try:
            record = repository.promotion(seq)
        except (KbError, OSError) as error:
            findings.append(_finding(None, error, file))
            previous, expected = None, seq + 1
            continue
        if seq != expected:
            findings.append(Finding(record.release, file, f"the record {expected} before it is missing"))
        elif record.previous_digest != previous and not (previous is None and seq > 1):
            findings.append(Finding(record.release, file, "does not follow from the record before it"))
        if record.gate is not None and (record.release, record.gate) not in gates:
            findings.append(
                Finding(record.release, file, f"names a gate record ({record.gate[:12]}) that {record.release} has not")
            )
        if record.release is not None:
            release, digest = record.release, record.manifest_digest
            try:
                repository.manifest(release, digest=digest)
            except (KbError, OSError) as error:
                finding = _finding(release, error, layout.manifest_file(release))
                if finding not in findings:
                    findings.append(finding)
        previous, expected = record.digest, seq + 1
    return findings


def _collect(findings: list[Finding], release: str | None, read: Callable[[], object]) -> None:
    try:
        read()
    except (KbError, OSError) as error:
        findings.append(_finding(release, error, ""))


def _finding(release: str | None, error: KbError | OSError, file: str) -> Finding:
    """What an error says; ``file`` is where it came up, if the error does not know."""
    if isinstance(error, CorruptReleaseError):
        return Finding(error.release or release, error.file, error.reason)
    if isinstance(error, OSError):
        return Finding(release, file, f"cannot be read: {error.strerror or error}")
    return Finding(release, file, error.message)


def _first_live(snapshot: Snapshot) -> int:
    for offset, mask in zip(snapshot.offsets, snapshot.live_chunks):
        if mask.any():
            return int(offset + mask.argmax())
    raise KbUnavailableError("no chunk is live")
