"""The command line as a person and as a program meets it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support import DOCUMENTS, ROOT, write


class Kb:
    def __init__(self, root: Path) -> None:
        self.root = root
        write(root / "docs", DOCUMENTS)
        self.config = root / "kb.toml"
        self.config.write_text(
            f'[kb]\nname = "desk"\nrepository = "{root}/releases"\n'
            f'[[sources]]\nname = "docs"\npath = "{root}/docs"\n[embedder]\nprovider = "hashing"\n'
        )

    def __call__(self, *arguments: str, code: int = 0, **environment: str) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [sys.executable, "-m", "kbcore.cli", *arguments],
            cwd=ROOT,
            env={**os.environ, "KB_CONFIG": str(self.config), **environment},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == code, (arguments, done.stdout, done.stderr)
        assert "Traceback" not in done.stderr
        return done

    def json(self, *arguments: str, code: int = 0) -> Any:
        return json.loads(self(*arguments, "--json", code=code).stdout)


@pytest.fixture(scope="module")
def kb(tmp_path_factory: pytest.TempPathFactory) -> Kb:
    kb = Kb(tmp_path_factory.mktemp("cli"))
    kb("search", "anything", code=10)
    kb("init")
    kb("refresh")
    write(kb.root / "docs", {"vpn.md": "# VPN\n\nThe profile is called *Remote* now. ERR-4012 is gone.\n"})
    kb("refresh")
    return kb


def test_refresh_prints_what_programs_rely_on(kb: Kb) -> None:
    report = kb.json("refresh")
    for key in ("release", "parent", "outcome", "promoted", "changes", "chunks", "texts_embedded", "bytes_written",
                "failures", "withheld_removals", "gate"):  # fmt: skip
        assert key in report
    assert set(report["changes"]) >= {
        "added",
        "changed",
        "removed",
        "renamed",
        "unchanged",
        "carried_over",
        "erased",
        "skipped",
    }
    assert set(report["chunks"]) == {"total", "new", "reused"}
    assert report["outcome"] == "unchanged"


def test_show_and_releases_print_what_programs_rely_on(kb: Kb) -> None:
    shown = kb.json("show", "current")
    for key in ("release", "parent", "content_digest", "embedder", "chunking", "totals", "changes"):
        assert key in shown
    rows = kb.json("releases")
    assert [(r["release"], r["state"]) for r in rows] == [("r000002", "current"), ("r000001", "previous")]
    for key in ("created_at", "documents", "chunks", "content_digest"):
        assert key in rows[0]
    assert shown["embedder"]["embedder_id"] in kb("show").stdout


def test_search_prints_what_programs_rely_on(kb: Kb) -> None:
    found = kb.json("search", "lost phone", "-k", "2")
    assert (found["release"], found["outcome"], found["score_kind"]) == ("r000002", "hits", "minmax")
    keys = """chunk_id doc_id uri title heading page_start page_end start end text score cosine vector_rank bm25 keyword_rank
        document_version fetched_at age_days carried_over"""
    for key in keys.split():
        assert key in found["hits"][0]
    assert found["hits"][0]["untrusted"] is True
    both = kb.json("search", "profile", "--release", "r000002", "--against", "r000001")
    assert (both["release"]["release"], both["against"]["release"]) == ("r000002", "r000001")


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["search", "x", "-k", "0"], 2, "k is a number of hits from 1 on"),
        (["search", "x" * 100_000], 2, "100,000 characters"),
        (["search", "x", "--release", "r000077"], 2, "there is no release"),
        (["search", "x", "--mode", "psychic"], 2, "vector"),
        (["promote", "r000001"], 2, "a reason is required"),
        (["rollback", "--to", "r000002", "-r", "x"], 2, "current already"),
        (["hold", "--lift", "-r", "x"], 2, "no hold to lift"),
        (["sql", "drop table chunks"], 2, "cannot be written"),
        (["sql", "select nothing"], 2, "nothing"),
        (["diff", "r000001", "r000002", "--text", "docs:none.md"], 2, "neither"),
        (["refresh", "--approve-removals", "-1"], 2, "greater than or equal to 0"),
        (["frobnicate"], 2, "No such command"),
    ],
    ids=lambda value: " ".join(value)[:30] if isinstance(value, list) else None,
)
def test_what_cannot_be_done_says_why_and_ends_with_its_code(
    kb: Kb, arguments: list[str], code: int, words: str
) -> None:
    done = kb(*arguments, code=code)
    assert words in " ".join(re.sub(r"[│╭╰─╮╯]", " ", done.stderr).split())


def test_an_error_is_json_on_the_last_line_of_stderr_with_json(kb: Kb) -> None:
    done = kb("search", "x", "-k", "0", "--json", code=2)
    assert done.stdout == ""
    message = json.loads(done.stderr.strip().splitlines()[-1])
    assert (message["message_type"], message["code"]) == ("error", 2)


def test_an_empty_question_and_a_large_k_are_answered(kb: Kb) -> None:
    assert kb.json("search", "   ")["outcome"] == "no_match"
    assert len(kb.json("search", "the", "-k", "9999", "--mode", "vector")["hits"]) == len(DOCUMENTS)
    assert kb.json("search", "公司的密码怎么重置", "--mode", "keyword")["outcome"] == "no_match"


@pytest.mark.parametrize(
    ("section", "words"),
    [
        ("[chunkin]\nsize = 3\n", "did you mean 'chunking'"),
        ("[chunking]\nsixe = 512\n", "did you mean 'size'"),
        ("[chunking]\nsize = 50\noverlap = 50\n", "must be larger than overlap"),
        ("[retrieval]\nmode = 'vecto'\n", "retrieval.mode"),
    ],
)
def test_a_wrong_setting_is_named_with_the_nearest_known_one(tmp_path: Path, section: str, words: str) -> None:
    kb = Kb(tmp_path)
    kb.config.write_text(kb.config.read_text() + section)
    assert words in kb("releases", code=2).stderr
    assert "did you mean" in Kb(tmp_path / "b")("releases", code=2, KB_CHUNKING__SIZ="3").stderr


def test_settings_say_where_they_come_from(kb: Kb) -> None:
    done = kb("config", "show", "--sources", "--json", KB_CHUNKING__SIZE="300")
    rows = {row["setting"]: row for row in json.loads(done.stdout)}
    assert rows["chunking.size"] == {"setting": "chunking.size", "value": 300, "from": "KB_CHUNKING__SIZE"}
    assert rows["chunking.overlap"]["from"] == "default"
    assert rows["kb.name"]["from"].endswith("kb.toml")


def test_sql_reads_every_view(kb: Kb) -> None:
    assert kb.json("sql", "select count(*) n from documents")[0]["n"] == len(DOCUMENTS)
    assert kb.json("sql", "select count(distinct doc_id) n from chunks")[0]["n"] == len(DOCUMENTS)
    assert kb.json("sql", "select count(*) n from vectors where len(vector) = 256")[0]["n"] >= len(DOCUMENTS)
    assert kb.json("sql", "select sum(tf) n from postings where term = 'err-4012'")[0]["n"] == 1
    assert [r["kind"] for r in kb.json("sql", "select kind from promotions order by seq")][:2] == ["promote", "promote"]
    assert kb.json("sql", "select outcome from checks order by run limit 1") == [{"outcome": "published"}]
    changes = kb.json(
        "sql", "select change, doc_id_old, doc_id_new from chunk_changes('r000001', 'current') order by 1"
    )
    assert {c["change"] for c in changes} == {"added", "removed"}
    assert {c["doc_id_new"] or c["doc_id_old"] for c in changes} == {"docs:vpn.md"}


@pytest.mark.parametrize(
    "statement",
    ["copy chunks to 'out.csv'", "attach 'x.db'", "install fts", "set threads = 1", "create table t (a int)",
     "select * from read_csv('/etc/passwd')", "select * from glob('*')", "select content from read_text('/etc/passwd')",
     "select 1; select 2", "insert into chunks select * from chunks", "export database 'x'"],
)  # fmt: skip
def test_sql_cannot_write_or_leave_the_release(kb: Kb, statement: str) -> None:
    from tests.support import tree

    before = tree(kb.root / "releases")
    kb("sql", statement, code=2)
    assert tree(kb.root / "releases") == before


def test_doctor_names_the_command_that_mends_each_finding(kb: Kb, tmp_path: Path) -> None:
    checks = {c["name"]: c for c in kb.json("doctor")}
    assert checks["current"]["status"] == "ok"
    assert checks["embedder"]["status"] == "warn"
    fresh = Kb(tmp_path)
    (tmp_path / "docs").rename(tmp_path / "away")
    found = {c["name"]: c for c in fresh.json("doctor", code=1)}
    assert found["repository"]["remedy"] == "kb init"
    assert found["source docs"]["status"] == "fail"
    assert all(c["remedy"] for c in found.values() if c["status"] in ("warn", "fail"))
    assert found["releases"]["status"] == "skipped"


def test_a_refresh_that_finds_nothing_starts_in_well_under_a_second(kb: Kb) -> None:
    import time

    seconds = []
    for _ in range(3):
        started = time.perf_counter()
        kb("refresh")
        seconds.append(time.perf_counter() - started)
    assert min(seconds) < 1.5


def test_help_imports_nothing_heavy() -> None:
    heavy = ("numpy", "faiss", "pyarrow", "fastembed", "prefect", "duckdb")
    script = f"import sys, kbcore, kbcore.cli; print([m for m in {heavy} if m in sys.modules])"
    assert (
        subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.strip()
        == "[]"
    )


def test_control_characters_of_documents_do_not_reach_the_terminal(tmp_path: Path) -> None:
    kb = Kb(tmp_path)
    write(tmp_path / "docs", {"evil.md": "# Evil \x1b[31mred\x1b[0m \u202etitle\n\nSentinel text \x1b]0;x\x07 here.\n"})
    kb("init")
    kb("refresh")
    out = kb("search", "sentinel", "--mode", "keyword").stdout + kb("documents").stdout
    assert "\x1b" not in out
    assert "\u202e" not in out
