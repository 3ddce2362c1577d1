"""Is everything in place? Each finding names what mends it; a check that could not run says so and is no pass."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from urllib.parse import urlsplit

from kbcore.config import Config, SourceSection, load
from kbcore.embedding.catalog import Catalog, make
from kbcore.embedding.embedder import describe, judge
from kbcore.embedding.reranking import RerankerSpec, make_reranker
from kbcore.errors import CorruptReleaseError, EmbeddingFailedError, KbError, SourceError, StorageFullError
from kbcore.ingest.publish import versions
from kbcore.ingest.recipe import embedder_spec
from kbcore.ingest.refresh import source_cache
from kbcore.knowledge_base import KnowledgeBase
from kbcore.parsing.sandbox import version
from kbcore.sources import ENVIRONMENT, Secrets, make_source
from kbcore.store import layout
from kbcore.store.lease import describe as holder
from kbcore.store.lease import is_held, user
from kbcore.store.probe import probe_storage
from kbcore.types import Json
from kbcore.verification import verify_release

FLOORS = {
    "pypdf": (6, 16, 1),
    "pyarrow": (23, 0, 1),
    "duckdb": (2, 0),
    "prefect": (3, 9),
    "faiss-cpu": (1, 15),
    "fastembed": (0, 9),
}
SHAPING = (
    "pypdf", "pypdfium2", "trafilatura", "markdownify", "mammoth", "openpyxl", "python-pptx", "tokenizers", "onnxruntime",
    "fastembed",
)  # fmt: skip
STAGING_BYTES = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Check:
    """``status``: ok, warn, fail, or skipped (could not run; not a pass). ``remedy`` is a command or an act."""

    name: str
    status: str
    detail: str
    remedy: str = ""

    def to_json(self) -> Json:
        return asdict(self)


def examine(
    config_path: str | Path | None, environ: Mapping[str, str] = os.environ, *, secrets: Secrets = ENVIRONMENT
) -> list[Check]:
    """Run every check; one that fails does not keep the others from running. ``secrets`` are for the sources."""
    checks = [_python(), *_libraries()]
    try:
        config = load(config_path, environ)
    except KbError as error:
        checks.append(Check("configuration", "fail", error.message, error.remedy or "mend the file that is named"))
        return checks + [
            Check(name, "skipped", "the configuration does not load") for name in ("sources", "embedder", "repository")
        ]
    checks.append(Check("configuration", "ok", config.file))
    base = KnowledgeBase(config)
    checks += _sources(base, secrets)
    checks.append(_guard("parser", _parser))
    checks.append(_guard("embedder", lambda: _embedder(config)))
    if config.retrieval.reranker or config.retrieval.reranker_path:
        checks.append(_guard("reranker", lambda: _reranker(config)))
    if not base.exists():
        checks.append(Check("repository", "fail", f"{base.folder} does not exist", "kb init"))
        checks += [Check(name, "skipped", "there is no repository") for name in ("storage", "releases")]
    else:
        checks.append(
            _guard("repository", lambda: Check("repository", "ok", f"{base.folder}, {base.repository.repository_id}"))
        )
        checks += _storage(base)
        checks += _releases(base)
    checks.append(_prefect(environ))
    return checks


def worst(checks: list[Check]) -> int:
    """1 if any check failed, else 0."""
    return int(any(check.status == "fail" for check in checks))


def _guard(name: str, run: Callable[[], Check]) -> Check:
    try:
        return run()
    except KbError as error:
        return Check(name, "fail", error.message, error.remedy)
    except Exception as error:
        return Check(name, "fail", f"{type(error).__name__}: {error}", "report it with the output of: kb doctor --json")


def _python() -> Check:
    return Check("python", "ok", f"{platform.python_version()} on {platform.system()} {platform.machine()}")


def _libraries() -> list[Check]:
    old = []
    for name, floor in FLOORS.items():
        try:
            found = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            old.append(f"{name} is missing")
            continue
        numbers = tuple(int(part) for part in found.split(".")[:3] if part.isdecimal())
        if numbers < floor:
            old.append(f"{name} {found} is older than {'.'.join(map(str, floor))}")
    if old:
        return [Check("libraries", "fail", "; ".join(old), "make install")]
    return [Check("libraries", "ok", ", ".join(f"{n} {importlib.metadata.version(n)}" for n in FLOORS))]


def _sources(base: KnowledgeBase, secrets: Secrets) -> list[Check]:
    config = base.config
    if not config.sources:
        return [Check("sources", "warn", "none is configured", f"add a [[sources]] table to {config.file}")]

    def look(section: SourceSection) -> Check:
        try:
            seen = make_source(section, cache=source_cache(base.folder, section), secrets=secrets).probe()
        except SourceError as error:
            # The name of the check says which source it is.
            said = error.message.removeprefix(f"source {section.name!r}: ")
            raise SourceError(said, remedy=f"{error.remedy}; it is configured in {config.file}") from error
        return Check(f"source {section.name}", "ok", seen)

    return [_guard(f"source {section.name}", lambda section=section: look(section)) for section in config.sources]  # type: ignore[misc]


def _parser() -> Check:
    """What keeps a hostile document in its place."""
    landlock = version()
    if not landlock:
        detail = "limits on memory, time and files hold; the kernel has no Landlock to take files and network away"
        return Check("parser", "warn", detail, "run on Linux 5.13 or newer with Landlock among its security modules")
    more = "no file but the interpreter's can be read, none written, none run" + ", no TCP" * (landlock >= 4)
    return Check("parser", "ok", f"Landlock {landlock}: {more}")


def _embedder(config: Config) -> Check:
    embedder = make(embedder_spec(config), download=False)
    vector = embedder.embed_query("a probe")
    if vector.shape != (embedder.dimension,):
        raise EmbeddingFailedError(f"a question gives a vector of {vector.shape}, not of {embedder.dimension} numbers")
    if config.embedder.provider == "hashing":
        return Check(
            "embedder",
            "warn",
            f"{describe(embedder.fingerprint)} knows words, not meaning: for tests only",
            f'set provider = "fastembed" in {config.file}',
        )
    return Check("embedder", "ok", describe(embedder.fingerprint))


def _reranker(config: Config) -> Check:
    """Without it no search is answered: one that was to be reranked is never answered in another order."""
    chosen = config.retrieval
    reranker = make_reranker(RerankerSpec(chosen.reranker or "", chosen.reranker_path), download=False)
    reranker.score("a probe", ["a text"])
    return Check(
        "reranker", "ok", f"{reranker.fingerprint['model']}, orders the first {chosen.rerank_depth} chunks anew"
    )


def _storage(base: KnowledgeBase) -> list[Check]:
    checks = []
    try:
        results = probe_storage(base.store)
    except StorageFullError as error:
        return [Check("storage", "fail", error.message, error.remedy)]
    for result in results:
        if result.ok is False:
            checks.append(
                Check(
                    f"storage {result.name}",
                    "fail",
                    result.detail,
                    f"let {user()} write below {base.folder}, or run as another user"
                    if result.denied
                    else f"move {base.folder} to a local file system with hard links",
                )
            )
        elif result.ok is None:
            checks.append(Check(f"storage {result.name}", "warn", result.detail, f"free space below {base.folder}"))
    if not checks:
        checks.append(Check("storage", "ok", "links, syncing, locks and the create race are as publishing needs them"))
    if is_held(base.folder):
        under_way = holder(base.folder / layout.LEASE / "holder.json")
        checks.append(Check("lease", "warn", f"held by {under_way}", "wait until that run has ended"))
    size = sum(_size(base.store.local_path(name)) for name in base.store.list(layout.STAGING))
    if size > STAGING_BYTES:
        detail = f"{size / 1e9:.1f} GB are left of runs that ended early"
        checks.append(Check("staging", "warn", detail, "kb refresh uses and clears them"))
    return checks


def _size(path: Path | None) -> int:
    """Bytes of a file; a run under way may have removed it since it was listed."""
    try:
        return path.stat().st_size if path else 0
    except FileNotFoundError:
        return 0


def _releases(base: KnowledgeBase) -> list[Check]:
    try:
        repository = base.repository
        state, head = repository.state(), repository.head()
    except KbError as error:
        return [Check("releases", "fail", error.message, error.remedy or "kb verify --all")]
    except OSError as error:
        return [
            Check(
                "releases", "fail", f"{base.folder} cannot be read: {error}", "look at the disk, then: kb verify --all"
            )
        ]
    if head is None:
        return [Check("releases", "warn", "nothing was published yet", "kb refresh")]
    checks = []
    if state.release is None:
        checks.append(Check("current", "warn", "no release is current", "kb promote latest --reason ..."))
    else:
        findings = verify_release(repository, state.release)
        if findings:
            what = "; ".join(f"{f.file}: {f.reason}" for f in findings[:3])
            checks.append(
                Check(
                    "current",
                    "fail",
                    f"{state.release} is damaged: {what}",
                    'restore the file, or: kb rollback --reason "..."',
                )
            )
        else:
            checks.append(Check("current", "ok", f"{state.release}, read in full"))
    if state.release != head and (findings := verify_release(repository, head)):
        what = "; ".join(f"{f.file}: {f.reason}" for f in findings[:3])
        checks.append(
            Check(
                "newest",
                "fail",
                f"{head}, which the next refresh builds on, is damaged: {what}",
                f'restore the file, or: kb expire {head} --reason "..."',
            )
        )
    if state.hold:
        checks.append(
            Check(
                "hold",
                "warn",
                f"{state.hold['reason']} ({state.hold['by']}, {state.hold['since']})",
                "kb hold --lift --reason ...",
            )
        )
    elif state.release != head:
        checks.append(
            Check(
                "head",
                "warn",
                f"{head} is newer than {state.release} and not promoted",
                "kb refresh, or kb promote latest --reason ...",
            )
        )
    checks.append(_guard("embedders", lambda: _embedders(base)))
    checks.append(_guard("versions", lambda: _versions(base, head)))
    return checks


def _embedders(base: KnowledgeBase) -> Check:
    """Is the embedder of every release here, and does it still give the vectors it gave?"""
    repository = base.repository
    catalog = Catalog(base.catalog.configured, base.catalog.folders, download=False)
    expired = repository.expired()
    missing: dict[str, list[str]] = {}
    drifted: list[str] = []
    damaged: list[str] = []
    seen: dict[str, str] = {}
    for release in repository.releases():
        if release in expired:
            continue
        try:
            manifest = repository.manifest(release)
            record = repository.embedder(manifest)
        except CorruptReleaseError:
            damaged.append(release)
            continue
        if manifest.embedder_id not in seen:
            try:
                embedder = catalog.locate(record["fingerprint"], release=release)
            except KbError:
                seen[manifest.embedder_id] = "missing"
            else:
                seen[manifest.embedder_id] = judge(record, embedder)[0]
                if seen[manifest.embedder_id] != "identical":
                    drifted.append(manifest.embedder_id)
        if seen[manifest.embedder_id] == "missing":
            missing.setdefault(f"{manifest.embedder['model']} {manifest.embedder_id}", []).append(release)
    if missing:
        what = "; ".join(f"{name} of {', '.join(releases)}" for name, releases in missing.items())
        return Check(
            "embedders",
            "fail",
            f"not on this machine: {what} (keyword search works)",
            "name its folder in [models] folders",
        )
    if damaged:
        return Check("embedders", "fail", f"what {', '.join(damaged)} used does not read", "kb verify --all")
    if drifted:
        return Check(
            "embedders",
            "fail",
            f"{', '.join(drifted)} gives other vectors than at build time",
            "kb show current names the versions it was built with",
        )
    return Check("embedders", "ok", f"{len(seen)} in use, all here, probe vectors as recorded")


def _versions(base: KnowledgeBase, head: str) -> Check:
    recorded, now = base.repository.manifest(head).versions, versions()
    other = [f"{n} {recorded.get(n)} -> {now[n]}" for n in SHAPING if recorded.get(n) != now.get(n)]
    if other:
        return Check(
            "versions",
            "warn",
            f"since {head} was built: {', '.join(other)}",
            "kb plan shows what a refresh would change",
        )
    return Check("versions", "ok", f"as when {head} was built")


def _prefect(environ: Mapping[str, str]) -> Check:
    url = environ.get("PREFECT_API_URL", "")
    if not url:
        return Check("prefect", "ok", "no server is set; kb needs none, and make serve starts one for schedules")
    host = urlsplit(url)
    if host.scheme not in ("http", "https") or not host.hostname:
        return Check(
            "prefect",
            "fail",
            "PREFECT_API_URL names no server: it has to begin with http:// or https:// and a host",
            "export PREFECT_API_URL=http://127.0.0.1:4200/api",
        )
    if host.scheme == "http" and host.hostname not in ("127.0.0.1", "localhost", "::1"):
        return Check(
            "prefect",
            "warn",
            f"the server at {host.hostname} is reached without TLS",
            "use https, or a loopback address",
        )
    return Check("prefect", "ok", f"server at {host.hostname}")
