"""Spans: what is always on them, what only with payloads, and that nothing is sent unless the variables ask for it."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from kbcore import telemetry
from kbcore.errors import KbUnavailableError
from kbcore.knowledge_base import KnowledgeBase
from tests.support import DOCUMENTS, ROOT, knowledge_base, refreshed, write

CANARY = "XYZZY-CANARY-4711"


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The spans of this test alone, by an SDK in this process."""
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "get_tracer", lambda name: provider.get_tracer(name))
    monkeypatch.delenv(telemetry.PAYLOADS, raising=False)
    return exporter


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> KnowledgeBase:
    base = knowledge_base(
        tmp_path_factory.mktemp("spans"), {**DOCUMENTS, "secret.md": f"# {CANARY}\n\n{CANARY} holds.\n"}
    )
    refreshed(base)
    return base


def only(spans: Any) -> Any:
    (span,) = spans.get_finished_spans()
    return span


def test_an_answer_has_a_span_with_what_decided_it(base: KnowledgeBase, spans: Any) -> None:
    result = base.retriever().search(f"what is {CANARY}?", 3)
    span = only(spans)
    manifest = base.repository.manifest("r000001")
    assert span.name == "retrieval.test"
    kept = dict(span.attributes)
    assert kept.pop("kb.latency_ms") > 0
    assert kept == {
        "gen_ai.operation.name": "retrieval",
        "gen_ai.data_source.id": "test",
        "gen_ai.retrieval.top_k": 3,
        "kb.name": "test",
        "kb.release": "r000001",
        "kb.embedder_id": manifest.embedder_id,
        "kb.mode": "hybrid",
        "kb.k": 3,
        "kb.outcome": result.outcome,
        "kb.score_kind": "minmax",
        "kb.hits": 3,
        "kb.ntotal": result.evidence["ntotal"],
        "kb.raw_labels": result.evidence["raw_labels"],
        "kb.bounded": result.evidence["bounded_labels"],
    }


