"""Routes for those who watch a server: is it there, does it answer, and in what figures."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from kbcore.serving.failures import HEADERS, JSON_TYPE
from kbcore.serving.http import answers
from kbcore.serving.http.metrics import CONTENT_TYPE
from kbcore.serving.http.service import Serving, dumps

router = APIRouter(tags=["health"])
OPEN_PATHS = frozenset({"/health/live", "/health/ready"})
"""Answered without a token: they say no more than whether, and which names."""
UNOBSERVED = OPEN_PATHS | {"/metrics"}
"""Asked by machines every few seconds: no trace is made of them."""


@router.get("/health/live", response_model=answers.HealthAnswer)
async def live() -> Response:
    """Whether the server runs. Needs no token."""
    return Response(dumps({"status": "ok"}), 200, HEADERS, JSON_TYPE)


@router.get(
    "/health/ready",
    response_model=answers.HealthAnswer,
    responses={503: {"model": answers.NotReadyAnswer, "description": "The names of those that do not answer."}},
)
async def ready(service: Serving) -> Response:
    """Whether every knowledge base answers a real search from the release that was promoted. Needs no token."""
    missing = await service.readiness.missing()
    if missing:
        return Response(dumps({"status": "not ready", "not_ready": missing}), 503, HEADERS, JSON_TYPE)
    return Response(dumps({"status": "ok"}), 200, HEADERS, JSON_TYPE)


# Balancers and wget --spider ask by HEAD.
router.head("/health/live", include_in_schema=False)(live)
router.head("/health/ready", include_in_schema=False)(ready)


@router.get(
    "/metrics",
    response_class=Response,
    responses={
        200: {"content": {"text/plain": {"schema": {"type": "string"}}}, "description": "Prometheus' text format."}
    },
)
async def metrics(service: Serving) -> Response:
    """Figures of this server since it started."""
    text = await service.probing.run(service.metrics.text)
    return Response(text, 200, {**HEADERS, "content-type": CONTENT_TYPE})
