"""Tasks shared by the flows. They write, so nothing of them is cached, persisted or run again by Prefect."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar, cast

from prefect import task
from prefect.cache_policies import NO_CACHE
from prefect.states import Failed

from flows.secret_blocks import secrets_of
from kbcore.config import load
from kbcore.doctor import examine
from kbcore.errors import ConfigError, KbError
from kbcore.evaluation.pairing import compare_releases
from kbcore.freshness import measure
from kbcore.ingest.refresh import refresh
from kbcore.knowledge_base import KnowledgeBase
from kbcore.promotion import rollback
from kbcore.releases import list_releases
from kbcore.sources import ENVIRONMENT, Secrets
from kbcore.verification import verify_repository

P = ParamSpec("P")
R = TypeVar("R")


def in_words(name: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """A task of this name. Where it fails on purpose it ends with the sentence: the error is raised in the flow all the
    same, but Prefect logs no traceback of it, for there is nothing to look for in the code."""

    def decorate(work: Callable[P, R]) -> Callable[P, R]:
        @functools.wraps(work)
        def attempt(*args: P.args, **kwargs: P.kwargs) -> Any:
            try:
                return work(*args, **kwargs)
            except KbError as error:
                return Failed(message=error.message, data=error)

        made: Any = task(name=name, cache_policy=NO_CACHE, persist_result=False)(attempt)

        @functools.wraps(work)
        def run(*args: P.args, **kwargs: P.kwargs) -> R:
            return cast(R, made(*args, return_state=True, **kwargs).result())

        return run

    return decorate


@in_words("refresh")
def refresh_task(
    config: str, promote: bool, approve_removals: int, accept_failures: bool, gate: bool
) -> dict[str, Any]:
    """One refresh, the same function as ``kb refresh``; makes the repository where there is none. Listing and fetching
    are tried again inside, by the kind of error: a task that writes is not."""
    loaded = load(config)
    base = KnowledgeBase(loaded)
    if not base.exists():
        base.create()
    return refresh(
        base.repository,
        loaded,
        secrets=secrets_of(loaded),
        promote=promote,
        gate=gate,
        approve_removals=approve_removals,
        accept_failures=accept_failures,
    ).to_json()


@in_words("rollback")
def rollback_task(config: str, reason: str, to: str | None) -> tuple[dict[str, Any], str | None]:
    """Move readers back; sets a hold. Gives the record, and the release that readers had before."""
    base = KnowledgeBase(load(config))
    repository = base.repository
    target = repository.resolve(to) if to else None
    before = repository.state().release
    record = rollback(repository, base.catalog, to=target, reason=reason, run=repository.begin())
    return record.to_body(), before


@in_words("compare")
def compare_task(config: str, old: str, new: str) -> dict[str, Any]:
    """Two releases on the configured set, as ``kb compare`` does; what is not evaluated yet is evaluated and kept."""
    base = KnowledgeBase(load(config))
    names = [base.repository.resolve(name) for name in (old, new)]
    settings = base.settings(base.repository.manifest(names[1]))
    comparison, _ = compare_releases(
        base.repository, base.catalog, names[0], names[1], base.questions(), settings, names=base.config.gate.measures
    )
    return comparison.to_json()


@in_words("releases")
def releases_task(config: str) -> list[dict[str, Any]]:
    """Every release with its state, newest first."""
    return [row.to_json() for row in list_releases(KnowledgeBase(load(config)).repository)]


@in_words("freshness")
def freshness_task(config: str) -> dict[str, Any] | None:
    """How old what readers get is; None where they get nothing yet."""
    base = KnowledgeBase(load(config))
    current = base.repository.state().release if base.exists() else None
    return measure(base.repository, base.config, current).to_json() if current else None


@in_words("last-check")
def last_check_task(config: str) -> dict[str, Any]:
    """What the newest run saw; empty where none saw anything yet."""
    base = KnowledgeBase(load(config))
    return (base.repository.last_check() or {}) if base.exists() else {}


@in_words("verify")
def verify_task(config: str) -> list[dict[str, Any]]:
    """Everything that is not as it was written, in all releases that are not expired."""
    repository = KnowledgeBase(load(config)).repository
    expired = repository.expired()
    names = [name for name in repository.releases() if name not in expired]
    return [finding.to_json() for finding in verify_repository(repository, names)]


@in_words("doctor")
def doctor_task(config: str) -> list[dict[str, Any]]:
    """Configuration, storage, sources, embedders and versions."""
    return [check.to_json() for check in examine(config, secrets=_secrets(config))]


def _secrets(config: str) -> Secrets:
    """What doctor's sources need; the doctor itself says of a configuration that it does not load."""
    try:
        return secrets_of(load(config))
    except ConfigError:
        return ENVIRONMENT
