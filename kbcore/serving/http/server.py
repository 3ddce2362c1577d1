"""A server from its start, where every knowledge base is opened, to its end, where requests under way are finished."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from kbcore import telemetry
from kbcore.errors import KbError
from kbcore.search_log import asked_by
from kbcore.serving import logs
from kbcore.serving.access import Access, check_bind, is_loopback
from kbcore.serving.bases import Bases
from kbcore.serving.guard import names_of
from kbcore.serving.http.app import application
from kbcore.serving.http.service import Limits, Service
from kbcore.serving.running import Patience, bound, run, url_of
from kbcore.types import Json


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

    ConfigError for tokens that are too short; UsageError for an address that others can reach where no tokens are set, for
    a name that no Host header says, and where the address cannot be had; and whatever opening a knowledge base raises.
    """
    access = Access.of(environment)
    check_bind(at.host, access, insecure=at.insecure)
    hosts = names_of(at.host, at.hosts)
    # Each search has its line, the request's: that of the retriever would say the same twice.
    logs.write_to(quiet=["kbcore.retrieval"])
    telemetry.start("kb-http", environment)
    with bound(at.host, at.port) as listener:
        service = Service(bases, at.limits, log_queries=at.log_queries)
        opened = [_opened(name, bases) for name in bases]
        app = application(service, access, hosts=hosts)

        def listening(most: int) -> None:
            served = {"url": url_of(listener), "knowledge_bases": opened, "access": _said(access, at)}
            started({**served, "connections": most})

        try:
            run(app, listener, listening, at.patience)
        finally:
            service.close()


def _opened(name: str, bases: Bases) -> Json:
    try:
        retriever = bases[name].live().current()
        # What fails at the first question would fail a caller: it is asked here.
        with asked_by(None), telemetry.unobserved():
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


def _said(access: Access, at: Listening) -> str:
    if not access.configured:
        return "programs on this machine read; nobody operates"
    said = "callers need a token" if access.operable else "callers need a token; nobody operates"
    return said if is_loopback(at.host) else f"{said}; put TLS in front, tokens travel in the clear"
