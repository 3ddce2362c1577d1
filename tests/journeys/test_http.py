"""What a program gets from ``kb serve``, from a real server process."""

from __future__ import annotations

import concurrent.futures
import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from prometheus_client.parser import text_string_to_metric_families

from kbcore.promotion import promote, rollback
from kbcore.serving.answers import result_json
from kbcore.serving.bodies import ResultBody
from kbcore.serving.http import answers
from tests.journeys.http_server import OPERATOR, READER, Server, desk
from tests.support import ROOT, refreshed, write

QUESTION = {"query": "how do I reset my password", "k": 3}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("http")


@pytest.fixture(scope="module")
def server(root: Path) -> Iterator[Server]:
    base, config = desk(root)
    with Server(config) as server:
        server.base = base  # type: ignore[attr-defined]
        yield server


def test_a_server_says_at_its_start_what_it_serves_and_where(server: Server) -> None:
    assert server.started["url"].startswith("http://127.0.0.1:")
    assert server.started["knowledge_bases"] == [
        {"name": "test", "release": "r000002", "mode": "hybrid", "documents": 4, "chunks": 4}
    ]
    assert server.started["access"] == "callers need a token"


def test_search_answers_what_the_retriever_answers(server: Server) -> None:
    options: dict[str, Any] = {"mode": "keyword", "merge": True, "where": {"source": "docs"}}
    over_http = server.post("/v1/test/search", {**QUESTION, **options})
    here = result_json(server.base.retriever().search(QUESTION["query"], 3, **options))  # type: ignore[attr-defined]
    assert over_http.status_code == 200
    assert over_http.json() == json.loads(json.dumps(here))
    assert over_http.json()["hits"]


def test_search_by_address_takes_the_same_parameters(server: Server) -> None:
    posted = server.post("/v1/test/search", {**QUESTION, "where": ["source=docs", "uri^=pass"], "fold": True})
    got = server.get("/v1/test/search", params={**QUESTION, "where": ["source=docs", "uri^=pass"], "fold": "true"})
    assert posted.json() == got.json()
    assert [hit["uri"] for hit in got.json()["hits"]] == ["passwords.md"]


ROUTES: list[tuple[str, str, Any, type[answers.BaseModel]]] = [
    ("POST", "/v1/test/search", QUESTION, ResultBody),
    ("GET", "/v1/test/search?query=printing", None, ResultBody),
    ("GET", "/v1/test/lookup?key=vpn.md", None, ResultBody),
    ("POST", "/v1/test/explain", {**QUESTION, "document": "vpn.md"}, answers.ExplainAnswer),
    ("POST", "/v1/test/context", {**QUESTION, "max_tokens": 200}, answers.ContextAnswer),
    ("POST", "/v1/test/cite", {"answer": "So it is [r000002 docs:vpn.md#c0]."}, answers.CiteAnswer),
    ("GET", "/v1/test", None, answers.BaseAnswer),
    ("GET", "/v1/test/releases", None, answers.ReleasesAnswer),
    ("GET", "/v1/test/releases/current", None, answers.ReleaseAnswer),
    ("GET", "/v1/test/diff", None, answers.DiffAnswer),
    ("GET", "/v1/test/diff?document=docs:vpn.md", None, answers.TextDiffAnswer),
    ("GET", "/v1/test/history", None, answers.HistoryAnswer),
    ("GET", "/v1/test/evals", None, answers.EvalsAnswer),
]


@pytest.mark.parametrize(("method", "path", "body", "form"), ROUTES, ids=[f"{r[0]} {r[1]}" for r in ROUTES])
def test_each_route_answers_in_its_declared_form_and_names_the_release(
    server: Server, method: str, path: str, body: Any, form: type[answers.BaseModel]
) -> None:
    got = server.ask(method, path, json=body) if body else server.ask(method, path)
    assert got.status_code == 200, got.text
    form.model_validate(got.json())
    assert got.headers["KB-Release"] == got.json()["release"] == "r000002"
    assert got.headers["content-type"] == "application/json"


@pytest.mark.parametrize("path", [f"{r[1]}" for r in ROUTES] + ["/v1", "/metrics", "/openapi.json", "/v1/test/promote"])
def test_no_route_answers_without_a_token(server: Server, path: str) -> None:
    for method in ("GET", "POST"):
        bare = server.ask(method, path, token=None)
        assert bare.status_code == 401, (method, path)
        assert bare.headers["www-authenticate"] == "Bearer"
        assert "KB_READER_TOKENS" in bare.json()["remedy"]
        assert server.ask(method, path, token="wrong-token-0123456789").status_code == 401


def test_health_needs_no_token_and_tells_nothing(server: Server) -> None:
    for path in ("/health/live", "/health/ready"):
        got = server.get(path, token=None)
        assert (got.status_code, got.json()) == (200, {"status": "ok"})
        head = server.ask("HEAD", path, token=None)
        assert (head.status_code, head.content) == (200, b"")


