"""The one module through which kbcore speaks HTTP to hosts that documents name.

A host is resolved once for each connection; every address it has must be public or allowed, and the connection goes to
the address that was looked at, with the name kept for TLS and Host. Redirects are followed here, each with the same
checks. A request has one deadline for all of it, and one bound for its bytes, as they come and once they are decoded.
Nothing is taken from the environment, and no cookie is kept.
"""

from __future__ import annotations

import functools
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from ipaddress import ip_address
from types import TracebackType
from typing import Any

import httpcore2
import httpx2

from kbcore.errors import HttpError
from kbcore.sources.web.addresses import Network, refusal
from kbcore.sources.web.inflate import Inflater, TooLargeError
from kbcore.sources.web.pace import Pace
from kbcore.sources.web.urls import Origin, normal, origin, shown

MAX_REDIRECTS = 5
PARALLEL = 4
REDIRECTS = frozenset({301, 302, 303, 307, 308})

Resolve = Callable[[str, int], Sequence[str]]
"""Addresses of a host; OSError where it has none."""


@dataclass(frozen=True, slots=True)
class HttpSettings:
    """``token`` is sent as a bearer token to ``origins`` and nowhere else. Times in seconds."""

    user_agent: str
    request_seconds: float = 30.0
    max_bytes: int = 50_000_000
    ports: tuple[int, ...] = (80, 443)
    allow_private: tuple[Network, ...] = ()
    token: str | None = field(default=None, repr=False)
    origins: frozenset[Origin] = frozenset()


@dataclass(frozen=True, slots=True)
class Answer:
    """``url`` is where the redirects ended, names of ``headers`` are in lower case, ``body`` is decoded."""

    url: str
    status: int
    headers: Mapping[str, str]
    body: bytes


class HttpClient:
    """GET requests, from several threads at once. Close it, or use it in a ``with``."""

    def __init__(
        self,
        settings: HttpSettings,
        pace: Pace,
        *,
        resolve: Resolve | None = None,
        context: ssl.SSLContext | None = None,
    ) -> None:
        self.settings = settings
        self._pace = pace
        self._transport = _Transport(settings, resolve or system_addresses, context)

    def get(
        self,
        url: str,
        *,
        check: Callable[[str], None] = lambda url: None,
        conditions: Callable[[str], Mapping[str, str]] = lambda url: {},
        max_bytes: int | None = None,
        until: float | None = None,
    ) -> Answer:
        """The answer, whatever its status, after at most five redirects.

        ``check`` raises for a URL (the first one, or the target of a redirect) that is not to be asked, ``conditions``
        gives headers for it; ``until`` is a time of ``time.monotonic`` after which nothing is asked any more. HttpError
        where there is no usable answer.
        """
        here = _checked(url)
        deadline = time.monotonic() + self.settings.request_seconds
        been = [here]
        while True:
            check(here)
            self._check_port(here)
            deadline += self._pace.wait(origin(here)[1], until)
            limit = deadline if until is None else min(deadline, until)
            answer = self._ask(here, conditions(here), max_bytes or self.settings.max_bytes, limit)
            if answer.status in (429, 503) and "retry-after" in answer.headers:
                self._pace.hold(origin(here)[1], answer.headers["retry-after"])
            if answer.status not in REDIRECTS:
                return answer
            location = answer.headers.get("location")
            if not location:
                raise HttpError("protocol", f"answers {answer.status} without saying where it went")
            here = _checked(location, here)
            if here in been:
                raise HttpError("redirect", f"is redirected in a circle ({shown(here)})")
            if len(been) > MAX_REDIRECTS:
                raise HttpError("redirect", f"is redirected more than {MAX_REDIRECTS} times")
            been.append(here)

    def close(self) -> None:
        self._transport.close()

    def __enter__(self) -> HttpClient:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _check_port(self, url: str) -> None:
        port = origin(url)[2]
        if port not in self.settings.ports:
            raise HttpError("refused", f"{shown(url)} is at port {port}", remedy="allow it with: ports = [80, 443, …]")

    def _ask(self, url: str, conditions: Mapping[str, str], most: int, deadline: float) -> Answer:
        headers = {"User-Agent": self.settings.user_agent, "Accept": "*/*", "Accept-Encoding": "gzip", **conditions}
        if self.settings.token is not None and origin(url) in self.settings.origins:
            headers["Authorization"] = f"Bearer {self.settings.token}"
        request = httpx2.Request("GET", url, headers=headers)
        if request.url.raw_host.decode("ascii").strip("[]") != origin(url)[1].strip("[]"):
            raise HttpError("refused", "names a host that is read in two ways")
        try:
            self._transport.begin(request, deadline)
            with closing(self._transport.handle_request(request)) as response:
                names = {name.lower(): value for name, value in response.headers.items()}
                skipped = response.status_code in REDIRECTS or response.status_code == 304
                body = b"" if skipped else _body(response, names, most)
                return Answer(url, response.status_code, names, body)
        except httpx2.TimeoutException:
            raise HttpError("timeout", "no full answer came in time (request_seconds)", transient=True) from None
        except httpx2.TransportError as error:
            raise _said(error) from None


