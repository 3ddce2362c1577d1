"""A sealed file is found changed, whatever was changed in it."""

from __future__ import annotations

import pytest

from kbcore.errors import CorruptReleaseError
from kbcore.fingerprint import canonical, sha256
from kbcore.store import envelope
from kbcore.types import Json

BODY: Json = {"a": 1, "name": "Größe", "of": [True, None, "x"]}
SEALED = envelope.seal(BODY)


def refused(data: bytes) -> bool:
    try:
        envelope.unseal(data, file="records/1.json")
    except CorruptReleaseError as error:
        return error.file == "records/1.json"
    return False


def spelled(inner: bytes, before: bytes = b"", after: bytes = b"") -> bytes:
    """A file whose digest is right for ``inner``, which is spelled otherwise than seal would."""
    return b'{"body":' + inner + b',"sha256":"' + sha256(inner).encode() + b'"' + after + b"}\n" + before


def test_what_was_sealed_is_read_back_and_has_the_digest_beside_it() -> None:
    assert envelope.unseal(SEALED, file="f") == BODY
    assert envelope.digest(BODY) == sha256(canonical(BODY))
    assert envelope.digest(BODY).encode() in SEALED


def test_every_flipped_bit_is_found() -> None:
    for bit in range(len(SEALED) * 8):
        changed = bytearray(SEALED)
        changed[bit // 8] ^= 1 << (bit % 8)
        assert refused(bytes(changed)), f"bit {bit}"


def test_every_truncation_is_found() -> None:
    for length in range(len(SEALED)):
        assert refused(SEALED[:length]), length


def test_every_appended_or_leading_byte_is_found() -> None:
    for byte in range(256):
        assert refused(SEALED + bytes([byte])), byte
        assert refused(bytes([byte]) + SEALED), byte


def test_every_repeated_or_lost_byte_is_found() -> None:
    for place in range(len(SEALED)):
        assert refused(SEALED[:place] + SEALED[place + 1 :]), place
        assert refused(SEALED[:place] + b" " + SEALED[place:]), place


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(spelled(b'{"a":1,"a":1}'), id="a key twice, with equal values"),
        pytest.param(spelled(b'{"a":2,"a":1}'), id="a key twice, with other values"),
        pytest.param(spelled(b'{"b":1,"a":1}'), id="keys in another order"),
        pytest.param(spelled(b'{"a": 1}'), id="a blank"),
        pytest.param(spelled(b'{"a":1.0}').replace(b"1.0", b"1.00"), id="another spelling of a number"),
        pytest.param(spelled(b'{"a":1e0}'), id="an exponent"),
        pytest.param(spelled(b'{"a":"\\u00e9"}'), id="an escape for a letter"),
        pytest.param(spelled(b'{"a":NaN}'), id="not a number"),
        pytest.param(spelled(b'{"a":1}', after=b',"extra":0'), id="a key beside the body"),
        pytest.param(spelled(b'{"a":1}', after=b',"sha256":"0"'), id="the digest twice"),
        pytest.param(spelled(b"[1]"), id="a body that is no object"),
        pytest.param(spelled(b'{"a":"\xff"}'), id="not UTF-8"),
        pytest.param(b"\xef\xbb\xbf" + SEALED, id="a byte order mark"),
        pytest.param(SEALED.replace(b"\n", b"\r\n"), id="another line end"),
        pytest.param(SEALED.replace(sha256(canonical(BODY)).encode(), b"0" * 64), id="another digest"),
        pytest.param(b"[" * 200_000, id="deeper than the parser goes"),
        pytest.param(b"null\n", id="no wrapper"),
        pytest.param(b"[]\n", id="a list for a wrapper"),
        pytest.param(b"{}\n", id="an empty wrapper"),
        pytest.param(b"", id="an empty file"),
    ],
)
def test_another_spelling_is_found_even_where_its_own_digest_is_right(data: bytes) -> None:
    assert refused(data)


def test_a_file_beyond_the_limit_is_refused_before_it_is_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(envelope, "MAX_BYTES", len(SEALED))
    assert envelope.unseal(SEALED, file="f") == BODY
    monkeypatch.setattr(envelope, "MAX_BYTES", len(SEALED) - 1)
    with pytest.raises(CorruptReleaseError, match="more than a record may have"):
        envelope.unseal(SEALED, file="f")
