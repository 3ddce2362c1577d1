"""Routes that move readers: promote, roll back, hold. Operators only; a reason and the record last seen are required."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Annotated

from fastapi import APIRouter, Header, Request
from starlette.responses import Response

from kbcore import promotion
from kbcore.fingerprint import sha256
from kbcore.serving.access import Caller
from kbcore.serving.bases import Base
from kbcore.serving.http import answers, models
from kbcore.serving.http.service import Answered, Named, Service, Serving, answer, dumps, run
from kbcore.store.promotion import Promotion
from kbcore.store.repository import Repository, Run

router = APIRouter(prefix="/v1/{kb}", tags=["operators"])
IdempotencyKey = Annotated[
    str | None,
    Header(description="Random; a request with the same key and body is answered as the first was, and done once."),
]
FOLLOW_SECONDS = 5.0
OPERATOR_ACTS = frozenset({"promote", "rollback", "hold"})
Move = Callable[[Repository, Run], Promotion]


def needs_operator(method: str, path: str) -> bool:
    """Whether a request moves readers."""
    parts = path.strip("/").split("/")
    return method == "POST" and len(parts) == 3 and parts[0] == "v1" and parts[2] in OPERATOR_ACTS


@router.post("/promote", response_model=answers.MovedAnswer)
async def promote(
    kb: Named, service: Serving, request: Request, asked: models.PromoteBody, idempotency_key: IdempotencyKey = None
) -> Response:
    """Make a release current, after checking that it is whole and can be searched."""

    def move(repository: Repository, made: Run) -> Promotion:
        return promotion.promote(
            repository, repository.resolve(asked.release), kb.base.catalog,
            reason=asked.reason, run=made, lift=asked.lift, expected=asked.expected_seq,
        )  # fmt: skip

    return await _move(kb, service, request, asked, idempotency_key, move)


@router.post("/rollback", response_model=answers.MovedAnswer)
async def rollback(
    kb: Named, service: Serving, request: Request, asked: models.RollbackBody, idempotency_key: IdempotencyKey = None
) -> Response:
    """Go back to a release that was current before; sets a hold and blocks the content that is left."""

    def move(repository: Repository, made: Run) -> Promotion:
        return promotion.rollback(
            repository, kb.base.catalog, to=repository.resolve(asked.to) if asked.to else None,
            reason=asked.reason, run=made, expected=asked.expected_seq,
        )  # fmt: skip

    return await _move(kb, service, request, asked, idempotency_key, move)


@router.post("/hold", response_model=answers.MovedAnswer)
async def hold(
    kb: Named, service: Serving, request: Request, asked: models.HoldBody, idempotency_key: IdempotencyKey = None
) -> Response:
    """Let no schedule promote anything until the hold is lifted; or lift it."""
    change = promotion.lift if asked.lift else promotion.hold

    def move(repository: Repository, made: Run) -> Promotion:
        return change(repository, reason=asked.reason, run=made, expected=asked.expected_seq)

    return await _move(kb, service, request, asked, idempotency_key, move)


def _followed(kb: Base, record: Promotion) -> str:
    """Wait a little for the release that was moved to: whoever asks next expects to be answered from it."""
    live = kb.live()
    end = time.monotonic() + FOLLOW_SECONDS
    while live.release != record.release and live.problem is None and time.monotonic() < end:
        time.sleep(0.05)
    return live.release


async def _move(
    kb: Base, service: Service, request: Request, asked: models.MoveBody, key: str | None, move: Move
) -> Response:
    caller: Caller = request.state.caller
    act = request.url.path.rsplit("/", 1)[-1]

    def moved() -> Answered:
        started = time.perf_counter()
        repository = kb.base.repository
        before = repository.state().release
        record = move(repository, repository.begin(caller.name))
        seconds = round(time.perf_counter() - started, 3)
        body = {**record.to_body(), "from": before, "answering": _followed(kb, record), "seconds": seconds}
        return answer(body, record.release)

    async def once() -> Response:
        return await run(service.moving, moved)

    if key is None:
        return await once()
    digest = sha256(dumps(asked.model_dump(mode="json"))).encode()
    return await service.remembered.once((kb.name, act, caller.name, key), digest, once)
