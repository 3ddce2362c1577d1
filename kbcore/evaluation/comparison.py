"""Two releases on the same questions: what got better, what got worse, by how much, and how sure that is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace

from kbcore.errors import EvaluationError
from kbcore.evaluation import abstention, measures
from kbcore.evaluation.causes import Cause, Releases
from kbcore.evaluation.labels import Label, qrels, units
from kbcore.evaluation.scorecard import Answer, Scorecard
from kbcore.retrieval.evidence import EvidenceCut
from kbcore.statistics import TIE, Paired, overlap, paired, rank_biased_overlap
from kbcore.types import Json

SHOWN = 10


@dataclass(frozen=True, slots=True)
class ChangedHit:
    """One hit of a changed question: ``rank`` from 1; ``label`` is the number of the judgment that it stands for."""

    rank: int
    doc_id: str
    start: int
    end: int
    score: float
    grade: int | None
    label: int | None
    text_sha256: str


@dataclass(frozen=True, slots=True)
class ChangedQuestion:
    """A question of which a measure, whether it is answered, or whether its answer is shown changed. ``kind``: lost (the
    first measure fell), won (it rose), moved (others alone changed). ``old_served``: whether one of the hits that a search
    shows is judged to answer."""

    id: str
    question: str
    tags: tuple[str, ...]
    kind: str
    old: Mapping[str, float]
    new: Mapping[str, float]
    old_outcome: str
    new_outcome: str
    old_served: bool
    new_served: bool
    causes: tuple[Cause, ...]
    old_hits: tuple[ChangedHit, ...]
    new_hits: tuple[ChangedHit, ...]


@dataclass(frozen=True, slots=True)
class UnchangedQuestion:
    """A question of which nothing changed; ``value`` is its first measure in both, None where it is not judged."""

    id: str
    question: str
    value: float | None


@dataclass(frozen=True, slots=True)
class PairedSlice:
    """The first measure over some of the questions."""

    by: str
    value: str
    paired: Paired


@dataclass(frozen=True)
class Comparison:
    """``old`` and ``new`` are releases. ``measures`` go over the questions that are judged in one of them at least: where
    an answer is gone the new release counts as not having found it. ``similarity`` compares the rankings of all questions,
    judged or not: overlap of the first ten documents, and rank-biased overlap (p = .9)."""

    old: str
    new: str
    set: Json
    settings: Json
    judged: int
    unjudged: tuple[str, ...]
    measures: Mapping[str, Paired]
    slices: tuple[PairedSlice, ...]
    changed: tuple[ChangedQuestion, ...]
    unchanged: tuple[UnchangedQuestion, ...]
    abstention: Mapping[str, Json]
    cut: Json
    similarity: Mapping[str, float]
    same_settings: bool

    @property
    def differs(self) -> bool:
        return bool(self.changed) or min(self.similarity.values(), default=1.0) < 1.0

    def to_json(self) -> Json:
        return {**asdict(self), "differs": self.differs}


def compare(
    old: Scorecard,
    new: Scorecard,
    releases: Releases,
    *,
    cut: EvidenceCut | None = None,
    names: Sequence[str] | None = None,
) -> Comparison:
    """Pair two scorecards of one set. Both are judged by the same labels and the same ``cut`` (default: the new one's).

    EvaluationError where the sets differ: figures of different questions cannot be paired.
    """
    if old.set["digest"] != new.set["digest"]:
        raise EvaluationError(
            f"{old.release} was asked other questions ({old.set['name']}) than {new.release} ({new.set['name']})",
            remedy="evaluate both with one set: kb compare evaluates what is missing",
        )
    names = list(names or new.measures)
    cut = cut or EvidenceCut.from_json(new.cut)
    left, right = judge_alike(names, old, new)
    # A kept scorecard was asked at the cut of its day; what is shown is held against one cut, as what is answered is.
    left = [answer.served_at(cut, old.settings["k"]) for answer in left]
    right = [answer.served_at(cut, new.settings["k"]) for answer in right]
    pairs = list(zip(left, right, strict=True))
    judged = [(a, b) for a, b in pairs if a.measures is not None and b.measures is not None]
    moved = [
        _moved(a, b) or a.evidence.answered(cut) != b.evidence.answered(cut) or a.finds != b.finds for a, b in pairs
    ]
    changed = [_changed(a, b, names, releases, cut) for (a, b), differs in zip(pairs, moved) if differs]
    order = {"lost": 0, "won": 1, "moved": 2}
    changed.sort(key=lambda entry: (order[entry.kind], _difference(entry, names[0]), entry.id))
    rankings = [([hit.doc_id for hit in a.hits], [releases.old_id(hit.doc_id) for hit in b.hits]) for a, b in pairs]
    documents = [(list(dict.fromkeys(a)), list(dict.fromkeys(b))) for a, b in rankings]
    count = max(1, len(documents))
    return Comparison(
        old=old.release,
        new=new.release,
        set=new.set,
        settings=new.settings,
        judged=len(judged),
        unjudged=tuple(a.id for a, b in pairs if a.measures is None and not a.no_answer),
        measures={name: _paired(judged, name) for name in names},
        slices=tuple(_slices(judged, names[0])),
        changed=tuple(changed),
        unchanged=tuple(
            UnchangedQuestion(a.id, a.question, None if a.measures is None else a.measures[names[0]])
            for (a, _), differs in zip(pairs, moved)
            if not differs
        ),
        abstention={
            card: abstention.measure([answer.evidence for answer in answers], cut).to_json()
            for card, answers in (("old", left), ("new", right))
        },
        cut=cut.to_json(),
        similarity={
            f"overlap@{SHOWN}": sum(overlap(a, b, SHOWN) for a, b in documents) / count,
            "rbo": sum(rank_biased_overlap(a, b) for a, b in documents) / count,
        },
        same_settings=old.settings == new.settings,
    )


def judge_alike(names: Sequence[str], old: Scorecard, new: Scorecard) -> tuple[list[Answer], list[Answer]]:
    """Both cards' answers in one order, measured by the same judgments: those that apply in one of the two at least.

    What is gone from one of them counts there as not found; what is gone from both is left out.
    """
    theirs = {answer.id: answer for answer in new.answers}
    left = [answer for answer in old.answers if answer.id in theirs]
    right = [theirs[answer.id] for answer in left]
    counted = {a.id: [x.live or y.live for x, y in zip(a.labels, b.labels, strict=True)] for a, b in zip(left, right)}
    judged = {
        a.id: qrels([_either(x, y) for x, y in zip(a.labels, b.labels)], counted[a.id])
        for a, b in zip(left, right)
        if any(flag and label.grade > 0 for flag, label in zip(counted[a.id], a.labels))
    }
    sides = []
    for answers in (left, right):
        rankings = {a.id: units((hit.place for hit in a.hits), a.labels) for a in answers if a.id in judged}
        values = measures.score(names, judged, rankings)
        sides.append([replace(answer, measures=values.get(answer.id)) for answer in answers])
    return sides[0], sides[1]


def _either(old: Label, new: Label) -> Label:
    return new if new.live else old


def _paired(judged: Sequence[tuple[Answer, Answer]], name: str) -> Paired:
    return paired([(a.measures or {})[name] for a, _ in judged], [(b.measures or {})[name] for _, b in judged])


def _slices(judged: Sequence[tuple[Answer, Answer]], name: str) -> list[PairedSlice]:
    tags = sorted({tag for answer, _ in judged for tag in answer.tags})
    return [PairedSlice("tag", tag, _paired([pair for pair in judged if tag in pair[0].tags], name)) for tag in tags]


def _moved(old: Answer, new: Answer) -> bool:
    if old.measures is None or new.measures is None:
        return False
    return any(abs(old.measures[name] - new.measures[name]) > TIE for name in old.measures)


def _difference(entry: ChangedQuestion, name: str) -> float:
    return entry.new.get(name, 0.0) - entry.old.get(name, 0.0)


def _changed(old: Answer, new: Answer, names: Sequence[str], releases: Releases, cut: EvidenceCut) -> ChangedQuestion:
    before, after = dict(old.measures or {}), dict(new.measures or {})
    moved = after.get(names[0], 0.0) - before.get(names[0], 0.0)
    kind = "lost" if moved < -TIE else "won" if moved > TIE else "moved"
    return ChangedQuestion(
        id=old.id,
        question=old.question,
        tags=old.tags,
        kind=kind,
        old=before,
        new=after,
        old_outcome="answered" if old.evidence.answered(cut) else "turned away",
        new_outcome="answered" if new.evidence.answered(cut) else "turned away",
        old_served=old.finds,
        new_served=new.finds,
        causes=releases.causes(old, new, direction={"lost": -1, "won": 1}.get(kind, 0)),
        old_hits=_hits(old),
        new_hits=_hits(new),
    )


def _hits(answer: Answer) -> tuple[ChangedHit, ...]:
    shown = []
    for rank, hit in enumerate(answer.hits[:SHOWN], start=1):
        number = answer.label_of(hit)
        grade = None if number is None else answer.labels[number].grade
        shown.append(ChangedHit(rank, hit.doc_id, hit.start, hit.end, hit.score, grade, number, hit.text_sha256))
    return tuple(shown)
