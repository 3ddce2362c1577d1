"""How old is what readers get? By source and by document, against the targets of the configuration."""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np

from kbcore.clock import age_days
from kbcore.config import Config
from kbcore.store.confirmations import Confirmations
from kbcore.store.repository import Repository
from kbcore.types import Json


@dataclass(frozen=True, slots=True)
class SourceAge:
    """``listed_at`` is the last attempt of the newest run and ``error`` why it failed; ``confirmed_at`` the last complete
    listing of what readers get now. ``age_days`` counts from there (from the release, where there was none); ``stale``
    says that it is over ``target_days``."""

    source: str
    type: str | None
    documents: int
    listed_at: str | None
    error: str | None
    confirmed_at: str | None
    age_days: float
    target_days: float | None
    stale: bool
    carried_over: int
    withheld: int


@dataclass(frozen=True, slots=True)
class DocumentAge:
    """A document that readers get, with what is wrong with it: ``reason`` and ``since`` where it was carried over or its
    removal withheld."""

    doc_id: str
    source: str
    confirmed_at: str
    age_days: float
    stale: bool
    carried_over: bool
    reason: str | None
    since: str | None


@dataclass(frozen=True, slots=True)
class Freshness:
    release: str
    sources: list[SourceAge]
    documents: list[DocumentAge]

    @property
    def stale(self) -> bool:
        return any(source.stale for source in self.sources) or any(document.stale for document in self.documents)

    def to_json(self) -> Json:
        return {**asdict(self), "stale": self.stale}


def measure(repository: Repository, config: Config, release: str) -> Freshness:
    """The ages of everything in ``release``; sources in the order of the configuration, then those it does not name any
    more; the oldest documents first."""
    now = repository.clock()
    manifest = repository.manifest(release)
    seen = Confirmations.of(repository, manifest)
    targets = {section.name: section.freshness_days for section in config.sources}
    newest = {entry["name"]: entry for entry in (repository.last_check() or {}).get("sources", ())}
    documents: list[DocumentAge] = []
    for segment in repository.segments(manifest):
        rows = segment.documents(["doc_id", "source", "fetched_at"]).to_pylist()
        for row in np.flatnonzero(segment.live_documents(repository.erased())):
            entry = rows[row]
            doc_id, source = entry["doc_id"], entry["source"]
            confirmed, carried = seen.of_document(doc_id, source, entry["fetched_at"])
            reason, since = seen.failed.get(doc_id, (None, None))
            if doc_id in seen.withheld:
                reason = "its source holds nothing of it any more; the removal is withheld"
            age = age_days(confirmed, now)
            target = targets.get(source)
            documents.append(
                DocumentAge(doc_id, source, confirmed, age, target is not None and age > target, carried, reason, since)
            )
    names = [*targets, *sorted({document.source for document in documents} - set(targets))]
    sources = []
    for name in names:
        mine = [document for document in documents if document.source == name]
        look = newest.get(name, {})
        confirmed_at = seen.sources.get(name)
        age = age_days(confirmed_at or manifest.created_at, now)
        target = targets.get(name)
        sources.append(
            SourceAge(
                source=name,
                type=next((section.type for section in config.sources if section.name == name), None),
                documents=len(mine),
                listed_at=look.get("listed_at"),
                error=look.get("error"),
                confirmed_at=confirmed_at,
                age_days=age,
                target_days=target,
                stale=target is not None and age > target,
                carried_over=sum(document.doc_id in seen.failed for document in mine),
                withheld=sum(document.doc_id in seen.withheld for document in mine),
            )
        )
    documents.sort(key=lambda document: (-document.age_days, document.doc_id))
    return Freshness(release, sources, documents)