class _Transport(httpx2.HTTPTransport):
    """httpx2's own transport, with connections made and watched here."""

    def __init__(self, settings: HttpSettings, resolve: Resolve, context: ssl.SSLContext | None) -> None:
        context = context or default_context()
        super().__init__(verify=context, trust_env=False)
        self._watch = threading.local()
        # A transport of httpx2 takes no network backend, its pool does.
        self._pool = httpcore2.ConnectionPool(
            ssl_context=context,
            max_connections=2 * PARALLEL,
            max_keepalive_connections=PARALLEL,
            network_backend=_Backend(settings, resolve, self._watch),
        )

    def begin(self, request: httpx2.Request, deadline: float) -> None:
        """The request that this thread sends next has to be over by ``deadline``."""
        self._watch.deadline = deadline
        left = deadline - time.monotonic()
        if left <= 0:
            raise httpx2.ReadTimeout("the deadline has passed")
        request.extensions["timeout"] = {"connect": left, "read": left, "write": left, "pool": left}


class _Backend(httpcore2.NetworkBackend):
    def __init__(self, settings: HttpSettings, resolve: Resolve, watch: threading.local) -> None:
        self._settings = settings
        self._resolve = resolve
        self._watch = watch
        self._sockets = httpcore2.SyncBackend()

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.NetworkStream:
        addresses = self._addresses(host.strip("[]"), port)
        for address in addresses:
            if reason := refusal(address, self._settings.allow_private):
                raise HttpError(
                    "refused", f"{host}: {reason}", remedy='if it is yours, allow it with: allow_private = ["…"]'
                )
        failed: httpcore2.ConnectError | None = None
        for address in addresses:
            try:
                stream = self._sockets.connect_tcp(address, port, _left(self._watch), None, socket_options)
                return _Stream(stream, self._watch)
            except httpcore2.ConnectError as error:
                failed = error
        raise failed or httpcore2.ConnectError("the host has no address")

    def _addresses(self, host: str, port: int) -> list[str]:
        try:
            return [str(ip_address(host))]
        except ValueError:
            pass
        found: list[Any] = []

        def ask() -> None:
            try:
                found.append(list(dict.fromkeys(self._resolve(host, port))))
            except (OSError, UnicodeError) as error:
                found.append(error)

        # The resolver of the system has time-outs of its own, which no deadline shortens.
        thread = threading.Thread(target=ask, daemon=True)
        thread.start()
        thread.join(_left(self._watch))
        if not found:
            raise httpcore2.ConnectTimeout("the host name was not resolved in time")
        if isinstance(found[0], Exception):
            raise httpcore2.ConnectError("the host name is not known")
        addresses: list[str] = found[0]
        return addresses


class _Stream(httpcore2.NetworkStream):
    """A connection that keeps to the deadline of the request it serves at the moment."""

    def __init__(self, stream: httpcore2.NetworkStream, watch: threading.local) -> None:
        self._stream = stream
        self._watch = watch

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._stream.read(max_bytes, _left(self._watch))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._stream.write(buffer, _left(self._watch))

    def close(self) -> None:
        self._stream.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore2.NetworkStream:
        return _Stream(self._stream.start_tls(ssl_context, server_hostname, _left(self._watch)), self._watch)

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)


@functools.cache
def default_context() -> ssl.SSLContext:
    """The certificates this machine trusts. Made once: reading them takes longer than most requests."""
    return httpx2.create_ssl_context(trust_env=False)


def system_addresses(host: str, port: int) -> list[str]:
    """What the system's resolver says."""
    return [str(entry[4][0]) for entry in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]


def _left(watch: threading.local) -> float:
    """Seconds until the deadline of this thread's request. A time-out where it has passed."""
    left = float(watch.deadline) - time.monotonic()
    if left <= 0:
        raise httpcore2.ReadTimeout("the deadline has passed")
    return left


def _checked(url: str, base: str | None = None) -> str:
    try:
        return normal(url, base, as_asked=True)
    except ValueError as error:
        kind = "is redirected to a URL that is not fetched" if base else "is not fetched"
        raise HttpError("refused", f"{kind}: {error}") from None


def _body(response: httpx2.Response, headers: Mapping[str, str], most: int) -> bytes:
    too_large = HttpError("too_large", f"has more than max_bytes ({most})")
    declared = headers.get("content-length", "")
    if declared.isdecimal() and (len(declared) > 15 or int(declared) > most):
        raise too_large
    coding = headers.get("content-encoding", "identity").strip().lower()
    if coding not in ("", "identity", "gzip", "x-gzip"):
        raise HttpError("protocol", f"comes in an encoding that was not asked for ({coding[:30]!r})")
    inflater = Inflater(most) if coding.endswith("gzip") else None
    parts: list[bytes] = []
    size = 0
    try:
        for part in response.iter_raw():
            size += len(part)
            if size > most:
                raise too_large
            parts.append(inflater.feed(part) if inflater else part)
        if inflater:
            inflater.end()
    except TooLargeError:
        raise too_large from None
    except ValueError as error:
        raise HttpError("protocol", f"cannot be decoded: {error}", transient=True) from None
    return b"".join(parts)


def _said(error: httpx2.TransportError) -> HttpError:
    """What a failure below HTTP comes to. A certificate that is wrong stays wrong, anything else may pass."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return HttpError("tls", f"the certificate is not accepted: {cause.verify_message}")
        if isinstance(cause, ssl.SSLError):
            return HttpError("tls", f"no secure connection: {cause.reason or 'TLS failed'}", transient=True)
        cause = cause.__cause__ or cause.__context__
    if isinstance(error, httpx2.NetworkError):
        return HttpError("connection", f"the connection failed: {error}"[:200], transient=True)
    return HttpError("protocol", f"the answer broke off or is not HTTP: {error}"[:200], transient=True)
