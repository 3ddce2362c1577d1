"""What spans of other libraries may say where payloads are off: their structure, and nothing that a caller sent.

FastAPI and the MCP SDK make spans of their own as soon as a tracer provider is there. An address holds the question after
its `?`, a message of an error quotes what was asked for. Of such spans only attributes that are known to be structure are
sent; ours, which hold no payload then, go as they are.
"""

from __future__ import annotations

from collections.abc import Sequence

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.trace import Status

OURS = "kbcore"
STRUCTURE = frozenset(
    {
        "code.function.name", "error.type", "gen_ai.operation.name", "http.request.method", "http.response.status_code",
        "http.route", "mcp.method.name", "mcp.protocol.version", "network.protocol.name", "network.protocol.version",
        "rpc.response.status_code", "server.address", "server.port", "url.scheme",
    }
)  # fmt: skip
METHOD = "mcp.method.name"
METHODS = frozenset(
    {
        "completion/complete", "initialize", "logging/setLevel", "notifications/cancelled", "notifications/initialized",
        "notifications/progress", "notifications/roots/list_changed", "ping", "prompts/get", "prompts/list",
        "resources/list", "resources/read", "resources/subscribe", "resources/templates/list", "resources/unsubscribe",
        "server/discover", "tools/call", "tools/list",
    }
)  # fmt: skip


class StructureAlone(SpanExporter):
    """Passes spans on to ``inner``, those of other libraries without payload: no other attributes than ``STRUCTURE``, no
    events, no links, no description of a status; a span of MCP is called by its method alone."""

    def __init__(self, inner: SpanExporter) -> None:
        self._inner = inner

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        return self._inner.export([structure(span) for span in spans])

    def shutdown(self) -> None:
        self._inner.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        return self._inner.force_flush(timeout_millis)


def structure(span: ReadableSpan) -> ReadableSpan:
    """``span`` without payload; one of ours as it is."""
    if span.instrumentation_scope is not None and span.instrumentation_scope.name == OURS:
        return span
    attributes = {name: value for name, value in (span.attributes or {}).items() if name in STRUCTURE}
    name = span.name
    if METHOD in attributes:
        # The SDK takes method and tool as they were sent, known or not. Which tool it was, our span within says.
        if attributes[METHOD] not in METHODS:
            attributes[METHOD] = "unknown"
        name = str(attributes[METHOD])
    return ReadableSpan(
        name=name,
        context=span.context,
        parent=span.parent,
        resource=span.resource,
        attributes=attributes,
        kind=span.kind,
        instrumentation_scope=span.instrumentation_scope,
        status=Status(span.status.status_code),
        start_time=span.start_time,
        end_time=span.end_time,
    )
