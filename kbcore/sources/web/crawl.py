"""From first URLs to all pages: breadth first, in an order that does not depend on which answer comes first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

from kbcore.sources.web.http import PARALLEL
from kbcore.sources.web.memory import Remembered
from kbcore.sources.web.page import PageFacts
from kbcore.sources.web.scope import Scope
from kbcore.sources.web.visit import Visit, Visitor

# From so many pages on that were told apart before, one and the same answer is taken for an error or a login page.
SAME_ANSWERS = 4


@dataclass
class Found:
    """``visits`` by the URL that was asked, in the order they were found. ``complete`` is False where pages may exist
    that were not found; ``reasons`` say why."""

    visits: dict[str, Visit] = field(default_factory=dict)
    complete: bool = True
    reasons: list[str] = field(default_factory=list)

    def incomplete(self, reason: str) -> None:
        self.complete = False
        if reason not in self.reasons:
            self.reasons.append(reason)


def crawl(
    visitor: Visitor,
    scope: Scope,
    starts: Sequence[str],
    listed: Sequence[str],
    *,
    max_pages: int,
    max_depth: int,
    known: Mapping[str, str | None],
    memory: Mapping[str, Remembered],
) -> Found:
    """Visit ``starts``, what sitemaps ``listed`` and, where there are starts, what links lead to: at most ``max_pages``
    URLs and ``max_depth`` links far.

    Where there are more, those seen before come first, so that no page that is new takes the place of one that is held;
    it takes the place of one that is gone. The same site and the same base make the same choice: pages do not take
    turns. What fails for now is visited once more at the end. A page that fails is taken to have the links it had.
    """
    found = Found()
    depth = dict.fromkeys([*starts, *listed], 0)
    queue = list(depth)
    again: list[str] = []
    second = False
    before = {*starts, *(url for url in (*known, *memory) if scope.holds(url))}
    put_off: list[str] = []
    keeping = True
    max_pages = max(max_pages, len(starts))

    def chosen(queue: list[str]) -> list[str]:
        """Those to visit next; the others are put off, for the room that pages seen before may still need."""
        room = max_pages - len(found.visits)
        kept = len(before - found.visits.keys() - depth.keys()) if keeping else 0
        if len(queue) + kept <= room:
            return queue
        level = [url for url in queue if url in before][:room]
        level += [url for url in queue if url not in before][: max(0, room - len(level) - kept)]
        now = set(level)
        put_off.extend(url for url in queue if url not in now)
        return level

    def spread(first: Visit) -> None:
        """Follow the links of a visit; a page that is nearer than it seemed leads farther than it did."""
        waiting = [first]
        while waiting:
            visit = waiting.pop()
            if depth[visit.url] >= max_depth:
                continue
            for link in _links(visit, found, known, memory, scope):
                near = depth[visit.url] + 1
                if link not in depth:
                    if scope.follows(link):
                        depth[link] = near
                        queue.append(link)
                elif near < depth[link]:
                    depth[link] = near
                    if link in found.visits:
                        waiting.append(found.visits[link])

    while queue or put_off or again:
        if not queue:
            if put_off and len(found.visits) < max_pages:
                queue, put_off, keeping = put_off, [], False
            elif again:
                queue, again, second = again, [], True
            else:
                break
        level, queue = queue if second else chosen(queue), []
        for visit in _visits(visitor, level):
            found.visits[visit.url] = visit
            if visit.outcome == "over":
                found.incomplete("total_seconds were over before all pages were asked for")
            elif visit.outcome == "later" and not second:
                again.append(visit.url)
                continue
            if starts:
                spread(visit)
        second = False
    if put_off:
        found.incomplete(
            f"has more pages than max_pages ({max_pages}): {len(put_off)} that are linked or listed, and what they may "
            "lead to, were not asked for; raise max_pages of this source, or leave pages out with exclude"
        )
    return found


def settled(found: Found, known: Mapping[str, str | None], memory: Mapping[str, Remembered]) -> dict[str, Visit]:
    """The visits that stand for documents or for problems, by the URI they stand under.

    A page that names another one as its canonical form is left out if that one is a document; an address that is
    redirected to a page stands for that page.
    """
    odd = _same_answers(found, known, memory)
    pages: dict[str, Visit] = {}
    for url, visit in found.visits.items():
        if url in odd:
            pages[url] = replace(visit, outcome="problem", final=url, reason=odd[url])
        elif visit.outcome in ("later", "problem"):
            pages.setdefault(url, visit)
        elif visit.seen and not (visit.facts or PageFacts()).noindex:
            former = pages.get(visit.final)
            if former is None or not former.seen or (former.url != former.final and visit.url == visit.final):
                pages[visit.final] = visit
    return {
        uri: visit for uri, visit in pages.items() if not (visit.seen and _stands_for(visit, pages) not in (None, uri))
    }


def _stands_for(visit: Visit, pages: Mapping[str, Visit]) -> str | None:
    named = visit.facts.canonical if visit.facts else None
    target = pages.get(named) if named else None
    if target is None or not target.seen or target.final != named:
        return None
    own = target.facts.canonical if target.facts else None
    return named if own in (None, named) else None


def _same_answers(found: Found, known: Mapping[str, str | None], memory: Mapping[str, Remembered]) -> dict[str, str]:
    """Pages held that now answer like several others and did not do so before, with the reason."""
    groups: dict[str, list[str]] = {}
    for url, visit in found.visits.items():
        if not visit.seen or url not in known:
            continue
        if visit.final != url:
            groups.setdefault(visit.final, []).append(url)
        elif visit.digest and visit.etag != known[url]:
            remembered = memory.get(url)
            if remembered is None or remembered.digest != visit.digest:
                groups.setdefault(visit.digest, []).append(url)
    return {
        url: f"answers with the same page as {len(group) - 1} others: an error page or a login page?"
        for group in groups.values()
        if len(group) >= SAME_ANSWERS
        for url in group
    }


def _links(
    visit: Visit,
    found: Found,
    known: Mapping[str, str | None],
    memory: Mapping[str, Remembered],
    scope: Scope,
) -> tuple[str, ...]:
    if visit.seen:
        if visit.facts and visit.facts.cut:
            found.incomplete(f"{visit.url} is larger or has more links than are read")
        return visit.facts.links if visit.facts else ()
    if visit.outcome in ("later", "problem"):
        remembered = memory.get(visit.url)
        if remembered:
            return remembered.facts.links
        # Without any memory, as after a lost cache, a page that is no document may have led to some.
        lost = not memory and bool(known) and not scope.documents(visit.url)
        if visit.outcome == "later" or visit.url in known or lost:
            found.incomplete(f"{visit.url} {visit.reason}, and where it links to is not known")
    return ()


def _visits(visitor: Visitor, urls: Sequence[str]) -> Iterator[Visit]:
    with ThreadPoolExecutor(PARALLEL) as pool:
        try:
            yield from pool.map(visitor.visit, urls)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
