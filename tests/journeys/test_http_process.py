"""How ``kb serve`` starts, what it says and logs, and how it ends."""

from __future__ import annotations

import concurrent.futures
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from kbcore.promotion import promote
from kbcore.search_log import files
from tests.journeys.http_server import READER, TOKENS, Server, desk
from tests.support import ROOT, refreshed, write

QUESTION = {"query": "how do I reset my password", "k": 3}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("process")


@pytest.fixture(scope="module")
def server(root: Path) -> Iterator[Server]:
    _, config = desk(root)
    with Server(config) as server:
        yield server


def test_several_knowledge_bases_are_served_by_their_names(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    _, one = desk(tmp_path / "a", "one")
    _, two = desk(tmp_path / "b", "two")
    with Server(one, two) as server:
        assert [base["name"] for base in server.get("/v1").json()["knowledge_bases"]] == ["one", "two"]
        assert server.post("/v1/two/search", QUESTION).json()["release"] == "r000002"
        assert "GET /v1 lists them" in server.post("/v1/three/search", QUESTION).json()["remedy"]


def test_a_base_whose_promotion_log_is_damaged_is_shown_so_and_hides_no_other(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    base, one = desk(tmp_path / "a", "one")
    _, two = desk(tmp_path / "b", "two")
    with Server(one, two) as server:
        newest = max((base.folder / "promotions").iterdir())
        newest.write_bytes(b"damaged")
        server.until(lambda: server.get("/v1/one").json()["problem"])
        damaged, whole = server.get("/v1").json()["knowledge_bases"]
        assert (damaged["name"], damaged["release"], damaged["promoted"], damaged["seq"]) == (
            "one",
            "r000002",
            None,
            None,
        )
        assert newest.name in damaged["problem"]
        assert (whole["name"], whole["promoted"], whole["problem"]) == ("two", "r000002", None)
        assert server.post("/v1/one/search", QUESTION).json()["release"] == "r000002"


def test_a_base_that_cannot_be_served_ends_the_start_with_its_name_and_the_cause(tmp_path: Path) -> None:
    base, config = desk(tmp_path)
    for file in (base.folder / "segments").rglob("*.parquet"):
        file.write_bytes(b"damaged")
    done = _serve(config)
    assert done.returncode == 1
    assert "kb: test cannot be served: " in done.stderr
    assert "listening" not in done.stdout


def test_a_reranker_that_is_not_here_ends_the_start_and_a_search_and_is_named(tmp_path: Path) -> None:
    _, config = desk(tmp_path)
    config.write_text(config.read_text() + f'[retrieval]\nreranker_path = "{tmp_path}/gone"\n')
    done = _serve(config)
    assert done.returncode == 12
    assert f"kb: test cannot be served: there is no reranker folder {tmp_path}/gone" in done.stderr
    asked = [sys.executable, "-m", "kbcore.cli", "search", "vpn", "-c", str(config)]
    searched = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert searched.returncode == 12
    assert "kb: there is no reranker folder" in searched.stderr
    assert "reranker_path" in searched.stderr


def test_a_server_says_to_the_collector_which_one_it_is(tmp_path: Path) -> None:
    _, config = desk(tmp_path)
    with Server(config, tokens={**TOKENS, "OTEL_TRACES_EXPORTER": "console"}) as server:
        server.post("/v1/test/search", QUESTION)
        server.until(lambda: '"name": "retrieval.test"' in server.log.read_text())
    spans = [line for line in server.lines() if line.get("name") == "retrieval.test"]  # each line of the log is JSON
    assert [span["resource"]["attributes"]["service.name"] for span in spans] == ["kb-http"]


def test_a_search_belongs_to_the_trace_of_its_caller_and_no_span_of_any_library_holds_the_question(
    tmp_path: Path,
) -> None:
    _, config = desk(tmp_path)
    parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    with Server(config, tokens={**TOKENS, "OTEL_TRACES_EXPORTER": "console"}) as server:
        server.post("/v1/test/search", {"query": "canary-4711"}, headers={"traceparent": parent})
        server.get("/v1/test/search?query=canary-4711", headers={"traceparent": parent})
        server.post("/v1/test/search", {"query": "canary-4711", "k": "canary-4711"}, headers={"traceparent": parent})
        assert server.get("/health/ready", token=None).status_code == 200
        server.until(lambda: server.log.read_text().count('"name": "POST /v1') == 2)
    spans = [line for line in server.lines() if "trace_id" in line.get("context", ())]
    assert {span["context"]["trace_id"] for span in spans} == {f"0x{parent[3:35]}"}
    assert f"0x{parent[36:52]}" in {span["parent_id"] for span in spans}
    assert "canary" not in json.dumps(spans)
    asked = [span for span in spans if span["name"] == "POST /v1/{kb}/search"]
    assert [span["attributes"]["http.response.status_code"] for span in asked] == [200, 422]


def test_the_log_of_searches_names_who_asked_and_holds_no_check_of_the_server_itself(tmp_path: Path) -> None:
    _, config = desk(tmp_path)
    config.write_text(config.read_text() + f'[search_log]\npath = "{tmp_path}/log"\n')
    with Server(config) as server:
        assert server.get("/health/ready", token=None).status_code == 200
        server.post("/v1/test/search", QUESTION)
        seq = server.seq
        assert server.move("rollback", {"reason": "log", "expected_seq": seq}).status_code == 200
    lines = [json.loads(line) for file in files(tmp_path / "log") for line in file.read_text().splitlines()]
    assert [line["consumer"] for line in lines] == ["http:reader 1"]


def test_nobody_says_of_himself_where_he_calls_from(tmp_path: Path) -> None:
    _, config = desk(tmp_path)
    with Server(config) as server:
        assert server.get("/v1", headers={"X-Forwarded-For": "192.0.2.7"}).status_code == 200
        server.until(lambda: server.lines())
        assert server.lines()[0]["client"] == "127.0.0.1"


def test_a_base_that_broke_meanwhile_is_named_by_health_and_nothing_else_is(tmp_path: Path) -> None:
    base, config = desk(tmp_path)
    write(tmp_path / "docs", {"new.md": "# New\n\nSomething new.\n"})
    with Server(config) as server:
        refreshed(base, promote=False)
        manifest = base.repository.manifest("r000003")
        promote(base.repository, "r000003", base.catalog, reason="test", run=base.repository.begin("test"))
        for segment in manifest.segments:
            for file in (base.folder / "segments" / segment.name).glob("*.parquet"):
                file.write_bytes(b"damaged")
        server.until(lambda: server.get("/health/ready", token=None).status_code == 503)
        assert server.get("/health/ready", token=None).json() == {"status": "not ready", "not_ready": ["test"]}
        assert server.post("/v1/test/search", QUESTION).json()["release"] == "r000002"
        assert "cannot be opened" in server.get("/v1/test").json()["problem"]


@pytest.mark.parametrize(
    ("options", "tokens", "said"),
    [
        (("--host", "0.0.0.0"), {}, "0.0.0.0 can be reached from other machines, and no tokens are set"),
        (("--host", "0.0.0.0", "--insecure"), {}, "0.0.0.0 can be reached from other machines, and no tokens are set"),
        (("--host", "0.0.0.0"), TOKENS, "tokens and answers would travel in the clear"),
        ((), {"KB_READER_TOKENS": "short-secret"}, "token 1 of KB_READER_TOKENS has 12 characters; at least 16"),
        (
            ("--host", "no.such.host.invalid", "--insecure"),
            TOKENS,
            "no.such.host.invalid is no address of this machine",
        ),
    ],
)
def test_a_start_that_would_not_be_safe_is_refused(
    root: Path, server: Server, options: tuple[str, ...], tokens: dict[str, str], said: str
) -> None:
    done = _serve(root / "test.toml", *options, **tokens)
    assert done.returncode == 2
    assert said in done.stderr
    assert "short-secret" not in done.stderr
    assert "Traceback" not in done.stderr


def test_a_port_that_is_taken_is_said_at_once(root: Path, server: Server) -> None:
    done = _serve(root / "test.toml", "--port", str(server.port))
    assert done.returncode == 2
    assert f"127.0.0.1:{server.port} is taken" in done.stderr


def test_with_tokens_and_knowingly_it_listens_where_others_reach_it_and_says_what_that_means(
    root: Path, server: Server
) -> None:
    config = root / "test.toml"
    with Server(config, options=("--host", "0.0.0.0", "--insecure", "--allow-host", "kb.example")) as wide:
        assert "put TLS in front" in wide.started["access"]
        port = wide.port
        for host, status in ((f"127.0.0.1:{port}", 200), ("kb.example", 200), ("other.example", 421)):
            got = httpx2.get(f"http://127.0.0.1:{port}/v1", headers={"Host": host, "Authorization": f"Bearer {READER}"})
            assert got.status_code == status, host


def test_without_tokens_programs_on_this_machine_read_and_nobody_operates(root: Path, server: Server) -> None:
    with Server(root / "test.toml", tokens={}) as bare:
        assert bare.post("/v1/test/search", QUESTION).status_code == 200
        refused = bare.move("hold", {"reason": "x", "expected_seq": bare.seq})
        assert refused.status_code == 403
        assert "KB_OPERATOR_TOKENS" in refused.json()["remedy"]
        forwarded = bare.get("/v1", headers={"X-Forwarded-For": "127.0.0.1"})
        assert (forwarded.status_code, forwarded.json()["error"]) == (403, "Forbidden")


def test_sigterm_finishes_what_runs_and_ends_with_0(tmp_path: Path) -> None:
    _, config = desk(tmp_path)
    with Server(config) as server:
        idle = httpx2.Client(base_url=server.url, headers={"Authorization": f"Bearer {READER}"}, timeout=30)
        idle.get("/v1")
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            running = [pool.submit(server.post, "/v1/test/search", QUESTION) for _ in range(40)]
            server.until(lambda: running[3].done())
            code = server.stop()
            ended = [one.exception() or one.result().status_code for one in running]
        idle.close()
    assert code == 0
    # A request is answered, or its connection was refused or closed before it was taken.
    assert all(entry == 200 or isinstance(entry, httpx2.TransportError) for entry in ended), ended
    assert not any("traceback" in line for line in server.lines())


def test_questions_stay_out_of_the_log_unless_asked_for(tmp_path: Path) -> None:
    _, config = desk(tmp_path)
    with Server(config) as server:
        server.post("/v1/test/search", {"query": "a canary question"})
        server.get("/v1/test/search", params={"query": "a canary question"})
        server.get("/v1/test/search", params={"query": "a canary question", "k": "nonsense"})
        server.until(lambda: len(server.lines()) >= 3)
        assert "canary" not in server.log.read_text()
        assert READER not in server.log.read_text()
    with Server(config, options=("--log-queries",)) as server:
        server.post("/v1/test/search", {"query": "a canary\r\nquestion \u202e \x1b[31m"})
        server.until(lambda: server.lines())
        (line,) = server.lines()
        assert line["query"] == "a canary\r\nquestion \u202e \x1b[31m"
        assert "\x1b" not in server.log.read_text()


def _serve(config: Path, *options: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """A start that is expected to end by itself."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("KB_")}
    return subprocess.run(
        [sys.executable, "-m", "kbcore.cli", "serve", "-c", str(config), "--port", "0", *options],
        cwd=ROOT, env={**kept, **environment}, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
