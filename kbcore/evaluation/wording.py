"""How comparisons are put into words and figures: the same on a terminal as in a report."""

from __future__ import annotations

import unicodedata

from kbcore.differences import Difference
from kbcore.evaluation.comparison import ChangedQuestion, Comparison
from kbcore.evaluation.rankings import ComparedQuestion, RankingComparison
from kbcore.evaluation.trend import Trend
from kbcore.statistics import TIE, Paired
from kbcore.types import Json

SURE = 0.05
MARKS = {"promoted": "promoted", "left": "rolled back from"}
NO_CAUSE = "No judged answer moved: what changed is whether the question is answered, turned away, or shown any hits."
# They join or part letters of words and emoji, and cannot turn the order of a text round.
JOINERS = "\u00ad\u200c\u200d"
HIDDEN = ("Cc", "Cf", "Cs")


def visible(text: str) -> str:
    """Text from documents for a page: what is not seen but changes what is (controls, direction marks, halves of
    characters, characters that HTML forbids) becomes a visible escape; letters of every script stay."""
    return "".join(f"\\u{ord(c):04x}" if c not in "\n\t" and _hidden(c) else c for c in text)


def _hidden(character: str) -> bool:
    code = ord(character)
    forbidden = code & 0xFFFE == 0xFFFE or 0xFDD0 <= code <= 0xFDEF
    return forbidden or (character not in JOINERS and unicodedata.category(character) in HIDDEN)


def figure(value: float | None) -> str | None:
    """A score with three digits; None stays None, so that what is missing never reads as a zero."""
    return None if value is None else f"{value:.3f}"


def signed(value: float | None) -> str | None:
    return None if value is None else f"{value:+.3f}"


def interval(found: Paired) -> str:
    return "" if found.low is None else f"{found.low:+.3f} to {found.high:+.3f}"


def searched(settings: Json) -> str:
    """How was searched."""
    fusion = f", {settings['fusion']}" if settings["fusion"] else ""
    alpha = f" {settings['alpha']}" if settings["alpha"] is not None else ""
    reranker = settings.get("reranker")
    reranked = f", the first {reranker['depth']} reranked by {reranker['model']}" if reranker else ""
    return f"{settings['mode']}{fusion}{alpha}, k = {settings['k']}{reranked}"


def cut_said(cut: Json) -> str:
    nothing = cut.get("no_match_cosine")
    below = "" if nothing is None else f", nothing shown below cosine {nothing:.3f}"
    return f"cosine {cut['cosine']:.3f}, matched share {cut['share']:.2f}{below} ({cut['origin']})"


def count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" + "s" * (number != 1)


def verdict(found: Comparison) -> str:
    """What a comparison comes to, in one or two sentences: the first measure decides, and how sure that is."""
    if not found.judged:
        return f"No question is judged in {found.old} or {found.new}, so that the measures say nothing."
    name, first = next(iter(found.measures.items()))
    assert first.difference is not None
    assert first.p_value is not None
    tally = f"{first.wins} better, {first.ties} equal, {first.losses} worse"
    questions = count(first.count, "judged question")
    if not found.differs:
        return f"No difference: {found.new} answers all questions as {found.old} does ({questions}, {tally})."
    if not (first.wins or first.losses):
        return (
            f"{name} is the same in both on each of {questions} ({tally}); "
            f"{_others(found)} or the order of the hits differ."
        )
    figures = (
        f"{name} {first.old:.3f} -> {first.new:.3f}, difference {first.difference:+.3f}, "
        f"95 % interval {interval(first)}, p = {first.p_value:.3f}"
    )
    if first.difference == 0:
        return (
            f"{found.new} answers as well as {found.old} on the whole, some questions otherwise ({figures}; {tally})."
        )
    better = first.difference > 0
    kind = "better" if better else "worse"
    if first.p_value < SURE:
        return f"{found.new} answers {kind} than {found.old}: {figures}; of {questions} {tally}."
    return f"Not told from chance: {figures}; of {questions} {tally}."


def _others(found: Comparison) -> str:
    others = [name for name, paired in found.measures.items() if paired.wins or paired.losses]
    return ", ".join([*others, "answers given or turned away"])


