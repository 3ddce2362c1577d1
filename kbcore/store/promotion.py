"""Promotions: the append-only log that says which release readers get. The highest record alone is the state.

Each record carries the whole state, the digest of the manifest it makes current, and the digest of the record
before it, so that the log is a chain and one read is enough.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Literal

from kbcore.errors import CorruptReleaseError, RefusedError, UsageError
from kbcore.store import envelope, layout
from kbcore.types import Json

Kind = Literal["promote", "rollback", "undo", "hold", "lift", "pin", "unpin"]
STACK = 20


@dataclass(frozen=True, slots=True)
class Promotion:
    """One record. ``stack`` lists the releases that were current, oldest first, the current one last (20 at most).

    ``hold`` is None or {reason, by, since}; ``blocked`` are content digests no schedule may promote;
    ``restores`` is, for an undo, the seq whose state it brings back.
    """

    seq: int
    kind: Kind
    release: str | None
    hold: Json | None
    stack: tuple[str, ...]
    pins: tuple[str, ...]
    blocked: tuple[str, ...]
    reason: str
    by: str
    at: str
    run: str
    gate: str | None
    manifest_digest: str | None
    previous_digest: str | None
    restores: int | None
    nonce: str

    @property
    def digest(self) -> str:
        return envelope.digest(self.to_body())

    @property
    def previous(self) -> str | None:
        """The release a rollback goes to."""
        return self.stack[-2] if len(self.stack) > 1 else None

    def to_body(self) -> Json:
        body: Json = {field.name: getattr(self, field.name) for field in fields(self)}
        for name in ("stack", "pins", "blocked"):
            body[name] = list(body[name])
        return {"format": layout.FORMAT, **body}

    @classmethod
    def from_body(cls, body: Json, *, file: str) -> Promotion:
        values = dict(body)
        if values.pop("format", None) != layout.FORMAT:
            raise CorruptReleaseError(f"is of format {body.get('format')!r}", file=file)
        try:
            for name in ("stack", "pins", "blocked"):
                values[name] = tuple(values[name])
            record = cls(**values)
        except (TypeError, KeyError) as error:
            raise CorruptReleaseError(f"does not read as a promotion: {error}", file=file) from error
        names = [record.release, *record.stack, *record.pins]
        if file != layout.promotion_file(record.seq) or not all(n is None or layout.is_release(n) for n in names):
            raise CorruptReleaseError(f"holds the promotion {record.seq}", file=file)
        return record


START = Promotion(
    seq=0, kind="lift", release=None, hold=None, stack=(), pins=(), blocked=(), reason="", by="", at="", run="",
    gate=None, manifest_digest=None, previous_digest=None, restores=None, nonce="",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Stamp:
    """Who moves the log, when and why; ``nonce`` tells this attempt from any other."""

    reason: str
    by: str
    at: str
    run: str
    nonce: str


def _next(state: Promotion, kind: Kind, stamp: Stamp) -> Promotion:
    return replace(
        state,
        seq=state.seq + 1,
        kind=kind,
        reason=stamp.reason,
        by=stamp.by,
        at=stamp.at,
        run=stamp.run,
        nonce=stamp.nonce,
        gate=None,
        restores=None,
        previous_digest=state.digest if state.seq else None,
    )


def promote(
    state: Promotion,
    release: str,
    manifest_digest: str,
    stamp: Stamp,
    *,
    lift: bool = False,
    unblock: str | None = None,
    gate: str | None = None,
) -> Promotion:
    """Make ``release`` current. A hold stays unless ``lift``; ``unblock`` is the content digest that is allowed again;
    ``gate`` the digest of the gate record that let it pass."""
    if release == state.release:
        raise UsageError(f"{release} is current already")
    record = _next(state, "promote", stamp)
    return replace(
        record,
        release=release,
        manifest_digest=manifest_digest,
        gate=gate,
        stack=(*state.stack, release)[-STACK:],
        hold=None if lift else state.hold,
        blocked=() if lift else tuple(digest for digest in state.blocked if digest != unblock),
    )


def rollback(state: Promotion, target: str, manifest_digest: str, left_digest: str | None, stamp: Stamp) -> Promotion:
    """Go back to ``target``, a release below the top of the stack: hold, and block the content that is left, if it can
    be named."""
    if target not in state.stack[:-1]:
        raise RefusedError(
            f"{target} was not current before {state.release}",
            remedy=f"kb promote {target} makes any release current; kb history shows what was",
        )
    depth = len(state.stack) - 1 - state.stack[::-1].index(target, 1)
    record = _next(state, "rollback", stamp)
    return replace(
        record,
        release=target,
        manifest_digest=manifest_digest,
        stack=state.stack[: depth + 1],
        hold=_hold(stamp),
        blocked=tuple(dict.fromkeys((*state.blocked, *([left_digest] if left_digest else [])))),
    )


def hold(state: Promotion, stamp: Stamp) -> Promotion:
    if state.hold is not None:
        raise UsageError(f"on hold already: {state.hold['reason']} ({state.hold['by']}, {state.hold['since']})")
    return replace(_next(state, "hold", stamp), hold=_hold(stamp))


def lift(state: Promotion, stamp: Stamp) -> Promotion:
    """End the hold and unblock what rollbacks blocked."""
    if state.hold is None and not state.blocked:
        raise UsageError("there is no hold to lift")
    return replace(_next(state, "lift", stamp), hold=None, blocked=())


def pin(state: Promotion, release: str, stamp: Stamp) -> Promotion:
    if release in state.pins:
        raise UsageError(f"{release} is pinned already")
    return replace(_next(state, "pin", stamp), pins=(*state.pins, release))


def unpin(state: Promotion, release: str, stamp: Stamp) -> Promotion:
    if release not in state.pins:
        raise UsageError(f"{release} is not pinned")
    return replace(_next(state, "unpin", stamp), pins=tuple(name for name in state.pins if name != release))


def undo(state: Promotion, before: Promotion, stamp: Stamp) -> Promotion:
    """Bring back the state ``before`` the last record (an undo undone brings back what it undid)."""
    record = _next(state, "undo", stamp)
    return replace(
        record,
        release=before.release,
        manifest_digest=before.manifest_digest,
        hold=before.hold,
        stack=before.stack,
        pins=before.pins,
        blocked=before.blocked,
        restores=before.seq,
    )


def _hold(stamp: Stamp) -> Json:
    return {"reason": stamp.reason, "by": stamp.by, "since": stamp.at}
