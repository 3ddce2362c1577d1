"""The gate's checks: each holds figures against a bound of ``[gate]`` and says in words what was seen. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from kbcore.config.gate import GateSection
from kbcore.evaluation.abstention import Abstention
from kbcore.evaluation.causes import DELETED
from kbcore.evaluation.comparison import Comparison
from kbcore.evaluation.corpus import CorpusChange
from kbcore.evaluation.scorecard import Scorecard
from kbcore.statistics import Paired

SLACK = 1e-9


@dataclass(frozen=True, slots=True)
class Finding:
    """One check: its name, pass, fail or invalid, and what was seen, in words with figures."""

    check: str
    verdict: Literal["pass", "fail", "invalid"]
    said: str


def drop(name: str, found: Paired, allowed: float, noise: float) -> Finding:
    """How far the mean of a measure fell, against ``allowed`` and the weight of ``noise`` whole questions, the larger one.

    One question weighs 1 / n: of 25 a single one that is lost moves the mean by .04, which no bound of .03 can tell from
    chance; of 1,000 it weighs nothing, and the bound alone counts.
    """
    if not found.count or found.difference is None:
        return Finding(name, "invalid", f"{name}: no question is judged in either release")
    bound, why = _bound(allowed, noise, found.count)
    said = (
        f"{name} {found.old:.3f} -> {found.new:.3f} ({found.difference:+.3f}, 95 % interval {found.low:+.3f} to "
        f"{found.high:+.3f}, p = {found.p_value:.3f}; {found.wins} questions better, {found.losses} worse of "
        f"{found.count}); {why}"
    )
    return Finding(name, "fail" if -found.difference > bound + SLACK else "pass", said)


def deletions(name: str, comparison: Comparison, allowed: float, noise: float) -> Iterator[Finding]:
    """How much of the fall of a measure comes from documents that are gone, against ``allowed`` or one whole question.

    That answers went with their documents is known and no chance, so the floor for noise is not for it; one question may
    lose its answer because somebody retired the page.
    """
    count = comparison.measures[name].count
    lost = [entry for entry in comparison.changed if any(cause.kind == DELETED for cause in entry.causes)]
    moves = [entry.old[name] - entry.new[name] for entry in lost if name in entry.old and name in entry.new]
    falls = [by for by in moves if by > 0]
    if falls and count:
        fall = sum(falls) / count
        bound = max(allowed, min(noise, 1.0) / count)
        said = f"{name} deleted: {fall:.3f} went with documents ({len(falls)} questions); {bound:.3f} is allowed"
        yield Finding(f"{name} deleted", "fail" if fall > bound + SLACK else "pass", said)


def over_time(name: str, beside: Sequence[tuple[str, Paired]], allowed: float, noise: float, times: float) -> Finding:
    """How far the mean of a measure lies below that of the releases that were current before, each with its figures
    ``beside`` the candidate's. The one is named that it lies furthest below, measured by what is allowed.

    Falls that each stay within ``drop``'s bound may add up to ``times`` that bound and no more. The bound hangs on the number
    of questions that both releases are judged by, so that the deepest fall need not be the one that goes too far.
    """

    def excess(figures: Paired) -> float:
        return -(figures.difference or 0.0) - times * _bound(allowed, noise, figures.count)[0]

    earlier, found = max(beside, key=lambda entry: excess(entry[1]))
    assert found.difference is not None
    bound, why = _bound(allowed, noise, found.count)
    said = (
        f"{name} over time {found.old:.3f} in {earlier} -> {found.new:.3f} ({found.difference:+.3f}; {found.wins} better, "
        f"{found.losses} worse of {found.count}); {times:g} times the bound of one release, {times * bound:.3f}, is allowed "
        f"over several ({why} of one)"
    )
    return Finding(f"{name} over time", "fail" if excess(found) > SLACK else "pass", said)


def _bound(allowed: float, noise: float, count: int) -> tuple[float, str]:
    floor = noise / count
    if allowed >= floor:
        return allowed, f"{allowed:.3f} is allowed"
    return floor, f"{floor:.3f}, the weight of {noise:g} questions, is taken for noise"


def judged_share(card: Scorecard, percent: float) -> Finding:
    """Whether enough of the questions that have an answer are judged in the candidate."""
    asked = card.counts["judged"] + card.counts["unjudged"]
    if not asked:
        return Finding("judged", "pass", "every question of the set is one without an answer")
    share = 100 * card.counts["judged"] / asked
    said = f"{card.counts['judged']} of {asked} questions ({share:.0f} %) are judged in {card.release}"
    if card.stale:
        said += f", {len(card.stale)} judgments are stale"
    return Finding("judged", "fail" if share < percent - SLACK else "pass", f"{said}; at least {percent:g} % must be")


def canaries(comparison: Comparison, tag: str) -> Iterator[Finding]:
    """The questions tagged ``tag`` whose answer was among the hits that are served, and is not any more."""
    for entry in comparison.changed:
        if tag in entry.tags and entry.old_served and not entry.new_served:
            causes = "; ".join(cause.said for cause in entry.causes) or "no cause was found"
            yield Finding("canary", "fail", f"{entry.id} {entry.question!r} is not found any more: {causes}")


def no_answer(new: Abstention, old: Abstention | None, section: GateSection) -> Iterator[Finding]:
    """Questions without an answer that are answered all the same; ``old`` is None where there is no baseline."""
    if not new.no_answer:
        return
    share = 100 * new.no_answer_answered / new.no_answer
    said = f"{new.no_answer_answered} of {new.no_answer} questions without an answer are answered ({share:.0f} %)"
    bound = section.no_answer_percent
    if share > bound + SLACK:
        yield Finding("no answer", "fail", f"{said}; at most {bound:g} % may be")
        return
    bad = False
    if old is not None:
        before = 100 * old.no_answer_answered / old.no_answer
        said += f", {old.no_answer_answered} before; {section.no_answer_rise:g} points more are allowed"
        more = new.no_answer_answered - old.no_answer_answered
        bad = more > 1 and share - before > section.no_answer_rise + SLACK
    yield Finding("no answer", "fail" if bad else "pass", said)


def data(found: CorpusChange, baseline: str, section: GateSection, approved_removals: int = 0) -> Iterator[Finding]:
    """What the candidate is made of against the release ``baseline``, without a question asked."""

    def bounded(check: str, count: int, of: int, percent: float, words: str) -> Finding:
        share = 100 * count / of if of else 0.0
        bad = count > section.documents and share > percent + SLACK
        said = f"{count} of {of} documents {words} ({share:.0f} %); {percent:g} % are allowed"
        return Finding(check, "fail" if bad else "pass", said)

    before, now = found.documents_before, found.documents
    removed = max(0, found.removed - approved_removals)
    yield bounded("removed", removed, before, section.removed_percent, f"of {baseline} are gone")
    yield bounded("emptied", found.emptied, before, section.emptied_percent,
                  f"of {baseline} are still there and lost nine tenths of their text or all of it")  # fmt: skip
    yield bounded("untitled", found.untitled, now, section.untitled_percent,
                  f"have no title that had one in {baseline}")  # fmt: skip
    yield bounded("failed", found.failed, now, section.failed_percent,
                  f"could not be read that could when {baseline} was made")  # fmt: skip
    yield bounded("flagged", found.flagged, now, section.flagged_percent,
                  f"have a doubtful text that had none in {baseline}")  # fmt: skip
    most = f", {found.copied_most} the most often" if found.copied_most else ""
    yield bounded("copied", found.copied, now, section.copied_percent,
                  f"are new and repeat half or more of another one{most}")  # fmt: skip
    # What was removed is bounded above; here, what is left must not have lost its text, nor the whole have swollen.
    less = 100 * (1 - found.kept_characters / found.kept_characters_before) if found.kept_characters_before else 0.0
    more = 100 * (found.characters / found.characters_before - 1) if found.characters_before else 0.0
    moved = abs(now - before) + found.changed
    bad = moved > section.documents and (less > section.shrunk_percent + SLACK or more > section.grown_percent + SLACK)
    said = (
        f"{found.characters_before:,} characters of text -> {found.characters:,} ({more:+.0f} %), of the documents that "
        f"stayed {found.kept_characters_before:,} -> {found.kept_characters:,}; these may lose "
        f"{section.shrunk_percent:g} %, the whole may grow by {section.grown_percent:g} %"
    )
    yield Finding("size", "fail" if bad else "pass", said)
