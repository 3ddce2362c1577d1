"""Every request counted and logged, and no failure of ours told to a caller."""

from __future__ import annotations

import time
from collections.abc import Callable

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from kbcore import telemetry
from kbcore.serving.failures import internal, response
from kbcore.serving.logs import log, request_line

MAX_PATH = 200
NO_ROUTE = "none"
TRACE_HEADERS = (b"traceparent", b"tracestate")


class Recorder:
    """The outermost middleware. ``answered`` is told the route, the method, the status and the seconds of each request."""

    def __init__(self, app: ASGIApp, *, answered: Callable[[str, str, int, float], None] = lambda *_: None) -> None:
        self.app = app
        self.answered = answered

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started = time.perf_counter()
        status = 0
        release: str | None = None

        async def sending(message: Message) -> None:
            nonlocal status, release
            if message["type"] == "http.response.start":
                status = message["status"]
                release = next((value.decode() for name, value in message["headers"] if name == b"kb-release"), None)
            await send(message)

        state = scope.setdefault("state", {})
        trace = {name.decode(): value.decode("latin-1") for name, value in scope["headers"] if name in TRACE_HEADERS}
        try:
            with telemetry.within(trace):
                await self.app(scope, receive, sending)
        except Exception:
            log.exception("a request failed", extra={"fields": {"path": scope["path"][:MAX_PATH]}})
            if not status:
                await response(internal())(scope, receive, sending)
        seconds = time.perf_counter() - started
        route = getattr(scope.get("route"), "path", NO_ROUTE)
        self.answered(route, scope["method"], status, seconds)
        caller = state.get("caller")
        # The query string is left out: it holds the question.
        request_line(
            method=scope["method"][:20],
            path=scope["path"][:MAX_PATH],
            status=status,
            ms=round(seconds * 1000, 1),
            release=release,
            client=scope["client"][0] if scope.get("client") else None,
            caller=caller.name if caller else None,
            error=state.get("error"),
            query=state.get("query"),
        )