def test_an_unknown_knowledge_base_release_or_address_is_404(server: Server) -> None:
    for path in ("/v1/nowhere", "/v1/test/releases/r000099", "/v1/test/search?query=x&release=r000099", "/nothing"):
        assert server.get(path).status_code == 404, path
    assert server.post("/v1/test/search", {"query": "x", "release": "r000099"}).json() == {
        "error": "ReleaseNotFoundError",
        "message": "there is no release 'r000099'",
        "remedy": "see: kb releases",
    }


def test_a_method_that_an_address_does_not_take_is_405_and_names_those_it_takes(server: Server) -> None:
    got = server.get("/v1/test/promote", token=OPERATOR)
    assert (got.status_code, got.headers["allow"]) == (405, "POST")
    assert server.ask("DELETE", "/v1/test/releases").status_code == 405


def test_an_older_release_is_searched_by_its_name(server: Server) -> None:
    older = server.post("/v1/test/search", {"query": "ERR-4012 gateway", "release": "r000001", "mode": "keyword"})
    assert older.json()["release"] == older.headers["KB-Release"] == "r000001"
    assert "gateway did not answer" in older.json()["hits"][0]["text"]


def test_lookup_context_cite_and_diff_say_what_they_are_for(server: Server) -> None:
    assert server.get("/v1/test/lookup", params={"key": "no-such-key"}).json()["evidence"]["known"] is False
    context = server.post("/v1/test/context", {**QUESTION, "max_tokens": 120}).json()
    assert context["tokens"] <= 120
    assert "[r000002 docs:passwords.md#c0]" in context["text"]
    cited = server.post("/v1/test/cite", {"answer": "a [r000001 docs:vpn.md#c0] b [r000001 docs:x.md#c0]"}).json()
    assert [entry["state"] for entry in cited["citations"]] == ["ok", "no document"]
    assert cited["ok"] is False
    difference = server.get("/v1/test/diff", params={"old": "r000001", "new": "r000002"}).json()
    assert [entry["doc_id"] for entry in difference["changed"]] == ["docs:vpn.md"]
    text = server.get("/v1/test/diff", params={"old": "r000001", "document": "docs:vpn.md"}).json()["diff"]
    assert "+The profile is called *Remote* now." in text


def test_explain_says_at_which_stage_a_document_was_lost(server: Server) -> None:
    told = server.post("/v1/test/explain", {"query": "ERR-4012", "document": "nowhere.md", "mode": "keyword"}).json()
    assert told["document"]["stage"] == "not in the release"
    assert told["codes"] == ["err-4012"]
    assert told["candidates"]
    assert told["result"]["hits"][0]["citation"] == "[r000002 docs:vpn.md#c0]"


