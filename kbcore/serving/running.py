"""Running a server on a socket of our own; clients that are slow, silent, or many hold no connection longer than it is worth."""

from __future__ import annotations

import asyncio
import errno
import signal
import socket
from collections.abc import Callable
from dataclasses import dataclass, replace
from types import FrameType
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from kbcore.errors import UsageError
from kbcore.serving.failures import Refusal, body_of

BACKLOG = 256
"""How many connections are taken up at one go, before those that are too many are ended."""
RESERVED_DESCRIPTORS = 512
KEEP_ALIVE_SECONDS = 15
GRACE_SECONDS = 30
MAX_HEAD = 65_536


@dataclass(frozen=True, slots=True)
class Patience:
    """Seconds: for the head of a request to arrive whole, for a client to take what it was sent, and between the end of a
    connection and its being cut where the client does not end it. ``connections`` at most are open."""

    head: float = 10.0
    taking: float = 30.0
    closing: float = 5.0
    connections: int = 2_000


class Connection(H11Protocol):
    """uvicorn's protocol, with an end to every wait. Where as many are open as may be, the one that has waited longest
    without asking anything makes room: whoever opens many and asks nothing keeps nobody else out."""

    patience = Patience()
    idle: dict[Connection, None]  # in the order in which they began to wait

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._head_timer: asyncio.TimerHandle | None = None
        self._taking_timer: asyncio.TimerHandle | None = None
        self._leaving = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > self.patience.connections:
            oldest = next(iter(self.idle), None)
            if oldest is None:
                self._end(_FULL)
                return
            oldest._end()
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        self._stop(self._taking_timer)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._leaving:
            return
        super().data_received(data)
        # Whether a head is whole is what h11 says: until then the client's state is idle.
        if self.conn.their_state is h11.IDLE:
            if self._head_timer is None and not self._answering():
                self._wait()
        else:
            self._stop_waiting()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if not self.transport.is_closing() and self.timeout_keep_alive_task is not None:
            self.idle[self] = None

    def send_400_response(self, msg: str) -> None:
        """What is no HTTP, or a head of more than 64 kB. In the middle of an answer nothing can be said any more."""
        self._end(b"" if self._answering() else _BAD)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._taking_timer = self.loop.call_later(self.patience.taking, self.transport.abort)

    def resume_writing(self) -> None:
        self._stop(self._taking_timer)
        super().resume_writing()

    def timeout_keep_alive_handler(self) -> None:
        super().timeout_keep_alive_handler()
        self._cut_later()

    def shutdown(self) -> None:
        idle = not self._answering()
        super().shutdown()
        if idle:
            self._cut_later()

    def _answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _wait(self) -> None:
        self.idle[self] = None
        self._head_timer = self.loop.call_later(self.patience.head, self._end, _LATE)

    def _stop_waiting(self) -> None:
        self.idle.pop(self, None)
        self._stop(self._head_timer)
        self._head_timer = None

    def _end(self, last_words: bytes = b"") -> None:
        self._leaving = True
        self._stop_waiting()
        self._unset_keepalive_if_required()
        if not self.transport.is_closing():
            if last_words:
                self.transport.write(last_words)
            self.transport.close()
        # From here on it does not count among those that are open.
        self.connections.discard(self)
        self._cut_later()

    def _cut_later(self) -> None:
        self.idle.pop(self, None)
        self.loop.call_later(self.patience.closing, self.transport.abort)

    @staticmethod
    def _stop(timer: asyncio.TimerHandle | None) -> None:
        if timer is not None:
            timer.cancel()


def connections(patience: Patience) -> type[Connection]:
    """The protocol with this patience, and a list of its own of those that wait."""
    return type("Connection", (Connection,), {"patience": patience, "idle": {}})


def most_connections(wanted: int) -> int:
    """As many as wanted, fewer where the process may not open so many files."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < wanted + RESERVED_DESCRIPTORS and (soft < hard or hard < 0):
        soft = wanted + RESERVED_DESCRIPTORS if hard < 0 else min(hard, wanted + RESERVED_DESCRIPTORS)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    if soft == resource.RLIM_INFINITY:
        return wanted
    return max(16, min(wanted, soft - RESERVED_DESCRIPTORS))


def _raw(status: str, refusal: Refusal) -> bytes:
    """A whole response for a connection that has asked nothing that could be answered."""
    body = body_of(refusal)
    head = (
        f"HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\nretry-after: 1\r\n"
        "connection: close\r\n\r\n"
    )
    return head.encode() + body


_FULL = _raw(
    "503 Service Unavailable",
    Refusal(503, "Busy", "too many connections are open", "try again after the seconds in Retry-After"),
)
_LATE = _raw(
    "408 Request Timeout", Refusal(408, "TooSlow", "the head of the request did not arrive in time", "send it at once")
)
_BAD = _raw("400 Bad Request", Refusal(400, "InvalidHttp", "this is no HTTP request that can be read", "see RFC 9112"))


class _Server(uvicorn.Server):
    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """A signal ends the server and is not raised again afterwards: an end that was asked for is no failure."""
        if self.should_exit and sig == signal.SIGINT:
            self.force_exit = True
        self.should_exit = True


def run(app: Any, listener: socket.socket, started: Callable[[int], None], patience: Patience | None = None) -> None:
    """Serve until SIGTERM or SIGINT, and finish what is being answered then. ``started`` is told how many connections may be
    open, as soon as clients can connect."""
    chosen = patience or Patience()
    most = most_connections(chosen.connections)
    config = uvicorn.Config(
        app,
        http=connections(replace(chosen, connections=most)),
        ws="none",
        lifespan="on",
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
    listener.listen(BACKLOG)  # who is told of the server may connect at once
    started(most)
    _Server(config).run(sockets=[listener])


def bound(host: str, port: int) -> socket.socket:
    """A socket that is bound and not listening yet, so that a port that is taken is known before anything is opened; 0 is
    any free one. UsageError where it cannot be had."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host.strip("[]"), port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind, protocol)
    except (OSError, OverflowError) as error:
        said = getattr(error, "strerror", None) or str(error)
        raise UsageError(f"{host} is no address of this machine: {said}") from None
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


def url_of(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
