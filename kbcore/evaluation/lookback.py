"""The releases that readers had before: how a candidate stands beside each of them."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterable, Sequence

from kbcore.embedding.catalog import Catalog
from kbcore.errors import KbError
from kbcore.evaluation import runner
from kbcore.evaluation.questions import QuestionSet
from kbcore.evaluation.scorecard import Scorecard
from kbcore.retrieval.settings import RetrievalSettings
from kbcore.statistics import Paired, paired
from kbcore.store.manifest import Manifest
from kbcore.store.repository import Repository, Run
from kbcore.types import Progress


def earlier(repository: Repository, besides: Collection[str | None], most: int) -> list[Manifest]:
    """The releases that were current, but for ``besides``, the latest first, at most ``most``; those that cannot be read are
    left out. None beyond one that was promoted past the gate: there somebody decided what readers get."""
    state = repository.state()
    found: list[Manifest] = []
    seen = set(besides)
    for seq in range(state.seq, 0, -1):
        try:
            record = repository.promotion(seq)
        except KbError:
            break  # whether somebody decided there, or before, is not told any more
        if record.kind != "promote" or record.release is None or record.release not in state.stack:
            continue
        if record.release not in seen:
            if len(found) == most:
                break
            seen.add(record.release)
            with contextlib.suppress(KbError):
                found.append(repository.manifest(record.release))
        if record.gate is None:
            break
    return found


def beside(
    repository: Repository,
    catalog: Catalog,
    manifests: Iterable[Manifest],
    card: Scorecard,
    questions: QuestionSet,
    settings: RetrievalSettings,
    *,
    names: Sequence[str],
    run: Run,
    embedders: runner.Embedders,
    progress: Progress | None = None,
) -> dict[str, list[tuple[str, Paired]]]:
    """Of each measure how far ``card`` lies below each release, in their order, on the questions that are judged in both:
    what has gone since was let go by the gates of those days.

    A kept scorecard is used, one that is missing made and kept. A release that cannot be asked any more, because its files
    or its embedder are gone, is passed over: that is no reason against this one.
    """
    now = {answer.id: answer.measures for answer in card.answers}
    found: dict[str, list[tuple[str, Paired]]] = {}
    for manifest in manifests:
        try:
            old = runner.card_of(
                repository, manifest.release, questions, catalog, settings, names=card.measures, run=run,
                embedders=embedders, progress=progress,
            )  # fmt: skip
        except KbError:
            continue
        pairs = [(answer.measures, new) for answer in old.answers if answer.measures and (new := now.get(answer.id))]
        for name in names if pairs else ():
            figures = paired([before[name] for before, _ in pairs], [after[name] for _, after in pairs])
            found.setdefault(name, []).append((manifest.release, figures))
    return found
