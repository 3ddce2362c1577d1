"""Running an ASGI application on a socket of our own, with bounds on what callers may hold open."""

from __future__ import annotations

import socket
from typing import Any

from kbcore.errors import UsageError

CONNECTIONS = 128


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
    """Serve until SIGINT or SIGTERM. Running requests get five seconds to end; beyond ``CONNECTIONS`` callers hear 503."""
    import uvicorn

    config = uvicorn.Config(
        app,
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
