"""In which release did an answer appear, move or go, and why?"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from kbcore.cli import app
from kbcore.embedding.hashing import HashingEmbedder
from kbcore.errors import KbError, UsageError
from kbcore.evaluation.bisection import Bisection, bisect
from kbcore.evaluation.causes import Releases
from kbcore.evaluation.comparison import compare
from kbcore.evaluation.questions import Expected, Question, QuestionSet
from kbcore.evaluation.runner import card_of
from kbcore.evaluation.scorecard import Answer
from kbcore.knowledge_base import KnowledgeBase
from kbcore.retrieval.retriever import Retriever
from kbcore.store import layout
from tests.support import DOCUMENTS, knowledge_base, refreshed, write

QUESTION = "ERR-4012 gateway did not answer"
VPN = "docs:vpn.md"
MEASURES = ("nDCG@10",)


def walked(base: KnowledgeBase, document: str = VPN, question: str = QUESTION, **parameters: Any) -> Bisection:
    repository = base.repository
    newest = parameters.pop("newest", None) or repository.resolve("latest")
    settings = base.settings(repository.manifest(repository.releases()[-1]), parameters.pop("mode", "keyword"))
    return bisect(repository, base.catalog, settings, question, document, newest=newest, names=MEASURES, **parameters)


def ranks(found: Bisection) -> list[int | str]:
    return [step.state if step.rank is None else step.rank for step in found.steps]


def release(base: KnowledgeBase, root: Path, documents: dict[str, str | bytes | None], **parameters: Any) -> None:
    write(root / "docs", documents)
    assert refreshed(base, **parameters).outcome == "published"


@pytest.fixture
def base(tmp_path: Path) -> KnowledgeBase:
    made = knowledge_base(tmp_path)
    refreshed(made)
    return made


def test_the_page_of_a_retired_service_is_lost_in_the_release_that_deleted_it(
    base: KnowledgeBase, tmp_path: Path
) -> None:
    release(base, tmp_path, {"new.md": "# New\n\nLaptops.\n"})
    release(base, tmp_path, {"vpn.md": None})
    release(base, tmp_path, {"more.md": "# More\n\nScreens.\n"})
    found = walked(base)
    assert ranks(found) == [1, 1, "not in the release", "not in the release"]
    (change,) = found.changes
    assert (change.release, change.before, change.kind, change.old_rank, change.new_rank) == (
        "r000003", "r000002", "lost", 1, None,
    )  # fmt: skip
    assert change.causes[0].kind == "document deleted"
    assert "in r000003" in change.causes[0].said
    assert [step.said.startswith("removed in r000003: ") for step in found.steps] == [False, False, True, True]


def test_a_document_that_came_later_appeared_there(base: KnowledgeBase, tmp_path: Path) -> None:
    release(base, tmp_path, {"new.md": "# New\n\nQuokkas are lent for a week.\n"})
    found = walked(base, "new.md", "quokkas")
    assert ranks(found) == ["not in the release", 1]
    (change,) = found.changes
    assert (change.release, change.kind, change.causes[0].kind) == ("r000002", "appeared", "document added")


def test_a_rename_moves_no_answer_and_the_document_is_known_by_all_its_names(
    base: KnowledgeBase, tmp_path: Path
) -> None:
    release(base, tmp_path, {"vpn.md": None, "network/vpn.md": DOCUMENTS["vpn.md"]})
    release(base, tmp_path, {"network/vpn.md": None, "net/vpn.md": DOCUMENTS["vpn.md"]})
    release(base, tmp_path, {"net/vpn.md": None})
    for name in (VPN, "docs:network/vpn.md", "docs:net/vpn.md", "vpn.md", "net/vpn.md"):
        found = walked(base, name)
        assert [step.document for step in found.steps] == [VPN, "docs:network/vpn.md", "docs:net/vpn.md", None], name
        assert ranks(found) == [1, 1, 1, "not in the release"], name
        assert [change.release for change in found.changes] == ["r000004"], name


def test_a_changed_text_and_an_outranking_page_are_told_apart(base: KnowledgeBase, tmp_path: Path) -> None:
    release(base, tmp_path, {"rival.md": "# ERR-4012\n\nERR-4012 gateway did not answer: ERR-4012 gateway.\n"})
    release(base, tmp_path, {"vpn.md": "# VPN\n\nChoose a profile.\n"})
    found = walked(base)
    assert ranks(found) == [1, 2, "not retrieved"]
    fell, lost = found.changes
    assert (fell.kind, fell.causes[0].kind, fell.causes[0].documents) == ("fell", "outranked", ("docs:rival.md",))
    assert (lost.kind, lost.causes[0].kind) == ("lost", "text changed")


def test_a_passage_goes_with_its_quote_although_the_document_stays(base: KnowledgeBase, tmp_path: Path) -> None:
    release(base, tmp_path, {"vpn.md": DOCUMENTS["vpn.md"].replace("did not answer", "is asleep")})
    found = walked(base, quote="the gateway did not answer")
    assert ranks(found) == [1, "quote gone"]
    assert found.changes[0].causes[0].kind == "label stale"
    assert not walked(base).changes


def test_releases_of_equal_content_are_asked_once(
    base: KnowledgeBase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    release(base, tmp_path, {"new.md": "# New\n\nLaptops.\n"})
    release(base, tmp_path, {"new.md": None})
    release(base, tmp_path, {"new.md": "# New\n\nLaptops.\n"})
    digests = [base.repository.manifest(name).content_digest for name in base.repository.releases()]
    assert len(set(digests)) == 2
    asked: list[str] = []
    search = Retriever.search

    def counted(self: Retriever, *arguments: Any, **parameters: Any) -> Any:
        asked.append(self.release)
        return search(self, *arguments, **parameters)

    monkeypatch.setattr(Retriever, "search", counted)
    found = walked(base)
    assert asked == ["r000001", "r000002"]
    assert [step.same_as for step in found.steps] == [None, None, "r000001", "r000002"]
    assert ranks(found) == [1, 1, 1, 1]


def test_a_question_is_embedded_once_for_all_releases(
    base: KnowledgeBase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(3):
        release(base, tmp_path, {"new.md": f"# New\n\nLaptop {number}.\n"})
    embedded: list[str] = []
    embed = HashingEmbedder.embed_query

    def counted(self: HashingEmbedder, text: str) -> Any:
        embedded.append(text)
        return embed(self, text)

    monkeypatch.setattr(HashingEmbedder, "embed_query", counted)
    assert len(walked(base, mode="hybrid").steps) == 4
    assert embedded.count(QUESTION) == 1


def test_an_expired_and_a_damaged_release_are_named_and_passed_over(base: KnowledgeBase, tmp_path: Path) -> None:
    for number in range(3):
        release(base, tmp_path, {"new.md": f"# New\n\nLaptop {number}.\n"})
    release(base, tmp_path, {"vpn.md": None})
    base.repository.expire("r000002", reason="old", run=base.repository.begin())
    manifest = base.folder / layout.manifest_file("r000003")
    manifest.write_bytes(manifest.read_bytes()[:-9])
    found = walked(base)
    assert ranks(found) == [1, "passed over", "passed over", 1, "not in the release"]
    assert found.steps[1].said == "it has expired"
    assert "manifests/r000003.json" in found.steps[2].said
    assert [(change.before, change.release) for change in found.changes] == [("r000004", "r000005")]


def test_a_release_whose_files_are_damaged_is_passed_over_and_all_of_them_are_an_error(
    base: KnowledgeBase, tmp_path: Path
) -> None:
    release(base, tmp_path, {"new.md": "# New\n\nLaptops.\n"})
    newest = base.repository.manifest("r000002").segments[-1].name
    path = base.folder / layout.segment_file(newest, layout.POSTINGS_FILE)
    path.write_bytes(path.read_bytes()[:-1])
    assert ranks(walked(base)) == [1, "passed over"]
    first = base.repository.manifest("r000001").segments[0].name
    path = base.folder / layout.segment_file(first, layout.DOCUMENTS_FILE)
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(KbError, match=r"r000002: segments/.*documents\.parquet"):
        walked(base)


def test_the_walk_goes_from_one_release_to_another_of_its_line(base: KnowledgeBase, tmp_path: Path) -> None:
    for number in range(3):
        release(base, tmp_path, {"new.md": f"# New\n\nLaptop {number}.\n"})
    found = walked(base, oldest="r000002", newest="r000003")
    assert [step.release for step in found.steps] == ["r000002", "r000003"]
    with pytest.raises(UsageError, match="r000002 does not descend from r000004"):
        walked(base, oldest="r000004", newest="r000002")


def test_a_document_that_never_was_there_is_an_error_that_names_the_nearest(base: KnowledgeBase) -> None:
    with pytest.raises(UsageError, match=r"no release holds 'docs:vpm\.md'") as error:
        walked(base, "docs:vpm.md")
    assert error.value.remedy == f"did you mean {VPN}?"


def test_the_nearest_name_may_be_of_a_document_that_went(base: KnowledgeBase, tmp_path: Path) -> None:
    release(base, tmp_path, {"a/long/way/down/page.md": "# Page\n\nA page.\n"})
    release(base, tmp_path, {"a/long/way/down/page.md": None})
    with pytest.raises(UsageError) as error:
        walked(base, "page.md")
    assert error.value.remedy == "did you mean docs:a/long/way/down/page.md?"


def test_a_document_that_failed_was_withheld_or_erased_says_so(base: KnowledgeBase, tmp_path: Path) -> None:
    release(base, tmp_path, {"bad.html": b"\x00\x01\x02" * 99, "new.md": "# New\n\nLaptops.\n"})
    failed = walked(base, "docs:bad.html")
    assert ranks(failed) == ["not in the release", "not in the release"]
    assert failed.steps[1].said.startswith("could not be read: ")
    release(base, tmp_path, {**dict.fromkeys(DOCUMENTS), "new.md": "# New\n\nMore laptops.\n"})
    withheld = walked(base)
    assert ranks(withheld) == [1, 1, 1]
    assert withheld.steps[2].said == "its removal is withheld"
    base.repository.erase([{"doc_id": VPN, "content_sha256": None}], reason="asked", run=base.repository.begin())
    erased = walked(base)
    assert ranks(erased) == ["not in the release"] * 3
    assert {step.said for step in erased.steps} == {"erased from all releases"}


def test_leaving_the_hits_that_are_shown_is_a_change_of_its_own(base: KnowledgeBase, tmp_path: Path) -> None:
    rival = "# Gateway\n\nERR-4012 gateway did not answer.\n"
    release(base, tmp_path, {f"rival{number}.md": rival + f"\nCase {number}.\n" for number in range(6)})
    found = walked(base)
    (change,) = found.changes
    assert (change.kind, change.old_served, change.new_served) == ("fell", True, False)
    assert change.new_rank is not None
    assert change.new_rank > 5


def test_ranks_are_those_of_a_comparison_on_the_same_question(base: KnowledgeBase, tmp_path: Path) -> None:
    release(base, tmp_path, {"rival.md": "# ERR-4012\n\nERR-4012 gateway did not answer: ERR-4012 gateway.\n"})
    settings = base.settings(base.repository.manifest("r000002"), "hybrid")
    asked = QuestionSet("one", (Question(id="q", question=QUESTION, expected=(Expected(doc_id=VPN),)),))
    cards = [
        card_of(base.repository, name, asked, base.catalog, settings, names=MEASURES) for name in ("r000001", "r000002")
    ]
    compared = compare(cards[0], cards[1], Releases(base.repository, "r000001", "r000002"))
    found = walked(base, mode="hybrid")
    expected = [_rank(card.answers[0]) for card in cards]
    assert [step.rank for step in found.steps] == expected
    causes = [cause.kind for change in found.changes for cause in change.causes]
    assert causes == [cause.kind for entry in compared.changed for cause in entry.causes]


def _rank(answer: Answer) -> int:
    return list(dict.fromkeys(hit.doc_id for hit in answer.hits)).index(VPN) + 1


def test_a_blank_question_or_quote_is_refused(base: KnowledgeBase) -> None:
    for parameters in ({"question": "  "}, {"quote": " "}):
        with pytest.raises(UsageError, match="blank"):
            walked(base, **parameters)


def test_the_command_names_the_release_and_json_has_all_of_it(tmp_path: Path) -> None:
    write(tmp_path / "docs", DOCUMENTS)
    config = tmp_path / "kb.toml"
    config.write_text(
        f'[kb]\nname = "desk"\nrepository = "{tmp_path}/releases"\n'
        f'[[sources]]\nname = "docs"\npath = "{tmp_path}/docs"\n[embedder]\nprovider = "hashing"\n'
    )

    def kb(*arguments: str) -> str:
        result = CliRunner().invoke(app, [*arguments, "-c", str(config)])
        assert result.exit_code == 0, (arguments, result.output, result.exception)
        return result.output

    kb("init")
    kb("refresh")
    assert "nothing changed: rank 1 in all 1 releases" in kb("bisect", QUESTION, "--doc", VPN)
    write(tmp_path / "docs", {"vpn.md": None})
    kb("refresh")
    said = kb("bisect", QUESTION, "--doc", VPN)
    assert "r000002: lost, rank 1 -> not in the release" in said
    assert "  document deleted: docs:vpn.md is not in r000002: " in said
    assert f"kb diff -c {config} r000001 r000002" in said
    assert max(map(len, said.splitlines())) < 200
    body = json.loads(CliRunner().invoke(app, ["bisect", QUESTION, "--doc", VPN, "--json", "-c", str(config)]).stdout)
    assert [change["release"] for change in body["changes"]] == ["r000002"]
    assert [step["release"] for step in body["steps"]] == ["r000001", "r000002"]
