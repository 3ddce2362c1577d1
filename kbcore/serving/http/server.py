"""A server from its start, where every knowledge base is opened, to its end, where requests under way are finished."""

from __future__ import annotations

import errno
import signal
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import FrameType

import uvicorn

from kbcore.errors import ConfigError, KbError, UsageError
from kbcore.serving.bases import Bases
from kbcore.serving.http import logs
from kbcore.serving.http.access import VARIABLES, Access, is_loopback
from kbcore.serving.http.app import application
from kbcore.serving.http.connections import BACKLOG, Patience, connections, most_connections
from kbcore.serving.http.guard import allowed_hosts
from kbcore.serving.http.service import Limits, Service
from kbcore.types import Json

KEEP_ALIVE_SECONDS = 15
GRACE_SECONDS = 30
MAX_HEAD = 65_536


@dataclass(frozen=True, slots=True)
class Listening:
    """Where a server listens and what it takes. ``hosts`` are names it answers to beside those of this machine."""

    host: str = "127.0.0.1"
    port: int = 8000
    hosts: Sequence[str] = ()
    insecure: bool = False
    limits: Limits = field(default_factory=Limits)
    patience: Patience = field(default_factory=Patience)
    log_queries: bool = False


def serve(bases: Bases, at: Listening, environment: Mapping[str, str], started: Callable[[Json], None]) -> None:
    """Serve until SIGTERM or SIGINT. ``started`` is told what is served, and where, before the first request is taken.

    ConfigError for tokens that are too short, and for an address that others can reach where no tokens are set; UsageError
    where the address cannot be had; and whatever opening a knowledge base raises.
    """
    access = Access.of(environment, anyone=at.insecure)
    _check_reach(at, access)
    logs.write_to()
    with _bound(at.host, at.port) as listener:
        service = Service(bases, at.limits, log_queries=at.log_queries)
        opened = [_opened(name, bases) for name in bases]
        app = application(service, access, hosts=allowed_hosts(at.host, at.hosts))
        most = most_connections(at.patience.connections)
        patience = Patience(at.patience.head, at.patience.taking, at.patience.closing, most)
        server = _Server(
            uvicorn.Config(
                app,
                http=connections(patience),
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                # An X-Forwarded-For must never make a caller one of this machine.
                proxy_headers=False,
                server_header=False,
                h11_max_incomplete_event_size=MAX_HEAD,
                backlog=BACKLOG,
                timeout_keep_alive=KEEP_ALIVE_SECONDS,
                timeout_graceful_shutdown=GRACE_SECONDS,
            )
        )
        started({"url": _url(listener), "knowledge_bases": opened, "access": _said(access, at), "connections": most})
        try:
            server.run(sockets=[listener])
        finally:
            service.close()


class _Server(uvicorn.Server):
    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """A signal ends the server and is not raised again afterwards: an end that was asked for is no failure."""
        if self.should_exit and sig == signal.SIGINT:
            self.force_exit = True
        self.should_exit = True


def _check_reach(at: Listening, access: Access) -> None:
    if is_loopback(at.host) or access.configured or at.insecure:
        return
    raise ConfigError(
        f"{at.host} can be reached from other machines, and no tokens are set",
        remedy=f"set {VARIABLES['reader']} and {VARIABLES['operator']}, and put a proxy that speaks TLS in front; or "
        "--insecure, and everybody who reaches the port reads",
    )


def _opened(name: str, bases: Bases) -> Json:
    try:
        retriever = bases[name].live().current()
        # What fails at the first question would fail a caller: it is asked here.
        retriever.search("is anything there?", 1)
    except KbError as error:
        error.message = f"{name} cannot be served: {error.message}"
        raise
    totals = retriever.manifest.totals
    return {
        "name": name,
        "release": retriever.release,
        "mode": retriever.mode,
        "documents": totals["documents"],
        "chunks": totals["chunks"],
    }


def _bound(host: str, port: int) -> socket.socket:
    """Bound and not listening yet: a port that is taken is known before anything is opened."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind, protocol)
    except OSError as error:
        raise UsageError(f"{host} is no address of this machine: {error.strerror}") from None
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
    except OSError as error:
        listener.close()
        taken = error.errno == errno.EADDRINUSE
        raise UsageError(
            f"{host}:{port} {'is taken' if taken else f'cannot be had: {error.strerror}'}",
            remedy="choose another with: --port N (0: any that is free)",
        ) from None
    return listener


def _url(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _said(access: Access, at: Listening) -> str:
    if access.configured:
        said = "callers need a token" if access.operable else "callers need a token; nobody operates"
        return said if is_loopback(at.host) else f"{said}; put TLS in front, tokens travel in the clear"
    if is_loopback(at.host):
        return "programs on this machine read; nobody operates"
    return "everybody who reaches this port reads; nobody operates"
