"""Tasks shared by the flows. They write, so nothing of them is cached, persisted or run again by Prefect."""

from __future__ import annotations

from typing import Any

from prefect import task
from prefect.cache_policies import NO_CACHE

from kbcore.config import load
from kbcore.ingest.refresh import refresh
from kbcore.knowledge_base import KnowledgeBase
from kbcore.promotion import rollback
from kbcore.releases import list_releases


@task(name="refresh", cache_policy=NO_CACHE, persist_result=False)
def refresh_task(config: str, promote: bool, approve_removals: int) -> dict[str, Any]:
    """One refresh, the same function as ``kb refresh``; makes the repository where there is none."""
    loaded = load(config)
    base = KnowledgeBase(loaded)
    if not base.exists():
        base.create()
    return refresh(base.repository, loaded, promote=promote, approve_removals=approve_removals).to_json()


@task(name="rollback", cache_policy=NO_CACHE, persist_result=False)
def rollback_task(config: str, reason: str, to: str | None) -> dict[str, Any]:
    """Move readers back; sets a hold."""
    base = KnowledgeBase(load(config))
    repository = base.repository
    target = repository.resolve(to) if to else None
    return rollback(repository, base.catalog, to=target, reason=reason, run=repository.begin()).to_body()


@task(name="releases", cache_policy=NO_CACHE, persist_result=False)
def releases_task(config: str) -> list[dict[str, Any]]:
    """Every release with its state, newest first."""
    return [row.to_json() for row in list_releases(KnowledgeBase(load(config)).repository)]
