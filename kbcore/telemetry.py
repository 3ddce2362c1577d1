"""Spans of searches and tool calls for OpenTelemetry.

``retrieval.<kb>`` goes around every answer and ``tool.search_<kb>`` around a call of the tool. They carry the attributes of
the GenAI semantic conventions where there are some (of version 0.1.0, all still "development": ``gen_ai.operation.name``,
``gen_ai.data_source.id``, ``gen_ai.retrieval.*``, ``gen_ai.tool.*``) and our own under ``kb.``.

Nothing is sent by default. Spans go where the application's own tracer provider sends them; ``start``, which the command
line and the servers call, makes one only where the standard variables ask for it (OTEL_EXPORTER_OTLP_ENDPOINT,
OTEL_EXPORTER_OTLP_TRACES_ENDPOINT or OTEL_TRACES_EXPORTER), and they alone say where it sends to. No package of
OpenTelemetry is imported otherwise.

What a question asks and what answers it is payload: question, ids and texts. It stands on spans only with
KB_TRACE_PAYLOADS=1, so that without it no exporter can pass it on, whoever configured it; spans that FastAPI and the MCP SDK
make beside ours are rid of it too where ``start`` made the provider (``kbcore.span_redaction``). The rest always does: knowledge
base, release, embedder, mode, k, counts, outcome, latency, the type of an error. Payloads are off by default because a
question may hold what its asker would not have told a third party, and a trace leaves the machine more easily than a file.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.trace import Span

    from kbcore.types import SearchResult

log = logging.getLogger("kbcore.telemetry")

ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
EXPORTERS = ("otlp", "console", "none")
PAYLOADS = "KB_TRACE_PAYLOADS"
_unobserved: ContextVar[bool] = ContextVar("kbcore_unobserved", default=False)
COUNTS = {"ntotal": "kb.ntotal", "raw_labels": "kb.raw_labels", "bounded_labels": "kb.bounded"}


def payloads(environ: Mapping[str, str] = os.environ) -> bool:
    """Whether questions, ids and texts may stand on spans: only where KB_TRACE_PAYLOADS says so."""
    return environ.get(PAYLOADS, "").strip().lower() in ("1", "true", "yes", "on")


def exporter(environ: Mapping[str, str] = os.environ) -> str:
    """Where the standard variables ask for spans to go: ``otlp``, ``console`` or ``none``."""
    if environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return "none"
    named = environ.get("OTEL_TRACES_EXPORTER", "").strip().lower()
    if named:
        if named not in EXPORTERS:
            log.warning("OTEL_TRACES_EXPORTER=%s is not known here; known: %s", named, ", ".join(EXPORTERS))
        return named if named in EXPORTERS else "none"
    return "otlp" if any(environ.get(name, "").strip() for name in ENDPOINTS) else "none"


def start(service: str = "kbcore", environ: Mapping[str, str] = os.environ) -> bool:
    """Set up what the variables ask for; whether spans are sent from now on. A provider that the application has set
    already stays. Where the ``telemetry`` extra is missing, a warning says so and nothing is sent."""
    wanted = exporter(environ)
    if wanted == "none":
        return False
    protocol = environ.get("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL") or environ.get("OTEL_EXPORTER_OTLP_PROTOCOL")
    if wanted == "otlp" and protocol not in (None, "", "http/protobuf"):
        log.warning("spans are sent by http/protobuf, not by %s: none are sent", protocol)
        return False
    try:
        from opentelemetry import trace
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import (
            BatchSpanProcessor,
            ConsoleSpanExporter,
            SimpleSpanProcessor,
            SpanExporter,
        )

        if isinstance(trace.get_tracer_provider(), TracerProvider):
            return True
        from kbcore.span_redaction import StructureAlone

        def safe(exporter: SpanExporter) -> SpanExporter:
            return exporter if payloads(environ) else StructureAlone(exporter)

        provider = TracerProvider(resource=_resource(service))
        if wanted == "otlp":
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

            provider.add_span_processor(BatchSpanProcessor(safe(OTLPSpanExporter())))
        else:
            # One line each, as the log has them that stands there too.
            console = ConsoleSpanExporter(out=sys.stderr, formatter=lambda span: f"{span.to_json(indent=None)}\n")
            provider.add_span_processor(SimpleSpanProcessor(safe(console)))
    except ImportError:
        log.warning("the environment asks for spans and no SDK is installed: pip install 'kbcore[telemetry]'")
        return False
    trace.set_tracer_provider(provider)
    return True


def _resource(service: str) -> Resource:
    """What sends the spans: ``service``, where neither OTEL_SERVICE_NAME nor OTEL_RESOURCE_ATTRIBUTES says another name."""
    from opentelemetry.sdk.resources import SERVICE_NAME, Resource

    found = Resource.create()
    # What is given to create goes before OTEL_RESOURCE_ATTRIBUTES, and without a name the SDK makes one up.
    made_up = str(found.attributes[SERVICE_NAME]).startswith("unknown_service")
    return found.merge(Resource({SERVICE_NAME: service})) if made_up else found


def watched() -> bool:
    """Whether anybody would see a span: an SDK is loaded in this process, and what runs is no check of its own."""
    return "opentelemetry.sdk.trace" in sys.modules and not _unobserved.get()


@contextmanager
def unobserved() -> Iterator[None]:
    """What runs within has no spans: a server asks itself every second whether it answers, and nobody else asked that."""
    token = _unobserved.set(True)
    try:
        yield
    finally:
        _unobserved.reset(token)


@contextmanager
def within(carrier: Mapping[str, Any]) -> Iterator[None]:
    """Spans within belong to the caller's trace, where ``carrier``, the headers of a request by lower-case names,
    names one by ``traceparent`` as the W3C's Trace Context has it. Baggage is not taken."""
    known = {name: value for name in ("traceparent", "tracestate") if isinstance(value := carrier.get(name), str)}
    if "traceparent" not in known or not watched():
        yield
        return
    from opentelemetry import context
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    # What is malformed names no trace: spans are roots then.
    token = context.attach(TraceContextTextMapPropagator().extract(known))
    try:
        yield
    finally:
        context.detach(token)


