"""The report of a comparison: one file, safe whatever the documents hold, legible to everybody."""

from __future__ import annotations

import re
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

import pytest

from kbcore.evaluation import page, report, wording
from kbcore.evaluation.causes import Releases
from kbcore.evaluation.comparison import Comparison
from kbcore.evaluation.excerpts import SHOWN, Excerpts
from kbcore.knowledge_base import KnowledgeBase
from kbcore.store.inventory import Inventory
from tests.unit.evaluation.pages import check
from tests.unit.evaluation.sets import QUESTIONS, compared, history, questions

HOSTILE = (
    "# <script>alert('title')</script> \u202egnp.exe\n\n"
    "ERR-4012 mean: what does ERR-4012 mean? ERR-4012 <img src=x onerror=alert(1)> [click](javascript:alert(1)) "
    "\"'><svg onload=alert(2)> &lt;b&gt; {{ 7 * 7 }} \u2066isolate\u2069 שלום \u0645\u0631\u062d\u0628\u0627\n"
)


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> KnowledgeBase:
    return history(tmp_path_factory.mktemp("report"), {"phones.html": None, "<b>odd & 'name'\u202e.md": HOSTILE})


@pytest.fixture(scope="module")
def found(base: KnowledgeBase, tmp_path_factory: pytest.TempPathFactory) -> tuple[Comparison, Releases]:
    hostile = {"id": "<i>\u202e", "question": "</h3><script>ERR-4012</script>\x1b[31m", "expected": [{"uri": "vpn.md"}]}
    asked = questions(
        tmp_path_factory.mktemp("set"), [*QUESTIONS, {**hostile, "tags": ["<u>"]}], "<set> & 'more'.jsonl"
    )
    return compared(base, "r000001", "r000002", asked)


def test_a_page_is_well_formed_and_loads_and_runs_nothing(found):
    check(report.comparison_page(*found))


def test_what_documents_hold_is_shown_and_is_no_markup(found):
    text = report.comparison_page(*found)
    shown = check(text).text
    assert "<script>alert('title')</script>" in shown
    assert "<img src=x onerror=alert(1)>" in shown
    assert "{{ 7 * 7 }}" in shown
    assert "</h3><script>ERR-4012</script>\\u001b[31m" in shown
    assert "<set> & 'more'.jsonl" in shown
    assert "odd & 'name'\\u202e.md" in shown
    assert "שלום" in shown


def test_every_part_that_was_promised_is_there(found):
    comparison, releases = found
    shown = check(report.comparison_page(*found)).text
    for manifest in (releases.old.manifest, releases.new.manifest):
        assert manifest.content_digest in shown
        assert manifest.created_at in shown
    assert wording.verdict(comparison) in shown
    assert comparison.set["digest"] in shown
    assert "keyword, k = 5" in shown
    assert "documents: 1 added, 1 removed, 3 unchanged" in shown
    for name, figures in comparison.measures.items():
        assert f"{name} {figures.old:.3f} {figures.new:.3f} {figures.difference:+.3f}" in shown
    for part in comparison.slices:
        assert part.value in shown
    for entry in [*comparison.changed, *comparison.unchanged]:
        assert wording.visible(entry.question) in shown
    lost = next(entry for entry in comparison.changed if entry.id == "phone")
    assert all(cause.said in shown for cause in lost.causes)
    assert "A lost phone is wiped by the service desk" in shown
    assert "grade 1: answers" in shown
    assert "docs:phones.html (deleted)" in shown
    assert "turned away" in shown


def test_a_release_against_itself_has_a_page_too(base, tmp_path):
    shown = check(report.comparison_page(*compared(base, "r000001", "r000001", questions(tmp_path)))).text
    assert "No difference" in shown
    assert "No question changed." in shown


def test_a_comparison_without_a_judged_question_has_a_page_too(base, tmp_path):
    asked = questions(tmp_path, [{"id": "none", "question": "zanzibar", "no_answer": True}])
    shown = check(report.comparison_page(*compared(base, "r000001", "r000002", asked))).text
    assert "measures say nothing" in shown
    assert "not judged" in shown


def test_of_very_many_changed_questions_the_rest_is_named(found, monkeypatch):
    comparison, releases = found
    monkeypatch.setattr(report, "IN_FULL", 1)
    shown = check(report.comparison_page(comparison, releases)).text
    assert len(comparison.changed) > 1
    assert "These changed too" in shown
    assert all(wording.visible(entry.question) in shown for entry in comparison.changed)


