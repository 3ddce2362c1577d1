"""A repository: all releases of one knowledge base, and the log of which one readers get.

Publishing and promoting are each one new file. After any error the outcome is read back and decided by the nonce:
ours, somebody else's, or none.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from kbcore.clock import Clock, Token, iso, random_token, run_name, system_clock
from kbcore.errors import (
    CorruptReleaseError,
    ReleaseConflictError,
    ReleaseExpiredError,
    ReleaseNotFoundError,
    RepositoryNotFoundError,
    UsageError,
)
from kbcore.store import envelope, layout, promotion
from kbcore.store.envelope import read_checked, read_sealed
from kbcore.store.lease import user
from kbcore.store.manifest import Manifest
from kbcore.store.objects import LocalStore, ObjectStore
from kbcore.store.promotion import Promotion, Stamp
from kbcore.store.segment import Segment
from kbcore.types import Json

ERASED_SECONDS = 0.5
RECENT_CHECKS = 200
ErasedIds = Mapping[str, frozenset[str | None]]


@dataclass(frozen=True, slots=True)
class Run:
    """One piece of work on a repository: its name stands in every path it writes."""

    name: str
    started_at: str
    by: str


class Repository:
    """A repository that exists. Safe for many readers and, by put-if-absent, for many writers."""

    def __init__(
        self, store: ObjectStore, name: str, *, clock: Clock = system_clock, token: Token = random_token
    ) -> None:
        self.store = store
        self.name = name
        self.clock = clock
        self.token = token
        self._erased: ErasedIds = {}
        self._erased_read = float("-inf")

    @classmethod
    def create(
        cls, store: ObjectStore, name: str, *, clock: Clock = system_clock, token: Token = random_token
    ) -> Repository:
        """A new, empty repository in ``store``. UsageError if one is there."""
        if not layout.is_kb_name(name):
            raise UsageError(f"{name!r} cannot name a knowledge base", remedy="use lower-case letters, digits, . _ -")
        body: Json = {
            "format": layout.FORMAT,
            "repository_id": token() + token(),
            "name": name,
            "created_at": iso(clock()),
        }
        try:
            store.put_new({layout.REPOSITORY: envelope.seal(body)})
        except FileExistsError:
            raise UsageError(f"there is a repository already: {name}") from None
        return cls(store, name, clock=clock, token=token)

    @classmethod
    def open(
        cls, store: ObjectStore, name: str, *, clock: Clock = system_clock, token: Token = random_token
    ) -> Repository:
        """The repository in ``store``. RepositoryNotFoundError if there is none, CorruptReleaseError if it is damaged."""
        repository = cls(store, name, clock=clock, token=token)
        _ = repository.identity
        return repository

    @cached_property
    def identity(self) -> Json:
        try:
            body = envelope.unseal(self.store.get(layout.REPOSITORY), file=layout.REPOSITORY)
        except FileNotFoundError:
            raise RepositoryNotFoundError(
                f"there is no repository of {self.name!r} at {self.store!r}", remedy="make one with: kb init"
            ) from None
        if body.get("format") != layout.FORMAT:
            raise CorruptReleaseError(
                f"is of format {body.get('format')!r}; this kbcore reads format {layout.FORMAT}", file=layout.REPOSITORY
            )
        if body.get("name") != self.name:
            raise UsageError(
                f"the repository at {self.store!r} is that of {body.get('name')!r}, not of {self.name!r}",
                remedy="mend [kb] name or repository in the configuration",
            )
        return body

    @property
    def repository_id(self) -> str:
        return str(self.identity["repository_id"])

    @property
    def root(self) -> Path:
        """The local folder. Raises where the store is not local."""
        path = self.store.local_path("")
        if path is None:
            raise UsageError("this storage has no local folder")
        return path

    def begin(self, by: str | None = None) -> Run:
        moment = self.clock()
        return Run(run_name(moment, self.token()), iso(moment), by or user())

    # Releases

    def releases(self) -> list[str]:
        """Every release that was ever published, lowest number first, expired ones too."""
        names = [file.rsplit("/", 1)[-1].removesuffix(".json") for file in self.store.list(layout.MANIFESTS)]
        return sorted(filter(layout.is_release, names), key=layout.release_number)

    def expired(self) -> frozenset[str]:
        return frozenset(file.rsplit("/", 1)[-1].removesuffix(".json") for file in self.records(layout.EXPIRED))

    def head(self) -> str | None:
        """The highest-numbered release that is not expired: the base of the next refresh."""
        expired = self.expired()
        return next((name for name in reversed(self.releases()) if name not in expired), None)

    def manifest(self, release: str, *, digest: str | None = None) -> Manifest:
        """What ``release`` is. ``digest`` is what a promotion says the manifest must be."""
        file = layout.manifest_file(release)
        try:
            data = self.store.get(file)
        except FileNotFoundError:
            if digest is not None:
                raise CorruptReleaseError("is missing", file=file, release=release, remedy=envelope.REMEDY) from None
            raise ReleaseNotFoundError(f"there is no release {release}", remedy="see: kb releases") from None
        try:
            manifest = Manifest.from_body(envelope.unseal(data, file=file), file=file)
            if digest is not None and manifest.digest != digest:
                raise CorruptReleaseError("is not the manifest that was promoted", file=file, remedy=envelope.REMEDY)
            if manifest.repository_id != self.repository_id:
                raise CorruptReleaseError("belongs to another repository", file=file)
        except CorruptReleaseError as error:
            raise error.in_release(release) from None
        return manifest

    def resolve(self, name: str, *, expired: bool = False) -> str:
        """The release that ``current``, ``previous``, ``latest`` or an unambiguous prefix names; ``expired``: be it one that
        is not served any more."""
        names = self.releases()
        if name in ("current", "previous"):
            state = self.state()
            found = state.release if name == "current" else state.previous
            if found is None:
                raise ReleaseNotFoundError(
                    f"there is no {name} release", remedy="see: kb history" if names else "publish one with: kb refresh"
                )
        elif name in ("latest", "head"):
            found = self.head()
            if found is None:
                raise ReleaseNotFoundError("nothing was published yet", remedy="publish with: kb refresh")
        elif name in names:
            found = name
        else:
            short = name.removeprefix("r")
            matches = [n for n in names if name and n.startswith(name)] or (
                [n for n in names if layout.release_number(n) == int(short)]
                if short.isdecimal() and len(short) < 10
                else []
            )
            if len(matches) != 1:
                said = f"{len(matches)} releases begin with {name!r}" if matches else f"there is no release {name!r}"
                raise ReleaseNotFoundError(said, remedy="see: kb releases")
            found = matches[0]
        if not expired and found in self.expired():
            raise ReleaseExpiredError(f"{found} has expired and is not served any more", remedy="see: kb releases")
        return found

    def publish(self, draft: Manifest, *, expected_head: str | None) -> Manifest:
        """Give ``draft`` the next number and make it a release. ReleaseConflictError if the head moved meanwhile."""
        # One listing decides both: what came between two looks would be skipped over.
        expired, names = self.expired(), self.releases()
        head = next((name for name in reversed(names) if name not in expired), None)
        if head != expected_head:
            raise ReleaseConflictError(f"{head} was published meanwhile", remedy="plan again on the new head")
        number = layout.release_number(names[-1]) + 1 if names else 1
        manifest = draft.numbered(layout.release_name(number), expected_head)
        file = layout.manifest_file(manifest.release)
        if not self._commit(file, manifest.to_body(), manifest.nonce):
            raise ReleaseConflictError(f"{manifest.release} was published by another run", remedy="plan again")
        return manifest

    def segments(self, manifest: Manifest) -> list[Segment]:
        return [Segment(self.store, ref, release=manifest.release) for ref in manifest.segments]

    def embedder(self, manifest: Manifest) -> Json:
        """The fingerprint and probe vectors of the embedder that built a release."""
        file = layout.embedder_file(manifest.embedder_id)
        data = read_checked(self.store, file, str(manifest.embedder["sha256"]), release=manifest.release)
        return envelope.unseal(data, file=file)

    # Promotions

    def promotions(self) -> list[int]:
        """Sequence numbers of all records, lowest first."""
        return sorted(layout.sequence_of(file) for file in self.records(layout.PROMOTIONS))

    def promotion(self, seq: int) -> Promotion:
        if seq == 0:
            return promotion.START
        file = layout.promotion_file(seq)
        return Promotion.from_body(read_sealed(self.store, file), file=file)

    def state(self) -> Promotion:
        """The highest record: which release readers get, the hold, the stack, the pins."""
        seqs = self.promotions()
        return self.promotion(seqs[-1] if seqs else 0)

    def append(self, make: Callable[[Promotion, Stamp], Promotion], *, reason: str, run: Run) -> Promotion:
        """Append the record that ``make`` builds from the state. ReleaseConflictError if somebody moved first."""
        state = self.state()
        stamp = Stamp(reason=reason, by=run.by, at=iso(self.clock()), run=run.name, nonce=self.token())
        record = make(state, stamp)
        if record.seq != state.seq + 1:
            raise UsageError("a promotion follows the record before it")
        if not self._commit(layout.promotion_file(record.seq), record.to_body(), record.nonce):
            other = self.promotion(record.seq)
            raise ReleaseConflictError(
                f"{other.by} moved first: {other.kind} {other.release} at {other.at}",
                remedy="look at kb history, then try again",
            )
        return record

    # What readers leave out

    def erased(self) -> ErasedIds:
        """Documents no release may show: doc_id to the content digests it is erased with (None: whatever its content)."""
        now = time.monotonic()
        if now - self._erased_read >= ERASED_SECONDS:
            found: dict[str, frozenset[str | None]] = {}
            for file in self.records(layout.ERASED):
                for entry in self.record(file)["documents"]:
                    known = found.get(entry["doc_id"], frozenset())
                    found[entry["doc_id"]] = known | {entry.get("content_sha256")}
            self._erased = found
            self._erased_read = now
        return self._erased

    def erase(self, documents: list[Json], *, reason: str, run: Run) -> str:
        """Record documents ({doc_id, content_sha256 or None}) that no release may show any more; gives the file."""
        for _ in range(100):
            seqs = [layout.sequence_of(file) for file in self.records(layout.ERASED)]
            seq = max(seqs, default=0) + 1
            file = layout.erased_file(seq)
            nonce = self.token()
            body: Json = {
                "format": layout.FORMAT, "seq": seq, "documents": documents, "reason": reason, "by": run.by,
                "at": iso(self.clock()), "run": run.name, "nonce": nonce,
            }  # fmt: skip
            if self._commit(file, body, nonce):
                self._erased_read = float("-inf")
                return file
        raise ReleaseConflictError("the erasure list would not take an entry", remedy="try again")

    def expire(self, release: str, *, reason: str, run: Run, damaged: bool = False) -> None:
        """Mark a release as expired: its number stays taken, readers refuse it.

        UsageError for the current release, a pinned one, one that is not there, and for the newest, which the next
        refresh builds on, unless it is ``damaged``.
        """
        state = self.state()
        kept = {
            "is current": release == state.release,
            "is pinned": release in state.pins,
            "is the newest, which the next refresh builds on,": release == self.head() and not damaged,
        }
        if why := [said for said, holds in kept.items() if holds]:
            raise UsageError(f"{release} {', '.join(why)} and cannot expire".replace(",,", ","))
        if release not in self.releases():
            raise ReleaseNotFoundError(f"there is no release {release}", remedy="see: kb releases")
        body: Json = {
            "format": layout.FORMAT, "release": release, "reason": reason, "by": run.by, "at": iso(self.clock()),
            "run": run.name, "nonce": self.token(),
        }  # fmt: skip
        if not self._commit(layout.expired_file(release), body, body["nonce"]):
            raise UsageError(f"{release} has expired already")

    # Checks: what each run saw

    def last_check(self, release: str | None = None) -> Json | None:
        """What the newest run saw (of those whose head was ``release``, where one is given); None where there is none.

        A check that does not read is passed over: it says what a run saw, and keeps nobody from searching or rolling
        back. ``kb verify --all`` names it.
        """
        return next((check for check in self._recent() if release in (None, check.get("head"))), None)

    def recent_checks(self) -> list[Json]:
        """The newest checks that read, oldest first."""
        return list(reversed(list(self._recent())))

    def _recent(self) -> Iterator[Json]:
        for file in reversed(self.records(layout.CHECKS)[-RECENT_CHECKS:]):
            try:
                yield self.record(file)
            except CorruptReleaseError:
                continue

    def newest_check_file(self) -> str | None:
        """The name of the newest check: another one means that a run came to its end."""
        files = self.records(layout.CHECKS)
        return files[-1] if files else None

    def checks(self) -> list[Json]:
        return [self.record(file) for file in self.records(layout.CHECKS)]

    def write_check(self, body: Json, *, run: Run) -> str:
        files = self.records(layout.CHECKS)
        seq = (layout.sequence_of(files[-1]) if files else 0) + 1
        file = layout.check_file(seq, run.name)
        self.store.put_new({file: envelope.seal({"format": layout.FORMAT, "seq": seq, "run": run.name, **body})})
        return file

    def records(self, folder: str) -> list[str]:
        """The files of a folder of records, in the order of their numbers; others that lie there are passed over."""
        return [file for file in self.store.list(folder) if layout.is_record(file)]

    def record(self, file: str) -> Json:
        """A check, an erasure or an expiry mark. CorruptReleaseError also where it is a record of another name."""
        body = read_sealed(self.store, file)
        folder = file.split("/", 1)[0]
        try:
            named = {
                layout.CHECKS: lambda: layout.check_file(body["seq"], body["run"]),
                layout.ERASED: lambda: layout.erased_file(body["seq"]),
                layout.EXPIRED: lambda: layout.expired_file(body["release"]),
            }[folder]()
        except (KeyError, TypeError, ValueError):
            named = "none"
        if named != file or body.get("format") != layout.FORMAT:
            raise CorruptReleaseError(f"is the record of another name: {named}", file=file, remedy=envelope.REMEDY)
        return body

    def _commit(self, file: str, body: Json, nonce: str) -> bool:
        """Create ``file``; True if it is ours now, False if another's. Any other outcome raises what went wrong.

        The nonce decides, not the error: a put may have happened although its answer was lost.
        """
        try:
            self.store.put_new({file: envelope.seal(body)})
            return True
        except Exception as error:
            try:
                found = envelope.unseal(self.store.get(file), file=file)
            except FileNotFoundError:
                raise error from None
            if found.get("nonce") != nonce:
                return False
            if isinstance(error, FileExistsError):
                return True
            # Ours is there, but the storage did not say that it lasts: the caller must not count on it.
            raise


def open_local(folder: Path, name: str, *, clock: Clock = system_clock, token: Token = random_token) -> Repository:
    """The repository ``name`` below a local folder."""
    return Repository.open(LocalStore(folder / name), name, clock=clock, token=token)
