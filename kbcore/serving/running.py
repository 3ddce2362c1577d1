"""Running an ASGI application on a socket of our own, with bounds on what callers may hold open."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

from kbcore.errors import UsageError

CONNECTIONS = 1_000
HEADER_SECONDS = 10.0


def listening(host: str, port: int) -> socket.socket:
    """A socket that listens; port 0 is any free one. UsageError where it cannot."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host.strip("[]"), port), family=family, backlog=CONNECTIONS)
    except (OSError, OverflowError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise UsageError(
            f"cannot listen on {host} port {port}: {why}", remedy="choose another --port or --host"
        ) from None


def address(listener: socket.socket) -> str:
    """Where it listens, as a URL."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def run(app: Any, listener: socket.socket) -> None:
    """Serve until SIGINT or SIGTERM. Running requests get five seconds to end; beyond ``CONNECTIONS`` callers hear 503.
    A connection on which no request has begun after ten seconds is closed, so that nobody keeps the places of others."""
    import uvicorn
    from uvicorn.protocols.http.h11_impl import H11Protocol

    class Impatient(H11Protocol):
        """Uvicorn itself waits for the headers of a request for as long as they take."""

        _waiting: asyncio.TimerHandle | None = None

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._wait()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            if self.cycle is not None and not self.cycle.response_complete:
                self._stop()
            elif self._waiting is None:
                self._wait()

        def connection_lost(self, exc: Exception | None) -> None:
            self._stop()
            super().connection_lost(exc)

        def _wait(self) -> None:
            self._waiting = self.loop.call_later(HEADER_SECONDS, self._give_up)

        def _stop(self) -> None:
            if self._waiting is not None:
                self._waiting.cancel()
                self._waiting = None

        def _give_up(self) -> None:
            self._waiting = None
            # A request that came and went while this waited has left the connection idle, which uvicorn ends itself.
            if self.cycle is None or self.cycle.response_complete:
                self.transport.close()

    config = uvicorn.Config(
        app,
        http=Impatient,
        log_config=None,
        access_log=False,
        server_header=False,
        limit_concurrency=CONNECTIONS,
        h11_max_incomplete_event_size=64 * 1024,
        timeout_keep_alive=5,
        timeout_graceful_shutdown=5,
        ws="none",
    )
    uvicorn.Server(config).run(sockets=[listener])
