"""Moving readers to a release: promote, roll back, undo, hold, lift, pin. Checks come first, a reason is required."""

from __future__ import annotations

from kbcore.embedding.catalog import Catalog
from kbcore.errors import KbError, RefusedError, ReleaseConflictError, UsageError
from kbcore.store import promotion as log
from kbcore.store.manifest import Manifest
from kbcore.store.promotion import Promotion
from kbcore.store.repository import Repository, Run
from kbcore.verification import check_servable

ALREADY_CURRENT = "it is current already"


def promote_candidate(
    repository: Repository,
    manifest: Manifest,
    catalog: Catalog,
    run: Run,
    *,
    planned: Promotion | None = None,
    gate: str | None = None,
) -> tuple[bool, str | None]:
    """What a schedule may do: make the head current unless a hold or a blocked content says no.

    ``planned`` is the state that the gate, whose record has the digest ``gate``, judged against: whoever moved since wins.
    Gives (whether readers were moved, why not).
    """
    state = planned or repository.state()
    if why := refusal(state, manifest):
        return False, why
    check_servable(repository, manifest, catalog)
    reason = "first release" if state.release is None else "refresh"
    try:
        repository.append(
            lambda now, stamp: log.promote(_unmoved(now, state), manifest.release, manifest.digest, stamp, gate=gate),
            reason=reason,
            run=run,
        )
    except ReleaseConflictError as error:
        # A person who rolls back while a schedule promotes must win.
        return False, error.message
    return True, None


def refusal(state: Promotion, manifest: Manifest) -> str | None:
    """Why a schedule would not make ``manifest`` current, None where it would."""
    if state.release == manifest.release:
        return ALREADY_CURRENT
    if state.hold is not None:
        return f"on hold: {state.hold['reason']} ({state.hold['by']}, {state.hold['since']})"
    if manifest.content_digest in state.blocked:
        return "its content was rolled back from and is blocked until the hold is lifted"
    return None


def promote(
    repository: Repository,
    release: str,
    catalog: Catalog,
    *,
    reason: str,
    run: Run,
    lift: bool = False,
    check_embedder: bool = True,
    expected: int | None = None,
) -> Promotion:
    """A person makes ``release`` current; works under a hold and keeps it unless ``lift``.

    ``expected``, here and below, is the number of the newest record that the caller has seen: ReleaseConflictError where
    somebody moved since.
    """
    require_reason(reason)
    _as_expected(repository.state(), expected)
    if release in repository.expired():
        raise RefusedError(f"{release} has expired", remedy="see: kb releases")
    manifest = repository.manifest(release)
    check_servable(repository, manifest, catalog, check_embedder=check_embedder)
    return repository.append(
        lambda state, stamp: log.promote(
            _as_expected(state, expected),
            release,
            manifest.digest,
            stamp,
            lift=lift,
            unblock=manifest.content_digest,
        ),
        reason=reason,
        run=run,
    )


def rollback(
    repository: Repository,
    catalog: Catalog,
    *,
    to: str | None = None,
    reason: str,
    run: Run,
    check_embedder: bool = True,
    expected: int | None = None,
) -> Promotion:
    """Go back to the release that was current before, or to ``to``; holds, and blocks the content it leaves."""
    require_reason(reason)
    state = _as_expected(repository.state(), expected)
    if state.release is None:
        raise RefusedError("there is no current release to roll back from", remedy="see: kb history")
    target = to or state.previous
    if target is None:
        raise RefusedError(f"nothing was current before {state.release}", remedy="see: kb history")
    if target == state.release:
        raise UsageError(f"{target} is current already")
    if target in repository.expired():
        raise RefusedError(f"{target} has expired", remedy="choose another with: kb rollback --to RELEASE")
    manifest = repository.manifest(target)
    try:
        left: str | None = repository.manifest(state.release).content_digest
    except KbError:
        # What is left is damaged: its content cannot be named, and nobody can promote it either.
        left = None
    check_servable(repository, manifest, catalog, check_embedder=check_embedder)
    return repository.append(
        lambda now, stamp: log.rollback(_unmoved(now, state), target, manifest.digest, left, stamp),
        reason=reason,
        run=run,
    )


def undo(repository: Repository, catalog: Catalog, *, reason: str, run: Run, check_embedder: bool = True) -> Promotion:
    """Restore the state before the last record of the log."""
    require_reason(reason)
    state = repository.state()
    if state.seq == 0:
        raise UsageError("there is nothing to undo", remedy="see: kb history")
    before = repository.promotion(state.seq - 1)
    if before.release is not None and before.release != state.release:
        if before.release in repository.expired():
            raise RefusedError(f"{before.release} has expired: the state before cannot come back")
        manifest = repository.manifest(before.release)
        check_servable(repository, manifest, catalog, check_embedder=check_embedder)
    return repository.append(lambda now, stamp: log.undo(_unmoved(now, state), before, stamp), reason=reason, run=run)


def hold(repository: Repository, *, reason: str, run: Run, expected: int | None = None) -> Promotion:
    require_reason(reason)
    return repository.append(
        lambda state, stamp: log.hold(_as_expected(state, expected), stamp), reason=reason, run=run
    )


def lift(repository: Repository, *, reason: str, run: Run, expected: int | None = None) -> Promotion:
    require_reason(reason)
    return repository.append(
        lambda state, stamp: log.lift(_as_expected(state, expected), stamp), reason=reason, run=run
    )


def pin(repository: Repository, release: str, *, reason: str, run: Run, remove: bool = False) -> Promotion:
    """Keep a release whatever retention says, or let it go again."""
    require_reason(reason)
    repository.manifest(release)
    move = log.unpin if remove else log.pin
    return repository.append(lambda state, stamp: move(state, release, stamp), reason=reason, run=run)


def require_reason(reason: str) -> None:
    """UsageError where none is given: the log keeps why."""
    if not reason.strip():
        raise UsageError("a reason is required", remedy='say why: --reason "..."')


def _unmoved(now: Promotion, planned: Promotion) -> Promotion:
    """What was checked must still be what is moved from: a rollback that arrived meanwhile must win."""
    return _as_expected(now, planned.seq)


def _as_expected(now: Promotion, expected: int | None) -> Promotion:
    if expected is not None and now.seq != expected:
        if expected > now.seq:
            said = f"there is no record {expected} in the promotion log; the newest is {now.seq}"
        else:
            said = f"{now.by} moved first: {now.kind} {now.release} at {now.at} (record {now.seq}, not {expected})"
        raise ReleaseConflictError(said, remedy="look at kb history, then try again")
    return now
