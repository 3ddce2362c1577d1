"""From two names of releases to their comparison: scorecards that are kept are used, missing ones are made and kept."""

from __future__ import annotations

from collections.abc import Sequence

from kbcore.embedding.catalog import Catalog
from kbcore.evaluation import runner
from kbcore.evaluation.causes import Releases
from kbcore.evaluation.comparison import Comparison, compare
from kbcore.evaluation.measures import parse_measures
from kbcore.evaluation.questions import QuestionSet
from kbcore.retrieval.settings import RetrievalSettings
from kbcore.store.repository import Repository
from kbcore.types import Progress


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
    """Compare two releases on one set, searched in one way, at the cut of ``settings``; ``names`` are measures.

    Each embedder is made once and embeds a question once. Raises what evaluating one of them raises.
    """
    chosen = parse_measures(names)
    embedders = runner.Embedders(repository, catalog)
    cards = [
        runner.card_of(
            repository, release, questions, catalog, settings, names=chosen,
            embedder=embedders.of(release, settings.mode), progress=progress,
        )
        for release in (old, new)
    ]  # fmt: skip
    sides = Releases(repository, old, new)
    return compare(cards[0], cards[1], sides, cut=settings.cut, names=chosen), sides
