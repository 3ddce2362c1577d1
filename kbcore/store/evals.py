"""What evaluations left beside the releases they are about: scorecards, the answers they sum up, gate records.

``evals/<release>/<kind>-<key>-<run>.json``, each created once. The key names what it was made with, the run when.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kbcore.errors import CorruptReleaseError
from kbcore.fingerprint import canonical, sha256
from kbcore.store import envelope, layout
from kbcore.store.envelope import read_sealed
from kbcore.store.repository import Repository, Run
from kbcore.types import Json

SCORECARD, ANSWERS, GATE = "scorecard", "answers", "gate"
ANSWERS_BYTES = 16 * 1024 * 1024  # a quarter of what a record may have; some 900 answers of a hundred hits


@dataclass(frozen=True, slots=True)
class Evaluated:
    """The name of one record: what it is of, and where it lies."""

    release: str
    kind: str
    key: str
    run: str
    file: str

    @classmethod
    def of(cls, release: str, kind: str, key: str, run: str) -> Evaluated:
        return cls(release, kind, key, run, layout.eval_file(release, kind, key, run))


def key_of(made_with: Json) -> str:
    return sha256(canonical(made_with))[:16]


def listed(repository: Repository, release: str | None = None, kind: str | None = None) -> list[Evaluated]:
    """Records of ``release`` (all releases) and ``kind`` (all kinds), oldest run first."""
    folder = layout.EVALS if release is None else f"{layout.EVALS}/{release}"
    found = []
    for file in repository.store.list(folder):
        parts = layout.eval_parts(file)
        if parts and kind in (None, parts[1]):
            found.append(Evaluated(*parts, file))
    # A run's name begins with its time.
    return sorted(found, key=lambda entry: (entry.run, entry.release, entry.kind, entry.key))


def newest(repository: Repository, release: str, kind: str, key: str | None = None) -> Json | None:
    """The newest record of this kind (and key) that reads; None where there is none."""
    return newest_of(repository, [entry for entry in listed(repository, release, kind) if key in (None, entry.key)])


def newest_of(repository: Repository, entries: Sequence[Evaluated]) -> Json | None:
    """The last of ``entries`` that reads; None where none does."""
    for entry in reversed(entries):
        try:
            return read(repository, entry)
        except CorruptReleaseError:
            # It can be made again; kb verify --all names it.
            continue
    return None


def read(repository: Repository, entry: Evaluated) -> Json:
    """The body of a record. CorruptReleaseError where it is damaged, or holds that of another name."""
    body = read_sealed(repository.store, entry.file)
    named = (body.get("release"), body.get("kind"), body.get("key"), body.get("run"))
    if named != (entry.release, entry.kind, entry.key, entry.run) or body.get("format") != layout.FORMAT:
        raise CorruptReleaseError(f"is the record of another name: {named}", file=entry.file, remedy=envelope.REMEDY)
    return body


def write(repository: Repository, release: str, kind: str, key: str, body: Json, *, run: Run) -> Json:
    """Keep a record; gives it as it was written. Names in it lead to nothing that could vanish."""
    file = layout.eval_file(release, kind, key, run.name)
    whole: Json = {"format": layout.FORMAT, "release": release, "kind": kind, "key": key, "run": run.name, **body}
    try:
        repository.store.put_new({file: envelope.seal(whole)})
    except FileExistsError:
        if envelope.unseal(repository.store.get(file), file=file) != whole:
            raise
    return whole


def write_answers(repository: Repository, release: str, key: str, answers: Sequence[Json], *, run: Run) -> list[str]:
    """Keep what was answered to each question, in order, in as many records as it takes; gives their digests, which the
    scorecard of the same key and run names."""
    parts: list[list[Json]] = [[]]
    size = 0
    for answer in answers:
        more = len(canonical(answer))
        if parts[-1] and size + more > ANSWERS_BYTES:
            parts.append([])
            size = 0
        parts[-1].append(answer)
        size += more
    return [
        envelope.digest(write(repository, release, _part(at), key, {"answers": part}, run=run))
        for at, part in enumerate(parts)
    ]


def read_answers(repository: Repository, scorecard: Evaluated, digests: Sequence[str]) -> list[Json]:
    """The answers that a scorecard names by ``digests``. CorruptReleaseError where a record is damaged, or another."""
    answers: list[Json] = []
    for at, digest in enumerate(digests):
        entry = Evaluated.of(scorecard.release, _part(at), scorecard.key, scorecard.run)
        body = read(repository, entry)
        if envelope.digest(body) != digest:
            raise CorruptReleaseError(
                "are not the answers that the scorecard names", file=entry.file, remedy=envelope.REMEDY
            )
        answers += body["answers"]
    return answers


def _part(at: int) -> str:
    return ANSWERS if at == 0 else f"{ANSWERS}.{at + 1}"
