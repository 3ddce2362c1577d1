"""What SQL shows of a release and of the records."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kbcore.errors import ReleaseExpiredError, ReleaseNotFoundError, UsageError
from kbcore.knowledge_base import KnowledgeBase
from kbcore.promotion import hold
from kbcore.sql import SqlResult, query
from tests.support import DOCUMENTS, knowledge_base, refreshed, write

VPN = "docs:vpn.md"


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> KnowledgeBase:
    """r000001 all documents; r000002 one edited, one removed, one renamed, one added; a run without changes; a hold."""
    root = tmp_path_factory.mktemp("sql")
    made = knowledge_base(root)
    refreshed(made, by="ann")
    write(
        root / "docs",
        {
            "vpn.md": DOCUMENTS["vpn.md"].replace("Office", "Home"),
            "passwords.md": None,
            "printers.txt": None,
            "floors/printers.txt": DOCUMENTS["printers.txt"],
            "new.md": "# New\n\nA page about laptops.\n",
        },
    )
    refreshed(made, by="ben", approve_removals=1)
    refreshed(made, by="ben")
    hold(made.repository, reason="holiday", run=made.repository.begin("eve"))
    return made


def ask(base: KnowledgeBase, statement: str, release: str | None = "current", **limits: Any) -> list[tuple[Any, ...]]:
    return query(base.repository, release, statement, **limits).rows


# The views of a release


def test_documents_are_the_live_ones_of_the_release_with_all_columns(base: KnowledgeBase) -> None:
    ids = [row[0] for row in ask(base, "SELECT doc_id FROM documents ORDER BY doc_id")]
    assert ids == ["docs:floors/printers.txt", "docs:new.md", "docs:phones.html", VPN]
    assert [row[0] for row in ask(base, "SELECT doc_id FROM documents ORDER BY 1", "r000001")] == [
        f"docs:{name}" for name in sorted(DOCUMENTS)
    ]
    columns = query(base.repository, "current", "SELECT * FROM documents").columns
    assert {"release", "text", "metadata", "chunk_count", "carried_over", "withheld"} <= set(columns)
    assert "first_chunk" not in columns
    assert ask(base, "SELECT DISTINCT release, carried_over, withheld FROM documents") == [("r000002", False, False)]


def test_chunks_are_exact_slices_of_their_documents(base: KnowledgeBase) -> None:
    joined = "documents d JOIN chunks c USING (doc_id)"
    wrong = f'SELECT count(*) FROM {joined} WHERE substring(d.text, c.start + 1, c."end" - c.start) != c.text'
    assert ask(base, wrong) == [(0,)]
    assert ask(base, f"SELECT count(DISTINCT doc_id) FROM {joined}") == [(4,)]
    assert "document_row" not in query(base.repository, "current", "SELECT * FROM chunks").columns


def test_vectors_are_lists_and_one_for_each_chunk(base: KnowledgeBase) -> None:
    result = query(base.repository, "current", "SELECT vector FROM vectors SEMI JOIN chunks USING (chunk_id)")
    assert result.types == ["FLOAT[64]"]
    assert all(isinstance(row[0], list) and len(row[0]) == 64 for row in result.rows)
    assert ask(base, "SELECT count(*) FROM chunks") == [(len(result.rows),)]
    same = "SELECT bool_and(array_cosine_similarity(vector, vector) > 0.999) FROM vectors"
    assert ask(base, same) == [(True,)]


def test_postings_count_the_terms_of_live_chunks(base: KnowledgeBase) -> None:
    found = "SELECT c.doc_id, p.tf FROM postings p JOIN chunks c USING (chunk_id) WHERE p.term = 'err-4012'"
    assert ask(base, found) == [(VPN, 1)]
    lengths = "SELECT sum(tf) FROM postings", "SELECT sum(length) FROM chunks"
    assert ask(base, lengths[0]) == ask(base, lengths[1])


def test_rows_that_a_release_deleted_are_in_none_of_its_views(base: KnowledgeBase) -> None:
    for release, expected in (("r000001", 1), ("r000002", 0)):
        assert ask(base, "SELECT count(*) FROM documents WHERE uri = 'passwords.md'", release) == [(expected,)]
        assert ask(base, "SELECT count(*) FROM chunks WHERE text LIKE '%fourteen%'", release) == [(expected,)]
        assert ask(base, "SELECT count(*) FROM postings WHERE term = 'fourteen'", release) == [(expected,)]
        orphans = "SELECT count(*) FROM vectors ANTI JOIN chunks USING (chunk_id)"
        assert ask(base, orphans, release) == [(0,)]


def test_erased_documents_are_in_no_view_of_any_release(tmp_path: Path) -> None:
    base = knowledge_base(tmp_path, {**DOCUMENTS, "bad.pdf": b"%PDF-1.7 broken"})
    refreshed(base)
    write(tmp_path / "docs", {"vpn.md": DOCUMENTS["vpn.md"].replace("Office", "Home")})
    refreshed(base)
    assert [row[0] for row in ask(base, "SELECT DISTINCT doc_id FROM check_exceptions")] == ["docs:bad.pdf"]
    gone = [{"doc_id": doc_id, "content_sha256": None} for doc_id in (VPN, "docs:bad.pdf")]
    base.repository.erase(gone, reason="asked", run=base.repository.begin("ann"))
    for release in ("r000001", "r000002"):
        assert ask(base, f"SELECT count(*) FROM documents WHERE doc_id = '{VPN}'", release) == [(0,)]
        assert ask(base, "SELECT count(*) FROM chunks WHERE text LIKE '%gateway%'", release) == [(0,)]
        assert ask(base, "SELECT count(*) FROM postings WHERE term = 'gateway'", release) == [(0,)]
        assert ask(base, "SELECT count(*) FROM vectors ANTI JOIN chunks USING (chunk_id)", release) == [(0,)]
    assert ask(base, "FROM chunk_changes('r000001', 'r000002')") == []
    assert ask(base, "FROM check_exceptions") == []


def test_carried_over_documents_are_flagged(tmp_path: Path) -> None:
    base = knowledge_base(tmp_path)
    refreshed(base)
    write(tmp_path / "docs", {"phones.html": b"\x00" * 64, "new.md": "# New\n\nMore.\n"})
    report = refreshed(base)
    carried = [failure["doc_id"] for failure in report.failures if failure["carried_over"]]
    assert carried == ["docs:phones.html"]
    assert ask(base, "SELECT doc_id FROM documents WHERE carried_over") == [("docs:phones.html",)]


# The records of the repository


def test_releases_say_their_state_and_changes(base: KnowledgeBase) -> None:
    columns = "release, parent, state, documents, added, changed, removed, renamed, pinned"
    assert ask(base, f"SELECT {columns} FROM releases ORDER BY release") == [
        ("r000001", None, "previous", 4, 4, 0, 0, 0, False),
        ("r000002", "r000001", "current", 4, 1, 1, 1, 1, False),
    ]


def test_promotions_are_the_whole_log(base: KnowledgeBase) -> None:
    statement = 'SELECT seq, kind, release, "by", on_hold, hold_reason, stack FROM promotions ORDER BY seq'
    assert ask(base, statement) == [
        (1, "promote", "r000001", "ann", False, None, ["r000001"]),
        (2, "promote", "r000002", "ben", False, None, ["r000001", "r000002"]),
        (3, "hold", "r000002", "eve", True, "holiday", ["r000001", "r000002"]),
    ]


def test_checks_are_one_row_for_each_run(base: KnowledgeBase) -> None:
    assert ask(base, "SELECT seq, outcome, head, failed, listed, complete FROM checks ORDER BY seq") == [
        (1, "published", "r000001", 0, 4, True),
        (2, "published", "r000002", 0, 4, True),
        (3, "unchanged", "r000002", 0, 4, True),
    ]


# chunk_changes


def test_chunk_changes_follow_renames_and_pair_equal_texts(base: KnowledgeBase) -> None:
    statement = "SELECT change, doc_id_old, doc_id_new FROM chunk_changes('previous', 'current') ORDER BY ALL"
    assert ask(base, statement) == [
        ("added", None, "docs:new.md"),
        ("added", None, VPN),
        ("moved", "docs:printers.txt", "docs:floors/printers.txt"),
        ("removed", "docs:passwords.md", None),
        ("removed", VPN, None),
    ]
    moved = "SELECT start_old, start_new, chunk_id_old != chunk_id_new FROM chunk_changes('previous', 'current')"
    assert ask(base, f"{moved} WHERE change = 'moved'") == [(0, 0, True)]


def test_a_chunk_that_only_moves_in_its_text_is_moved(tmp_path: Path) -> None:
    long = "\n\n".join(f"## Part {n}\n\n" + f"Sentence {n} of a longer page. " * 14 for n in range(3))
    base = knowledge_base(tmp_path, {"page.md": long})
    refreshed(base)
    write(tmp_path / "docs", {"page.md": "## Before\n\n" + "An opening that was not there. " * 14 + "\n\n" + long})
    refreshed(base)
    rows = ask(base, "FROM chunk_changes('r000001', 'r000002') WHERE change = 'moved'")
    assert rows
    shifted = "SELECT bool_and(start_new > start_old AND chunk_id_new = chunk_id_old)"
    assert ask(base, f"{shifted} FROM chunk_changes('r000001', 'r000002') WHERE change = 'moved'") == [(True,)]


def test_chunk_changes_takes_names_by_keyword_and_several_pairs(base: KnowledgeBase) -> None:
    positional = "FROM chunk_changes('r000001', 'r000002') ORDER BY ALL"
    named = "FROM CHUNK_CHANGES(\"new\" := 'r000002', \"old\" := 'r000001') ORDER BY ALL"
    assert ask(base, named) == ask(base, positional) != []
    added = "(SELECT count(*) FROM chunk_changes('1', '2') WHERE change = 'added')"
    both = f"SELECT {added}, count(*) FROM chunk_changes('2', '1') WHERE change = 'removed'"
    assert ask(base, both) == [(2, 2)]
    assert ask(base, "FROM chunk_changes('current', 'current')") == []


@pytest.mark.parametrize(
    "call",
    ["chunk_changes('r000001')", "chunk_changes('r00' || '0001', 'current')", "chunk_changes(1, 2, 3)",
     "releases r, LATERAL (FROM chunk_changes(r.release, 'current'))"],
)  # fmt: skip
def test_chunk_changes_wants_two_constant_names(base: KnowledgeBase, call: str) -> None:
    with pytest.raises(UsageError, match="takes the names of two releases"):
        ask(base, f"SELECT * FROM {call}")


# Which release


def test_an_unknown_or_expired_release_is_the_repositorys_own_error(tmp_path: Path, base: KnowledgeBase) -> None:
    for statement, release in (
        ("FROM documents", "r000099"),
        ("FROM releases", "r000099"),
        ("FROM chunk_changes('r000099', 'current')", "current"),
    ):
        with pytest.raises(ReleaseNotFoundError):
            ask(base, statement, release)
    other = knowledge_base(tmp_path)
    refreshed(other)
    write(tmp_path / "docs", {"new.md": "# New\n\nMore.\n"})
    refreshed(other)
    other.repository.expire("r000001", reason="old", run=other.repository.begin("ann"))
    with pytest.raises(ReleaseExpiredError):
        ask(other, "FROM documents", "r000001")
    assert ask(other, "SELECT release FROM releases WHERE state = 'expired'") == [("r000001",)]


@pytest.mark.parametrize("release", [None, "current", "previous", "latest"])
def test_with_nothing_published_every_view_is_empty(tmp_path: Path, release: str | None) -> None:
    base = knowledge_base(tmp_path)
    for view in ("documents", "chunks", "vectors", "postings", "releases", "promotions", "checks", "check_exceptions", "evals",
                 "eval_questions", "gates"):  # fmt: skip
        assert ask(base, f"SELECT count(*) FROM {view}", release) == [(0,)]
    with pytest.raises(ReleaseNotFoundError):
        ask(base, "FROM documents", "r000001")


def test_without_a_current_release_records_read_and_its_views_say_why_not(tmp_path: Path) -> None:
    base = knowledge_base(tmp_path)
    refreshed(base, promote=False)
    assert ask(base, "SELECT release, state, documents, chunks > 0 FROM releases") == [
        ("r000001", "candidate", 4, True)
    ]
    assert ask(base, "SELECT count(*) FROM documents", "latest") == [(4,)]
    with pytest.raises(ReleaseNotFoundError, match="no current release"):
        ask(base, "SELECT count(*) FROM documents")


def test_only_what_a_statement_mentions_is_read(tmp_path: Path) -> None:
    base = knowledge_base(tmp_path)
    refreshed(base)
    for file in (base.folder / "segments").rglob("vectors.parquet"):
        file.unlink()
    assert ask(base, "SELECT count(*) > 0 FROM chunks, postings") == [(True,)]
    assert ask(base, "SELECT chunks > 0 FROM releases") == [(True,)]


# Forms of statements


def test_every_way_to_name_a_view_reaches_its_rows(base: KnowledgeBase) -> None:
    for statement in (
        'SELECT count(*) FROM "Documents"',
        "SELECT count(*) FROM main.documents",
        "SELECT count(*) FROM documents NATURAL JOIN (SELECT doc_id FROM documents)",
        "WITH documents AS (SELECT * FROM documents) SELECT count(*) FROM documents",
        "SELECT (SELECT count(*) FROM documents)",
        "SELECT count(*) FROM documents WHERE EXISTS (FROM chunks WHERE chunks.doc_id = documents.doc_id)",
        "SELECT n FROM (SELECT 1 k) JOIN LATERAL (SELECT count(*) n FROM documents) ON true",
        "-- how many?\nSELECT count(*) FROM documents;",
    ):
        assert ask(base, statement) == [(4,)], statement
    assert ask(base, "FROM (PIVOT documents ON source IN ('docs') USING count(*) GROUP BY release)") == [("r000002", 4)]
    assert ask(base, "SELECT count(*) FROM (UNPIVOT documents ON uri, title)") == [(8,)]


def test_describe_show_summarize_and_explain_work(base: KnowledgeBase) -> None:
    assert ("doc_id", "VARCHAR") in [row[:2] for row in ask(base, "DESCRIBE documents")]
    assert [row[0] for row in ask(base, "SHOW TABLES")] == sorted(
        ["documents", "chunks", "vectors", "postings", "releases", "promotions", "checks", "check_exceptions", "evals",
         "eval_questions", "gates"]
    )  # fmt: skip
    summary = {row[0]: row[2:4] for row in ask(base, "SUMMARIZE documents")}
    assert summary["release"] == ("r000002", "r000002")
    assert ask(base, "SHOW documents") == ask(base, "DESCRIBE documents")
    for statement in ("EXPLAIN FROM documents", "EXPLAIN ANALYZE SELECT 1", "EXPLAIN (FORMAT json) SELECT 1"):
        assert ask(base, statement)


def test_values_are_those_that_json_knows(base: KnowledgeBase) -> None:
    result: SqlResult = query(
        base.repository,
        None,
        "SELECT 1.5, 2.0::DECIMAL(4, 1), now(), DATE '2026-01-02', {'a': [1, NULL]}, MAP {1: 2}, 'ab'::BLOB, uuid(), "
        "INTERVAL 1 DAY, 170141183460469231731687303715884105727::HUGEINT, NULL, true",
    )
    row = result.rows[0]
    assert json.loads(json.dumps(row)) == list(row)
    assert (*row[:2], *row[3:7], *row[9:]) == (
        1.5, 2, "2026-01-02", {"a": [1, None]}, {"1": 2}, "6162", 2**127 - 1, None, True,
    )  # fmt: skip
    assert result.types[0].startswith("DECIMAL")


def test_a_float_that_json_has_no_number_for_is_its_text(base: KnowledgeBase) -> None:
    result = query(base.repository, None, "SELECT 'nan'::DOUBLE, 'inf'::FLOAT, ['-inf'::DOUBLE, 1.5::DOUBLE]")
    assert result.rows == [("nan", "inf", ["-inf", 1.5])]
    json.dumps(result.rows, allow_nan=False)
