"""From two names of releases to their comparison: scorecards that are kept are used, missing ones are made and kept."""

from __future__ import annotations

from collections.abc import Sequence

from kbcore.embedding.catalog import Catalog
from kbcore.evaluation import runner
from kbcore.evaluation.causes import Releases
from kbcore.evaluation.comparison import Comparison, compare
from kbcore.evaluation.measures import parse_measures
from kbcore.evaluation.questions import QuestionSet
from kbcore.evaluation.scorecard import Scorecard
from kbcore.retrieval.settings import RetrievalSettings
from kbcore.store.repository import Repository, Run
from kbcore.types import Progress


def cards_of(
    repository: Repository,
    catalog: Catalog,
    releases: Sequence[str],
    questions: QuestionSet,
    settings: RetrievalSettings,
    *,
    names: Sequence[str],
    baseline: str | None = None,
    run: Run | None = None,
    embedders: runner.Embedders | None = None,
    progress: Progress | None = None,
) -> list[Scorecard]:
    """The scorecards of releases in their order; each embedder is made once and embeds a question once.

    ``names`` are measures as ``parse_measures`` gives them, ``baseline`` and ``run`` those of scorecards that are made now;
    ``embedders`` are those that other releases are asked by too.
    Raises what evaluating one of them raises.
    """
    embedders = embedders or runner.Embedders(repository, catalog)
    return [
        runner.card_of(
            repository, release, questions, catalog, settings, names=names, baseline=baseline, run=run,
            embedders=embedders, progress=progress,
        )
        for release in releases
    ]  # fmt: skip


def compare_releases(
    repository: Repository,
    catalog: Catalog,
    old: str,
    new: str,
    questions: QuestionSet,
    settings: RetrievalSettings,
    *,
    names: Sequence[str],
    progress: Progress | None = None,
) -> tuple[Comparison, Releases]:
    """Compare two releases on one set, searched in one way, at the cut of ``settings``; ``names`` are measures. Raises as
    ``cards_of`` does."""
    chosen = parse_measures(names)
    cards = cards_of(repository, catalog, (old, new), questions, settings, names=chosen, progress=progress)
    sides = Releases(repository, old, new)
    return compare(cards[0], cards[1], sides, cut=settings.cut, names=chosen), sides
