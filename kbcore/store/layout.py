"""Names inside a repository. Every name is relative, made of checked parts, and safe as a path and as an object key."""

from __future__ import annotations

import re

from kbcore.errors import UsageError

FORMAT = 1
REPOSITORY = "repository.json"
MANIFESTS = "manifests"
PROMOTIONS = "promotions"
SEGMENTS = "segments"
DELETES = "deletes"
EMBEDDERS = "embedders"
EXPIRED = "expired"
ERASED = "erased"
CHECKS = "checks"
EVALS = "evals"
CACHE = "cache"
STAGING = "staging"
LEASE = "lease"
FOLDERS = (MANIFESTS, PROMOTIONS, SEGMENTS, DELETES, EMBEDDERS, EXPIRED, ERASED, CHECKS, EVALS, CACHE, STAGING)

SEGMENT_FILE = "segment.json"
DOCUMENTS_FILE = "documents.parquet"
CHUNKS_FILE = "chunks.parquet"
VECTORS_FILE = "vectors.parquet"
DENSE_FILE = "dense.faiss"
TERMS_FILE = "terms.parquet"
POSTINGS_FILE = "postings.parquet"

_RELEASE = re.compile(r"r(\d{6,9})")
_RUN = re.compile(r"\d{8}T\d{6}Z-[0-9a-f]{8}")
_SEGMENT = re.compile(_RUN.pattern + r"-\d{1,6}")
_DELETES = re.compile(_SEGMENT.pattern + r"\.parquet")
_EMBEDDER = re.compile(r"[0-9a-f]{32}")
_NUMBERED = re.compile(r"(\d{6,9})\.json")
_CHECK = re.compile(rf"(\d{{6,9}})-{_RUN.pattern}\.json")
_EVAL = re.compile(rf"(scorecard|answers(?:\.[1-9][0-9]*)?|gate)-[0-9a-f]{{16}}-({_RUN.pattern})\.json")
_KB_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")


def release_name(number: int) -> str:
    return f"r{number:06d}"


def release_number(release: str) -> int:
    """The number in a release's name. Raises UsageError where it is not one."""
    match = _RELEASE.fullmatch(release)
    if not match:
        raise UsageError(
            f"{release!r} is not the name of a release", remedy="names look like r000042; see: kb releases"
        )
    return int(match[1])


def is_release(name: str) -> bool:
    return _RELEASE.fullmatch(name) is not None


def is_run(name: str) -> bool:
    return _RUN.fullmatch(name) is not None


def is_segment(name: str) -> bool:
    return _SEGMENT.fullmatch(name) is not None


def is_deletes(name: str) -> bool:
    return _DELETES.fullmatch(name) is not None


def is_embedder(name: str) -> bool:
    return _EMBEDDER.fullmatch(name) is not None


def is_kb_name(name: str) -> bool:
    return _KB_NAME.fullmatch(name) is not None


def manifest_file(release: str) -> str:
    return f"{MANIFESTS}/{release}.json"


def promotion_file(seq: int) -> str:
    return f"{PROMOTIONS}/{seq:06d}.json"


def expired_file(release: str) -> str:
    return f"{EXPIRED}/{release}.json"


def erased_file(seq: int) -> str:
    return f"{ERASED}/{seq:06d}.json"


def check_file(seq: int, run: str) -> str:
    return f"{CHECKS}/{seq:06d}-{run}.json"


def eval_file(release: str, kind: str, key: str, run: str) -> str:
    """``kind`` is scorecard, gate, or answers (``answers.2`` and so on the further ones);
    ``key`` the first 16 hex of the digest of what it was made with."""
    return f"{EVALS}/{release}/{kind}-{key}-{run}.json"


def eval_parts(file: str) -> tuple[str, str, str, str] | None:
    """(release, kind, key, run) of the name of an evaluation's file; None where it is not one."""
    folder, _, name = file.rpartition("/")
    match = _EVAL.fullmatch(name)
    release = folder.removeprefix(f"{EVALS}/")
    if match is None or not folder.startswith(f"{EVALS}/") or not is_release(release):
        return None
    kind, key, run = match[1], name.split("-")[1], match[2]
    return release, kind, key, run


def embedder_file(embedder_id: str) -> str:
    return f"{EMBEDDERS}/{embedder_id}.json"


def segment_file(segment: str, file: str) -> str:
    return f"{SEGMENTS}/{segment}/{file}"


def deletes_file(name: str) -> str:
    return f"{DELETES}/{name}"


def is_record(file: str) -> bool:
    """Whether ``file`` has the name of a promotion, erasure, expiry, check or evaluation. Anything else in their folders (what a
    file manager or an editor leaves behind) is not kbcore's."""
    folder, _, name = file.rpartition("/")
    if file.startswith(f"{EVALS}/"):
        return eval_parts(file) is not None
    if folder == EXPIRED:
        return name.endswith(".json") and is_release(name.removesuffix(".json"))
    return (_CHECK if folder == CHECKS else _NUMBERED).fullmatch(name) is not None


def sequence_of(file: str) -> int:
    """The leading number of ``promotions/000017.json``, ``erased/000003.json``, ``checks/000009-<run>.json``."""
    match = re.match(r"\d{6,9}", file.rsplit("/", 1)[-1])
    if not match:
        raise UsageError(f"{file!r} is not the name of a record")
    return int(match[0])
