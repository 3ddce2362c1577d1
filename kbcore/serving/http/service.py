"""What the routes share: the knowledge bases, the threads, the figures; and answers as bytes."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, Any

from fastapi import Depends, Path, Request
from starlette.responses import Response

from kbcore.errors import KbError
from kbcore.serving.bases import Base, Bases
from kbcore.serving.failures import HEADERS, JSON_TYPE, Refusal, refusal_of
from kbcore.serving.http.conditional import matches, of_body
from kbcore.serving.http.idempotency import Remembered
from kbcore.serving.http.metrics import Metrics
from kbcore.serving.http.readiness import Readiness
from kbcore.serving.pools import Pool


@dataclass(frozen=True, slots=True)
class Limits:
    """``searching``: questions to the current release. ``reading``: other releases, which may have to be opened first, and
    comparisons. One thread moves readers, and what it began it ends."""

    workers: int = 4
    waiting: int = 64
    search_seconds: float = 5.0
    read_seconds: float = 30.0


class Service:
    def __init__(self, bases: Bases, limits: Limits | None = None, *, log_queries: bool = False) -> None:
        limits = limits or Limits()
        self.bases = bases
        self.log_queries = log_queries
        self.remembered = Remembered()
        self.searching = Pool("search", threads=limits.workers, waiting=limits.waiting, seconds=limits.search_seconds)
        self.reading = Pool("read", threads=2, waiting=16, seconds=limits.read_seconds)
        self.moving = Pool("move", threads=1, waiting=8, seconds=None)
        self.probing = Pool("probe", threads=1, waiting=8, seconds=limits.search_seconds)
        self.pools = {pool.name: pool for pool in (self.searching, self.reading, self.moving, self.probing)}
        self.metrics = Metrics(bases, self.pools)
        self.readiness = Readiness(bases, self.probing)

    def close(self) -> None:
        for pool in self.pools.values():
            pool.close()


@dataclass(frozen=True, slots=True)
class Answered:
    """What a thread came to: the body, the release it is of, and, where asked for, a validator. ``body`` is None where the
    caller holds it already."""

    body: bytes | None
    release: str | None
    tag: str | None = None
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)

    def response(self) -> Response:
        headers = {**HEADERS, **self.headers}
        if self.release:
            headers["kb-release"] = self.release
        if self.tag:
            headers |= {"etag": self.tag, "cache-control": "private, no-cache", "vary": "Authorization"}
        if self.body is None:
            return Response(status_code=304, headers=headers)
        return Response(self.body, self.status, headers, JSON_TYPE)


def answer(body: dict[str, Any], release: str | None) -> Answered:
    return Answered(dumps(body), release)


def validated(body: dict[str, Any], release: str | None, if_none_match: str | None) -> Answered:
    """With a validator made of the body itself: 304 where the caller holds just this."""
    data = dumps(body)
    tag = of_body(data)
    return Answered(None if matches(tag, if_none_match) else data, release, tag)


def dumps(body: Any) -> bytes:
    return json.dumps(body, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()


async def run(pool: Pool, call: Callable[..., Answered], *arguments: Any) -> Response:
    """The response of a call made in a thread of ``pool``. Refusal where it raised."""
    try:
        return (await pool.run(call, *arguments)).response()
    except (KbError, OSError, MemoryError) as error:
        raise refusal_of(error) from error


def service_of(request: Request) -> Service:
    found: Service = request.app.state.service
    return found


def base_of(
    kb: Annotated[str, Path(max_length=100, description="The name of a knowledge base; GET /v1 lists them.")],
    request: Request,
) -> Base:
    """Refusal (404) where no such knowledge base is served."""
    bases = service_of(request).bases
    if kb not in bases:
        raise Refusal(404, "NotFound", f"there is no knowledge base {kb[:100]!r} here", "GET /v1 lists them")
    return bases[kb]


Serving = Annotated[Service, Depends(service_of)]
Named = Annotated[Base, Depends(base_of)]
