"""Which document and which passage a judgment means in a release, and when a hit stands for it."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbcore.evaluation.labels import Label, Place, find_quote, follow, labels_of, stale, units
from kbcore.evaluation.questions import Expected, Question
from kbcore.knowledge_base import KnowledgeBase
from kbcore.store.inventory import Inventory
from tests.support import DOCUMENTS, knowledge_base, refreshed, write

PRINTERS = DOCUMENTS["printers.txt"]
VPN = "vpn.md"


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> KnowledgeBase:
    """printers.txt is renamed in r000002, edited in r000003 and renamed again in r000004; phones.html goes in r000003."""
    root = tmp_path_factory.mktemp("labels")
    made = knowledge_base(
        root,
        sources=[
            {"name": "docs", "path": str(root / "docs"), "include": ["**/*"]},
            {"name": "copy", "path": str(root / "copy"), "include": ["**/*"]},
        ],
    )
    write(
        root / "copy", {VPN: "# VPN\n\nThe copy of the page about the client.\n", "both.md": "# Both\n\nSaid twice.\n"}
    )
    write(root / "docs", {"both.md": "# Both\n\nSaid otherwise here.\n"})
    refreshed(made)
    edited = PRINTERS + "\nA new floor has one too.\n"
    for changes in (
        {"docs/printers.txt": None, "docs/floors/printers.txt": PRINTERS},
        {"docs/floors/printers.txt": edited, "docs/phones.html": None},
        {"docs/floors/printers.txt": None, "docs/house/printing.txt": edited,
         "docs/both.md": None, "copy/both.md": None, "docs/moved/both.md": "# Both\n\nSaid otherwise here.\n"},
    ):  # fmt: skip
        write(root, changes)
        refreshed(made)
    return made


def label(base: KnowledgeBase, release: str, **judgment: object) -> Label:
    question = Question(id="q", question="?", expected=(Expected.model_validate(judgment),))
    return labels_of(base.repository, Inventory(base.repository, release), [question])["q"][0]


def test_a_uri_means_the_documents_of_all_sources_that_have_it(base: KnowledgeBase) -> None:
    assert list(label(base, "r000001", uri=VPN).documents) == ["copy:vpn.md", "docs:vpn.md"]
    assert list(label(base, "r000001", doc_id="docs:vpn.md").documents) == ["docs:vpn.md"]


def test_a_quote_of_a_uri_stands_where_it_stands(base: KnowledgeBase) -> None:
    found = label(base, "r000001", uri=VPN, quote="about the client")
    assert found.live
    assert {doc_id: bool(spans) for doc_id, spans in found.documents.items()} == {
        "copy:vpn.md": True,
        "docs:vpn.md": False,
    }


@pytest.mark.parametrize(
    ("release", "now"),
    [
        ("r000001", "docs:printers.txt"),
        ("r000002", "docs:floors/printers.txt"),
        ("r000003", "docs:floors/printers.txt"),
        ("r000004", "docs:house/printing.txt"),
    ],
)
def test_a_renamed_document_is_followed_through_several_releases(base: KnowledgeBase, release: str, now: str) -> None:
    for judgment in ({"doc_id": "docs:printers.txt"}, {"uri": "printers.txt"}):
        found = label(base, release, **judgment, quote="works with the badge")
        assert list(found.documents) == [now]
        assert found.live


def test_a_removed_document_is_stale_from_then_on(base: KnowledgeBase) -> None:
    states = [label(base, f"r00000{n}", doc_id="docs:phones.html").state for n in range(1, 5)]
    assert states == ["live", "live", "document gone", "document gone"]


def test_of_two_documents_with_a_uri_the_one_that_was_renamed_is_followed(base: KnowledgeBase) -> None:
    assert list(label(base, "r000004", uri="both.md").documents) == ["docs:moved/both.md"]


def test_a_name_means_the_document_that_had_it_last(tmp_path: Path) -> None:
    made = knowledge_base(tmp_path, {"a.md": "# Old\n\nWhat was said first.\n", "c.md": "# C\n\nStays.\n"})
    refreshed(made)
    for changes in (
        {"a.md": None, "b.md": "# Old\n\nWhat was said first.\n"},
        {"a.md": "# New\n\nAnother page with that name.\n"},
        {"a.md": None},
    ):
        write(tmp_path / "docs", changes)
        refreshed(made)
    found = [label(made, f"r00000{n}", doc_id="docs:a.md") for n in (2, 3, 4)]
    assert [list(each.documents) for each in found] == [["docs:b.md"], ["docs:a.md"], []]


def test_an_id_is_no_uri_in_any_release(base: KnowledgeBase) -> None:
    assert [label(base, f"r00000{n}", doc_id=VPN).state for n in (1, 2, 4)] == ["document gone"] * 3
    assert [label(base, f"r00000{n}", uri="docs:vpn.md").state for n in (1, 2, 4)] == ["document gone"] * 3


def test_a_quote_that_is_gone_is_stale_and_its_document_is_named(base: KnowledgeBase) -> None:
    found = label(base, "r000001", doc_id="docs:vpn.md", quote="nobody ever said that")
    assert (found.state, dict(found.documents)) == ("quote gone", {"docs:vpn.md": ()})


def test_what_is_stale_is_listed_in_the_order_of_the_set(base: KnowledgeBase) -> None:
    asked = [
        Question(id="b", question="?", expected=(Expected(uri="gone"), Expected(uri=VPN))),
        Question(id="a", question="?", expected=(Expected(uri=VPN, quote="nobody"),)),
    ]
    labels = labels_of(base.repository, Inventory(base.repository, "r000001"), asked)
    assert stale(labels, asked) == [
        {"question": "b", "document": "gone", "quote": None, "state": "document gone"},
        {"question": "a", "document": VPN, "quote": "nobody", "state": "quote gone"},
    ]


def test_nothing_is_looked_for_in_the_past_where_nothing_is_missing(
    base: KnowledgeBase, monkeypatch: pytest.MonkeyPatch
) -> None:
    inventory = Inventory(base.repository, "r000004")
    monkeypatch.setattr(Inventory, "__init__", lambda *_: pytest.fail("an earlier release was read"))
    assert follow(base.repository, inventory, []) == {}


blanks = st.text(" \n\t\u00a0", min_size=1, max_size=3)
word = st.text("ab.*+(", min_size=1, max_size=4)


@given(st.lists(word, min_size=1, max_size=5), st.data())
def test_a_quote_is_found_across_other_blanks_and_line_ends(words: list[str], data: st.DataObject) -> None:
    def joined() -> str:
        return words[0] + "".join(data.draw(blanks) + word for word in words[1:])

    stands = joined()
    assert (3, 3 + len(stands)) in find_quote(f"zz {stands} zz", joined())


def test_a_quote_is_found_wherever_it_stands_and_a_blank_one_nowhere() -> None:
    assert find_quote("a b, a  b", "a b") == ((0, 3), (5, 9))
    assert find_quote("a b", " \n") == ()
    assert find_quote("ab", "a b") == ()


def quoted(*spans: tuple[int, int], grade: int = 1) -> Label:
    return Label(grade, {"d": spans}, "live")


@pytest.mark.parametrize(
    ("hit", "stands"),
    [
        ((100, 200), True),  # the quote itself
        ((50, 150), True),  # half of it
        ((50, 149), False),  # less
        ((120, 140), True),  # within it: it shows all that it could
        ((180, 260), False),  # a fifth of it
        ((200, 300), False),  # beside it
        ((0, 400), True),  # around it
    ],
)
def test_a_hit_stands_for_a_quote_where_it_shows_half_of_it(hit: tuple[int, int], stands: bool) -> None:
    assert units([Place("d", *hit)], [quoted((100, 200))]) == (["#0"] if stands else ["d"])


def test_any_place_of_a_quote_will_do_and_each_unit_counts_once() -> None:
    labels = [quoted((0, 10), (50, 60)), Label(2, {"e": None}, "live"), Label(1, {"f": None}, "document gone")]
    places = [Place("d", 20, 40), Place("d", 50, 60), Place("d", 0, 10), Place("e", 5, 6), Place("f", 0, 9)]
    assert units(places, labels) == ["d", "#0", "#1", "f"]


def test_one_hit_may_stand_for_two_quotes() -> None:
    assert units([Place("d", 0, 100)], [quoted((0, 10)), quoted((50, 60))]) == ["#0", "#1"]


def test_a_label_is_read_back_as_it_was_kept(base: KnowledgeBase) -> None:
    for kept in (quoted((1, 2), (3, 4)), Label(0, {"a": None}, "live"), Label(1, {}, "document gone")):
        assert Label.from_json(kept.to_json()) == kept


def test_texts_are_read_once_a_segment(base: KnowledgeBase, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    inventory = Inventory(base.repository, "r000001")
    read: list[object] = []
    rows = Inventory.rows
    monkeypatch.setattr(Inventory, "rows", lambda self, *args: (read.append(args), rows(self, *args))[1])
    asked = [
        Question(id=doc_id, question="?", expected=(Expected(doc_id=doc_id, quote="x"),)) for doc_id in inventory.held
    ]
    labels_of(base.repository, inventory, asked)
    assert len(read) == 1