def abstained(figures: Json) -> str | None:
    """How often a release answered where it should not and the reverse; None where no question is without an answer."""
    if not figures["no_answer"]:
        return None
    return (
        f"{figures['no_answer_answered']} of {figures['no_answer']} questions without an answer answered, "
        f"{figures['answerable_abstained']} of {figures['answerable']} with one turned away"
    )


def question_said(entry: ChangedQuestion, first: str) -> str:
    """What became of one question: the first measure, the others that moved, whether it is answered, and shown its answer."""
    parts = [
        f"{name} {entry.old[name]:.3f} -> {entry.new[name]:.3f}"
        for name in entry.old
        if name in entry.new and (name == first or abs(entry.old[name] - entry.new[name]) > TIE)
    ]
    if entry.old_outcome != entry.new_outcome:
        parts.append(f"{entry.old_outcome} -> {entry.new_outcome}")
    if entry.old_served != entry.new_served:
        parts.append("the answer is shown now" if entry.new_served else "the answer is not shown any more")
    return ", ".join(parts)


def ranking_verdict(found: RankingComparison) -> str:
    """What a comparison of rankings comes to. Without judgments it says how alike, never how good."""
    asked = count(len(found.questions), "question")
    if not found.differs:
        return f"No difference: {found.new} answers {asked} as {found.old} does."
    return (
        f"{found.differing:,} of {asked} are answered otherwise by {found.new} than by {found.old}: on average "
        f"{similarity_said(found)}. Whether better or worse only judgments tell."
    )


def similarity_said(found: RankingComparison | ComparedQuestion, depth: int | None = None) -> str:
    cut = found.depth if isinstance(found, RankingComparison) else depth
    return f"overlap@{cut} {found.overlap:.3f}, RBO {found.rbo:.3f} of the documents, {found.passages:.0%} of the passages shown"


def trend_verdict(found: Trend) -> str:
    """From the first to the last release that was evaluated, and how many are missing."""
    there = [row for row in found.rows if not row.missing and row.means]
    gaps = sum(row.missing for row in found.rows)
    missing = f" {count(gaps, 'release')} of {len(found.rows)} missing: see there why." if gaps else ""
    if not there:
        return f"None of {count(len(found.rows), 'release')} has a judged question on {found.set['name']}.{missing}"
    name = found.measures[0]
    first, last = there[0], there[-1]
    if first is last:
        return f"{name} of {first.release} is {first.means[name]:.3f}.{missing}"
    lowest = min(there, key=lambda row: row.means[name])
    highest = max(there, key=lambda row: row.means[name])
    return (
        f"{name} {first.means[name]:.3f} in {first.release}, {last.means[name]:.3f} in {last.release}; highest "
        f"{highest.means[name]:.3f} ({highest.release}), lowest {lowest.means[name]:.3f} ({lowest.release}).{missing}"
    )


def trend_notes(found: Trend) -> list[str]:
    """What a reader of a trend must know beside its figures."""
    notes = []
    cuts = {row.embedder_id: row.cut for row in found.rows if row.cut}
    if len(cuts) > 1:
        notes.append(
            "Releases have different embedders, and what a cosine means differs between them: each is judged answered or "
            "turned away at the cut of its own embedder, taken from the newest release here that has it."
        )
    stale = [row for row in found.rows if row.stale]
    if stale:
        said = ", ".join(f"{row.release}: {row.stale}" for row in stale)
        notes.append(
            f"Judgments that do not apply to a release were left out there: {said}. Where a question has none left, the "
            "means go over fewer questions."
        )
    return notes


def documents_said(found: Difference) -> str:
    """Counts of documents by what became of them."""
    counts = {
        "added": len(found.added),
        "changed": len(found.changed),
        "renamed": len(found.renamed),
        "removed": len(found.removed),
        "unchanged": found.unchanged,
        "carried over": len(found.carried_over),
        "withheld from removal": len(found.withheld),
    }
    parts = [f"{number:,} {kind}" for kind, number in counts.items() if number]
    return "documents: " + (", ".join(parts) or "none in either")


def grade_said(grade: int | None) -> str:
    """What a hit was judged, in words."""
    if grade is None:
        return "not judged"
    return f"grade {grade}: answers" if grade else "grade 0: does not answer"


def settings_said(found: Difference) -> list[str]:
    """The settings that differ, one a line."""
    return [f"{entry['name']}: {entry['old']} -> {entry['new']}" for entry in found.settings]