def test_passages_far_down_are_left_out_unless_they_answer(found, monkeypatch):
    monkeypatch.setattr(report, "HITS_IN_FULL", 0)
    shown = check(report.comparison_page(*found)).text
    assert "A lost phone is wiped by the service desk" in shown
    assert "does ERR-4012 mean? ERR-4012 <img" not in shown
    assert "odd & 'name'" in shown


def test_a_document_that_was_erased_shows_in_no_report(tmp_path):
    base = history(tmp_path, {"phones.html": None})
    comparison, _ = compared(base, "r000001", "r000002", questions(tmp_path))
    base.repository.erase([{"doc_id": "docs:phones.html"}], reason="asked for", run=base.repository.begin())
    shown = check(report.comparison_page(comparison, Releases(base.repository, "r000001", "r000002"))).text
    assert "wiped by the service desk" not in shown
    assert "does not hold this document any more" in shown


def test_a_passage_is_that_of_the_release_with_its_title_and_heading(base):
    inventory = Inventory(base.repository, "r000001")
    text = inventory.text("docs:vpn.md") or ""
    passage = Excerpts(inventory, ["docs:vpn.md"]).at("docs:vpn.md", 0, len(text))
    assert (passage.title, passage.text) == ("VPN", " ".join(text.split()))
    assert inventory.heading("docs:vpn.md", 0, 1) == ""
    assert Excerpts(inventory, []).at("docs:vpn.md", 0, 5).text is None


def test_a_long_passage_is_cut_and_says_so(tmp_path: Path):
    base = history(tmp_path, {"long.md": "# Long\n\n" + "wonderful words " * 25})
    inventory = Inventory(base.repository, "r000002")
    passage = Excerpts(inventory, ["docs:long.md"]).at("docs:long.md", 0, 500)
    assert passage.text is not None
    assert passage.text.endswith(" …")
    assert len(passage.text) <= SHOWN + 2


def test_texts_of_several_documents_are_those_of_each(base):
    inventory = Inventory(base.repository, "r000002")
    ids = [*inventory.held, "docs:none.md"]
    assert inventory.texts(ids) == {doc_id: inventory.text(doc_id) for doc_id in inventory.held}


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\x00b\x1b[0m", "a\\u0000b\\u001b[0m"),
        ("\u202eabc\u202c \u2067x\u2069 \u200f", "\\u202eabc\\u202c \\u2067x\\u2069 \\u200f"),
        ("\ud800 \ufffe \ufdd0", "\\ud800 \\ufffe \\ufdd0"),
        ("\U000e0041", "\\ue0041"),
        ("שלום 👨‍👩‍👧 می‌خواهم\n\tx", "שלום 👨‍👩‍👧 می‌خواهم\n\tx"),
    ],
)
def test_what_hides_or_turns_text_is_made_visible_and_letters_stay(text, shown):
    assert wording.visible(text) == shown


def test_a_page_can_be_written_whatever_is_in_it(found):
    comparison, releases = found
    odd = replace(comparison, unjudged=("\ud800\x00\ufffe",))
    assert "\\ud800\\u0000\\ufffe" in check(report.comparison_page(odd, releases)).text


def _channel(value: int) -> float:
    share = value / 255
    return share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4


def _luminance(colour: str) -> float:
    red, green, blue = (_channel(int(colour[at : at + 2], 16)) for at in (1, 3, 5))
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def test_colours_have_the_contrast_that_wcag_aa_asks_for_in_light_dark_and_print():
    style = (files("kbcore.evaluation") / "page.css").read_text()
    schemes = [
        dict(re.findall(r"--(\w+): (#[0-9a-f]{6})", block)) for block in re.findall(r":root \{(.*?)\}", style, re.S)
    ]
    assert len(schemes) == 3
    for scheme in schemes:
        for ground in ("paper", "tint", "judged"):
            for ink in ("ink", "muted", "link", "up", "down", "level"):
                low, high = sorted((_luminance(scheme[ground]), _luminance(scheme[ink])))
                assert (high + 0.05) / (low + 0.05) >= 4.5, (ground, ink)


def test_what_a_template_is_not_given_is_an_error_and_not_a_blank():
    from jinja2 import UndefinedError

    with pytest.raises(UndefinedError):
        page.render("report.html.j2", title="x")
