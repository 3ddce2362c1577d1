"""Who may do what."""

from __future__ import annotations

import pytest

from kbcore.errors import ConfigError
from kbcore.serving.http.access import Access, Caller, is_loopback, needs_operator
from kbcore.serving.http.failures import Refusal

READER, OPERATOR = "reader-token-0123456789", "operator-token-0123456789"


def admitted(
    access: Access, token: str | None, method: str = "GET", path: str = "/v1", client: str = "127.0.0.1"
) -> Caller | None:
    headers = [(b"authorization", f"Bearer {token}".encode())] if token else []
    return access.admit(method, path, b"", headers, client)


def refused(access: Access, *arguments: str | None, **named: str) -> int:
    with pytest.raises(Refusal) as caught:
        admitted(access, *arguments, **named)  # type: ignore[arg-type]
    return caught.value.status


def test_an_operator_reads_too_and_a_reader_does_not_operate() -> None:
    access = Access([READER], [OPERATOR])
    assert admitted(access, READER) == Caller("reader", "reader 1 over HTTP")
    assert admitted(access, OPERATOR) == Caller("operator", "operator 1 over HTTP")
    assert admitted(access, OPERATOR, "POST", "/v1/x/promote") == Caller("operator", "operator 1 over HTTP")
    assert refused(access, READER, "POST", "/v1/x/promote") == 403
    assert refused(access, None) == 401
    assert refused(access, READER + "x") == 401


def test_a_token_of_both_lists_operates() -> None:
    assert admitted(Access([READER], [READER]), READER) == Caller("operator", "operator 1 over HTTP")


def test_with_readers_alone_nobody_operates_and_with_operators_alone_others_do_not_read() -> None:
    assert refused(Access([READER]), READER, "POST", "/v1/x/hold") == 403
    assert refused(Access([], [OPERATOR]), None) == 401


def test_without_tokens_only_this_machine_reads() -> None:
    access = Access()
    assert admitted(access, None) == Caller("reader", "a caller without a token")
    assert admitted(access, None, client="::1") is not None
    assert refused(access, None, client="192.0.2.7") == 403
    assert refused(access, None, "POST", "/v1/x/rollback") == 403
    assert refused(access, READER) == 401
    assert admitted(Access(anyone=True), None, client="192.0.2.7") is not None


def test_tokens_are_read_from_the_environment_and_not_kept() -> None:
    access = Access.of({"KB_READER_TOKENS": f" {READER}, ,another-token-0123456789,", "KB_OPERATOR_TOKENS": OPERATOR})
    assert admitted(access, "another-token-0123456789") == Caller("reader", "reader 2 over HTTP")
    assert READER not in repr(vars(access))
    assert OPERATOR not in repr(vars(access))


@pytest.mark.parametrize("token", ["fifteen-letters", "sixteen letters!", "sixteen-lettersé"])
def test_a_token_that_is_short_or_no_header_carries_is_refused_without_being_told(token: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Access.of({"KB_OPERATOR_TOKENS": f"{OPERATOR},{token}"})
    assert "token 2 of KB_OPERATOR_TOKENS" in caught.value.message
    assert token not in str(caught.value)


@pytest.mark.parametrize("query", [b"token=x", b"a=1&ACCESS_TOKEN=x", b"api_key=", f"q={READER}".encode()])
def test_a_token_in_an_address_is_refused_even_where_none_is_needed(query: bytes) -> None:
    with pytest.raises(Refusal) as caught:
        Access([READER]).admit("GET", "/health/live", query, [], "127.0.0.1")
    assert (caught.value.status, caught.value.error) == (400, "TokenInAddress")
    assert READER not in caught.value.message


def test_acts_that_move_readers_need_an_operator_whatever_the_base() -> None:
    assert needs_operator("POST", "/v1/any/promote")
    assert needs_operator("POST", "/v1/any/rollback/")
    assert not needs_operator("POST", "/v1/promote/search")
    assert not needs_operator("GET", "/v1/any/hold")


@pytest.mark.parametrize(
    ("host", "own"),
    [("127.0.0.1", True), ("127.8.8.8", True), ("::1", True), ("[::1]", True), ("::ffff:127.0.0.1", True),
     ("localhost", True), ("0.0.0.0", False), ("10.0.0.1", False), ("::", False), ("localhost.evil", False), (None, False)],
)  # fmt: skip
def test_loopback_is_this_machine_alone(host: str | None, own: bool) -> None:
    assert is_loopback(host) is own
