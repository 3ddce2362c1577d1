"""When a plan is not to become a release: too much of what a source gave could not be read."""

from __future__ import annotations

import json
from collections.abc import Sequence

from kbcore.config import SourceSection
from kbcore.ingest.plan import Plan
from kbcore.parsing.quality import flags_of
from kbcore.store.rows import DocumentRow


def flagged(rows: Sequence[DocumentRow]) -> dict[str, tuple[str, ...]]:
    """The documents among ``rows`` whose text is doubtful, with the flags of their parse quality."""
    found = {row.doc_id: flags_of(json.loads(row.stats)) for row in rows}
    return {doc_id: flags for doc_id, flags in found.items() if flags}


def refusals(plan: Plan, sections: Sequence[SourceSection]) -> list[str]:
    """Why ``plan`` must not be published, in words; nothing where it may.

    A source whose failures and doubtful documents are more than its guard's ``failures`` and more than
    ``failures_percent`` of what it lists has most likely changed as a whole: a login page in front of it, another
    encoding, a parser that broke. What the base already has as a failure, or as it is now, was accepted with it.
    """
    new = {*plan.added, *plan.changed}
    doubtful = flagged([row for row in plan.rows if row.doc_id in new])
    accepted = {
        (entry["doc_id"], entry["reason"]) for entry in (plan.base.manifest.exceptions if plan.base.manifest else ())
    }
    failures = [failure for failure in plan.failures if (failure.doc_id, failure.reason) not in accepted]
    reasons = []
    listed = {entry["name"]: int(entry["items"]) for entry in plan.sources if "error" not in entry}
    for section in sections:
        prefix = f"{section.name}:"
        failed = sum(failure.doc_id.startswith(prefix) for failure in failures)
        odd = sum(doc_id.startswith(prefix) for doc_id in doubtful)
        total = max(listed.get(section.name, 0), failed + odd)
        guard = section.guard
        if failed + odd > guard.failures and (failed + odd) * 100 > guard.failures_percent * total:
            reasons.append(
                f"{section.name}: {failed} of {total} documents failed and {odd} more have doubtful text; at most "
                f"{guard.failures} or {guard.failures_percent:g} % may"
            )
    return reasons
