"""Who may ask, and where a server may listen."""

from __future__ import annotations

import hmac

import pytest

from kbcore.errors import ConfigError, UsageError
from kbcore.serving import access
from kbcore.serving.access import Tokens, check_bind, is_loopback

READER, OPERATOR = "reader-token-0123456789", "operator-token-0123456789"


def tokens() -> Tokens:
    return Tokens.of({"KB_READER_TOKENS": f"{READER}, another-reader-0123456789", "KB_OPERATOR_TOKENS": OPERATOR})


def test_a_token_says_the_role() -> None:
    assert tokens().role(f"Bearer {READER}") == "reader"
    assert tokens().role("bearer another-reader-0123456789") == "reader"
    assert tokens().role(f"Bearer {OPERATOR}") == "operator"


@pytest.mark.parametrize(
    "header",
    [
        None,
        "",
        "Bearer",
        "Bearer ",
        f"Basic {READER}",
        READER,
        f"Bearer {READER}x",
        f"Bearer {READER[:-1]}",
        "Bearer \udcff",
    ],
)
def test_anything_else_has_no_role(header: str | None) -> None:
    assert tokens().role(header) is None


def test_without_tokens_none_is_required_and_none_is_known() -> None:
    assert not Tokens.of({}).required
    assert Tokens.of({}).role(f"Bearer {READER}") is None


def test_short_tokens_are_refused_and_not_shown() -> None:
    with pytest.raises(ConfigError) as caught:
        Tokens.of({"KB_READER_TOKENS": f"{READER},fifteen-letters"})
    assert "token 2" in str(caught.value)
    assert "fifteen-letters" not in str(caught.value)


def test_tokens_are_kept_as_hashes_alone() -> None:
    assert READER not in repr(tokens())
    assert all(len(digest) == 32 for _, digest in tokens().digests)


def test_every_token_is_compared_whichever_matches(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[bytes] = []
    compare = hmac.compare_digest

    def counted(a: bytes, b: bytes) -> bool:
        seen.append(a)
        return compare(a, b)

    monkeypatch.setattr(access.hmac, "compare_digest", counted)
    for header in (f"Bearer {READER}", "Bearer unknown-0123456789", None):
        seen.clear()
        tokens().role(header)
        assert len(seen) == 3


def test_a_server_beyond_this_machine_needs_a_token_and_says_that_it_speaks_no_tls() -> None:
    check_bind("127.0.0.1", Tokens())
    check_bind("::1", Tokens())
    check_bind("localhost", Tokens())
    with pytest.raises(UsageError, match="no token"):
        check_bind("0.0.0.0", Tokens(), insecure=True)
    with pytest.raises(UsageError, match="in the clear"):
        check_bind("0.0.0.0", tokens())
    check_bind("0.0.0.0", tokens(), insecure=True)


def test_names_that_only_look_local_are_not() -> None:
    assert not is_loopback("localhost.example.org")
    assert not is_loopback("0.0.0.0")
    assert is_loopback("127.8.8.8")
