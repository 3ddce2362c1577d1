"""Agents: the official client over stdio and over HTTP, against real processes."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

pytest.importorskip("mcp")
import httpx2
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client

from kbcore.errors import ConfigError
from kbcore.knowledge_base import KnowledgeBase
from kbcore.promotion import promote
from kbcore.serving.bases import Base, Bases
from kbcore.serving.bodies import HitBody, ResultBody
from kbcore.serving.guard import AT_ONCE
from kbcore.serving.mcp import make_server
from tests.support import ROOT, configure, knowledge_base, refreshed, write

TOKEN = "reader-token-0123456789"
ASKED = {"query": "what does ERR-4012 mean?", "k": 2}


def published(root: Path, name: str = "test", **documents: str) -> KnowledgeBase:
    """A knowledge base with one promoted release, and its configuration beside it as ``kb.toml``."""
    base = knowledge_base(root, kb={"name": name, "repository": str(root / "releases")})
    write(root / "docs", {f"{key}.md": text for key, text in documents.items()})
    refreshed(base)
    (root / "kb.toml").write_text(
        f'[kb]\nname = "{name}"\nrepository = "{root / "releases"}"\n\n'
        f'[[sources]]\nname = "docs"\npath = "{root / "docs"}"\ninclude = ["**/*"]\n\n'
        '[embedder]\nprovider = "hashing"\ndimension = 64\n'
    )
    return base


def environment(**more: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1", **more}


def over_stdio(*roots: Path) -> StdioServerParameters:
    arguments = [part for root in roots for part in ("-c", str(root / "kb.toml"))]
    return StdioServerParameters(
        command=sys.executable, args=["-m", "kbcore.cli", "mcp", *arguments], env=environment(), cwd=str(ROOT)
    )


@contextmanager
def over_http(*roots: Path, options: tuple[str, ...] = (), **env: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """The URL of a server in a process of its own."""
    arguments = [part for root in roots for part in ("-c", str(root / "kb.toml"))]
    process = subprocess.Popen(
        [sys.executable, "-m", "kbcore.cli", "mcp", "--transport", "http", "--port", "0", *arguments, *options],
        env=environment(**env), cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stderr is not None
    assert process.stdout is not None
    try:
        line = process.stderr.readline()
        assert " at http://" in line, line + process.stderr.read()
        yield line.split(" at ")[1].strip(), process
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        rest = process.communicate(timeout=30)
        process.stdout.close()
        process.stderr.close()
        assert "Traceback" not in rest[1], rest[1]
        assert rest[0] == ""
        assert process.returncode == 0  # SIGTERM ends a server in order


def run(work: Callable[[], Awaitable[Any]]) -> Any:
    async def bounded() -> Any:
        with anyio.fail_after(60):
            return await work()

    return anyio.run(bounded)


async def inspect(client: Client) -> None:
    """What the inspector does with a server: list, call, read."""
    tools = {tool.name: tool for tool in (await client.list_tools()).tools}
    assert sorted(tools) == ["explain_test", "lookup_test", "search_test"]
    for tool in tools.values():
        assert tool.annotations is not None
        assert tool.annotations.read_only_hint is True
        assert tool.output_schema is not None
        assert tool.input_schema["additionalProperties"] is False
    found = await client.call_tool("search_test", ASKED)
    assert not found.is_error
    body = ResultBody.model_validate(found.structured_content)
    assert body.outcome == "hits"
    assert body.release == "r000001"
    assert "ERR-4012" in body.hits[0].text
    assert body.hits[0].untrusted
    assert body.hits[0].citation.startswith("[r000001 docs:vpn.md#c")
    text = found.content[0].text  # type: ignore[union-attr]
    assert f"[Score: {body.hits[0].score:.3f}] {body.hits[0].text}\n{body.hits[0].citation}" in text
    assert "not instructions" in text
    known = await client.call_tool("lookup_test", {"key": "ERR-4012"})
    assert known.structured_content is not None
    assert known.structured_content["score_kind"] == "key"
    told = await client.call_tool("explain_test", {"query": "lost phone", "document": "docs:printers.txt", "k": 1})
    assert told.structured_content is not None
    assert told.structured_content["document"]["stage"] in ("cut by k", "not retrieved")
    templates = (await client.list_resource_templates()).resource_templates
    assert [template.uri_template for template in templates] == ["kb://test/{release}/{+doc_id}"]
    assert [resource.uri for resource in (await client.list_resources()).resources] == ["kb://test/releases"]
    rows = json.loads((await client.read_resource("kb://test/releases")).contents[0].text)  # type: ignore[union-attr]
    assert [(row["release"], row["state"]) for row in rows] == [("r000001", "current")]
    read = await client.read_resource("kb://test/r000001/docs:printers.txt")
    assert read.contents[0].text.startswith("Printers\n\nFollow-me printing")  # type: ignore[union-attr]


def test_the_inspectors_flow_over_stdio(tmp_path: Path) -> None:
    published(tmp_path)

    async def work() -> None:
        async with Client(over_stdio(tmp_path)) as client:
            await inspect(client)

    run(work)


def test_the_inspectors_flow_over_http(tmp_path: Path) -> None:
    published(tmp_path)

    async def work() -> None:
        async with Client(url) as client:
            await inspect(client)

    with over_http(tmp_path) as (url, _):
        run(work)


@pytest.mark.parametrize("mode", ["legacy", "auto"])
def test_clients_of_either_handshake_are_served(tmp_path: Path, mode: str) -> None:
    published(tmp_path)

    async def work() -> None:
        async with Client(url, mode=mode) as client:
            assert not (await client.call_tool("search_test", ASKED)).is_error
        async with Client(over_stdio(tmp_path), mode=mode) as client:
            assert not (await client.call_tool("search_test", ASKED)).is_error

    with over_http(tmp_path) as (url, _):
        run(work)


def test_stdout_carries_the_protocol_alone_and_the_end_of_input_ends_it(tmp_path: Path) -> None:
    published(tmp_path)
    hello = {
        "jsonrpc": "2.0", "id": 1, "method": "initialize",
        "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
    }  # fmt: skip
    messages = [
        hello,
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "search_test", "arguments": ASKED}},
    ]
    process = subprocess.Popen(
        [sys.executable, "-m", "kbcore.cli", "mcp", "-c", str(tmp_path / "kb.toml")],
        env=environment(), cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdin is not None
    assert process.stdout is not None
    for message in messages:
        process.stdin.write(json.dumps(message) + "\n")
    process.stdin.flush()
    answers = [json.loads(process.stdout.readline()) for _ in range(2)]
    rest, logs = process.communicate(timeout=30)
    assert [answer["id"] for answer in answers] == [1, 2]
    assert rest == ""
    assert process.returncode == 0
    lines = [json.loads(line) for line in logs.splitlines()]
    assert any("search release=r000001" in line["message"] for line in lines)
    assert "ERR-4012" not in logs  # what was asked is in no log


def traced(root: Path, ask: Callable[[Client], Awaitable[None]]) -> str:
    """What a server over stdio that sends its spans to the console wrote to stderr, while ``ask`` was its client."""
    published(root)
    seen = root / "stderr"

    async def work() -> None:
        asked = over_stdio(root)
        asked.env = environment(OTEL_TRACES_EXPORTER="console")
        with seen.open("w") as log:
            async with Client(stdio_client(asked, errlog=log)) as client:
                await ask(client)

    run(work)
    return seen.read_text()


def test_an_agents_server_says_to_the_collector_which_one_it_is(tmp_path: Path) -> None:
    async def ask(client: Client) -> None:
        assert not (await client.call_tool("search_test", ASKED)).is_error

    seen = traced(tmp_path, ask)
    assert '"service.name": "kb-mcp"' in seen
    assert '"name": "tool.search_test"' in seen


def test_what_is_asked_stands_on_no_span_of_ours_or_of_the_sdk(tmp_path: Path) -> None:
    async def ask(client: Client) -> None:
        await client.call_tool("search_test", {"query": "canary-4711"})
        await client.call_tool("lookup_test", {"key": "canary-4711"})
        with pytest.raises(MCPError):
            await client.read_resource("kb://test/current/canary-4711")
        assert (await client.call_tool("canary-4711", {})).is_error
        with pytest.raises(MCPError):
            await client.get_prompt("canary-4711")

    spans = [line for line in traced(tmp_path, ask).splitlines() if '"trace_id"' in line]
    assert {json.loads(span)["name"] for span in spans} >= {
        "tools/call",
        "tool.search_test",
        "retrieval.test",
        "resources/read",
        "prompts/get",
    }
    assert not [span for span in spans if "canary" in span]


def test_nothing_that_changes_a_knowledge_base_is_a_tool(tmp_path: Path) -> None:
    server = make_server(Bases([published(tmp_path)]))
    tools = anyio.run(server.list_tools)
    assert {tool.name.split("_")[0] for tool in tools} == {"search", "lookup", "explain"}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({}, "query"),
        ({"query": ""}, "at least 1 character"),
        ({"query": "x" * 2_001}, "at most 2000 characters"),
        ({"query": " ".join(f"w{n}" for n in range(65))}, "at most 64 are searched"),
        ({"query": "x", "k": 0}, "greater than or equal to 1"),
        ({"query": "x", "k": 51}, "less than or equal to 50"),
        ({"query": "x", "k": 10**9}, "less than or equal to 50"),
        ({"query": "x", "k": 1.5}, "k"),
        ({"query": "x", "mode": "magic"}, "hybrid"),
        (
            {"query": "x", "filter": "source=docs"},
            "filter: there is no such argument (arguments of search_test: query, k, mode",
        ),
        ({"query": "x", "where": ["nope=1"]}, "there is no field 'nope'"),
        ({"query": "x", "where": ["uri"]}, "is not a condition"),
        ({"query": "x", "where": ["uri=x"] * 33}, "at most 32"),
        ({"query": "x", "release": "r000009"}, "there is no release 'r000009'"),
        ({"query": "x", "release": "../../etc/passwd"}, "there is no release"),
        ({"query": "x", "release": "9" * 65}, "at most 64 characters"),
    ],
)
def test_bad_arguments_reach_the_model_as_errors_it_can_mend(
    shared: KnowledgeBase, arguments: dict[str, Any], said: str
) -> None:
    async def work() -> Any:
        async with Client(make_server(Bases([shared]))) as client:
            refused = await client.call_tool("search_test", arguments)
            after = await client.call_tool("search_test", ASKED)
            return refused, after

    refused, after = run(work)
    assert refused.is_error
    text = refused.content[0].text
    assert said in text
    assert "Traceback" not in text
    assert "pydantic" not in text
    assert len(text) < 400
    assert str(shared.folder) not in text
    assert not after.is_error


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> KnowledgeBase:
    return published(tmp_path_factory.mktemp("shared"))


@pytest.mark.parametrize(
    "uri",
    [
        "kb://test/r000001/docs:nothing.md", "kb://test/r000009/docs:vpn.md", "kb://other/r000001/docs:vpn.md",
        "kb://test/r000001/../../../etc/passwd", "kb://test/current//etc/passwd", f"kb://test/{'9' * 5000}/docs:vpn.md",
        "kb://test/current/docs:vpn.md%00",
    ],
)  # fmt: skip
def test_resources_that_are_not_there_are_said_to_be_not_there(shared: KnowledgeBase, uri: str) -> None:
    async def work() -> None:
        async with Client(make_server(Bases([shared]))) as client:
            with pytest.raises(MCPError) as caught:
                await client.read_resource(uri)
            assert caught.value.error.code == -32602
            assert str(shared.folder) not in caught.value.error.message

    run(work)


def test_a_miss_and_a_knowledge_base_that_cannot_be_asked_are_told_apart(tmp_path: Path) -> None:
    base = published(tmp_path / "good")
    empty = knowledge_base(
        tmp_path / "empty", kb={"name": "unpublished", "repository": str(tmp_path / "empty/releases")}
    )

    async def work() -> None:
        async with Client(make_server(Bases([base, empty]))) as client:
            miss = await client.call_tool("search_test", {"query": "zzzz qqqq", "mode": "keyword"})
            assert not miss.is_error
            assert miss.structured_content is not None
            assert miss.structured_content["outcome"] == "no_match"
            assert miss.content[0].text.startswith("NO_MATCH")  # type: ignore[union-attr]
            lost = await client.call_tool("search_unpublished", {"query": "anything"})
            assert lost.is_error
            text = lost.content[0].text  # type: ignore[union-attr]
            assert "UNAVAILABLE: unpublished" in text
            assert "no release is current yet" in text
            assert "will not help" in text

    run(work)


def test_an_error_nobody_foresaw_tells_the_model_nothing_of_this_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = published(tmp_path)

    def broken(self: Base, release: str = "current") -> Any:
        raise OSError(5, "Input/output error", "/srv/secret/segments/x")

    monkeypatch.setattr(Base, "retriever", broken)

    async def work() -> str:
        async with Client(make_server(Bases([base]))) as client:
            return str((await client.call_tool("search_test", ASKED)).content[0].text)  # type: ignore[union-attr]

    text = run(work)
    assert "UNAVAILABLE" in text
    assert "Retrying may help" in text
    assert "/srv" not in text


def test_a_call_that_takes_too_long_is_given_up_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    base = published(tmp_path)
    ended = threading.Event()

    def slow(self: Base, release: str = "current") -> Any:
        ended.wait(20)
        raise OSError

    monkeypatch.setattr(Base, "retriever", slow)
    monkeypatch.setattr("kbcore.serving.mcp.CALL_SECONDS", 0.1)

    async def work() -> str:
        async with Client(make_server(Bases([base]))) as client:
            return str((await client.call_tool("search_test", ASKED)).content[0].text)  # type: ignore[union-attr]

    try:
        text = run(work)
    finally:
        ended.set()
    assert "UNAVAILABLE: test" in text
    assert "no answer within 0.1 s" in text
    assert "Retrying may help" in text


def test_two_knowledge_bases_in_one_process_answer_apart(tmp_path: Path) -> None:
    published(tmp_path / "a", "help.desk", only="# Only here\n\nThe blue binder.\n")
    published(tmp_path / "b", "legal")

    async def work() -> None:
        async with Client(over_stdio(tmp_path / "a", tmp_path / "b")) as client:
            names = {tool.name for tool in (await client.list_tools()).tools}
            assert {"search_help_desk", "search_legal"} <= names
            asked = {"query": "blue binder", "mode": "keyword"}
            here = await client.call_tool("search_help_desk", asked)
            there = await client.call_tool("search_legal", asked)
            assert here.structured_content is not None
            assert there.structured_content is not None
            assert here.structured_content["hits"][0]["doc_id"] == "docs:only.md"
            assert there.structured_content["outcome"] == "no_match"
            with pytest.raises(MCPError):
                await client.read_resource("kb://legal/current/docs:only.md")

    run(work)


def test_names_that_become_one_as_tools_are_refused(tmp_path: Path) -> None:
    bases = [KnowledgeBase(configure(tmp_path, kb={"name": name, "repository": "r"})) for name in ("a-b", "a.b")]
    with pytest.raises(ConfigError, match=r"'a-b' and 'a\.b'"):
        make_server(Bases(bases))


def test_a_promotion_is_followed_without_a_restart(tmp_path: Path) -> None:
    base = published(tmp_path)
    write(tmp_path / "docs", {"vpn.md": "# VPN\n\nERR-4012 now means that the certificate is too old.\n"})
    refreshed(base, promote=False)

    async def work() -> None:
        async with Client(url) as client:
            assert await release(client) == "r000001"
            older = await client.read_resource("kb://test/current/docs:vpn.md")
            promote(base.repository, "r000002", base.catalog, reason="new text", run=base.repository.begin())
            with anyio.fail_after(10):
                while await release(client) != "r000002":
                    await anyio.sleep(0.1)
            newer = await client.read_resource("kb://test/current/docs:vpn.md")
            assert "certificate" in newer.contents[0].text  # type: ignore[union-attr]
            assert "certificate" not in older.contents[0].text  # type: ignore[union-attr]
            old = await client.call_tool("search_test", {**ASKED, "release": "previous"})
            assert old.structured_content is not None
            assert old.structured_content["release"] == "r000001"

    async def release(client: Client) -> str:
        found = await client.call_tool("search_test", ASKED)
        assert found.structured_content is not None
        return str(found.structured_content["release"])

    with over_http(tmp_path) as (url, _):
        run(work)


def test_an_erased_document_leaves_search_and_resources(tmp_path: Path) -> None:
    base = published(tmp_path)

    async def work() -> None:
        async with Client(make_server(Bases([base]))) as client:
            uri = "kb://test/r000001/docs:printers.txt"
            assert "Follow-me" in (await client.read_resource(uri)).contents[0].text  # type: ignore[union-attr]
            erased = [{"doc_id": "docs:printers.txt", "content_sha256": None}]
            base.repository.erase(erased, reason="asked to", run=base.repository.begin())
            await anyio.sleep(1.1)
            with pytest.raises(MCPError, match="holds no document"):
                await client.read_resource(uri, cache_mode="bypass")
            found = await client.call_tool("search_test", {"query": "Follow-me printing", "mode": "keyword"})
            assert found.structured_content is not None
            assert found.structured_content["outcome"] == "no_match"

    run(work)


def test_a_foreign_host_or_origin_and_a_missing_token_are_refused_over_http(tmp_path: Path) -> None:
    published(tmp_path)
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
    accept = {"Accept": "application/json, text/event-stream", "Authorization": f"Bearer {TOKEN}"}

    async def with_token() -> None:
        async with (
            httpx2.AsyncClient(headers={"Authorization": f"Bearer {TOKEN}"}) as http,
            Client(streamable_http_client(url, http_client=http)) as client,
        ):
            assert not (await client.call_tool("search_test", ASKED)).is_error

    with over_http(tmp_path, KB_READER_TOKENS=TOKEN) as (url, _):

        def status(**changed: str) -> int:
            return httpx2.post(url, json=call, headers={**accept, **changed}).status_code

        assert status(Host="evil.example") == 421
        assert status(Origin="http://evil.example") == 403
        assert status(Authorization="Bearer wrong-token-0123456789") == 401
        assert httpx2.post(f"{url}?token={TOKEN}", json=call, headers={"Accept": accept["Accept"]}).status_code == 400
        assert httpx2.get(url.replace("/mcp", "/"), headers={"Host": "evil.example"}).status_code == 421
        large = {**accept, "Content-Type": "application/json"}
        assert httpx2.post(url, content=b"x" * 1_000_001, headers=large).status_code == 413
        assert httpx2.post(url, content=b"{}", headers=accept).status_code == 415
        run(with_token)


def test_clients_that_listen_for_messages_take_no_place_from_those_that_ask(tmp_path: Path) -> None:
    """Many clients open a stream by GET and leave it open; more than the guard has places kept everybody else out."""
    published(tmp_path)
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
    accept = {"Accept": "application/json, text/event-stream"}
    with over_http(tmp_path) as (url, _), httpx2.Client(headers=accept) as http:
        with ExitStack() as listening:
            answers = [listening.enter_context(http.stream("GET", url)) for _ in range(AT_ONCE + 1)]
            assert {answer.status_code for answer in answers} == {405}
            assert answers[0].headers["allow"] == "POST"
            assert httpx2.post(url, json=call, headers=accept).status_code == 200
        assert http.delete(url).status_code == 405


def test_a_server_that_other_machines_reach_needs_tokens(tmp_path: Path) -> None:
    published(tmp_path)
    command = [sys.executable, "-m", "kbcore.cli", "mcp", "--transport", "http", "-c", str(tmp_path / "kb.toml")]
    env = {name: value for name, value in environment().items() if not name.endswith("_TOKENS")}
    ended = subprocess.run(
        [*command, "--host", "0.0.0.0"], env=env, cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    assert ended.returncode == 2
    assert "KB_READER_TOKENS" in ended.stderr
    ended = subprocess.run(
        [*command, "--host", "0.0.0.0"], env={**env, "KB_READER_TOKENS": TOKEN}, cwd=ROOT, capture_output=True, text=True,
        timeout=60,
    )  # fmt: skip
    assert ended.returncode == 2
    assert "in the clear" in ended.stderr
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        ended = subprocess.run(
            [*command, "--port", port], env=env, cwd=ROOT, capture_output=True, text=True, timeout=60
        )
    assert ended.returncode == 2
    assert "is taken" in ended.stderr


def test_the_schema_of_a_hit_is_what_a_hit_holds() -> None:
    from dataclasses import fields

    from kbcore.types import Hit, SearchResult

    assert set(HitBody.model_fields) == {field.name for field in fields(Hit)} | {"citation"}
    assert set(ResultBody.model_fields) == {field.name for field in fields(SearchResult)}
