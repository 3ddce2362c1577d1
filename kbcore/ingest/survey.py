"""Making the plan of a refresh: list every source, fetch and build what the base does not hold, compare."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import closing
from importlib.metadata import version

from kbcore import planning
from kbcore.clock import Clock, iso
from kbcore.config import Config
from kbcore.errors import SourceError
from kbcore.fingerprint import short_id
from kbcore.ingest.base import Base
from kbcore.ingest.comparison import Comparison
from kbcore.ingest.documents import Raw, build_all
from kbcore.ingest.fetching import fetch_all, list_all
from kbcore.ingest.plan import Plan
from kbcore.ingest.recipe import Recipe
from kbcore.parsing import ParserPool, parser_ids
from kbcore.parsing.limits import ParseLimits
from kbcore.sources import Source
from kbcore.sources.source import Conditional
from kbcore.store.repository import ErasedIds
from kbcore.types import Json, Listing, Progress


def parse_limits(config: Config) -> ParseLimits:
    return ParseLimits(
        timeout_seconds=config.limits.parse_seconds, memory_bytes=config.limits.parse_memory_mb * 1024 * 1024
    )


def failing_settings(config: Config) -> dict[str, str]:
    """For each source, a digest of what may make a document fail today and not tomorrow: limits, parsers, version."""
    common = {"limits": config.limits.model_dump(), "parsers": parser_ids(), "version": version("kbcore")}
    return {section.name: short_id({**common, "max_bytes": section.max_bytes}) for section in config.sources}


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
    confirmed: Mapping[str, str | None],
    approve_removals: int = 0,
    retry_failed: bool = False,
    progress: Progress,
) -> Plan:
    """List every source, fetch and parse what the listing does not confirm, and compare with the base.

    A source that cannot be listed is recorded and derives no removal. ``etags`` are validators newer than the base's,
    each with the digest of the bytes it stands for. ``last_check`` is what the run before saw: failures keep their
    ``since``, and those that this run did not look at stay failures. ``confirmed`` is when each source was last listed
    in full for the base. Where no source could be listed, ``Plan.unheard`` says why.
    """
    plan = Plan(base, recipe, rebuild=base.manifest is not None and not recipe.made(base.manifest))
    # What a refused run left out rests no longer than until the next one: it may be all that keeps it from publishing.
    retry_failed = retry_failed or last_check.get("outcome") == "refused"
    failed_before = {entry["doc_id"]: entry for entry in last_check.get("exceptions", ())}
    comparison = Comparison(
        plan, clock, erased, etags, failed_before, retry_failed=retry_failed, settings=failing_settings(config)
    )
    errors: list[SourceError] = []
    listings: list[tuple[Source, Listing]] = []
    for source in sources:
        progress("list", len(listings), len(sources))
        at = iso(clock())
        if isinstance(source, Conditional):
            source.known(comparison.known(source.name))
        try:
            listing = list_all(source, at)
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
        plan.unheard = errors[0]
    total = sum(len(listing.items) for _, listing in listings)
    done = 0

    def seen() -> None:
        nonlocal done
        progress("read", done, total)
        done += 1

    def raws() -> Generator[Raw, None, None]:
        for source, listing in listings:
            for uri, reason in listing.problems:
                comparison.fail(planning.document_id(source.name, uri), uri, reason)
            wanted = comparison.to_fetch(source, listing.items, seen)
            yield from comparison.to_build(source, fetch_all(source, wanted, lambda: iso(clock())))

    limits = parse_limits(config)
    # Closed at once where something goes wrong: threads that fetch end before their source is given up.
    with closing(raws()) as stream:
        for raw, built in build_all(stream, recipe, parser, limits=limits, executor=executor):
            comparison.take(raw, built)
    progress("read", total, total)
    heard = [listing for _, listing in listings]
    comparison.carry_failures(heard, {source.name for source in sources} - {listing.source for listing in heard})
    comparison.keep_unseen(heard)
    comparison.leave({listing.source for _, listing in listings if listing.complete}, config.sources, approve_removals)
    if plan.rebuild:
        again = comparison.to_cut_again(progress)
        for raw, built in build_all(again, recipe, parser, limits=limits, executor=executor):
            comparison.take_again(raw, built)
    return plan
