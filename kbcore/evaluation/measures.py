"""Measures by the names of the literature (nDCG@10, R@5, RR@10, Success@1, Judged@10), computed by ir-measures.

Rankings go in as explicit order: no score, no tie. A question that the system gives no answer to counts 0.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import Any

from kbcore.config.gate import DEFAULT_MEASURES
from kbcore.errors import EvaluationError, UsageError

KNOWN = ("nDCG", "R", "RR", "Success", "Judged", "AP", "P", "Rprec", "RBP", "ERR", "SetP", "SetR", "SetF")
Qrels = Mapping[str, Mapping[str, int]]
Rankings = Mapping[str, Sequence[str]]


def parse_measures(names: Sequence[str]) -> list[str]:
    """The names as ir-measures spells them, each once. UsageError names the nearest known one."""
    library = _library()
    found: list[str] = []
    for name in names:
        try:
            measure = library.parse_measure(name)
        except (NameError, ValueError, SyntaxError) as error:
            raise _unknown(name, str(error)) from None
        if measure.params.get("cutoff", 1) < 1 or not library.DefaultPipeline.supports(measure):
            raise _unknown(name, "it cannot be computed")
        if str(measure) not in found:
            found.append(str(measure))
    return found


def _unknown(name: str, why: str) -> UsageError:
    stem, _, cut = name.partition("@")
    near = difflib.get_close_matches(stem, KNOWN, n=1)
    usable = cut if cut.isdecimal() and int(cut) else "10"
    meant = f"did you mean {near[0]}@{usable}?" if near else ""
    return UsageError(
        f"there is no measure {name!r}: {why}",
        remedy=meant or f"measures are named as in {', '.join(DEFAULT_MEASURES)}",
    )


def cutoff(measures: Sequence[str]) -> int:
    """The deepest rank that any of the measures looks at, 10 for those that name none."""
    library = _library()
    cuts = [library.parse_measure(name).params.get("cutoff") for name in measures]
    return max((int(cut) for cut in cuts if cut), default=10)


def score(measures: Sequence[str], qrels: Qrels, rankings: Rankings) -> dict[str, dict[str, float]]:
    """By question of ``qrels``: each measure's value. ``rankings`` name units best first, each once."""
    library = _library()
    if not qrels:
        return {}
    run = {
        question: {unit: float(len(ranking) - rank) for rank, unit in enumerate(ranking)}
        for question in qrels
        if (ranking := rankings.get(question))
    }
    parsed = {library.parse_measure(name): name for name in measures}
    values: dict[str, dict[str, float]] = {question: dict.fromkeys(measures, 0.0) for question in qrels}
    for metric in library.iter_calc(list(parsed), {key: dict(value) for key, value in qrels.items()}, run):
        values[metric.query_id][parsed[metric.measure]] = float(metric.value)
    return values


def _library() -> Any:
    # Late: its providers bring in scipy, which only evaluation needs.
    try:
        import ir_measures
    except ImportError:
        raise EvaluationError(
            "measures are computed by ir-measures, which is not installed",
            remedy="install it with: pip install 'kbcore[evaluation]'",
        ) from None
    return ir_measures
