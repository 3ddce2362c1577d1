"""Promote, roll back and hold over HTTP: who may, that two at once are one, and that a repetition is none."""

from __future__ import annotations

import concurrent.futures
from collections.abc import Iterator
from pathlib import Path

import pytest

from kbcore.promotion import undo
from kbcore.serving.http.answers import MovedAnswer
from tests.journeys.http_server import READER, Server, desk


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    base, config = desk(tmp_path_factory.mktemp("moves"))
    with Server(config) as server:
        server.base = base  # type: ignore[attr-defined]
        yield server


def test_an_operator_rolls_back_promotes_and_holds(server: Server) -> None:
    back = server.move("rollback", {"reason": "wrong answers", "expected_seq": server.seq})
    assert back.status_code == 200, back.text
    MovedAnswer.model_validate(back.json())
    assert (back.json()["from"], back.json()["release"], back.headers["KB-Release"]) == (
        "r000002",
        "r000001",
        "r000001",
    )
    assert back.json()["by"] == "operator 1 over HTTP"
    assert back.json()["hold"]["reason"] == "wrong answers"
    # Who moved readers is answered from where they are now, without waiting.
    assert back.json()["answering"] == "r000001"
    summary = server.get("/v1/test").json()
    assert (summary["release"], summary["promoted"]) == ("r000001", "r000001")
    lifted = server.move("hold", {"reason": "mended", "expected_seq": server.seq, "lift": True})
    assert lifted.json()["hold"] is None
    forth = server.move("promote", {"release": "r000002", "reason": "mended", "expected_seq": server.seq})
    assert (forth.json()["from"], forth.json()["release"]) == ("r000001", "r000002")
    held = server.move("hold", {"reason": "holidays", "expected_seq": server.seq})
    assert held.json()["hold"]["reason"] == "holidays"
    server.move("hold", {"reason": "back", "expected_seq": server.seq, "lift": True})
    history = server.get("/v1/test/history").json()
    assert [record["kind"] for record in history["records"][:5]] == ["lift", "hold", "promote", "lift", "rollback"]
    assert history["seq"] == server.seq


@pytest.mark.parametrize("act", ["promote", "rollback", "hold"])
def test_a_reader_moves_nothing(server: Server, act: str) -> None:
    before = server.seq
    got = server.move(act, {"reason": "x", "expected_seq": before}, token=READER)
    assert (got.status_code, got.json()["error"]) == (403, "Forbidden")
    assert "KB_OPERATOR_TOKENS" in got.json()["remedy"]
    assert server.seq == before


def test_readers_are_moved_by_post_alone_with_json_a_reason_and_the_record_last_seen(server: Server) -> None:
    before = server.seq
    good = {"reason": "x", "expected_seq": before}
    assert server.get("/v1/test/hold").status_code == 405
    form = server.ask("POST", "/v1/test/hold", token="operator-token-0123456789", data={"reason": "x"})
    assert form.status_code == 415
    for bad, where in (
        ({**good, "reason": "  "}, "reason"),
        ({"expected_seq": before}, "reason"),
        ({"reason": "x"}, "expected_seq"),
        ({**good, "expected_seq": str(before)}, "expected_seq"),
        ({**good, "force": True}, "force"),
    ):
        got = server.move("hold", bad)
        assert (got.status_code, got.json()["message"].split(":")[0]) == (422, where)
    cross = server.move("hold", good, headers={"Origin": "https://evil.example"})
    assert cross.status_code == 403
    assert server.move("hold", good, headers={"Sec-Fetch-Site": "cross-site"}).status_code == 403
    assert server.seq == before


def test_who_saw_an_older_state_moves_nothing(server: Server) -> None:
    before = server.seq
    for act in ("promote", "rollback", "hold"):
        got = server.move(act, {"reason": "x", "expected_seq": before - 1})
        assert (got.status_code, got.json()["error"]) == (409, "ReleaseConflictError"), act
        assert "moved first" in got.json()["message"]
        got = server.move(act, {"reason": "x", "expected_seq": before + 9})
        assert got.status_code == 409
        assert got.json()["message"] == f"there is no record {before + 9} in the promotion log; the newest is {before}"
    assert server.seq == before


def test_two_clicks_at_once_are_one_move(server: Server) -> None:
    before = server.seq
    body = {"reason": "twice", "expected_seq": before}
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        codes = sorted(got.status_code for got in pool.map(lambda _: server.move("hold", body), range(8)))
    assert codes == [200] + [409] * 7
    assert server.seq == before + 1
    server.move("hold", {"reason": "x", "expected_seq": server.seq, "lift": True})


def test_a_repetition_with_the_same_key_is_answered_as_the_first_and_done_once(server: Server) -> None:
    before = server.seq
    body = {"reason": "retry", "expected_seq": before}
    key = {"Idempotency-Key": "7f3a-1"}
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        same = list(pool.map(lambda _: server.move("hold", body, headers=key), range(8)))
    assert {got.status_code for got in same} == {200}
    assert len({got.content for got in same}) == 1
    assert server.seq == before + 1
    other = server.move("hold", {**body, "reason": "another"}, headers=key)
    assert (other.status_code, other.json()["error"]) == (422, "KeyUsedBefore")
    assert server.move("hold", body, headers={"Idempotency-Key": "x" * 201}).status_code == 400
    undo(server.base.repository, server.base.catalog, reason="x", run=server.base.repository.begin("t"))  # type: ignore[attr-defined]


def test_what_policy_refuses_is_409_and_what_is_not_there_404(server: Server) -> None:
    unknown = server.move("promote", {"release": "r000099", "reason": "x", "expected_seq": server.seq})
    assert (unknown.status_code, unknown.json()["error"]) == (404, "ReleaseNotFoundError")
    never = server.move("rollback", {"to": "r000002", "reason": "x", "expected_seq": server.seq})
    assert never.status_code == 400  # it is current already
    assert server.get("/v1/test").json()["release"] == "r000002"


def test_an_expired_release_is_410(tmp_path: Path) -> None:
    base, config = desk(tmp_path)
    base.repository.expire("r000001", reason="old", run=base.repository.begin("test"))
    with Server(config) as server:
        got = server.post("/v1/test/search", {"query": "vpn", "release": "r000001"})
        assert (got.status_code, got.json()["error"]) == (410, "ReleaseExpiredError")
        refused = server.move("rollback", {"reason": "x", "expected_seq": server.seq})
        assert (refused.status_code, refused.json()["error"]) == (409, "RefusedError")
