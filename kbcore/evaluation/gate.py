"""The gate: may a candidate take the place of the current release? Judged on one set, with one way of searching.

A verdict is pass, fail or invalid, with every reason in words and figures; invalid outranks fail. What could not be
evaluated is invalid, never a zero and never a pass. The first release has nothing to fall behind: no_baseline.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Literal

from kbcore.clock import iso
from kbcore.config import Config
from kbcore.config.gate import GateSection
from kbcore.embedding.catalog import Catalog
from kbcore.errors import KbError
from kbcore.evaluation import calibration, corpus, measures, runner
from kbcore.evaluation.abstention import Abstention
from kbcore.evaluation.causes import Releases
from kbcore.evaluation.comparison import Comparison, compare
from kbcore.evaluation.questions import QuestionSet, load_questions
from kbcore.evaluation.scorecard import Scorecard
from kbcore.fingerprint import canonical, sha256
from kbcore.retrieval.settings import RetrievalSettings
from kbcore.store import envelope, evals
from kbcore.store.manifest import Manifest
from kbcore.store.repository import Repository, Run
from kbcore.types import Json, Progress

Verdict = Literal["pass", "fail", "invalid", "no_baseline"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One check: its name, pass, fail or invalid, and what was seen, in words with figures."""

    check: str
    verdict: Literal["pass", "fail", "invalid"]
    said: str


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

    A candidate that was judged before on the same set, bounds and baseline is not asked again, unless that was invalid.
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
        findings: list[Finding] = []
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
                findings += self._quality(card, comparison)
            if self.baseline is not None:
                findings += self._data(self.baseline)
        except KbError as error:
            findings.append(Finding("evaluation", "invalid", f"could not be evaluated: {error.message}"))
        verdicts = {finding.verdict for finding in findings}
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
            findings=tuple(findings),
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

    def _settings(self) -> RetrievalSettings:
        """As users are served, at the cut that readers of the current release have."""
        seen = self.baseline or self.manifest
        return RetrievalSettings.of(self.config, calibration.cut_of(self.repository, seen, self.config.retrieval.mode))

    def _evaluate(self, questions: QuestionSet, names: Sequence[str]) -> tuple[Scorecard, Comparison | None]:
        settings = self._settings()
        baseline = self.baseline.release if self.baseline else None
        embedders = runner.Embedders(self.repository, self.catalog)

        def card_of(release: str) -> Scorecard:
            return runner.card_of(
                self.repository, release, questions, self.catalog, settings, names=names, run=self.run,
                baseline=baseline, embedder=embedders.of(release, settings.mode), progress=self.progress,
            )  # fmt: skip

        card = card_of(self.manifest.release)
        if baseline is None:
            return card, None
        releases = Releases(self.repository, baseline, self.manifest.release)
        return card, compare(card_of(baseline), card, releases, cut=settings.cut, names=names)

    def _quality(self, card: Scorecard, comparison: Comparison | None) -> Iterator[Finding]:
        yield self._judged_share(card)
        if comparison is None:
            yield from self._no_answer(Abstention.from_json(card.abstention), None)
            return
        for name, allowed in self.section.drop.items():
            yield self._drop(comparison, measures.parse_measures([name])[0], allowed)
        yield from self._canaries(comparison)
        old, new = (Abstention.from_json(comparison.abstention[side]) for side in ("old", "new"))
        yield from self._no_answer(new, old)

    def _drop(self, comparison: Comparison, name: str, allowed: float) -> Finding:
        found = comparison.measures[name]
        if not found.count or found.difference is None:
            return Finding(name, "invalid", f"{name}: no question is judged in either release")
        floor = self.section.noise / found.count
        bound = max(allowed, floor)
        why = f"{allowed:.3f} is allowed" if allowed >= floor else (
            f"{floor:.3f}, the weight of {self.section.noise:g} questions, is taken for noise"
        )  # fmt: skip
        said = (
            f"{name} {found.old:.3f} -> {found.new:.3f} ({found.difference:+.3f}, 95 % interval {found.low:+.3f} to "
            f"{found.high:+.3f}, p = {found.p_value:.3f}; {found.wins} questions better, {found.losses} worse of "
            f"{found.count}); {why}"
        )
        return Finding(name, "fail" if -found.difference > bound + 1e-9 else "pass", said)

    def _judged_share(self, card: Scorecard) -> Finding:
        asked = card.counts["judged"] + card.counts["unjudged"]
        if not asked:
            return Finding("judged", "pass", "every question of the set is one without an answer")
        percent = 100 * card.counts["judged"] / asked
        said = f"{card.counts['judged']} of {asked} questions ({percent:.0f} %) are judged in {card.release}"
        if card.stale:
            said += f", {len(card.stale)} judgments are stale"
        bad = percent < self.section.judged_percent
        return Finding(
            "judged", "fail" if bad else "pass", f"{said}; at least {self.section.judged_percent:g} % must be"
        )

    def _canaries(self, comparison: Comparison) -> Iterator[Finding]:
        lost = [
            entry
            for entry in comparison.changed
            if self.section.canary in entry.tags and entry.old_served and not entry.new_served
        ]
        for entry in lost:
            causes = "; ".join(cause.said for cause in entry.causes) or "no cause was found"
            yield Finding("canary", "fail", f"{entry.id} {entry.question!r} is not found any more: {causes}")

    def _no_answer(self, new: Abstention, old: Abstention | None) -> Iterator[Finding]:
        if not new.no_answer:
            return
        percent = 100 * new.no_answer_answered / new.no_answer
        said = f"{new.no_answer_answered} of {new.no_answer} questions without an answer are answered ({percent:.0f} %)"
        bound = self.section.no_answer_percent
        if percent > bound + 1e-9:
            yield Finding("no answer", "fail", f"{said}; at most {bound:g} % may be")
        elif old is not None:
            before = 100 * old.no_answer_answered / old.no_answer
            said += f", {old.no_answer_answered} before"
            more = new.no_answer_answered - old.no_answer_answered
            bad = more > 1 and percent - before > self.section.no_answer_rise
            yield Finding("no answer", "fail" if bad else "pass", said)
        else:
            yield Finding("no answer", "pass", said)

    def _data(self, baseline: Manifest) -> Iterator[Finding]:
        found = corpus.against(self.repository, baseline.release, self.manifest.release)
        section = self.section

        def bounded(check: str, count: int, of: int, percent: float, words: str) -> Finding:
            share = 100 * count / of if of else 0.0
            bad = count > section.documents and share > percent
            said = f"{count} of {of} documents {words} ({share:.0f} %); {percent:g} % are allowed"
            return Finding(check, "fail" if bad else "pass", said)

        removed = max(0, found.removed - self.approved_removals)
        yield bounded("removed", removed, found.documents_before, section.removed_percent,
                      f"of {baseline.release} are gone")  # fmt: skip
        yield bounded("failed", found.failed, found.documents, section.failed_percent, "could not be read")
        yield bounded("flagged", found.flagged, found.documents, section.flagged_percent,
                      f"have a doubtful text that had none in {baseline.release}")  # fmt: skip
        # What was removed is bounded above; here, what is left must not have lost its text, nor the whole have swollen.
        less = 100 * (1 - found.kept_characters / found.kept_characters_before) if found.kept_characters_before else 0.0
        more = 100 * (found.characters / found.characters_before - 1) if found.characters_before else 0.0
        moved = abs(found.documents - found.documents_before) + found.changed
        bad = moved > section.documents and (less > section.shrunk_percent or more > section.grown_percent)
        said = (
            f"{found.characters_before:,} characters of text -> {found.characters:,} ({more:+.0f} %), of the documents that "
            f"stayed {found.kept_characters_before:,} -> {found.kept_characters:,}; these may lose "
            f"{section.shrunk_percent:g} %, the whole may grow by {section.grown_percent:g} %"
        )
        yield Finding("size", "fail" if bad else "pass", said)

    def _made_with(self, questions: QuestionSet | None) -> Json:
        return {
            "set": questions.digest if questions else None,
            "bounds": self.section.model_dump(mode="json", exclude={"evalset"}),
            "retrieval": self.config.retrieval.model_dump(mode="json"),
            "baseline": self.baseline.digest if self.baseline else None,
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
