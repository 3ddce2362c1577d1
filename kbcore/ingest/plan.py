"""The plan of a refresh: what the sources hold now against the base, fetched, parsed and cut, but not yet embedded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kbcore import planning
from kbcore.clock import Clock, iso
from kbcore.config import Config, SourceSection
from kbcore.errors import DocumentError, SkippedDocumentError, SourceError
from kbcore.fingerprint import sha256
from kbcore.ingest.base import Base
from kbcore.ingest.cutting import cut
from kbcore.ingest.recipe import Recipe
from kbcore.ingest.retry import retried
from kbcore.parsing import ParserPool, media_type_of, parser_id_for, parser_id_today
from kbcore.parsing.limits import ParseLimits
from kbcore.planning import Guard, Held
from kbcore.sources.source import Source
from kbcore.store.repository import ErasedIds
from kbcore.store.rows import DocumentRow
from kbcore.types import Failure, Fetched, Json, Listed, Listing, Progress


@dataclass
class Plan:
    """What a refresh would do. ``rows`` are the documents to write: added, changed, or cut anew for another recipe."""

    base: Base
    recipe: Recipe
    rows: list[DocumentRow] = field(default_factory=list)
    added: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    removed: list[Held] = field(default_factory=list)
    erased: list[Held] = field(default_factory=list)
    renamed: dict[str, str] = field(default_factory=dict)
    withheld: list[Held] = field(default_factory=list)
    unchanged: int = 0
    failures: list[Failure] = field(default_factory=list)
    skipped: list[tuple[str, str]] = field(default_factory=list)
    sources: list[Json] = field(default_factory=list)
    etags: dict[str, str] = field(default_factory=dict)
    rebuild: bool = False

    @property
    def carried_over(self) -> list[Failure]:
        return [failure for failure in self.failures if failure.carried_over]

    @property
    def gone(self) -> list[Held]:
        """Documents of the base that the next release does not hold under their id any more."""
        return [*self.removed, *(self.base.held[old] for old in self.renamed), *self.erased]

    @property
    def publishes(self) -> bool:
        """True where the plan comes to another release (the first one is published even when it is empty)."""
        return bool(self.base.manifest is None or self.rebuild or self.added or self.changed or self.gone)

    def changes(self) -> Json:
        """Counts of documents, as a manifest and ``kb refresh --json`` say them."""
        return {
            "added": len(self.added) - len(self.renamed),
            "changed": len(self.changed),
            "removed": len(self.removed),
            "renamed": len(self.renamed),
            "unchanged": self.unchanged,
            "carried_over": len(self.carried_over),
            "erased": len(self.erased),
            "skipped": len(self.skipped),
        }

    def texts(self) -> dict[str, tuple[str, int]]:
        """Digest to (exact text to embed, its tokens), each text once, in the order of the documents."""
        found: dict[str, tuple[str, int]] = {}
        for row in self.rows:
            for chunk in row.chunks:
                if chunk.embedded_sha256 not in found:
                    own = chunk.embedded_sha256 == chunk.text_sha256
                    count = chunk.token_count if own else self.recipe.embedder.count_tokens(chunk.embedded)
                    found[chunk.embedded_sha256] = (chunk.embedded, count)
        return found


def parse_limits(config: Config) -> ParseLimits:
    return ParseLimits(
        timeout_seconds=config.limits.parse_seconds, memory_bytes=config.limits.parse_memory_mb * 1024 * 1024
    )


def make_plan(
    base: Base,
    recipe: Recipe,
    config: Config,
    sources: Sequence[Source],
    parser: ParserPool,
    *,
    clock: Clock,
    erased: ErasedIds,
    etags: Mapping[str, str],
    last_failures: Mapping[str, Json],
    approve_removals: int = 0,
    progress: Progress,
) -> Plan:
    """List every source, fetch and parse what the listing does not confirm, and compare with the base.

    A source that cannot be listed is recorded and derives no removal. ``etags`` are validators newer than the base's,
    ``last_failures`` the failures of the run before (they keep their ``since``).
    SourceError if no source could be listed.
    """
    plan = Plan(base, recipe, rebuild=base.manifest is not None and not recipe.made(base.manifest))
    builder = _Builder(plan, parser, clock, erased, etags, last_failures)
    errors: list[SourceError] = []
    listings: list[tuple[Source, Listing]] = []
    for source in sources:
        progress("list", len(listings), len(sources))
        at = iso(clock())
        try:
            listing = retried(lambda source=source, at=at: source.list(at))  # type: ignore[misc]
        except SourceError as error:
            errors.append(error)
            plan.sources.append(
                {
                    "name": source.name,
                    "type": source.type,
                    "listed_at": at,
                    "complete": False,
                    "items": 0,
                    "error": error.message,
                }
            )
            continue
        listings.append((source, listing))
        plan.sources.append(
            {
                "name": source.name,
                "type": source.type,
                "listed_at": at,
                "complete": listing.complete,
                "items": len(listing.items),
                **({"version": listing.version} if listing.version else {}),
            }
        )
    if errors and not listings:
        raise errors[0]
    total = sum(len(listing.items) for _, listing in listings)
    done = 0
    for source, listing in listings:
        for uri, reason in listing.problems:
            builder.fail(planning.document_id(source.name, uri), uri, reason)
        for item in listing.items:
            progress("read", done, total)
            builder.take(source, item)
            done += 1
    progress("read", total, total)
    builder.leave({listing.source for _, listing in listings if listing.complete}, config.sources, approve_removals)
    if plan.rebuild:
        builder.cut_again(progress)
    return plan


class _Builder:
    """Fills a plan, one listed item at a time."""

    def __init__(
        self,
        plan: Plan,
        parser: ParserPool,
        clock: Clock,
        erased: ErasedIds,
        etags: Mapping[str, str],
        last_failures: Mapping[str, Json],
    ) -> None:
        self.plan = plan
        self.parser = parser
        self.clock = clock
        self.erased = erased
        self.etags = etags
        self.last_failures = last_failures
        self.listed: set[str] = set()
        self.failed: set[str] = set()
        self.content: dict[str, str] = {}

    def take(self, source: Source, item: Listed) -> None:
        doc_id = planning.document_id(source.name, item.uri)
        held = self.plan.base.held.get(doc_id)
        self.listed.add(doc_id)
        if None in self.erased.get(doc_id, ()):
            self._erase(held)
            return
        etag = self.etags.get(doc_id, held.etag if held else None)
        parser_id = parser_id_today(held.parser_id) if held else None
        if (
            held
            and planning.is_confirmed(item, held, etag=etag, parser_id=parser_id)
            and doc_id not in self.last_failures
        ):
            if held.content_sha256 in self.erased.get(doc_id, ()):
                self._erase(held)
                return
            self._keep(doc_id, etag)
            return
        try:
            fetched = retried(lambda: source.fetch(item, iso(self.clock())))
            self._compare(source, item, doc_id, held, fetched)
        except SkippedDocumentError as error:
            self.plan.skipped.append((doc_id, str(error)))
            self.listed.discard(doc_id)
        except DocumentError as error:
            self.fail(doc_id, item.uri, str(error))

    def fail(self, doc_id: str, uri: str, reason: str) -> None:
        self.failed.add(doc_id)
        held = doc_id in self.plan.base.held
        last = self.last_failures.get(doc_id)
        since = last["since"] if last and last["reason"] == reason else iso(self.clock())
        self.plan.failures.append(Failure(doc_id, uri, reason, since, carried_over=held))

    def leave(self, complete: set[str], sections: Sequence[SourceSection], approve_removals: int) -> None:
        """Find what was removed and renamed, and hold back removals beyond each source's guard."""
        plan = self.plan
        gone = planning.removed(plan.base.held.values(), self.listed, complete, self.failed)
        erased = [h for h in gone if self.erased.get(h.doc_id, frozenset()) & {None, h.content_sha256}]
        plan.erased += [h for h in erased if h not in plan.erased]
        gone = [h for h in gone if h not in erased]
        plan.renamed = planning.pair_renames(gone, {doc_id: self.content[doc_id] for doc_id in plan.added})
        guards = {s.name: Guard(s.guard.removals, s.guard.removals_percent, s.guard.removals_most) for s in sections}
        for source in sorted({h.source for h in gone}):
            mine = [h for h in gone if h.source == source and h.doc_id not in plan.renamed]
            holding = sum(1 for h in plan.base.held.values() if h.source == source)
            if guards.get(source, Guard()).withholds(len(mine), holding):
                plan.removed += mine[:approve_removals]
                plan.withheld += mine[approve_removals:]
            else:
                plan.removed += mine

    def cut_again(self, progress: Progress) -> None:
        """Another chunker, analyzer or embedder: every document that stays is cut anew from its stored text."""
        plan = self.plan
        leaving = {h.doc_id for h in plan.gone} | {row.doc_id for row in plan.rows}
        staying = [held for doc_id, held in sorted(plan.base.held.items()) if doc_id not in leaving]
        for done, held in enumerate(staying):
            progress("cut", done, len(staying))
            parsed, row = plan.base.parsed(held)
            plan.rows.append(
                cut(
                    parsed,
                    plan.recipe,
                    source=held.source,
                    uri=held.uri,
                    content_sha256=held.content_sha256,
                    etag=self.plan.etags.get(held.doc_id, row["etag"]),
                    modified_at=row["modified_at"],
                    fetched_at=row["fetched_at"],
                )
            )

    def _compare(self, source: Source, item: Listed, doc_id: str, held: Held | None, fetched: Fetched) -> None:
        content = sha256(fetched.data)
        if content in self.erased.get(doc_id, ()):
            self._erase(held)
            return
        media_type = media_type_of(item.uri, fetched.data, fetched.media_type)
        parser_id = parser_id_for(media_type) if media_type else None
        if held and held.content_sha256 == content and held.parser_id == parser_id:
            self._keep(doc_id, fetched.etag)
            return
        row = cut(
            self.parser.parse(item.uri, fetched.data, media_type),
            self.plan.recipe,
            source=source.name,
            uri=item.uri,
            content_sha256=content,
            etag=fetched.etag,
            modified_at=fetched.modified_at,
            fetched_at=fetched.fetched_at,
        )
        self.plan.rows.append(row)
        self.content[doc_id] = content
        (self.plan.changed if held else self.plan.added).append(doc_id)

    def _keep(self, doc_id: str, etag: str | None) -> None:
        self.plan.unchanged += 1
        if etag is not None:
            self.plan.etags[doc_id] = etag

    def _erase(self, held: Held | None) -> None:
        if held:
            self.plan.erased.append(held)
