"""The cut of the evidence rule that a release is searched with, where an evaluation has calibrated one."""

from __future__ import annotations

import itertools

from kbcore.errors import KbError
from kbcore.retrieval.evidence import EvidenceCut, default_cut
from kbcore.store import evals
from kbcore.store.descent import descent
from kbcore.store.manifest import Manifest
from kbcore.store.repository import Repository
from kbcore.types import Json, Mode

GENERATIONS = 20


def cut_of(repository: Repository, manifest: Manifest, mode: Mode) -> EvidenceCut:
    """The newest calibration of this mode for the release; where it has none, that of the nearest release it descends
    from with the same embedder, at most twenty back. Where nobody calibrated it is the default of its model: cosines of
    another one mean other things, so theirs are never taken."""
    by_release: dict[str, list[evals.Evaluated]] = {}
    for entry in evals.listed(repository, kind=evals.SCORECARD):
        by_release.setdefault(entry.release, []).append(entry)
    for now in itertools.islice(descent(repository, manifest), GENERATIONS if by_release else 0):
        if now.embedder_id != manifest.embedder_id:
            break
        for entry in reversed(by_release.get(now.release, [])):
            if (found := _read(repository, entry, mode, manifest.embedder_id)) is not None:
                return found
    return default_cut(str(manifest.embedder["model"]))


def _read(repository: Repository, entry: evals.Evaluated, mode: Mode, embedder_id: str) -> EvidenceCut | None:
    try:
        body: Json = evals.read(repository, entry)
    except KbError:
        return None
    found = body.get("calibration")
    if found is None or body["settings"]["mode"] != mode or body["embedder_id"] != embedder_id:
        return None
    return EvidenceCut.from_json(found, entry.file)
