"""Decoding without loss, or a reason."""

from __future__ import annotations

import codecs
import random

import pytest

from kbcore.errors import DocumentError, SkippedDocumentError
from kbcore.parsing import ParseLimits
from kbcore.parsing.plaintext import clean, decode, parse

GERMAN = "Größe und Maße: „Anführung“ – das kostet 5 €, naïve Café-Gäste müssen früh öffnen."
ENGLISH = "Some important points:\n\n- Hamburgers are delicious\n- Dogs are the best\n"


@pytest.mark.parametrize(
    ("mark", "encoding"),
    [
        (codecs.BOM_UTF8, "utf-8"),
        (codecs.BOM_UTF16_LE, "utf-16-le"),
        (codecs.BOM_UTF16_BE, "utf-16-be"),
        (codecs.BOM_UTF32_LE, "utf-32-le"),
        (codecs.BOM_UTF32_BE, "utf-32-be"),
    ],
)
def test_a_byte_order_mark_decides_and_is_taken_off(mark: bytes, encoding: str) -> None:
    decoded = decode(mark + GERMAN.encode(encoding))
    assert (decoded.text, decoded.encoding, decoded.guessed) == (GERMAN, encoding, False)


def test_bytes_that_belie_their_mark_are_refused() -> None:
    with pytest.raises(DocumentError, match="byte order mark of utf-16-le"):
        decode(codecs.BOM_UTF16_LE + b"odd")


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"])
def test_wide_text_without_a_mark_is_seen_by_its_nuls(encoding: str) -> None:
    decoded = decode(ENGLISH.encode(encoding))
    assert (decoded.text, decoded.encoding, decoded.guessed) == (ENGLISH, encoding, True)


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        (GERMAN, "cp1252"),
        ("## können\n\nkönnen\n\näöüß\n", "latin-1"),
        ("El niño comió paella con ñoquis. ¡Qué rico! La señora pagó 25,75 €.", "cp1252"),
        ("It’s a “test” – of curly quotes", "cp1252"),
        ("Zażółć gęślą jaźń, proszę zresetować hasło w portalu. Można to zrobić też telefonicznie.", "cp1250"),
        ("Сбросьте пароль на портале самообслуживания, затем войдите снова.", "cp1251"),
        ("パスワードをリセットするにはポータルを開きます。新しいパスワードを入力してください。", "cp932"),
    ],
)
def test_other_encodings_are_guessed_right_and_the_guess_is_recorded(text: str, encoding: str) -> None:
    decoded = decode(text.encode(encoding))
    assert decoded.text == text
    assert decoded.stats()["encoding_guessed"] is True


def test_damaged_utf8_is_refused_and_not_read_as_another_encoding() -> None:
    with pytest.raises(DocumentError, match="invalid sequences, the first at byte"):
        decode(GERMAN.encode() + b"\xff" + GERMAN.encode())


@pytest.mark.parametrize("seed", range(5))
def test_binary_bytes_are_refused(seed: int) -> None:
    with pytest.raises(DocumentError):
        decode(random.Random(seed).randbytes(3000))


def test_a_file_of_mostly_control_characters_is_not_text() -> None:
    with pytest.raises(DocumentError, match="control characters"):
        decode(b"\x01\x02\x00\x03abc" * 50)


def test_a_declared_encoding_counts_unless_it_is_wrong() -> None:
    assert decode(GERMAN.encode("cp1252"), "cp1252").guessed is False
    assert decode(GERMAN.encode(), "ascii").text == GERMAN
    assert decode(GERMAN.encode(), "no-such-encoding").text == GERMAN


def test_line_ends_become_newlines_and_nuls_are_removed_and_counted() -> None:
    decoded = decode(b"one\r\ntwo\rthree\0\nfour of many more words")
    assert decoded.text == "one\ntwo\nthree\nfour of many more words"
    assert decoded.stats()["nuls_removed"] == 1


def test_replacement_characters_of_the_source_are_counted() -> None:
    assert decode("already lost: \ufffd".encode()).stats()["replacement_characters"] == 1


def test_lone_surrogates_never_leave_a_parser() -> None:
    assert clean("a\ud800b\0\r\n") == "a\ufffdb\n"


@pytest.mark.parametrize("data", [b"", b" \r\n\t", codecs.BOM_UTF8, "\u200b\n".encode()])
def test_a_blank_file_is_skipped(data: bytes) -> None:
    with pytest.raises(SkippedDocumentError, match="blank"):
        parse("a.txt", data, ParseLimits())


def test_plain_text_keeps_its_words_and_is_titled_by_its_file() -> None:
    parsed = parse("notes/Release notes.txt", b"# no heading here\n", ParseLimits())
    assert (parsed.text, parsed.title, parsed.headings) == ("# no heading here\n", "Release notes", ())
    assert parsed.stats["characters"] == len(parsed.text)
