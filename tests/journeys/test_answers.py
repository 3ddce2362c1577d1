"""The verbs around an answer, as a person and as a program meet them: search, lookup, explain, context, cite, lineage."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from kbcore.cli import app
from kbcore.cli.output import DIFFERENCES
from kbcore.knowledge_base import open_repository
from kbcore.search_log import asked_by
from tests.support import DOCUMENTS, write

NOTICE = (
    "The quarterly notice says that all plotters on the second floor are replaced in the first week of May by the desk."
)
BLANK = "\x1b[31mred\u202e"


class Desk:
    def __init__(self, root: Path) -> None:
        self.root = root
        write(root / "docs", {**DOCUMENTS, "one.md": f"{NOTICE} One.\n", "two.md": f"{NOTICE} Two.\n"})
        write(root / "docs", {"evil.md": f"# Evil {BLANK}\n\nThe zebra code is ZX-9 {BLANK}.\n"})
        self.file = root / "kb.toml"
        self.file.write_text(
            f'[kb]\nname = "desk"\nrepository = "{root}/releases"\n'
            f'[[sources]]\nname = "docs"\npath = "{root}/docs"\n[embedder]\nprovider = "hashing"\n'
            "[retrieval]\nno_match_cosine = 0.1\nweak_cosine = 0.3\n"
            f'[search_log]\npath = "{root}/log"\npayloads = true\n'
        )

    def __call__(self, *arguments: str, code: int = 0, stdin: str | None = None) -> str:
        result: Result = CliRunner().invoke(app, [*arguments, "-c", str(self.file)], input=stdin)
        assert result.exit_code == code, (arguments, result.output, result.exception)
        return result.output

    def json(self, *arguments: str, code: int = 0, stdin: str | None = None) -> Any:
        result = CliRunner().invoke(app, [*arguments, "--json", "-c", str(self.file)], input=stdin)
        assert result.exit_code == code, (arguments, result.output, result.exception)
        return json.loads(result.stdout)


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Desk:
    desk = Desk(tmp_path_factory.mktemp("answers"))
    desk("init")
    desk("refresh")
    return desk


def test_search_says_that_nothing_matches_and_why(desk: Desk) -> None:
    said = desk("search", "quokka xylophone")
    assert "nothing matches" in said
    assert "too far from the question to be shown (best cosine" in said
    body = desk.json("search", "quokka xylophone")
    assert (body["outcome"], body["hits"], body["score_kind"]) == ("no_match", [], "none")
    assert body["evidence"]["not_shown"] > 0
    assert desk.json("search", "ERR-4012 gateway")["outcome"] == "hits"


def test_two_releases_that_show_nothing_say_why_as_one_does(desk: Desk) -> None:
    said = desk("search", "quokka xylophone", "--against", "current", "-w", "source=docs").splitlines()
    assert said[0] == "r000001 against r000001, hybrid"
    assert "r000001: nothing matches" in said
    assert sum("too far from the question to be shown (best cosine" in line for line in said) == 2
    assert sum("the filter leaves" in line for line in said) == 2


def test_search_folds_and_joins_and_shows_where_a_hit_comes_from(desk: Desk) -> None:
    body = desk.json("search", "quarterly notice plotters", "--fold", "--merge", "--mode", "keyword")
    assert [len(hit["copies"]) for hit in body["hits"]][:1] == [1]
    assert body["hits"][0]["citation"].startswith("[r000001 docs:")
    assert "1 near-copies" in desk("search", "quarterly notice plotters", "--fold", "--mode", "keyword")


def test_search_refuses_what_cannot_be(desk: Desk) -> None:
    for arguments in (("-k", "0"), ("--neighbours", "-1"), ("--where", "colour=red"), ("--where", "nonsense")):
        desk("search", "x", *arguments, code=2)


def test_text_of_documents_is_escaped_where_it_is_shown(desk: Desk) -> None:
    verbs = (("search", "zebra ZX-9"), ("lookup", "ZX-9"), ("explain", "zebra", "-d", "evil.md"), ("context", "zebra"))
    for arguments in verbs:
        said = desk(*arguments)
        assert "\x1b" not in said
        assert "\u202e" not in said


def test_lookup_knows_a_key_or_says_so_with_near_ones(desk: Desk) -> None:
    said = desk("lookup", "err-4012")
    assert "err-4012 is known" in said
    assert "docs:vpn.md" in said
    assert desk("lookup", "ERR-4021").startswith("r000001: ERR-4021 is not known; known: err-4012")
    assert (
        desk("lookup", "err-4012", "-w", "uri=none.md")
        == "r000001: err-4012 is known, and the filter leaves none of it\n"
    )
    body = desk.json("lookup", "Phones")
    assert body["evidence"]["matches"] == [{"kind": "title", "doc_id": "docs:phones.html", "chunks": 1}]
    assert desk.json("lookup", "nothing-1")["evidence"]["known"] is False


def test_explain_shows_the_figures_and_where_a_document_was_lost(desk: Desk) -> None:
    said = desk("explain", "ERR-4012 gateway", "--doc", "phones.html", "-k", "1")
    assert "weak below 0.300" in said
    assert "nothing is shown below cosine 0.100" in said
    assert "docs:phones.html: " in said
    body = desk.json("explain", "ERR-4012 gateway", "--doc", "docs:vpn.md#c0")
    assert body["document"]["doc_id"] == "docs:vpn.md#c0"
    assert body["candidates"][0]["rank"] == 1
    assert desk.json("explain", "quokka xylophone", "-d", "vpn.md", "-k", "20")["document"]["stage"] == "withheld"
    assert "no source ever listed it" in desk("explain", "x", "--doc", "nowhere.md")


def test_context_keeps_its_budget_and_its_citations_hold(desk: Desk) -> None:
    body = desk.json("context", "lost phone password gateway", "--max-tokens", "90")
    assert 0 < body["tokens"] <= 90
    assert body["passages"]
    assert body["unit"].startswith("tokens of")
    found = desk.json("cite", stdin=body["text"])
    assert [entry["state"] for entry in found] == ["ok"] * len(body["passages"])
    # Nothing but the text on stdout: it goes into a prompt.
    result = CliRunner().invoke(app, ["context", "lost phone", "-c", str(desk.file)])
    assert result.stdout.startswith("The passages below are quoted")
    assert "passages" in result.stderr


def test_cite_ends_with_five_where_a_citation_does_not_hold(desk: Desk, tmp_path: Path) -> None:
    answer = tmp_path / "answer.txt"
    answer.write_text("See [r000001 docs:vpn.md#c0] and [r000001 docs:vpn.md#c99].")
    said = desk("cite", str(answer), code=DIFFERENCES)
    assert "no chunk" in said
    assert [e["state"] for e in desk.json("cite", str(answer), code=DIFFERENCES)] == ["ok", "no chunk"]
    assert "no citation was found" in desk("cite", stdin="nothing here")
    desk("cite", str(tmp_path / "nowhere.txt"), code=2)
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    desk("cite", str(tmp_path / "binary"), code=2)


def test_lineage_shows_who_asked_what_how_often(desk: Desk) -> None:
    before = {e["consumer"]: e["searches"] for e in desk.json("lineage")}
    for _ in range(3):
        desk("search", "how is a badge used?")
    desk("explain", "how is a badge used?")
    (entry,) = desk.json("lineage", "--release", "current")
    assert entry["searches"] == before.get(entry["consumer"], 0) + 3
    assert entry["release"] == "r000001"
    said = desk("lineage", "-R", "r000001")
    assert "3 x how is a badge used?" in said
    assert max(map(len, said.splitlines())) <= 120
    desk("lineage", "-R", "r000099", code=2)


def test_lineage_tells_of_a_release_that_has_expired(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    desk("init")
    desk("refresh")
    desk("search", "how is a badge used?")
    write(tmp_path / "docs", {"new.md": "# New\n\nA page.\n"})
    desk("refresh")
    desk("expire", "r000001", "--reason", "it told the wrong number")
    (entry,) = desk.json("lineage", "-R", "r000001")
    assert (entry["release"], entry["searches"]) == ("r000001", 1)


def test_lineage_shows_a_client_that_forges_lines_by_its_name_on_one(desk: Desk) -> None:
    with asked_by("mcp:one\nhttp:operator 1 of r000009, 5 questions:\n\x1b[31m\u202e"):
        open_repository(desk.file).retriever().search("how is a badge used?")
    said = desk("lineage", "-R", "current")
    assert not [line for line in said.splitlines() if line.startswith("http:operator 1")]
    assert "mcp:one http:operator 1 of r000009" in said
    assert not {"\x1b", "\u202e"} & set(said)


def test_lineage_without_a_log_says_how_to_switch_it_on(desk: Desk, tmp_path: Path) -> None:
    plain = desk.file.read_text().split("[search_log]")[0]
    other = tmp_path / "kb.toml"
    other.write_text(plain)
    result = CliRunner().invoke(app, ["lineage", "-c", str(other)])
    assert result.exit_code == 2
    assert '[search_log] path = "searches"' in result.output
    other.write_text(f'{plain}[search_log]\npath = "{tmp_path}/none"\n')
    result = CliRunner().invoke(app, ["lineage", "-c", str(other)])
    assert result.exit_code == 0
    assert "nobody asked any release" in result.output
