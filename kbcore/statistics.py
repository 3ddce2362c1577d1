"""Statistics of paired scores and of two rankings. All functions are deterministic: the seed is a parameter."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

SEED = 20_061_106
RESAMPLES = 10_000
EXACT = 13
TIE = 1e-9


@dataclass(frozen=True, slots=True)
class Paired:
    """Two systems on the same questions: means, ``difference`` = new - old with its 95 % interval and p-value, and how
    many questions are better (``wins``), equal and worse (``losses``) in the new one. ``p_value`` is None and the interval
    a point where there are no questions."""

    count: int
    old: float | None
    new: float | None
    difference: float | None
    low: float | None
    high: float | None
    p_value: float | None
    wins: int
    ties: int
    losses: int


def paired(old: Sequence[float], new: Sequence[float], *, seed: int = SEED) -> Paired:
    """Compare two lists of scores, position by position. ValueError where their lengths differ."""
    if len(old) != len(new):
        raise ValueError(f"{len(old)} scores cannot be paired with {len(new)}")
    if not old:
        return Paired(0, None, None, None, None, None, None, 0, 0, 0)
    before, after = np.asarray(old, dtype=np.float64), np.asarray(new, dtype=np.float64)
    differences = after - before
    differences[np.abs(differences) <= TIE] = 0.0
    low, high = bootstrap_interval(differences, seed=seed)
    return Paired(
        count=len(before),
        old=float(before.mean()),
        new=float(after.mean()),
        difference=float(differences.mean()),
        low=low,
        high=high,
        p_value=randomisation_p(differences, seed=seed),
        wins=int((differences > 0).sum()),
        ties=int((differences == 0).sum()),
        losses=int((differences < 0).sum()),
    )


def bootstrap_interval(
    differences: NDArray[np.float64], *, seed: int = SEED, resamples: int = RESAMPLES, level: float = 0.95
) -> tuple[float, float]:
    """Percentile bootstrap interval of the mean (Efron and Tibshirani, An Introduction to the Bootstrap, 1993, 13.3)."""
    count = len(differences)
    if not differences.any():
        return 0.0, 0.0
    # Only the questions that differ move the mean: how many of a resample are they, and which?
    means = np.empty(resamples)
    rng = np.random.default_rng(seed)
    step = max(1, 4_000_000 // count)
    for start in range(0, resamples, step):
        size = min(step, resamples - start)
        means[start : start + size] = differences[rng.integers(0, count, (size, count))].mean(axis=1)
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def randomisation_p(differences: NDArray[np.float64], *, seed: int = SEED, resamples: int = RESAMPLES) -> float:
    """Two-sided p-value of Fisher's paired randomisation test: how often is the mean at least as far from zero where
    each question's two scores are swapped at random? (Smucker, Allan, Carterette, CIKM 2007.)

    Exact over all sign patterns where at most 13 questions differ, else by random ones, the one seen counted in
    ((b + 1) / (n + 1): Phipson and Smyth 2010).
    """
    changed = differences[differences != 0.0]
    if not len(changed):
        return 1.0
    seen = abs(changed.sum()) * (1 - 1e-12)
    if len(changed) <= EXACT:
        patterns = (np.arange(1 << len(changed))[:, None] >> np.arange(len(changed))) & 1
        sums = np.abs((1 - 2 * patterns) @ changed)
        return float((sums >= seen).mean())
    rng = np.random.default_rng(seed)
    extreme = 0
    step = max(1, 4_000_000 // len(changed))
    for start in range(0, resamples, step):
        size = min(step, resamples - start)
        signs = 1 - 2 * rng.integers(0, 2, (size, len(changed)), dtype=np.int8)
        extreme += int((np.abs(signs @ changed) >= seen).sum())
    return (extreme + 1) / (resamples + 1)


def overlap(a: Sequence[Hashable], b: Sequence[Hashable], depth: int) -> float:
    """The share of the first ``depth`` of two rankings that stands in both; 1.0 where both are empty."""
    left, right = set(a[:depth]), set(b[:depth])
    longest = max(len(left), len(right))
    return len(left & right) / longest if longest else 1.0


def rank_biased_overlap(a: Sequence[Hashable], b: Sequence[Hashable], p: float = 0.9) -> float:
    """RBO_ext of two rankings without repeats: agreement of all their beginnings, the first ranks counting most; from 0
    (disjoint) to 1 (equal), extrapolated from what is seen (Webber, Moffat, Zobel, TOIS 2010, formula 32, for lists of
    unequal length). Equal rankings are exactly 1."""
    if list(a) == list(b):
        # The sum may miss 1 by a rounding error, and a release would differ from itself.
        return 1.0
    short, long = sorted((list(a), list(b)), key=len)
    s, l = len(short), len(long)  # noqa: E741 - the letters of the paper
    if not s:
        return 0.0
    seen_short: set[Hashable] = set()
    seen_long: set[Hashable] = set()
    common = [0]
    for depth in range(1, l + 1):
        seen_long.add(long[depth - 1])
        if depth <= s:
            seen_short.add(short[depth - 1])
        common.append(len(seen_short & seen_long))
    total = sum(common[d] / d * p**d for d in range(1, l + 1))
    total += sum(common[s] * (d - s) / (s * d) * p**d for d in range(s + 1, l + 1))
    return (1 - p) / p * total + ((common[l] - common[s]) / l + common[s] / s) * p**l
