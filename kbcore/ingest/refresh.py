"""A refresh from end to end: lease, plan, vectors, release, promotion, and the check that says what was seen."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from contextlib import AbstractContextManager, ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from kbcore.clock import iso
from kbcore.config import BuildSection, Config, SourceSection
from kbcore.embedding.catalog import Catalog
from kbcore.errors import ConfigError, ReleaseConflictError
from kbcore.evaluation.gate import Judgement
from kbcore.ingest import validators
from kbcore.ingest.admission import admit
from kbcore.ingest.base import Base
from kbcore.ingest.plan import Plan
from kbcore.ingest.publish import publish
from kbcore.ingest.recipe import Recipe
from kbcore.ingest.refusal import accepted, flagged, refusals
from kbcore.ingest.report import RefreshReport
from kbcore.ingest.survey import make_plan, parse_limits
from kbcore.ingest.vectors import clear_parts, collect
from kbcore.parsing import ParserPool
from kbcore.promotion import refusal
from kbcore.sources import ENVIRONMENT, Secrets, Source, close_source, make_source
from kbcore.store import layout
from kbcore.store.lease import writer_lease
from kbcore.store.manifest import Manifest, changed_settings
from kbcore.store.repository import Repository, Run
from kbcore.types import Json, Progress
from kbcore.workers import dask_cluster, worker_pool

ATTEMPTS = 5
NOT_ASKED = "asked not to promote"


def _silent(stage: str, done: int, total: int) -> None:
    return None


def refresh(
    repository: Repository,
    config: Config,
    *,
    sources: Sequence[Source] | None = None,
    secrets: Secrets = ENVIRONMENT,
    by: str | None = None,
    dry_run: bool = False,
    promote: bool = True,
    gate: bool = True,
    approve_removals: int = 0,
    accept_failures: bool = False,
    retry_failed: bool = False,
    progress: Progress = _silent,
    recipe: Recipe | None = None,
) -> RefreshReport:
    """Bring the repository up to date with its sources; the one function behind ``kb refresh`` and the flow.

    Publishes a release if anything changed and makes it current unless the gate (left out with ``gate=False``), a hold,
    a blocked content or ``promote=False`` says no. Where too many documents failed, it publishes and promotes nothing
    unless ``accept_failures``; documents that failed before are left alone for a while unless ``retry_failed``. Another run that
    publishes first makes this one plan again on the new head. ``secrets`` are where the configured sources look for
    theirs. LockedError if another run is under way, SourceError if no source could be listed; whatever is raised, nothing
    half-done can be seen.
    """
    run = repository.begin(by)
    recipe = recipe or Recipe.of(config)
    if sources is None:
        if not config.sources:
            raise ConfigError(
                f"no source is configured in {config.file or 'the configuration'}", remedy="add a [[sources]] table"
            )
        sources = [
            make_source(section, cache=source_cache(repository.root, section), secrets=secrets)
            for section in config.sources
        ]
    with ExitStack() as stack:
        took_over = None
        if not dry_run:
            lease = stack.enter_context(writer_lease(repository.root, run=run.name, since=run.started_at))
            took_over = lease.took_over
        for source in sources:
            stack.callback(close_source, source)
        parser = stack.enter_context(ParserPool(limits=parse_limits(config)))
        workers: list[Any] = []

        def executor() -> Any:
            if config.embedder.provider == "hashing" and config.build == BuildSection():
                return None  # one process is done before others have started
            if not workers:
                pool: AbstractContextManager[Executor | None] = (
                    dask_cluster(config.build.address or "")
                    if config.build.executor == "dask"
                    else worker_pool(config.build.jobs)
                )
                workers.append(stack.enter_context(pool))
            return workers[0]

        for attempt in range(1, ATTEMPTS + 1):
            work = _Refresh(
                repository, config, recipe, run, promote, approve_removals, progress,
                took_over=took_over, accept_failures=accept_failures, retry_failed=retry_failed, gate=gate,
            )  # fmt: skip
            try:
                plan = work.plan(sources, parser, executor)
                return work.forecast(plan) if dry_run else work.carry_out(plan, executor)
            except ReleaseConflictError:
                if attempt == ATTEMPTS:
                    raise
                run = repository.begin(by)
    raise AssertionError("unreachable")


@dataclass
class _Refresh:
    repository: Repository
    config: Config
    recipe: Recipe
    run: Run
    promote: bool
    approve_removals: int
    progress: Progress
    took_over: str | None = None
    accept_failures: bool = False
    retry_failed: bool = False
    gate: bool = True

    def __post_init__(self) -> None:
        self.last_check: Json = self.repository.last_check() or {}
        self.validators = validators.known(self.repository)
        self.rate: Json = {"texts": 0, "seconds": 0.0}

    def plan(self, sources: Sequence[Source], parser: ParserPool, executor: Callable[[], Any]) -> Plan:
        base = Base(self.repository)
        confirming = self.repository.last_check(base.release) if base.release else None
        self.confirmed: dict[str, str | None] = {
            entry["name"]: entry.get("confirmed_at") for entry in (confirming or {}).get("sources", ())
        }
        return make_plan(
            base,
            self.recipe,
            self.config,
            sources,
            parser,
            executor=executor,
            clock=self.repository.clock,
            erased=self.repository.erased(),
            etags=self.validators,
            last_check=self.last_check,
            confirmed=self.confirmed,
            retry_failed=self.retry_failed,
            approve_removals=self.approve_removals,
            progress=self.progress,
        )

    def forecast(self, plan: Plan) -> RefreshReport:
        """What carrying the plan out would do: nothing is written, embedded or promoted."""
        if plan.unheard:
            raise plan.unheard
        texts = plan.texts()
        known, _ = plan.base.vectors_of(texts, self.recipe.embedder_id)
        refused = self._refused(plan)
        return self._report(
            plan,
            release=None if plan.publishes else plan.base.release,
            promoted=False,
            why="refused" if refused else self._refusal(plan),
            work={"texts_embedded": 0, "texts_reused": len(known), "texts_resumed": 0},
            manifest=None,
            bytes_written=0,
            dry_run=True,
            texts_to_embed=len(texts) - len(known),
            refused=refused,
            estimated_seconds=self._estimate(len(texts) - len(known)),
        )

    def _refusal(self, plan: Plan) -> str | None:
        """Why the head that a refresh would leave would not be made current."""
        state = self.repository.state()
        why = f"on hold: {state.hold['reason']}" if state.hold else None
        if plan.base.manifest is not None and not plan.publishes:
            why = refusal(state, plan.base.manifest)
        return why if self.promote else why or NOT_ASKED

    def carry_out(self, plan: Plan, executor: Callable[[], Any]) -> RefreshReport:
        manifest = plan.base.manifest
        work: Json = {"texts_embedded": 0, "texts_reused": 0, "texts_resumed": 0}
        bytes_written = 0
        if plan.unheard:
            # Written down, so that ages go on being told, and why.
            self._write_check(plan, plan.base.release, "failed")
            raise plan.unheard
        if refused := self._refused(plan):
            # What was seen was not taken over: it confirms nothing.
            plan.sources = [{**entry, "confirmed_at": self.confirmed.get(entry["name"])} for entry in plan.sources]
            self._write_check(plan, plan.base.release, "refused", refused)
            return self._report(
                plan, release=plan.base.release, promoted=False, why="refused", work=work, manifest=None,
                bytes_written=0, refused=refused,
            )  # fmt: skip
        if plan.publishes:
            started = time.perf_counter()
            vectors = collect(
                plan.texts(),
                base=plan.base,
                store=self.repository.store,
                run=self.run.name,
                recipe=self.recipe,
                executor=executor,
                progress=self.progress,
            )
            self.rate = {"texts": vectors.embedded, "seconds": round(time.perf_counter() - started, 3)}
            self.progress("write", 0, 1)
            published = publish(self.repository, plan, vectors, self.run)
            self.progress("write", 1, 1)
            manifest, work, bytes_written = published.manifest, published.manifest.work, published.bytes_written
        assert manifest is not None
        clear_parts(self.repository.store)
        self._write_check(plan, manifest.release, "published" if plan.publishes else "unchanged")
        admission = None
        if self.promote:
            catalog = Catalog(self.recipe.spec, self.config.models.folders)
            admission = admit(
                self.repository, self.config, manifest, catalog, self.run,
                gate=self.gate, approved_removals=self.approve_removals, progress=self.progress,
            )  # fmt: skip
        return self._report(
            plan,
            release=manifest.release,
            promoted=admission is not None and admission.promoted,
            why=admission.why_not if admission else refusal(self.repository.state(), manifest) or NOT_ASKED,
            promoted_from=admission.promoted_from if admission else None,
            judgement=admission.judgement if admission else None,
            work=work,
            manifest=manifest if plan.publishes else None,
            bytes_written=bytes_written,
        )

    def _estimate(self, texts: int) -> float | None:
        """Seconds that embedding ``texts`` takes at the rate of the last run on this machine that embedded some."""
        for check in reversed(self.repository.recent_checks()):
            rate = check.get("embedding", {})
            if (rate.get("host"), rate.get("embedder_id")) == (socket.gethostname(), self.recipe.embedder_id):
                return round(float(rate["seconds"]) * texts / int(rate["texts"]), 1)
        return None

    def _refused(self, plan: Plan) -> list[str]:
        """Also where nothing else changed: what cannot be read any more is no confirmation of what readers have."""
        return [] if self.accept_failures else refusals(plan, self.config.sources, self._accepted(plan))

    def _accepted(self, plan: Plan) -> set[tuple[str, str]]:
        return accepted(plan, self.last_check, all_of_them=self.accept_failures)

    def _write_check(self, plan: Plan, head: str | None, outcome: str, refused: Sequence[str] = ()) -> None:
        body: Json = {
            "at": iso(self.repository.clock()),
            "head": head,
            "base": plan.base.release,
            "outcome": outcome,
            "sources": plan.sources,
            "exceptions": [asdict(failure) for failure in plan.failures],
            "withheld": [held.doc_id for held in plan.withheld],
            "skipped": [list(entry) for entry in plan.skipped],
        }
        if self.rate["texts"]:
            embedder_id = self.recipe.embedder_id
            body["embedding"] = {**self.rate, "host": socket.gethostname(), "embedder_id": embedder_id}
        if refused:
            body["refused"] = list(refused)
        if standing := self._accepted(plan):
            body["accepted"] = [list(entry) for entry in sorted(standing)]
        if self.took_over:
            body["took_over"] = self.took_over
        self.repository.write_check(body, run=self.run)
        validators.keep(self.repository, plan, self.validators)

    def _report(
        self,
        plan: Plan,
        *,
        release: str | None,
        promoted: bool,
        why: str | None,
        promoted_from: str | None = None,
        judgement: Judgement | None = None,
        work: Json,
        manifest: Manifest | None,
        bytes_written: int,
        dry_run: bool = False,
        texts_to_embed: int | None = None,
        refused: Sequence[str] = (),
        estimated_seconds: float | None = None,
    ) -> RefreshReport:
        new = sum(len(row.chunks) for row in plan.rows)
        shown = manifest or plan.base.manifest
        total = shown.totals["chunks"] if shown else new
        failed = {failure.doc_id for failure in plan.failures}
        failed_before = {entry["doc_id"] for entry in self.last_check.get("exceptions", ())}
        withheld = [held.doc_id for held in plan.withheld]
        return RefreshReport(
            release=release,
            parent=plan.base.release if plan.publishes or shown is None else shown.parent,
            outcome="refused" if refused else "published" if plan.publishes else "unchanged",
            refused=list(refused),
            flagged=[{"doc_id": doc_id, "flags": list(flags)} for doc_id, flags in flagged(plan.rows).items()],
            promoted=promoted,
            not_promoted=why,
            promoted_from=promoted_from,
            gate=judgement.to_json() if judgement else None,
            took_over=self.took_over,
            settings=changed_settings(plan.base.manifest.settings, self.recipe.settings) if plan.base.manifest else [],
            changes=plan.changes(),
            chunks={"total": total, "new": new, "reused": max(0, total - new)},
            texts_embedded=work["texts_embedded"],
            texts_reused=work["texts_reused"],
            texts_resumed=work["texts_resumed"],
            bytes_written=bytes_written,
            failures=[asdict(failure) for failure in plan.failures],
            failures_changed=failed != failed_before,
            recovered=sorted(failed_before - failed),
            standing=failed == failed_before
            and set(withheld) == set(self.last_check.get("withheld", ()))
            and list(refused) == self.last_check.get("refused", [])
            and (judgement is None or judgement.passes or judgement.repeated),
            skipped=[{"doc_id": doc_id, "reason": reason} for doc_id, reason in plan.skipped],
            withheld_removals=withheld,
            sources=plan.sources,
            run=self.run.name,
            dry_run=dry_run,
            renamed=plan.renamed,
            texts_to_embed=texts_to_embed,
            content_digest=manifest.content_digest if manifest else plan.content_digest(),
            estimated_seconds=estimated_seconds,
        )


def source_cache(root: Path, section: SourceSection) -> Path:
    """Where a source of the repository at ``root`` may keep what spares it transfers."""
    return root / layout.CACHE / "sources" / section.name
