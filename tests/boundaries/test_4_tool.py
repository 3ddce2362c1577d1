"""4 knowledge base and model: retrieval is a tool call with text, citations and spans, and payload stays here."""

from __future__ import annotations

from pathlib import Path

import pytest

from kbcore import telemetry
from kbcore.citations import check_citations
from kbcore.serving.answers import result_text
from tests.boundaries.claims import Claim
from tests.boundaries.corpus import support
from tests.support import refreshed

QUERY = "ERR-4012 checkout"


def test_a_tool_call(tmp_path: Path, claim: Claim, monkeypatch: pytest.MonkeyPatch) -> None:
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "get_tracer", lambda name: provider.get_tracer(name))
    base = support(tmp_path, embedder={"provider": "hashing"})
    refreshed(base)
    retriever = base.retriever()
    keys = {}
    for payloads in ("1", "0"):
        monkeypatch.setenv(telemetry.PAYLOADS, payloads)
        exporter.clear()
        with telemetry.tool_call("support", {"query": QUERY}) as call:
            result = retriever.search(QUERY, 3)
            text = result_text(result)
            call.returned(text, [result])
        keys[payloads] = {span.name: dict(span.attributes or {}) for span in exporter.get_finished_spans()}
        said = " ".join(span.to_json() for span in exporter.get_finished_spans())
        leaks = [word for word in (QUERY, "gateway timed out", result.hits[0].chunk_id) if word in said]
        wanted = 3 if payloads == "1" else 0
        claim(f"KB_TRACE_PAYLOADS={payloads}: question, text, ids on spans", len(leaks), len(leaks) == wanted)
    claim("two spans for a call", sorted(keys["0"]), set(keys["0"]) == {"retrieval.support", "tool.search_support"})
    kept = keys["0"]["retrieval.support"]
    structural = {
        "kb.name",
        "kb.release",
        "kb.embedder_id",
        "kb.mode",
        "kb.k",
        "kb.hits",
        "kb.latency_ms",
        "kb.outcome",
    }
    claim("structural keys stay", f"{len(structural & set(kept))} of {len(structural)}", structural <= set(kept))
    dropped = sorted(set(keys["1"]["retrieval.support"]) - set(kept))
    claim("dropped with payloads off", dropped, "gen_ai.retrieval.query.text" in dropped and "kb.chunk_ids" in dropped)
    scored = text.count("[Score: ")
    whole = sum(hit.text in text for hit in result.hits)
    claim("the text form has a score before every whole chunk", scored, scored == len(result.hits) == whole)
    states = [entry.state for entry in check_citations(base.repository, text, result.release)]
    claim("every citation in it holds", states, states == ["ok"] * len(result.hits))
    first = result.hits[0]
    claim("a hit says its release, version, and when it was confirmed", f"{first.release} {first.document_version[:8]}",
          bool(first.release and first.document_version and first.last_confirmed and first.age_days is not None))  # fmt: skip