@contextmanager
def _span(name: str, attributes: Mapping[str, Any]) -> Iterator[Span | None]:
    """A span as the current one, or None where nobody is watching. Of an error its type is kept: its message may quote
    the question."""
    if not watched():
        yield None
        return
    from opentelemetry import trace
    from opentelemetry.trace import Status, StatusCode

    tracer = trace.get_tracer("kbcore")
    with tracer.start_as_current_span(
        name, attributes=dict(attributes), record_exception=False, set_status_on_exception=False
    ) as span:
        try:
            yield span
        except BaseException as error:
            span.set_attribute("error.type", type(error).__qualname__)
            span.set_status(Status(StatusCode.ERROR, str(error) if payloads() else None))
            raise


class Retrieval:
    """An answer in the making, as its span sees it."""

    def __init__(self, span: Span | None, started: float) -> None:
        self._span = span
        self._started = started

    def answered(self, result: SearchResult) -> None:
        """Note what came of it."""
        if self._span is None or not self._span.is_recording():
            return
        found: dict[str, Any] = {
            "kb.outcome": result.outcome,
            "kb.score_kind": result.score_kind,
            "kb.hits": len(result.hits),
            "kb.latency_ms": round((time.perf_counter() - self._started) * 1000, 3),
        }
        counted = {name: result.evidence.get(key) for key, name in COUNTS.items()}
        found |= {name: value for name, value in counted.items() if value is not None}
        if payloads():
            found["gen_ai.retrieval.query.text"] = result.query
            found["kb.chunk_ids"] = [hit.chunk_id for hit in result.hits]
            documents = [{"id": hit.chunk_id, "score": hit.score} for hit in result.hits]
            found["gen_ai.retrieval.documents"] = json.dumps(documents, ensure_ascii=False)
        self._span.set_attributes(found)


@contextmanager
def retrieval(kb: str, *, release: str, embedder_id: str, mode: str, k: int) -> Iterator[Retrieval]:
    """The span ``retrieval.<kb>`` around one answer."""
    attributes = {
        "gen_ai.operation.name": "retrieval",
        "gen_ai.data_source.id": kb,
        "gen_ai.retrieval.top_k": k,
        "kb.name": kb,
        "kb.release": release,
        "kb.embedder_id": embedder_id,
        "kb.mode": mode,
        "kb.k": k,
    }
    with _span(f"retrieval.{kb}", attributes) as span:
        yield Retrieval(span, time.perf_counter())


class ToolCall:
    """A call of a tool, as its span sees it."""

    def __init__(self, span: Span | None) -> None:
        self._span = span

    def returned(self, text: str, results: Sequence[SearchResult] = ()) -> None:
        """Note what the tool gave back, as the text that the model reads."""
        if self._span is None or not self._span.is_recording():
            return
        self._span.set_attribute("kb.outcome", [result.outcome for result in results])
        self._span.set_attribute("kb.release", list(dict.fromkeys(result.release for result in results)))
        self._span.set_attribute("kb.result_characters", len(text))
        if payloads():
            self._span.set_attribute("gen_ai.tool.call.result", text)


@contextmanager
def tool_call(
    kb: str,
    arguments: Mapping[str, Any],
    *,
    tool: str = "search",
    call_id: str | None = None,
    tool_name: str | None = None,
) -> Iterator[ToolCall]:
    """The span ``tool.<tool>_<kb>`` around a call of a tool by a model; the searches it makes are its children.

    Names of ``arguments`` stand on it always, their values with payloads only. ``call_id`` is the caller's id of the call,
    ``tool_name`` what the tool is listed as, where that is not ``<tool>_<kb>``.
    """
    name = f"{tool}_{kb}"
    attributes: dict[str, Any] = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": tool_name or name,
        "gen_ai.tool.type": "datastore",
        "gen_ai.data_source.id": kb,
        "kb.name": kb,
        "kb.arguments": sorted(arguments),
    }
    if call_id is not None:
        attributes["gen_ai.tool.call.id"] = call_id
    if payloads():
        attributes["gen_ai.tool.call.arguments"] = json.dumps(dict(arguments), ensure_ascii=False, default=str)
    with _span(f"tool.{name}", attributes) as span:
        yield ToolCall(span)
