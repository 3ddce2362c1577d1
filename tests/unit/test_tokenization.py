"""The tokens of BM25: what counts as a word, and how codes and scripts without blanks are cut."""

from __future__ import annotations

import time
import unicodedata

import pytest

from kbcore.tokenization import ANALYZER_ID, VERSION, query_terms, tokens


def test_analyzer_id_names_its_version() -> None:
    assert f"-{VERSION}-" in ANALYZER_ID


@pytest.mark.parametrize("text", ["", " \n\t", "... -- ?!", "\U0001f600"])
def test_text_without_words_has_no_tokens(text: str) -> None:
    assert tokens(text) == []


def test_words_are_lowercase_in_order_and_repeated() -> None:
    assert tokens("The VPN, the vpn: don't (mp3)") == ["the", "vpn", "the", "vpn", "don", "t", "mp3"]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Straße", "STRASSE"),
        ("ΟΔΟΣ", "οδος"),
        ("ﬁle", "FILE"),
        ("ＶＰＮ", "vpn"),
        ("①", "1"),
        ("re\u0301sume\u0301", "R\u00c9SUM\u00c9"),
        ("ｶﾞｽ", "ガス"),
        ("\u1112\u1161\u11ab\u1100\u1173\u11af", "한글"),
    ],
)
def test_spellings_of_one_word_give_equal_tokens(one: str, other: str) -> None:
    assert tokens(one) == tokens(other) != []


@pytest.mark.parametrize("text", ["हिन्दी में खोज", "قُرْآن كَرِيم", "நூலகம் தமிழ்", "тест поиска", "한국어 검색"])
def test_combining_marks_stay_with_their_letters(text: str) -> None:
    assert tokens(text) == unicodedata.normalize("NFKC", text).split()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("知识库", ["知识", "识库"]),
        ("水", ["水"]),
        ("刷新する。水", ["刷新", "新す", "する", "水"]),
        ("データ", ["デー", "ータ"]),
        ("API接口 v2", ["api", "接口", "v2"]),
        ("ไทย", ["ไท", "ทย"]),
        ("กิน", ["กิน"]),
        ("ລາວ", ["ລາ", "າວ"]),
    ],
)
def test_scripts_without_blanks_are_bigrams_and_a_single_character_itself(text: str, expected: list[str]) -> None:
    assert tokens(text) == expected


@pytest.mark.parametrize("text", ["ភាសាខ្មែរ", "မြန်မာစာ"])
def test_khmer_and_burmese_are_bigrams_that_cut_no_mark_from_its_letter(text: str) -> None:
    found = tokens(text)
    assert len(found) >= 2
    assert not any(unicodedata.category(token[0]).startswith("M") and token[0] in "\u17d2\u1039" for token in found)


@pytest.mark.parametrize(
    ("code", "whole", "parts"),
    [
        ("ERR-4012", "err-4012", ["err", "4012"]),
        ("KB0012345", "kb0012345", []),
        ("0x80070005", "0x80070005", []),
        ("v2.1.3", "v2.1.3", ["v2", "1", "3"]),
        ("user_name", "user_name", ["user", "name"]),
        ("10.0.0.1", "10.0.0.1", ["10", "0", "1"]),
        ("CVE-2024-3094", "cve-2024-3094", ["cve", "2024", "3094"]),
    ],
)
def test_codes_match_whole_and_in_parts(code: str, whole: str, parts: list[str]) -> None:
    found = tokens(f"See {code}, then retry ({code}).")
    assert found.count(whole) == 2
    assert set(parts) <= set(found)
    assert set(query_terms(code)) == {whole, *parts}


def test_code_beside_a_script_without_blanks_is_found() -> None:
    assert tokens("错误ERR-4012发生") == ["错误", "err-4012", "err", "4012", "发生"]


def test_query_terms_are_unique_and_sorted() -> None:
    assert query_terms("zebra apple Zebra ERR-4012") == ["4012", "apple", "err", "err-4012", "zebra"]


@pytest.mark.parametrize(
    "unit", ["a", "a-", "a1-", "_", "a.", "1:", "\u0301", "\u200d", "知", "知\u200d", "\u0e34", "- ", "\x00", "\r"]
)
def test_time_is_linear_on_adversarial_text(unit: str) -> None:
    """Sixteen times the text takes at most 2.5 ** 4 times as long; the shortest of some runs counts."""

    def seconds(characters: int, runs: int) -> float:
        text = unit * (characters // len(unit))
        times = []
        for _ in range(runs):
            began = time.process_time()
            tokens(text)
            times.append(time.process_time() - began)
        return min(times)

    assert seconds(320_000, 5) <= 2.5**4 * max(seconds(20_000, 5), 0.002)


def test_look_alike_hyphens_and_marks_nobody_types_do_not_hide_a_code() -> None:
    assert tokens("ERR\u20114012") == tokens("ERR-4012")
    assert tokens("pass\u00adword") == ["password"]
    assert tokens("_____ \u200d \u0301") == []
