"""Who may ask and do what, and where a server may listen."""

from __future__ import annotations

import hmac

import pytest

from kbcore.errors import ConfigError, UsageError
from kbcore.serving import access as module
from kbcore.serving.access import Access, Caller, check_bind, is_loopback
from kbcore.serving.failures import Refusal

READER, OPERATOR = "reader-token-0123456789", "operator-token-0123456789"
ONE_READER, ONE_OPERATOR = Caller("reader", 1), Caller("operator", 1)


def caller(access: Access, token: str | None, client: str = "127.0.0.1", *more: tuple[bytes, bytes]) -> Caller:
    headers = [(b"authorization", f"Bearer {token}".encode())] if token else []
    return access.caller([*headers, *more], client)


def refused(access: Access, *arguments: str | None) -> int:
    with pytest.raises(Refusal) as caught:
        caller(access, *arguments)  # type: ignore[arg-type]
    return caught.value.status


def test_a_token_says_the_role_and_which_one_it_is() -> None:
    access = Access([READER, "another-reader-0123456789"], [OPERATOR])
    assert caller(access, READER) == ONE_READER
    assert caller(access, "another-reader-0123456789") == Caller("reader", 2)
    assert caller(access, OPERATOR) == ONE_OPERATOR
    assert (ONE_OPERATOR.name, ONE_OPERATOR.label) == ("operator 1 over HTTP", "operator 1")
    assert refused(access, None) == 401
    assert refused(access, READER + "x") == 401


@pytest.mark.parametrize(
    "headers",
    [
        [],
        [b""],
        [b"Bearer"],
        [b"Bearer "],
        [f"Basic {READER}".encode()],
        [READER.encode()],
        [f"Bearer {READER}x".encode()],
        [f"Bearer {READER[:-1]}".encode()],
        [b"Bearer \xff"],
        [f"Bearer {READER}".encode()] * 2,
    ],
)
def test_anything_else_has_no_role_and_is_told_what_is_asked_for(headers: list[bytes]) -> None:
    with pytest.raises(Refusal) as caught:
        Access([READER]).caller([(b"authorization", value) for value in headers], "127.0.0.1")
    assert caught.value.status == 401
    assert caught.value.headers["www-authenticate"].startswith("Bearer")
    assert "KB_READER_TOKENS" in caught.value.remedy


def test_the_scheme_is_read_in_any_case() -> None:
    assert Access([READER]).caller([(b"authorization", f"bearer {READER}".encode())], None) == ONE_READER


def test_an_operator_may_all_that_a_reader_may_and_a_reader_does_not_operate() -> None:
    access = Access([READER], [OPERATOR])
    access.require_operator(ONE_OPERATOR)
    with pytest.raises(Refusal) as caught:
        access.require_operator(ONE_READER)
    assert caught.value.status == 403


def test_a_token_of_both_lists_operates() -> None:
    assert caller(Access([READER], [READER]), READER) == ONE_OPERATOR


def test_with_readers_alone_nobody_operates_and_with_operators_alone_others_do_not_read() -> None:
    with pytest.raises(Refusal, match="no operator tokens"):
        Access([READER]).require_operator(ONE_READER)
    assert refused(Access([], [OPERATOR]), None) == 401


def test_without_tokens_only_this_machine_reads_and_nobody_operates() -> None:
    access = Access()
    assert not access.configured
    nobody = caller(access, None)
    assert (nobody, nobody.name, nobody.label) == (Caller("reader"), "a caller without a token", "no token")
    assert caller(access, None, "::1") == nobody
    assert refused(access, None, "192.0.2.7") == 403
    assert refused(access, READER) == 401
    with pytest.raises(Refusal, match="forwarded for another"):
        caller(access, None, "127.0.0.1", (b"x-forwarded-for", b"127.0.0.1"))
    with pytest.raises(Refusal) as caught:
        access.require_operator(nobody)
    assert caught.value.status == 403


def test_tokens_are_read_from_the_environment_and_kept_as_hashes_alone() -> None:
    access = Access.of({"KB_READER_TOKENS": f" {READER}, ,another-token-0123456789,", "KB_OPERATOR_TOKENS": OPERATOR})
    assert caller(access, "another-token-0123456789") == Caller("reader", 2)
    assert READER not in repr(vars(access))
    assert OPERATOR not in repr(vars(access))


@pytest.mark.parametrize("token", ["fifteen-letters", "sixteen letters!", "sixteen-lettersé"])
def test_a_token_that_is_short_or_no_header_carries_is_refused_without_being_told(token: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Access.of({"KB_OPERATOR_TOKENS": f"{OPERATOR},{token}"})
    assert "token 2 of KB_OPERATOR_TOKENS" in caught.value.message
    assert token not in str(caught.value)


def test_every_token_is_compared_whichever_matches(monkeypatch: pytest.MonkeyPatch) -> None:
    access = Access([READER, "another-reader-0123456789"], [OPERATOR])
    seen: list[bytes] = []
    compare = hmac.compare_digest

    def counted(a: bytes, b: bytes) -> bool:
        seen.append(a)
        return compare(a, b)

    monkeypatch.setattr(module.hmac, "compare_digest", counted)
    for token in (READER, OPERATOR, "unknown-0123456789"):
        seen.clear()
        if token.startswith("unknown"):
            assert refused(access, token) == 401
        else:
            caller(access, token)
        assert len(seen) == 3


@pytest.mark.parametrize("query", [b"token=x", b"a=1&ACCESS_TOKEN=x", b"api_key=", f"q={READER}".encode()])
def test_a_token_in_an_address_is_refused(query: bytes) -> None:
    with pytest.raises(Refusal) as caught:
        Access([READER]).refuse_in_query(query)
    assert (caught.value.status, caught.value.error) == (400, "TokenInAddress")
    assert READER not in caught.value.message
    Access([READER]).refuse_in_query(b"query=vpn")


def test_a_server_beyond_this_machine_needs_a_token_and_says_that_it_speaks_no_tls() -> None:
    for host in ("127.0.0.1", "::1", "localhost"):
        check_bind(host, Access())
    with pytest.raises(UsageError, match="no tokens are set"):
        check_bind("0.0.0.0", Access(), insecure=True)
    with pytest.raises(UsageError, match="in the clear"):
        check_bind("0.0.0.0", Access([READER]))
    check_bind("0.0.0.0", Access([READER]), insecure=True)


@pytest.mark.parametrize(
    ("host", "own"),
    [("127.0.0.1", True), ("127.8.8.8", True), ("::1", True), ("[::1]", True), ("::ffff:127.0.0.1", True),
     ("localhost", True), ("0.0.0.0", False), ("10.0.0.1", False), ("::", False), ("localhost.evil", False), (None, False)],
)  # fmt: skip
def test_loopback_is_this_machine_alone(host: str | None, own: bool) -> None:
    assert is_loopback(host) is own