def test_evals_give_scorecards_and_gate_records_as_they_are_kept(tmp_path: Path) -> None:
    _, config = desk(tmp_path)
    questions = tmp_path / "set.jsonl"
    questions.write_text(
        json.dumps({"id": "q1", "question": "lost phone", "expected": [{"doc_id": "docs:phones.html", "grade": 1}]})
        + "\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "kbcore.cli", "eval", "-c", str(config), "--set", str(questions), "--json"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    card = json.loads(done.stdout)
    with Server(config) as server:
        found = server.get("/v1/test/evals", params={"release": "r000002"}).json()
        kinds = [record["kind"] for record in found["records"]]
        assert "scorecard" in kinds
        kept = next(record for record in found["records"] if record["kind"] == "scorecard")
        assert (kept["means"], kept["key"]) == (card["means"], card["key"])
        assert "answers" not in kinds


def test_what_a_caller_holds_is_not_sent_again(server: Server) -> None:
    for path in (
        "/v1/test/search?query=printing",
        "/v1/test/releases",
        "/v1/test/releases/r000001",
        "/v1",
        "/v1/test/history",
    ):
        first = server.get(path)
        again = server.get(path, headers={"If-None-Match": f'"other", {first.headers["etag"]}'})
        assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", first.headers["etag"])
    other = server.get("/v1/test/search?query=phones", headers={"If-None-Match": first.headers["etag"]})
    assert other.status_code == 200


def test_a_validator_ends_with_the_release_with_erasures_and_with_checks(tmp_path: Path) -> None:
    base, config = desk(tmp_path)
    with Server(config) as server:
        path = "/v1/test/search?query=lost+phone&mode=keyword"

        def changed(tag: str) -> bool:
            return server.get(path, headers={"If-None-Match": tag}).status_code == 200

        tag = server.get(path).headers["etag"]
        run = base.repository.begin("test")
        base.repository.erase([{"doc_id": "docs:phones.html", "content_sha256": None}], reason="asked", run=run)
        server.until(lambda: changed(tag))
        erased = server.get(path)
        assert "phones.html" not in erased.text
        rollback(base.repository, base.catalog, reason="test", run=base.repository.begin("test"))
        server.until(lambda: changed(erased.headers["etag"]))
        older = server.get(path)
        assert older.json()["release"] == "r000001"
        refreshed(base)  # finds what it knows, and confirms it
        server.until(lambda: changed(older.headers["etag"]))


def test_a_promotion_and_a_rollback_are_followed_without_a_restart(tmp_path: Path) -> None:
    base, config = desk(tmp_path)
    with Server(config) as server:
        assert server.post("/v1/test/search", QUESTION).json()["release"] == "r000002"
        write(tmp_path / "docs", {"new.md": "# Coffee\n\nThe coffee machine is on the third floor.\n"})
        refreshed(base)
        server.until(lambda: server.post("/v1/test/search", {"query": "coffee"}).json()["release"] == "r000003")
        assert "coffee machine" in server.post("/v1/test/search", {"query": "coffee"}).json()["hits"][0]["text"]
        rollback(base.repository, base.catalog, reason="test", run=base.repository.begin("test"))
        server.until(lambda: server.post("/v1/test/search", {"query": "coffee"}).json()["release"] == "r000002")


def test_no_answer_mixes_releases_while_readers_are_moved(tmp_path: Path) -> None:
    base, config = desk(tmp_path)
    expected = {
        release: [
            (hit.chunk_id, hit.score) for hit in base.retriever(release).search("ERR-4012 gateway profile", 5).hits
        ]
        for release in ("r000001", "r000002")
    }
    assert expected["r000001"] != expected["r000002"]
    moving = threading.Event()
    moving.set()
    seen: set[str] = set()

    def ask(client: httpx2.Client) -> None:
        """Until readers were moved often enough, and 20 times at least."""
        count = 0
        while moving.is_set() or count < 20:
            got = client.post("/v1/test/search", json={"query": "ERR-4012 gateway profile", "k": 5})
            assert got.status_code == 200, got.text
            body = got.json()
            assert {body["release"], got.headers["KB-Release"], *(h["release"] for h in body["hits"])} == {
                body["release"]
            }
            assert [(hit["chunk_id"], hit["score"]) for hit in body["hits"]] == expected[body["release"]]
            seen.add(body["release"])
            count += 1

    def move() -> None:
        for _ in range(6):
            rollback(base.repository, base.catalog, reason="test", run=base.repository.begin("test"))
            time.sleep(0.4)
            promote(base.repository, "r000002", base.catalog, reason="test", run=base.repository.begin("test"))
            time.sleep(0.4)
        moving.clear()

    with Server(config) as server:
        mover = threading.Thread(target=move)
        mover.start()
        headers = {"Authorization": f"Bearer {READER}"}
        with httpx2.Client(base_url=server.url, headers=headers, timeout=30) as client, \
                concurrent.futures.ThreadPoolExecutor(8) as pool:  # fmt: skip
            list(pool.map(ask, [client] * 8))
        mover.join()
        assert server.get("/health/ready").status_code == 200
    assert seen == {"r000001", "r000002"}


def test_a_loop_over_releases_keeps_only_a_few_open(tmp_path: Path) -> None:
    base, config = desk(tmp_path)
    for number in range(6):
        write(tmp_path / "docs", {"vpn.md": f"# VPN\n\nEdition {number}.\n"})
        refreshed(base)
    with Server(config) as server:
        for release in base.repository.releases():
            assert server.post("/v1/test/search", {"query": "vpn", "release": release}).json()["release"] == release
        assert _figures(server)["kb_open_retrievers", (("kb", "test"),)] <= 1 + 2


def test_metrics_parse_and_count(server: Server) -> None:
    before = _figures(server)
    server.post("/v1/test/search", {"query": "lost phone", "mode": "keyword", "where": "source=docs"})
    server.post("/v1/test/search", {"query": " ", "mode": "keyword"})
    server.get("/some/address/that/nobody/knows")
    after = _figures(server)

    def more(name: str, **labels: str) -> float:
        key = name, tuple(sorted(labels.items()))
        return after[key] - before.get(key, 0.0)

    assert more("kb_searches_total", kb="test", mode="keyword", outcome="hits") == 1
    assert more("kb_searches_total", kb="test", mode="keyword", outcome="no_match") == 1
    assert more("kb_search_evidence_total", kb="test", kind="filter") == 1
    assert more("kb_search_evidence_total", kb="test", kind="blank_query") == 1
    assert more("kb_http_requests_total", method="POST", route="/v1/{kb}/search", status="200") == 2
    assert more("kb_http_requests_total", method="GET", route="none", status="404") == 1
    assert more("kb_http_request_seconds_count", route="/v1/{kb}/search") == 2
    assert after["kb_current_release_info", (("kb", "test"), ("release", "r000002"))] == 1
    assert after["kb_promotion_not_followed", (("kb", "test"),)] == 0


def _figures(server: Server) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    got = server.get("/metrics")
    assert got.headers["content-type"].startswith("text/plain; version=0.0.4")
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(got.text)
        for sample in family.samples
    }
