"""A scorecard: what one release answered to the questions of one set, and how good that is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from kbcore.errors import CorruptReleaseError
from kbcore.evaluation.abstention import Evidence
from kbcore.evaluation.labels import Label, Place, units
from kbcore.retrieval.evidence import EvidenceCut
from kbcore.store import evals
from kbcore.types import Json


@dataclass(frozen=True, slots=True)
class Ranked:
    """A hit as a scorecard keeps it: no text, so that what is erased later is not kept here."""

    doc_id: str
    start: int
    end: int
    text_sha256: str
    score: float
    cosine: float | None
    bm25: float | None

    @property
    def place(self) -> Place:
        return Place(self.doc_id, self.start, self.end)


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of one question. ``hits`` go beyond the ``served`` ones that a search shows; ``measures`` is None where
    the question has no judgment that applies, or no answer. ``outcome`` is what users are told; where that is
    ``no_match`` none of the hits is served, and the ranking is kept and measured all the same.
    """

    id: str
    question: str
    tags: tuple[str, ...]
    no_answer: bool
    labels: tuple[Label, ...]
    served: int
    hits: tuple[Ranked, ...]
    best_cosine: float | None
    matched_share: float | None
    outcome: str
    measures: Mapping[str, float] | None

    @property
    def judged(self) -> bool:
        """Whether it counts in the measures: some document that answers it is there."""
        return any(label.live and label.grade > 0 for label in self.labels)

    def label_of(self, hit: Ranked) -> int | None:
        """The number of the label a hit stands for (the first, where of several), None for one that nobody judged."""
        unit = units([hit.place], self.labels)[0]
        return int(unit[1:]) if unit.startswith("#") else None

    @property
    def finds(self) -> bool:
        """Whether one of the hits that are served is judged to answer."""
        numbers = [self.label_of(hit) for hit in self.hits[: self.served]]
        return any(number is not None and self.labels[number].grade > 0 for number in numbers)

    def served_at(self, cut: EvidenceCut, k: int) -> Answer:
        """The same answer as a search for ``k`` shows it at ``cut``."""
        nothing = cut.is_nothing(self.best_cosine, self.matched_share)
        return replace(self, served=0 if nothing else min(k, len(self.hits)))

    @property
    def evidence(self) -> Evidence:
        return Evidence(self.best_cosine, self.matched_share, bool(self.hits), not self.no_answer)

    def to_json(self) -> Json:
        return {
            **{name: getattr(self, name) for name in ("id", "question", "no_answer", "served", "outcome")},
            "tags": list(self.tags),
            "labels": [label.to_json() for label in self.labels],
            "hits": [asdict(hit) for hit in self.hits],
            "best_cosine": self.best_cosine,
            "matched_share": self.matched_share,
            "measures": None if self.measures is None else dict(self.measures),
        }

    @classmethod
    def from_json(cls, body: Json) -> Answer:
        values = dict(body)
        values["tags"] = tuple(values["tags"])
        values["labels"] = tuple(Label.from_json(label) for label in values["labels"])
        values["hits"] = tuple(Ranked(**hit) for hit in values["hits"])
        return cls(**values)


@dataclass(frozen=True, slots=True)
class Slice:
    """The mean of each measure over some of the judged questions: ``by`` is tag, source or version, ``value`` which."""

    by: str
    value: str
    questions: int
    means: Mapping[str, float]


@dataclass(frozen=True)
class Scorecard:
    """``questions`` names the set: {name, digest, questions}; ``settings`` how was searched. ``means`` go over the judged
    questions; ``stale`` are judgments that do not apply to the release and were left out. ``erased`` is the digest of
    what was erased when it was made: with other documents hidden the same release answers otherwise."""

    release: str
    run: str
    at: str
    by: str
    manifest_digest: str
    embedder_id: str
    set: Json
    settings: Json
    measures: tuple[str, ...]
    baseline: str | None
    counts: Json
    means: Mapping[str, float]
    slices: tuple[Slice, ...]
    abstention: Json
    cut: Json
    calibration: Json | None
    stale: tuple[Json, ...]
    erased: str
    versions: Json
    answers: tuple[Answer, ...]

    @property
    def key(self) -> str:
        return key_of(self.set["digest"], self.settings)

    def to_json(self) -> Json:
        body: Json = {field.name: getattr(self, field.name) for field in fields(self)}
        body["measures"] = list(self.measures)
        body["means"] = dict(self.means)
        body["slices"] = [{**asdict(part), "means": dict(part.means)} for part in self.slices]
        body["stale"] = list(self.stale)
        del body["answers"]
        return body

    @classmethod
    def from_json(cls, body: Json, answers: Sequence[Json]) -> Scorecard:
        """From its record in ``evals/`` and the answers that it names. CorruptReleaseError where it reads as none."""
        values: dict[str, Any] = {field.name: body.get(field.name) for field in fields(cls)}
        try:
            values["measures"] = tuple(values["measures"])
            values["slices"] = tuple(Slice(**part) for part in values["slices"])
            values["stale"] = tuple(values["stale"])
            values["answers"] = tuple(Answer.from_json(answer) for answer in answers)
        except (TypeError, KeyError) as error:
            raise CorruptReleaseError(
                f"does not read as a scorecard: {error}", file=f"evals/{body.get('release')}"
            ) from error
        return cls(**values)


def key_of(set_digest: str, settings: Json) -> str:
    """What names a scorecard's file: the set and the settings of the search."""
    return evals.key_of({"set": set_digest, "settings": settings})


def means(measures: Sequence[str], answers: Iterable[Answer]) -> dict[str, float]:
    """Arithmetic means over the answers that are judged; nothing where none is."""
    counted = [answer.measures for answer in answers if answer.measures is not None]
    if not counted:
        return {}
    return {name: sum(values[name] for values in counted) / len(counted) for name in measures}
