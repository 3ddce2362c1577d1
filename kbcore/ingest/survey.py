"""Making the plan of a refresh: list every source, fetch and build what the base does not hold, compare."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor

from kbcore import planning
from kbcore.clock import Clock, iso
from kbcore.config import Config
from kbcore.errors import SourceError
from kbcore.ingest.base import Base
from kbcore.ingest.comparison import Comparison
from kbcore.ingest.documents import Raw, build_all
from kbcore.ingest.fetching import fetch_all
from kbcore.ingest.plan import Plan
from kbcore.ingest.recipe import Recipe
from kbcore.ingest.retry import retried
from kbcore.parsing import ParserPool
from kbcore.parsing.limits import ParseLimits
from kbcore.sources import Source
from kbcore.sources.source import Conditional
from kbcore.store.repository import ErasedIds
from kbcore.types import Json, Listing, Progress


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
    executor: Callable[[], Executor | None],
    clock: Clock,
    erased: ErasedIds,
    etags: Mapping[str, tuple[str, str]],
    last_check: Json,
    approve_removals: int = 0,
    retry_failed: bool = False,
    progress: Progress,
) -> Plan:
    """List every source, fetch and parse what the listing does not confirm, and compare with the base.

    A source that cannot be listed is recorded and derives no removal. ``etags`` are validators newer than the base's,
    each with the digest of the bytes it stands for. ``last_check`` is what the run before saw: failures keep their
    ``since``, and those that this run did not look at stay failures. SourceError if no source could be listed.
    """
    plan = Plan(base, recipe, rebuild=base.manifest is not None and not recipe.made(base.manifest))
    confirmed = {entry["name"]: entry.get("confirmed_at") for entry in last_check.get("sources", ())}
    failed_before = {entry["doc_id"]: entry for entry in last_check.get("exceptions", ())}
    comparison = Comparison(plan, clock, erased, etags, failed_before, retry_failed=retry_failed)
    errors: list[SourceError] = []
    listings: list[tuple[Source, Listing]] = []
    for source in sources:
        progress("list", len(listings), len(sources))
        at = iso(clock())
        if isinstance(source, Conditional):
            source.known(comparison.known(source.name))
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
                    "confirmed_at": confirmed.get(source.name),
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
                "confirmed_at": at if listing.complete else confirmed.get(source.name),
                "items": len(listing.items),
                **({"version": listing.version} if listing.version else {}),
            }
        )
    progress("list", len(sources), len(sources))
    if errors and not listings:
        raise errors[0]
    total = sum(len(listing.items) for _, listing in listings)
    done = 0

    def seen() -> None:
        nonlocal done
        progress("read", done, total)
        done += 1

    def raws() -> Iterator[Raw]:
        for source, listing in listings:
            for uri, reason in listing.problems:
                comparison.fail(planning.document_id(source.name, uri), uri, reason)
            wanted = comparison.to_fetch(source, listing.items, seen)
            yield from comparison.to_build(source, fetch_all(source, wanted, lambda: iso(clock())))

    limits = parse_limits(config)
    for raw, built in build_all(raws(), recipe, parser, limits=limits, executor=executor):
        comparison.take(raw, built)
    progress("read", total, total)
    comparison.carry_failures(unheard={source.name for source in sources} - {listing.source for _, listing in listings})
    comparison.keep_unseen([listing for _, listing in listings])
    comparison.leave({listing.source for _, listing in listings if listing.complete}, config.sources, approve_removals)
    if plan.rebuild:
        again = comparison.to_cut_again(progress)
        for raw, built in build_all(again, recipe, parser, limits=limits, executor=executor):
            comparison.take_again(raw, built)
    return plan
