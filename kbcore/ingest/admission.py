"""What a schedule does with a release that it published or found: judge it at the gate, and move readers to it or not."""

from __future__ import annotations

from dataclasses import dataclass

from kbcore.config import Config
from kbcore.embedding.catalog import Catalog
from kbcore.evaluation.gate import Judgement, judge
from kbcore.promotion import promote_candidate, refusal
from kbcore.store.manifest import Manifest
from kbcore.store.repository import Repository, Run
from kbcore.types import Progress

SHOWN = 3


@dataclass(frozen=True, slots=True)
class Admission:
    """Whether readers were moved, why not, from which release, and what the gate said where it was asked."""

    promoted: bool
    why_not: str | None
    promoted_from: str | None
    judgement: Judgement | None


def admit(
    repository: Repository,
    config: Config,
    manifest: Manifest,
    catalog: Catalog,
    run: Run,
    *,
    gate: bool = True,
    approved_removals: int = 0,
    progress: Progress,
) -> Admission:
    """Make ``manifest`` current where neither a hold, a blocked content nor, unless ``gate`` is False, the gate says no."""
    state = repository.state()
    if why := refusal(state, manifest):
        return Admission(False, why, None, None)
    judgement = None
    if gate:
        judgement = judge(
            repository, config, manifest, catalog, run, approved_removals=approved_removals, progress=progress
        )
        if not judgement.passes:
            return Admission(False, refused_by(judgement), None, judgement)
    progress("promote", 0, 1)
    promoted, why_not = promote_candidate(
        repository, manifest, catalog, run, planned=state, gate=judgement.digest if judgement else None
    )
    progress("promote", 1, 1)
    return Admission(promoted, why_not, state.release if promoted else None, judgement)


def refused_by(judgement: Judgement) -> str:
    """A refusal of the gate in one line."""
    reasons = judgement.reasons
    more = f" (and {len(reasons) - SHOWN} more reasons)" if len(reasons) > SHOWN else ""
    said = "could not be judged" if judgement.verdict == "invalid" else "did not pass the gate"
    again = ", as before" if judgement.repeated else ""
    return f"{judgement.release} {said}{again}: {'; '.join(reasons[:SHOWN])}{more}"
