"""Taking a release out of service for good: it stays on disk until it is reclaimed, but no reader opens it."""

from __future__ import annotations

from kbcore.promotion import require_reason
from kbcore.store.repository import Repository, Run
from kbcore.verification import verify_release


def expire(repository: Repository, release: str, *, reason: str, run: Run) -> None:
    """Mark ``release`` as expired. UsageError for the current release, a pinned one, and the newest one, on which the
    next refresh builds; a newest one that is damaged may expire, so that the next refresh builds on the one before."""
    require_reason(reason)
    damaged = release == repository.head() and bool(verify_release(repository, release))
    repository.expire(release, reason=reason, run=run, damaged=damaged)
