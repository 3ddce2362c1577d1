"""The gate: may a candidate take the place of the current release? Judged on one set, with one way of searching.

A verdict is pass, fail or invalid, with every reason in words and figures; invalid outranks fail. What could not be
evaluated is invalid, never a zero and never a pass. The first release has nothing to fall behind: no_baseline.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Literal

from kbcore.clock import iso
from kbcore.config import Config
from kbcore.config.gate import GateSection
from kbcore.embedding.catalog import Catalog
from kbcore.errors import KbError
from kbcore.evaluation import calibration, corpus, findings, lookback, measures, runner
from kbcore.evaluation.abstention import Abstention
from kbcore.evaluation.causes import Releases
from kbcore.evaluation.comparison import Comparison, compare
from kbcore.evaluation.corpus import CorpusChange
from kbcore.evaluation.findings import Finding
from kbcore.evaluation.pairing import cards_of
from kbcore.evaluation.questions import QuestionSet, load_questions
from kbcore.evaluation.scorecard import Scorecard
from kbcore.fingerprint import canonical, sha256
from kbcore.retrieval.evidence import EvidenceCut
from kbcore.retrieval.settings import RetrievalSettings
from kbcore.store import envelope, evals
from kbcore.store.manifest import Manifest
from kbcore.store.repository import Repository, Run
from kbcore.types import Json, Progress

Verdict = Literal["pass", "fail", "invalid", "no_baseline"]


@dataclass(frozen=True)
class Judgement:
    """What the gate came to. ``digest`` is what a promotion names its record by; ``causes`` say of lost questions why."""

    release: str
    baseline: str | None
    verdict: Verdict
    findings: tuple[Finding, ...]
    measures: Mapping[str, Json]
    causes: tuple[Json, ...]
    set: Json | None
    digest: str | None = None
    repeated: bool = False

    @property
    def passes(self) -> bool:
        return self.verdict in ("pass", "no_baseline")

    @property
    def reasons(self) -> list[str]:
        """Why it does not pass."""
        return [finding.said for finding in self.findings if finding.verdict == self.verdict]

    def to_json(self) -> Json:
        return {**asdict(self), "passes": self.passes, "reasons": self.reasons}


def judge(
    repository: Repository,
    config: Config,
    manifest: Manifest,
    catalog: Catalog,
    run: Run,
    *,
    approved_removals: int = 0,
    progress: Progress | None = None,
) -> Judgement:
    """Judge ``manifest`` against the current release and write the record down, beside the scorecards it rests on.

    A candidate that was judged before on the same set, bounds, cut and baseline is not asked again, unless that was
    invalid.
    """
    return _Gate(repository, config, manifest, catalog, run, approved_removals, progress).judge()


@dataclass
class _Gate:
    repository: Repository
    config: Config
    manifest: Manifest
    catalog: Catalog
    run: Run
    approved_removals: int
    progress: Progress | None
    baseline: Manifest | None = None

    @property
    def section(self) -> GateSection:
        return self.config.gate

    def judge(self) -> Judgement:
        found: list[Finding] = []
        comparison: Comparison | None = None
        questions: QuestionSet | None = None
        card: Scorecard | None = None
        state = self.repository.state()
        try:
            if state.release is not None:
                self.baseline = self.repository.manifest(state.release, digest=state.manifest_digest)
            names = self._names()
            if self.section.evalset:
                questions = load_questions(Path(self.section.evalset))
            known = self._judged_before(questions)
            if known is not None:
                return known
            if questions is not None:
                card, comparison = self._evaluate(questions, names)
                found += self._quality(questions, card, comparison)
        except KbError as error:
            found.append(Finding("evaluation", "invalid", f"could not be evaluated: {error.message}"))
        try:
            # What is wrong with the data is told even where no question could be asked: it is often the reason.
            if self.baseline is not None:
                found += self._data(self.baseline)
        except KbError as error:
            found.append(Finding("data", "invalid", f"could not be compared: {error.message}"))
        verdicts = {finding.verdict for finding in found}
        verdict: Verdict = (
            "invalid" if "invalid" in verdicts
            else "fail" if "fail" in verdicts
            else "no_baseline" if state.release is None
            else "pass"
        )  # fmt: skip
        judgement = Judgement(
            release=self.manifest.release,
            baseline=state.release,
            verdict=verdict,
            findings=tuple(found),
            measures=_figures(card, comparison),
            causes=tuple(_causes(comparison)) if comparison else (),
            set=None if questions is None else {"name": questions.name, "digest": questions.digest},
        )
        return replace(judgement, digest=self._write(judgement, questions))

    def _names(self) -> list[str]:
        """The measures that are shown, and those that a drop is bounded of."""
        if not self.section.evalset:
            return []
        return measures.parse_measures([*self.section.measures, *self.section.drop])

    @cached_property
    def _settings(self) -> RetrievalSettings:
        """As users are served, at the cut that readers of the current release have."""
        return RetrievalSettings.of(self.config, self._cut)

    @cached_property
    def _embedders(self) -> runner.Embedders:
        """For all the releases that are asked: each embeds a question once."""
        return runner.Embedders(self.repository, self.catalog)

    @cached_property
    def _drops(self) -> dict[str, float]:
        """How far each bounded measure may fall, by its name as scorecards have it."""
        return {measures.parse_measures([name])[0]: allowed for name, allowed in self.section.drop.items()}

    @cached_property
    def _cut(self) -> EvidenceCut:
        """The one that is in force when judging begins: what is evaluated on the way may calibrate another."""
        return calibration.cut_of(self.repository, self.baseline or self.manifest, self.config.retrieval.mode)

    def _evaluate(self, questions: QuestionSet, names: Sequence[str]) -> tuple[Scorecard, Comparison | None]:
        settings = self._settings
        baseline = self.baseline.release if self.baseline else None
        cards = cards_of(
            self.repository, self.catalog, [self.manifest.release, *([baseline] if baseline else [])], questions, settings,
            names=names, baseline=baseline, run=self.run, embedders=self._embedders, progress=self.progress,
        )  # fmt: skip
        if baseline is None:
            return cards[0], None
        return cards[0], compare(cards[1], cards[0], self._sides, cut=settings.cut, names=names)

    @cached_property
    def _sides(self) -> Releases:
        """Both releases, read once for the causes and for the data; only where there is a baseline."""
        assert self.baseline is not None
        return Releases(self.repository, self.baseline.release, self.manifest.release)

    @cached_property
    def _corpus(self) -> CorpusChange:
        return corpus.between(self._sides)

    def _quality(self, questions: QuestionSet, card: Scorecard, comparison: Comparison | None) -> Iterator[Finding]:
        section = self.section
        yield findings.judged_share(card, section.judged_percent)
        if comparison is None:
            yield from findings.no_answer(Abstention.from_json(card.abstention), None, section)
            return
        # A set of questions without an answer has nothing to be measured by, and asks for nothing.
        for name, allowed in self._drops.items() if card.counts["judged"] + card.counts["unjudged"] else ():
            yield findings.drop(name, comparison.measures[name], allowed, section.noise)
            if self._corpus.removed > self.approved_removals:  # else somebody let all of them go
                yield from findings.deletions(name, comparison, allowed, section.noise)
        yield from self._over_time(questions, card)
        yield from findings.canaries(comparison, section.canary)
        old, new = (Abstention.from_json(comparison.abstention[side]) for side in ("old", "new"))
        yield from findings.no_answer(new, old, section)

    @cached_property
    def _earlier(self) -> list[Manifest]:
        """The releases that the candidate is held against beside the baseline."""
        besides = (self.manifest.release, self.baseline.release if self.baseline else None)
        return lookback.earlier(self.repository, besides, self.section.earlier if self.section.drop else 0)

    def _over_time(self, questions: QuestionSet, card: Scorecard) -> Iterator[Finding]:
        beside = lookback.beside(
            self.repository, self.catalog, self._earlier, card, questions, self._settings,
            names=list(self._drops), run=self.run, embedders=self._embedders, progress=self.progress,
        )  # fmt: skip
        for name, found in beside.items():
            yield findings.over_time(name, found, self._drops[name], self.section.noise, self.section.slide)

    def _data(self, baseline: Manifest) -> Iterator[Finding]:
        return findings.data(self._corpus, baseline.release, self.section, self.approved_removals)

    def _made_with(self, questions: QuestionSet | None) -> Json:
        return {
            "set": questions.digest if questions else None,
            "bounds": self.section.model_dump(mode="json", exclude={"evalset"}),
            "retrieval": self.config.retrieval.model_dump(mode="json"),
            "baseline": self.baseline.digest if self.baseline else None,
            "earlier": [manifest.digest for manifest in self._earlier] if questions else [],
            "cut": {**self._cut.to_json(), "origin": None} if questions else None,
            "candidate": self.manifest.digest,
            "approved_removals": self.approved_removals,
            "erased": runner.erased_digest(self.repository),
        }

    def _judged_before(self, questions: QuestionSet | None) -> Judgement | None:
        key = evals.key_of(self._made_with(questions))
        body = evals.newest(self.repository, self.manifest.release, evals.GATE, key)
        if body is None or body["verdict"] == "invalid":
            return None
        return read_judgement(body)

    def _write(self, judgement: Judgement, questions: QuestionSet | None) -> str:
        body = {
            **{key: value for key, value in asdict(judgement).items() if key not in ("release", "digest", "repeated")},
            "findings": [asdict(finding) for finding in judgement.findings],
            "measures": dict(judgement.measures),
            "causes": list(judgement.causes),
            "at": iso(self.repository.clock()),
            "by": self.run.by,
            "bounds": self.section.model_dump(mode="json", exclude={"evalset"}),
        }
        key = evals.key_of(self._made_with(questions))
        return envelope.digest(evals.write(self.repository, judgement.release, evals.GATE, key, body, run=self.run))


def read_judgement(body: Json) -> Judgement:
    """A gate record as it was judged."""
    return Judgement(
        release=body["release"],
        baseline=body["baseline"],
        verdict=body["verdict"],
        findings=tuple(Finding(**finding) for finding in body["findings"]),
        measures=_in_order(body["measures"], body["bounds"]),
        causes=tuple(body["causes"]),
        set=body["set"],
        digest=sha256(canonical(body)),
        repeated=True,
    )


def _in_order(figures: Mapping[str, Json], bounds: Json) -> dict[str, Json]:
    """Measures in the order of the settings: a record's keys are sorted."""
    order = [*bounds["measures"], *bounds["drop"]]
    known = {name: at for at, name in reversed(list(enumerate(order)))}
    return dict(sorted(figures.items(), key=lambda entry: known.get(entry[0], len(order))))


def _figures(card: Scorecard | None, comparison: Comparison | None) -> dict[str, Json]:
    if comparison is not None:
        return {name: asdict(found) for name, found in comparison.measures.items()}
    return {} if card is None else {name: {"new": value} for name, value in card.means.items()}


def _causes(comparison: Comparison) -> Iterator[Json]:
    """Of every question that was lost: which, and why."""
    for entry in comparison.changed:
        if entry.kind == "lost":
            yield {
                "id": entry.id,
                "question": entry.question,
                "causes": [{"kind": cause.kind, "said": cause.said} for cause in entry.causes],
            }
