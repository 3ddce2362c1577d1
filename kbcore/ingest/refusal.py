"""When a plan is not to become a release: too much of what a source gave could not be read."""

from __future__ import annotations

import json
from collections.abc import Sequence, Set

from kbcore.config import SourceSection
from kbcore.ingest.plan import Plan
from kbcore.parsing.quality import flags_of
from kbcore.store.rows import DocumentRow
from kbcore.types import Json


def flagged(rows: Sequence[DocumentRow]) -> dict[str, tuple[str, ...]]:
    """The documents among ``rows`` whose text is doubtful, with the flags of their parse quality."""
    found = {row.doc_id: flags_of(json.loads(row.stats)) for row in rows}
    return {doc_id: flags for doc_id, flags in found.items() if flags}


def refusals(plan: Plan, sections: Sequence[SourceSection], accepted: Set[tuple[str, str]] = frozenset()) -> list[str]:
    """Why ``plan`` must not be taken over, in words; nothing where it may. It need not come to a release: a source of
    which nothing reads any more must not pass as unchanged.

    A source whose failures and doubtful documents are more than its guard's ``failures`` and more than
    ``failures_percent`` of what it lists has most likely changed as a whole: a login page in front of it, another
    encoding, a parser that broke. What the base already has as a failure, or as it is now, was accepted with it, and
    ``accepted`` are the (doc_id, reason) that a person accepted since. Of a source that could not be listed nothing was
    seen: its failures are those of former runs.
    """
    new = {*plan.added, *plan.changed}
    doubtful = flagged([row for row in plan.rows if row.doc_id in new])
    known = {
        (entry["doc_id"], entry["reason"]) for entry in (plan.base.manifest.exceptions if plan.base.manifest else ())
    }
    failures = [failure for failure in plan.failures if (failure.doc_id, failure.reason) not in known | accepted]
    reasons = []
    listed = {entry["name"]: entry for entry in plan.sources if "error" not in entry}
    for section in sections:
        if section.name not in listed:
            continue
        entry = listed[section.name]
        prefix = f"{section.name}:"
        failed = sum(failure.doc_id.startswith(prefix) for failure in failures)
        odd = sum(doc_id.startswith(prefix) for doc_id in doubtful)
        # What an incomplete listing leaves out is there all the same.
        held = 0 if entry["complete"] else sum(document.source == section.name for document in plan.base.held.values())
        total = max(int(entry["items"]), held, failed + odd)
        guard = section.guard
        if failed + odd > guard.failures and (failed + odd) * 100 > guard.failures_percent * total:
            reasons.append(
                f"{section.name}: {failed} of {total} documents failed and {odd} more have doubtful text; at most "
                f"{guard.failures} or {guard.failures_percent:g} % may"
            )
    return reasons


def accepted(plan: Plan, last_check: Json, *, all_of_them: bool = False) -> set[tuple[str, str]]:
    """The (doc_id, reason) of ``plan`` that a person accepted, in this run or in one whose check went before, and that
    fail still. Those that a release was published with stand in its manifest too."""
    now = {(failure.doc_id, failure.reason) for failure in plan.failures}
    return now if all_of_them else now & {(doc_id, reason) for doc_id, reason in last_check.get("accepted", ())}
