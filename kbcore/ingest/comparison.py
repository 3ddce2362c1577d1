"""What the sources list and give, held against what the base holds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta

from kbcore import planning
from kbcore.clock import Clock, iso, parse
from kbcore.config import SourceSection
from kbcore.errors import DocumentError, SkippedDocumentError
from kbcore.fingerprint import sha256
from kbcore.ingest.documents import Built, Raw, Refusal
from kbcore.ingest.plan import Plan
from kbcore.parsing import media_type_of, parser_id_for, parser_id_today
from kbcore.planning import Guard, Held
from kbcore.sources import Source
from kbcore.store.repository import ErasedIds
from kbcore.types import Failure, Fetched, Json, Listed, Listing, Progress


class Comparison:
    """Fills a plan: what is listed against what the base holds."""

    def __init__(
        self,
        plan: Plan,
        clock: Clock,
        erased: ErasedIds,
        etags: Mapping[str, tuple[str, str]],
        last_failures: Mapping[str, Json],
        *,
        retry_failed: bool = False,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self.plan = plan
        self.clock = clock
        self.erased = erased
        self.etags = etags
        self.last_failures = last_failures
        self.retry_failed = retry_failed
        self.settings = settings or {}
        self.listed: set[str] = set()
        self.failed: set[str] = set()
        self.content: dict[str, str] = {}
        self.validators: dict[str, str | None] = {}

    def known(self, source: str) -> dict[str, str | None]:
        """URI to the newest validator of each document held of ``source``; None where no listing may confirm it."""
        found: dict[str, str | None] = {}
        for doc_id, held in self.plan.base.held.items():
            if held.source == source:
                usable = doc_id not in self.last_failures and parser_id_today(held.parser_id) == held.parser_id
                found[held.uri] = self._validator(doc_id, held) if usable else None
        return found

    def to_fetch(self, source: Source, items: Iterable[Listed], seen: Callable[[], None]) -> Iterator[Listed]:
        """The items that their validators do not confirm, and that are not erased; ``seen`` is called for each item."""
        for item in items:
            seen()
            doc_id = planning.document_id(source.name, item.uri)
            held = self.plan.base.held.get(doc_id)
            if doc_id in self.listed:
                continue  # a source that lists an item twice: a release holds each document once
            self.listed.add(doc_id)
            if None in self.erased.get(doc_id, ()):
                self._erase(held)
                continue
            etag = self._validator(doc_id, held)
            parser_id = parser_id_today(held.parser_id) if held else None
            confirmed = planning.is_confirmed(item, held, etag=etag, parser_id=parser_id)
            if held and confirmed and doc_id not in self.last_failures:
                if held.content_sha256 in self.erased.get(doc_id, ()):
                    self._erase(held)
                else:
                    self._keep(doc_id, etag)
                continue
            if self._rests(doc_id, item):
                self._carry(doc_id, self.last_failures[doc_id])
                continue
            self.validators[doc_id] = item.etag
            yield item

    def to_build(self, source: Source, fetched: Iterable[tuple[Listed, Fetched | DocumentError]]) -> Iterator[Raw]:
        """The fetched items whose bytes the base does not hold, or does not hold as today's parser reads them."""
        for item, found in fetched:
            doc_id = planning.document_id(source.name, item.uri)
            if isinstance(found, SkippedDocumentError):
                self._skip(doc_id, str(found))
                continue
            if isinstance(found, DocumentError):
                self.fail(doc_id, item.uri, str(found), item.etag, transient=found.transient)
                continue
            held = self.plan.base.held.get(doc_id)
            content = sha256(found.data)
            if content in self.erased.get(doc_id, ()):
                self._erase(held)
                continue
            media_type = media_type_of(item.uri, found.data, found.media_type)
            parser_id = parser_id_for(media_type) if media_type else None
            if held and held.content_sha256 == content and held.parser_id == parser_id:
                self._keep(doc_id, found.etag)
                continue
            yield Raw(
                source=source.name,
                uri=item.uri,
                data=found.data,
                media_type=media_type,
                content_sha256=content,
                etag=found.etag,
                modified_at=found.modified_at,
                fetched_at=found.fetched_at,
            )

    def take(self, raw: Raw, built: Built) -> None:
        """What became of one document."""
        doc_id = planning.document_id(raw.source, raw.uri)
        if isinstance(built, Refusal):
            if built.skipped:
                self._skip(doc_id, built.reason)
            else:
                self.fail(doc_id, raw.uri, built.reason, self.validators.get(doc_id))
            return
        self.plan.rows.append(built)
        self.content[doc_id] = raw.content_sha256
        (self.plan.changed if doc_id in self.plan.base.held else self.plan.added).append(doc_id)

    def take_again(self, raw: Raw, built: Built) -> None:
        """A document that was cut anew: its bytes are the base's, so it counts as unchanged."""
        if isinstance(built, Refusal):
            raise DocumentError(f"{raw.source}:{raw.uri} could not be cut anew: {built.reason}")
        self.plan.rows.append(built)

    def _skip(self, doc_id: str, reason: str) -> None:
        """There is nothing to index in it: it counts as not there."""
        self.plan.skipped.append((doc_id, reason))
        self.listed.discard(doc_id)

    def fail(self, doc_id: str, uri: str, reason: str, etag: str | None = None, *, transient: bool = False) -> None:
        self.failed.add(doc_id)
        last = self.last_failures.get(doc_id)
        same = last is not None and last["reason"] == reason
        tries = (last or {}).get("tries", 1) + 1 if same else 1
        now = self.clock()
        self.plan.failures.append(
            Failure(
                doc_id,
                uri,
                reason,
                since=last["since"] if last and same else iso(now),
                carried_over=doc_id in self.plan.base.held,
                tries=tries,
                retry_at=None if transient else iso(now + timedelta(hours=planning.retry_hours(tries))),
                etag=etag,
                with_settings=self.settings.get(doc_id.split(":", 1)[0]),
            )
        )

    def carry_failures(self, listings: Sequence[Listing], unheard: set[str]) -> None:
        """The failures of documents that this run did not look at: nothing says that they are mended. Their source could
        not be asked (``unheard``), was not listed in full, or did not look where they lie."""
        partly = {listing.source for listing in listings if not listing.complete}
        blind = {listing.source: tuple(listing.unseen) for listing in listings}
        for doc_id, entry in self.last_failures.items():
            if doc_id in self.failed or doc_id in self.listed:
                continue
            source, _, uri = doc_id.partition(":")
            if source in unheard | partly or uri.startswith(blind.get(source, ())):
                self._carry(doc_id, entry)

    def _carry(self, doc_id: str, entry: Json) -> None:
        self.failed.add(doc_id)
        known = {key: value for key, value in entry.items() if key not in ("doc_id", "carried_over")}
        self.plan.failures.append(Failure(doc_id=doc_id, carried_over=doc_id in self.plan.base.held, **known))

    def _rests(self, doc_id: str, item: Listed) -> bool:
        """Whether a document that failed is left alone for now: the same bytes, as far as its source says, and its time
        has not come."""
        entry = self.last_failures.get(doc_id)
        retry_at = (entry or {}).get("retry_at")
        if (
            entry is None
            or self.retry_failed
            or entry.get("with_settings") != self.settings.get(doc_id.split(":", 1)[0])
        ):
            return False
        if not retry_at or self.clock() >= parse(retry_at):
            return False
        return item.etag is not None and item.etag == entry.get("etag")

    def keep_unseen(self, listings: Sequence[Listing]) -> None:
        """What lies where a source did not look is not taken for removed."""
        for listing in listings:
            for held in self.plan.base.held.values():
                if held.source == listing.source and held.uri.startswith(tuple(listing.unseen)):
                    self.failed.add(held.doc_id)

    def leave(self, complete: set[str], sections: Sequence[SourceSection], approve_removals: int) -> None:
        """Find what was removed and renamed, and hold back removals beyond each source's guard.

        Documents of a source that is not configured any more are removals too; all of them wait for a person. So does
        one whose file name is that of a new document that failed: it may be the same one under another id.
        """
        plan = self.plan
        dropped = {h.source for h in plan.base.held.values()} - {section.name for section in sections}
        gone = planning.removed(plan.base.held.values(), self.listed, complete | dropped, self.failed)
        # Erasures count whether or not their source could be listed: a document cut anew must not bring them back.
        rewritten = {row.doc_id for row in plan.rows}
        already = {h.doc_id for h in plan.erased}
        plan.erased += [
            h
            for h in plan.base.held.values()
            if h.doc_id not in already | rewritten and self.erased.get(h.doc_id, frozenset()) & {None, h.content_sha256}
        ]
        already = {h.doc_id for h in plan.erased}
        gone = [h for h in gone if h.doc_id not in already]
        plan.failures = [replace(f, carried_over=f.carried_over and f.doc_id not in already) for f in plan.failures]
        plan.renamed = planning.pair_renames(gone, {doc_id: self.content[doc_id] for doc_id in plan.added})
        guards = {s.name: Guard(s.guard.removals, s.guard.removals_percent, s.guard.removals_most) for s in sections}
        arriving = {_file_name(f.uri) for f in plan.failures if f.doc_id not in plan.base.held}
        approved = approve_removals
        for source in sorted({h.source for h in gone}):
            mine = [h for h in gone if h.source == source and h.doc_id not in plan.renamed]
            holding = sum(1 for h in plan.base.held.values() if h.source == source)
            waiting = mine
            if source in guards and not guards[source].withholds(len(mine), holding):
                waiting = [h for h in mine if _file_name(h.uri) in arriving]
                plan.removed += [h for h in mine if _file_name(h.uri) not in arriving]
            plan.removed += waiting[:approved]
            plan.withheld += waiting[approved:]
            approved -= min(approved, len(waiting))

    def to_cut_again(self, progress: Progress) -> Iterator[Raw]:
        """Another chunker, analyzer or embedder: every document that stays, as the base holds it."""
        plan = self.plan
        leaving = {h.doc_id for h in plan.gone} | {row.doc_id for row in plan.rows}
        staying = [held for doc_id, held in sorted(plan.base.held.items()) if doc_id not in leaving]
        for done, held in enumerate(staying):
            progress("cut", done, len(staying))
            parsed, row = plan.base.parsed(held)
            yield Raw(
                source=held.source,
                uri=held.uri,
                data=b"",
                media_type=parsed.media_type,
                content_sha256=held.content_sha256,
                etag=plan.etags.get(held.doc_id, row["etag"]),
                modified_at=row["modified_at"],
                fetched_at=row["fetched_at"],
                parsed=parsed,
            )

    def _validator(self, doc_id: str, held: Held | None) -> str | None:
        """The newest validator known for the bytes that the base holds. One that stands for other bytes is none: the
        cache may be newer than the manifests, as after a restore."""
        if held is None:
            return None
        etag, content = self.etags.get(doc_id, (None, None))
        return etag if content == held.content_sha256 else held.etag

    def _keep(self, doc_id: str, etag: str | None) -> None:
        self.plan.unchanged += 1
        if etag is not None:
            self.plan.etags[doc_id] = etag

    def _erase(self, held: Held | None) -> None:
        if held:
            self.plan.erased.append(held)


def _file_name(uri: str) -> str:
    return uri.rstrip("/").rsplit("/", 1)[-1]
