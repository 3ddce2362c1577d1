"""The passage that is nearest to a quote."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbcore.evaluation.passage import nearest

TEXT = (
    "Printers stand on every floor. The badge opens them.\n\n"
    "A password is reset at the self-service page, and it must have\nsixteen characters. "
    "The page is open at night. Characters count once."
)


@pytest.mark.parametrize(
    ("quote", "found"),
    [
        ("A password is reset at the self-service page and must have fourteen characters.",
         "A password is reset at the self-service page, and it must have\nsixteen characters"),
        ("Printers stand on each floor", "Printers stand on every floor"),
        ("the BADGE opens the printers", "The badge opens"),
    ],
)  # fmt: skip
def test_a_quote_that_was_edited_leads_to_the_passage_as_it_is_now(quote: str, found: str) -> None:
    passage = nearest(TEXT, quote)
    assert passage is not None
    assert passage.text == found
    assert TEXT[passage.start : passage.end] == found
    assert 0.5 <= passage.similarity < 1


def test_words_far_away_do_not_draw_the_passage_out() -> None:
    passage = nearest(f"The gateway sleeps. {'Filler words go here. ' * 20} The gateway.", "gateway sleeps now")
    assert passage is not None
    assert passage.text == "gateway sleeps"


def test_a_quote_in_other_capitals_or_with_other_marks_is_the_same() -> None:
    passage = nearest(TEXT, "*PRINTERS* stand, on every floor")
    assert passage is not None
    assert (passage.text, passage.similarity) == ("Printers stand on every floor", 1.0)


def test_scripts_without_blanks_are_compared_by_character() -> None:
    passage = nearest("前の文です。プリンターは各階にあります。次の文です。", "プリンターは全階にあります")
    assert passage is not None
    assert passage.text == "プリンターは各階にあります"


def test_a_text_without_any_of_the_words_has_no_passage() -> None:
    assert nearest(TEXT, "zebra crossing") is None
    assert nearest("", "zebra") is None
    assert nearest(TEXT, "!?") is None


words = st.lists(st.sampled_from(["red", "green", "blue", "one", "two", "cat"]), min_size=1, max_size=12)


others = st.lists(st.sampled_from(["and", "the", "of", "to"]), max_size=30)


@given(others, st.permutations(["red", "green", "blue", "one", "two"]), others)
def test_a_quote_that_stands_there_is_found_whole(before: list[str], quote: list[str], after: list[str]) -> None:
    passage = nearest(" ".join([*before, *quote, *after]), ", ".join(quote))
    assert passage is not None
    assert (passage.text, passage.similarity) == (" ".join(quote), 1.0)


@given(words, words)
def test_a_passage_is_a_slice_of_the_text(text: list[str], quote: list[str]) -> None:
    whole = ", ".join(text)
    passage = nearest(whole, " ".join(quote))
    assert (passage is None) == (not set(text) & set(quote))
    if passage is not None:
        assert whole[passage.start : passage.end] == passage.text
        assert 0 < passage.similarity <= 1
