"""Who asked, and what a call was made of: the log of searches and the spans, over HTTP and from a tool."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.types import Implementation

from kbcore import telemetry
from kbcore.knowledge_base import KnowledgeBase
from kbcore.search_log import files
from kbcore.serving.access import Access
from kbcore.serving.bases import Bases
from kbcore.serving.http.app import application
from kbcore.serving.http.service import Service
from kbcore.serving.mcp import http_app, make_server
from tests.support import configure, knowledge_base, refreshed

READER, SECOND = "reader-token-0123456789", "second-reader-0123456789"
QUESTION = "how do I reset my password"
DESK = Implementation(name="desk-bot", version="1")


@pytest.fixture
def base(tmp_path: Path) -> KnowledgeBase:
    made = knowledge_base(tmp_path, search_log={"path": str(tmp_path / "log"), "payloads": True})
    refreshed(made)
    return made


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
    monkeypatch.setattr(trace, "get_tracer", lambda *_, **__: provider.get_tracer("kbcore"))
    monkeypatch.delenv(telemetry.PAYLOADS, raising=False)
    return exporter


def ours(spans: Any) -> list[Any]:
    """Without those that the SDK of the protocol makes of its own."""
    return [span for span in spans.get_finished_spans() if span.name.startswith(("retrieval.", "tool."))]


def consumers(base: KnowledgeBase) -> list[str]:
    path = base.config.search_log.path
    return [json.loads(line)["consumer"] for file in files(str(path)) for line in file.read_bytes().splitlines()]


def over_http(base: KnowledgeBase, access: Access, *tokens: str | None) -> list[httpx2.Response]:
    """A search with each token, between looks at the health of the server."""

    async def work() -> list[httpx2.Response]:
        service = Service(Bases([base]))
        transport = httpx2.ASGITransport(application(service, access), client=("127.0.0.1", 1))
        try:
            async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:
                got = []
                for token in tokens:
                    headers = {"Authorization": f"Bearer {token}"} if token else {}
                    got.append(await client.post("/v1/test/search", json={"query": QUESTION}, headers=headers))
                    assert (await client.get("/health/ready")).status_code == 200
                return got
        finally:
            service.close()

    return asyncio.run(work())


def test_a_search_over_http_is_logged_under_the_role_and_number_of_its_token_and_health_is_not(
    base: KnowledgeBase,
) -> None:
    got = over_http(base, Access([READER, SECOND], ["operator-token-0123456789"]), SECOND, "operator-token-0123456789")
    assert [answer.status_code for answer in got] == [200, 200]
    assert consumers(base) == ["http:reader 2", "http:operator 1"]
    assert READER not in "".join(file.read_text() for file in files(str(base.config.search_log.path)))


def test_a_search_over_http_without_tokens_says_so(base: KnowledgeBase) -> None:
    over_http(base, Access(), None)
    assert consumers(base) == ["http:no token"]


def test_a_search_over_http_has_a_span(base: KnowledgeBase, spans: Any) -> None:
    over_http(base, Access(), None)
    span = ours(spans)[0]
    assert (span.name, span.attributes["kb.release"]) == ("retrieval.test", "r000001")
    assert QUESTION not in span.to_json()


def test_a_check_of_health_has_no_span(base: KnowledgeBase, spans: Any) -> None:
    """Whoever probes /health/ready every second would have a trace of nothing else."""
    assert Bases([base])["test"].problem() is None
    assert ours(spans) == []


def test_a_search_by_a_tool_is_logged_under_the_name_of_the_client(base: KnowledgeBase) -> None:
    async def work() -> None:
        async with Client(make_server(Bases([base])), client_info=DESK) as client:
            await client.call_tool("search_test", {"query": QUESTION})
            await client.call_tool("lookup_test", {"key": "ERR-4012"})
            await client.call_tool("explain_test", {"query": QUESTION})  # whoever explains is no consumer

    asyncio.run(work())
    assert consumers(base) == ["mcp:desk-bot", "mcp:desk-bot"]


@pytest.mark.parametrize(("mode", "consumer"), [("auto", "mcp:desk-bot"), ("legacy", "mcp:reader 1")])
def test_over_http_a_client_that_does_not_say_its_name_with_each_request_is_known_by_its_token(
    base: KnowledgeBase, mode: str, consumer: str
) -> None:
    server = make_server(Bases([base]))
    app = http_app(server, "127.0.0.1", [], Access([READER]))
    headers = {"Authorization": f"Bearer {READER}"}

    async def work() -> None:
        async with server.session_manager.run():
            transport = httpx2.ASGITransport(app, client=("127.0.0.1", 1))
            async with (
                httpx2.AsyncClient(transport=transport, headers=headers) as http,
                Client(
                    streamable_http_client("http://127.0.0.1/mcp", http_client=http), client_info=DESK, mode=mode
                ) as client,
            ):
                assert not (await client.call_tool("search_test", {"query": QUESTION})).is_error

    asyncio.run(work())
    assert consumers(base) == [consumer]


def test_a_tool_call_has_a_span_around_that_of_its_search(base: KnowledgeBase, spans: Any) -> None:
    async def work() -> None:
        async with Client(make_server(Bases([base])), client_info=DESK) as client:
            await client.call_tool("search_test", {"query": QUESTION, "k": 2})

    asyncio.run(work())
    search, tool = ours(spans)
    assert (search.name, tool.name) == ("retrieval.test", "tool.search_test")
    assert search.parent.span_id == tool.context.span_id
    assert list(tool.attributes["kb.arguments"]) == ["k", "query", "release"]
    assert list(tool.attributes["kb.release"]) == ["r000001"]
    assert tool.attributes["gen_ai.tool.call.id"]
    assert QUESTION not in tool.to_json()


def test_the_span_of_a_tool_names_it_as_it_is_listed(tmp_path: Path, spans: Any) -> None:
    made = knowledge_base(tmp_path, kb={"name": "help.desk", "repository": str(tmp_path / "releases")})
    refreshed(made)

    async def work() -> None:
        async with Client(make_server(Bases([made]))) as client:
            await client.call_tool("search_help_desk", {"query": QUESTION})

    asyncio.run(work())
    tool = ours(spans)[-1]
    assert (tool.name, tool.attributes["gen_ai.tool.name"]) == ("tool.search_help.desk", "search_help_desk")


def test_a_tool_call_that_fails_has_a_span_with_the_kind_of_its_error(base: KnowledgeBase, spans: Any) -> None:
    async def work() -> None:
        async with Client(make_server(Bases([base]))) as client:
            assert (await client.call_tool("search_test", {"query": QUESTION, "release": "r000009"})).is_error

    asyncio.run(work())
    (tool,) = ours(spans)
    assert tool.attributes["error.type"] == "ReleaseNotFoundError"


def test_a_reranker_that_is_not_here_is_named_to_agents(tmp_path: Path) -> None:
    refreshed(knowledge_base(tmp_path))
    lacking = KnowledgeBase(configure(tmp_path, retrieval={"reranker_path": str(tmp_path / "gone")}))

    async def work() -> str:
        async with Client(make_server(Bases([lacking]))) as client:
            return str((await client.call_tool("search_test", {"query": QUESTION})).content[0].text)  # type: ignore[union-attr]

    said = asyncio.run(work())
    assert "UNAVAILABLE: test" in said
    assert "no reranker folder" in said
    assert str(tmp_path) not in said