@pytest.mark.parametrize("value", ["", "0", "false", "no", "2"])
def test_without_payloads_no_question_id_or_text_is_on_a_span(
    base: KnowledgeBase, spans: Any, monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    monkeypatch.setenv(telemetry.PAYLOADS, value)
    found = base.retriever().search(CANARY, keys=True)
    base.retriever().lookup(CANARY)
    with telemetry.tool_call("test", {"query": CANARY}) as call:
        call.returned(f"[Score: 1.000] {CANARY}", [found])
    said = json.dumps([span.to_json() for span in spans.get_finished_spans()])
    assert CANARY not in said
    assert found.hits
    assert not any(hit.chunk_id in said or hit.doc_id in said for hit in found.hits)


def test_with_payloads_they_are(base: KnowledgeBase, spans: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(telemetry.PAYLOADS, "1")
    found = base.retriever().search(CANARY, 2)
    span = only(spans)
    assert span.attributes["gen_ai.retrieval.query.text"] == CANARY
    assert list(span.attributes["kb.chunk_ids"]) == [hit.chunk_id for hit in found.hits]
    documents = json.loads(span.attributes["gen_ai.retrieval.documents"])
    assert documents == [{"id": hit.chunk_id, "score": hit.score} for hit in found.hits]


def test_a_tool_call_is_the_parent_of_its_searches(
    base: KnowledgeBase, spans: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with telemetry.tool_call("test", {"query": CANARY, "k": 2}, call_id="call-1") as call:
        found = base.retriever().search(CANARY, 2)
        call.returned("the text", [found])
    search, tool = spans.get_finished_spans()
    assert (search.name, tool.name) == ("retrieval.test", "tool.search_test")
    assert search.parent.span_id == tool.context.span_id
    assert dict(tool.attributes) == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "search_test",
        "gen_ai.tool.type": "datastore",
        "gen_ai.tool.call.id": "call-1",
        "gen_ai.data_source.id": "test",
        "kb.name": "test",
        "kb.arguments": ("k", "query"),
        "kb.outcome": (found.outcome,),
        "kb.release": ("r000001",),
        "kb.result_characters": 8,
    }
    spans.clear()
    monkeypatch.setenv(telemetry.PAYLOADS, "1")
    with telemetry.tool_call("test", {"query": CANARY}, tool="lookup") as call:
        call.returned("the text")
    tool = only(spans)
    assert tool.name == "tool.lookup_test"
    assert json.loads(tool.attributes["gen_ai.tool.call.arguments"]) == {"query": CANARY}
    assert tool.attributes["gen_ai.tool.call.result"] == "the text"


def test_of_an_error_the_type_is_kept_and_the_message_is_not(base: KnowledgeBase, spans: Any) -> None:
    retriever = base.retriever()

    def broken(*arguments: Any) -> Any:
        raise KbUnavailableError(f"could not search for {CANARY}")

    retriever.matches = broken  # type: ignore[method-assign]
    with pytest.raises(KbUnavailableError):
        retriever.search(CANARY)
    span = only(spans)
    assert span.status.status_code.name == "ERROR"
    assert span.attributes["error.type"] == "KbUnavailableError"
    assert CANARY not in span.to_json()
    assert not span.events


@pytest.mark.parametrize(
    ("environ", "wanted"),
    [
        ({}, "none"),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://localhost:4318"}, "otlp"),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://localhost:4318/v1/traces"}, "otlp"),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://x", "OTEL_TRACES_EXPORTER": "none"}, "none"),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://x", "OTEL_SDK_DISABLED": "true"}, "none"),
        ({"OTEL_TRACES_EXPORTER": "console"}, "console"),
        ({"OTEL_TRACES_EXPORTER": "otlp"}, "otlp"),
        ({"OTEL_TRACES_EXPORTER": "zipkin"}, "none"),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": " "}, "none"),
    ],
)
def test_only_the_standard_variables_ask_for_an_exporter(environ: dict[str, str], wanted: str) -> None:
    assert telemetry.exporter(environ) == wanted


class Receiver:
    """An OTLP/HTTP receiver on loopback that keeps what arrives."""

    def __init__(self) -> None:
        received = self.received = []  # type: list[tuple[str, bytes]]

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.headers.get("Content-Encoding") == "gzip":
                    body = gzip.decompress(body)
                received.append((self.path, body))
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *arguments: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def spans(self) -> list[Any]:
        from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

        found: list[Any] = []
        for path, body in self.received:
            assert path == "/v1/traces"
            request = ExportTraceServiceRequest.FromString(body)
            found += [s for r in request.resource_spans for scope in r.scope_spans for s in scope.spans]
        return found


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    receiver = Receiver()
    yield receiver
    receiver.server.shutdown()
    receiver.server.server_close()


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("otlp")
    write(root / "docs", {**DOCUMENTS, f"{CANARY}.md": f"# {CANARY}\n\n{CANARY} holds.\n"})
    file = root / "kb.toml"
    file.write_text(
        f'[kb]\nname = "desk"\nrepository = "{root}/releases"\n'
        f'[[sources]]\nname = "docs"\npath = "{root}/docs"\n[embedder]\nprovider = "hashing"\n'
    )
    kb(file, "init")
    kb(file, "refresh")
    return file


PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


def test_spans_belong_to_the_trace_that_the_caller_names(base: KnowledgeBase, spans: Any) -> None:
    with telemetry.within({"traceparent": PARENT, "tracestate": "vendor=1"}):
        base.retriever().search("gateway")
    span = only(spans)
    assert f"{span.context.trace_id:032x}" == PARENT.split("-")[1]
    assert f"{span.parent.span_id:016x}" == PARENT.split("-")[2]


@pytest.mark.parametrize("carrier", [{}, {"traceparent": "00-zz-1-01"}, {"traceparent": 7}, {"tracestate": "a=1"}])
def test_a_caller_that_names_no_trace_gets_a_root(base: KnowledgeBase, spans: Any, carrier: dict[str, Any]) -> None:
    with telemetry.within(carrier):
        base.retriever().search("gateway")
    assert only(spans).parent is None


def test_a_method_or_an_id_that_a_client_makes_up_stands_on_no_span() -> None:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    from kbcore.span_redaction import StructureAlone

    provider, kept = TracerProvider(), InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(StructureAlone(kept)))
    tracer = provider.get_tracer("mcp-python-sdk")
    for method in ("canary/4711", "tools/list"):
        sent = {"mcp.method.name": method, "jsonrpc.request.id": "canary-4711"}
        tracer.start_span(f"{method} canary-4711", attributes=sent).end()
    spans = kept.get_finished_spans()
    assert [(span.name, dict(span.attributes or {})) for span in spans] == [
        ("unknown", {"mcp.method.name": "unknown"}),
        ("tools/list", {"mcp.method.name": "tools/list"}),
    ]


def kb(config: Path, *arguments: str, code: int = 0, **environment: str) -> subprocess.CompletedProcess[str]:
    plain = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
    done = subprocess.run(
        [sys.executable, "-m", "kbcore.cli", *arguments],
        cwd=ROOT, env={**plain, "KB_CONFIG": str(config), **environment}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == code, done.stderr
    return done


def test_canaries_never_leave_with_payloads_off_while_structural_keys_do(config: Path, receiver: Receiver) -> None:
    for extra in ({}, {telemetry.PAYLOADS: "0"}):
        found = json.loads(
            kb(config, "search", CANARY, "--json", OTEL_EXPORTER_OTLP_ENDPOINT=receiver.url, **extra).stdout
        )
        assert CANARY in found["hits"][0]["text"]
    kb(config, "lookup", CANARY, OTEL_EXPORTER_OTLP_ENDPOINT=receiver.url)
    kb(config, "search", CANARY, "-k", "0", code=2, OTEL_EXPORTER_OTLP_ENDPOINT=receiver.url)
    sent = b"".join(body for _, body in receiver.received)
    assert [span.name for span in receiver.spans()] == ["retrieval.desk"] * 3
    assert b"kb.release" in sent
    assert b"r000001" in sent
    ids = [hit[name] for hit in found["hits"] for name in ("chunk_id", "doc_id")]
    for secret in (CANARY, CANARY.lower(), *ids):
        assert secret.encode() not in sent


def test_with_payloads_the_question_arrives(config: Path, receiver: Receiver) -> None:
    kb(config, "search", CANARY, OTEL_EXPORTER_OTLP_ENDPOINT=receiver.url, KB_TRACE_PAYLOADS="1")
    assert CANARY.encode() in b"".join(body for _, body in receiver.received)


def test_nothing_is_sent_and_no_sdk_is_imported_unless_it_is_asked_for(config: Path, receiver: Receiver) -> None:
    program = (
        "import sys; from kbcore.cli import main\n"
        "sys.argv = ['kb', 'search', 'gateway']\n"
        "try: main()\nexcept SystemExit: pass\n"
        "print([name for name in sys.modules if name.startswith('opentelemetry')])"
    )
    plain = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, env={**plain, "KB_CONFIG": str(config)}, capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    assert done.stdout.splitlines()[-1] == "[]"
    kb(config, "search", "gateway", OTEL_EXPORTER_OTLP_ENDPOINT=receiver.url, OTEL_SDK_DISABLED="true")
    assert receiver.received == []


def test_a_receiver_that_is_not_there_fails_no_search(config: Path) -> None:
    done = kb(
        config, "search", "gateway", OTEL_EXPORTER_OTLP_ENDPOINT="http://127.0.0.1:9", OTEL_EXPORTER_OTLP_TIMEOUT="1"
    )
    assert "gateway" in done.stdout


@pytest.mark.parametrize(
    ("environ", "name"),
    [
        ({}, "kb-http"),
        ({"OTEL_RESOURCE_ATTRIBUTES": "deployment.environment.name=staging"}, "kb-http"),
        ({"OTEL_SERVICE_NAME": "desk"}, "desk"),
        ({"OTEL_RESOURCE_ATTRIBUTES": "service.name=desk"}, "desk"),
        ({"OTEL_RESOURCE_ATTRIBUTES": "service.name=other", "OTEL_SERVICE_NAME": "desk"}, "desk"),
    ],
)
def test_a_service_is_called_as_the_standard_variables_call_it(
    environ: dict[str, str], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("opentelemetry.sdk")
    for variable in ("OTEL_SERVICE_NAME", "OTEL_RESOURCE_ATTRIBUTES"):
        monkeypatch.delenv(variable, raising=False)
    for variable, value in environ.items():
        monkeypatch.setenv(variable, value)
    assert telemetry._resource("kb-http").attributes["service.name"] == name


def test_a_protocol_that_is_not_spoken_is_named(config: Path) -> None:
    done = kb(config, "search", "gateway", OTEL_EXPORTER_OTLP_ENDPOINT="http://x", OTEL_EXPORTER_OTLP_PROTOCOL="grpc")
    assert "by http/protobuf, not by grpc" in done.stderr
