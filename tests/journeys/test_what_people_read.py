"""What the command line says: what happened, where, and the command that goes on from there."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from kbcore.cli import app, output
from tests.support import DOCUMENTS, ROOT, write


class Desk:
    """A configured knowledge base below a folder, and the command line on it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        write(root / "docs", DOCUMENTS)
        self.file = root / "kb.toml"
        self.file.write_text(
            f'[kb]\nname = "desk"\nrepository = "{root}/releases"\n'
            f'[[sources]]\nname = "docs"\npath = "{root}/docs"\n[embedder]\nprovider = "hashing"\n'
        )

    def __call__(self, *arguments: str, code: int = 0) -> str:
        result: Result = CliRunner().invoke(app, [*arguments, "-c", str(self.file)])
        assert result.exit_code == code, (arguments, result.output, result.exception)
        return result.output


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    desk = Desk(tmp_path)
    desk("init")
    desk("refresh")
    write(tmp_path / "docs", {"vpn.md": DOCUMENTS["vpn.md"].replace("did not answer", "is asleep")})
    return desk


def shell(*arguments: str, **environment: str) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "kbcore.cli", *arguments]
    return subprocess.run(command, cwd=ROOT, env={**os.environ, **environment}, capture_output=True, check=False)


def test_a_refresh_says_that_readers_were_moved_and_from_where(desk: Desk) -> None:
    assert "promoted r000002: readers had r000001" in desk("refresh")
    undone = desk("undo", "--reason", "a try")
    assert "the next refresh makes r000002 current, unless you say: kb hold -c" in undone
    assert "and would make r000002 current" in desk("plan")
    said = desk("refresh")
    assert "unchanged: r000002" in said
    assert "promoted r000002: readers had r000001" in said


def test_commands_that_are_advised_name_the_configuration_that_was_given(desk: Desk) -> None:
    refused = desk("show", "r000009", code=2)
    assert f"kb releases -c {desk.file}" in refused
    for name in ("passwords.md", "printers.txt", "phones.html"):
        (desk.root / "docs" / name).unlink()
    (desk.root / "docs" / "vpn.md").unlink()
    assert f"kb refresh -c {desk.file} --approve-removals 4" in desk("refresh", code=3)


def test_after_a_rollback_the_table_shows_what_is_blocked_and_diff_what_is_newer(desk: Desk) -> None:
    desk("refresh")
    said = desk("rollback", "--reason", "wrong")
    assert "the content of r000002 is blocked" in said
    assert re.search(r"r000002 +previous, blocked", desk("releases"))
    assert "r000001 -> r000002: 0 added, 1 changed" in desk("diff")
    assert "not blocked any more" in desk("promote", "r000002", "--reason", "right after all")


def test_a_pin_names_the_release_that_is_pinned(desk: Desk) -> None:
    desk("refresh")
    assert "r000001 is kept whatever retention says; r000002 stays current" in desk("pin", "r1", "--reason", "audit")
    assert "r000001 is let go; r000002 stays current" in desk("pin", "r1", "--remove", "--reason", "done")


def test_a_second_hold_does_not_write_over_the_reason_of_the_first(desk: Desk) -> None:
    desk("hold", "--reason", "freeze for the audit")
    assert "freeze for the audit" in desk("hold", "--reason", "another", code=2)


def test_two_releases_side_by_side_show_the_text_that_changed(desk: Desk) -> None:
    desk("refresh")
    said = desk("search", "ERR-4012", "--release", "current", "--against", "previous")
    now, was = (
        next(line for line in said.splitlines() if mark in line) for mark in ("now in r000002", "was in r000001")
    )
    assert "is asleep" in now
    assert "did not answer" in was


def test_a_plan_names_the_setting_that_makes_everything_new(desk: Desk) -> None:
    desk.file.write_text(desk.file.read_text() + "[chunking]\nsize = 100\n")
    assert "every document is cut anew: chunking size 512 -> 100" in desk("plan")


def test_common_words_alone_are_weak_evidence(desk: Desk) -> None:
    desk("refresh")
    assert "weak evidence" in desk("search", "the to a of volcanoes", "-k", "1")
    assert "weak evidence" not in desk("search", "ERR-4012 gateway", "-k", "1")


def test_a_blank_question_is_called_blank(desk: Desk) -> None:
    assert "the question is blank" in desk("search", "  ")


def test_a_document_is_offered_by_its_whole_id_and_a_source_by_its_name(desk: Desk) -> None:
    desk("refresh")
    assert "did you mean docs:vpn.md?" in desk("diff", "--text", "vpn.md", code=2)
    assert "its sources: docs" in desk("documents", "--source", "doc", code=2)


def test_init_refuses_a_name_before_it_writes_and_does_not_ignore_one(tmp_path: Path) -> None:
    file = tmp_path / "new" / "kb.toml"
    refused = CliRunner().invoke(app, ["init", "-c", str(file), "--name", 'a"b'])
    assert refused.exit_code == 2
    assert not file.exists()
    file.parent.mkdir()
    file.write_text(f'[kb]\nname = "first"\nrepository = "{tmp_path}/r"\n')
    refused = CliRunner().invoke(app, ["init", "-c", str(file), "--name", "second"])
    assert refused.exit_code == 2
    assert "is there already" in refused.output


def test_a_repository_that_is_not_there_is_named_by_its_whole_path(tmp_path: Path) -> None:
    file = tmp_path / "kb.toml"
    file.write_text('[kb]\nname = "second"\nrepository = "nowhere"\n')
    said = CliRunner().invoke(app, ["releases", "-c", str(file)])
    assert said.exit_code == 10
    assert f"at {Path.cwd()}/nowhere/second" in said.output.replace("\n", "")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[kb]\nname = "a"\n[sources]\nname = "s"\n', "[[sources]]"),
        ('[kb]\nname = "a"\n[[sources]]\nname = "s"\npath = "x"\ninclude = "*.md"\n', 'include is a list: write ["*.md"]'),
        ('kb = 3\n', "kb is a table: write [kb]"),
        ('[kb]\nname = "a"\n[[sources]]\nname = "s"\npath = "x"\ninclude = ["[z-a]"]\n', "is not a pattern"),
        ('[kb]\nname = "a"\n[[sources]]\nname = "s"\ntype = "folder"\n', "there is no source of type 'folder'"),
        ('[kb]\nname = "a"\n[schedule]\ncron = "often"\n', "five fields"),
        ('[kb]\nname = "a"\n[schedule]\ntimezone = "Mars"\n', "Europe/Berlin"),
    ],
)  # fmt: skip
def test_a_wrong_configuration_says_what_to_write(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "kb.toml"
    file.write_text(text)
    done = CliRunner().invoke(app, ["config", "show", "-c", str(file)])
    assert done.exit_code == 2
    assert said in done.output


def test_a_wrong_value_is_said_of_the_variable_it_stands_in(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KB_CHUNKING__SIZE", "abc")
    assert "kb: KB_CHUNKING__SIZE: chunking.size" in desk("config", "show", code=2)


def test_a_file_that_an_editor_marked_as_utf8_is_read(desk: Desk) -> None:
    desk.file.write_bytes(b"\xef\xbb\xbf" + desk.file.read_bytes())
    assert "desk" in desk("config", "show")


def test_a_usage_error_is_json_too_where_json_was_asked_for() -> None:
    for arguments in (["search", "--json"], ["search", "x", "-k", "abc", "--json"], ["nonsense", "--json"]):
        done = shell(*arguments)
        assert (done.returncode, done.stdout) == (2, b"")
        assert json.loads(done.stderr)["error"] == "UsageError"


def test_arguments_and_locales_that_are_not_utf8_end_in_words(desk: Desk) -> None:
    done = shell("search", "a\udcffb", "-c", str(desk.file))
    assert (done.returncode, b"not valid UTF-8" in done.stderr) == (2, True)
    done = shell("search", "gateway", "-c", str(desk.file), PYTHONIOENCODING="ascii", PYTHONUTF8="0")
    assert (done.returncode, done.stderr) == (0, b"")


def test_a_reader_that_goes_away_is_no_error(desk: Desk) -> None:
    for verb in ("releases", "documents"):
        command = [sys.executable, "-m", "kbcore.cli", verb, "-c", str(desk.file)]
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
            assert running.stdout
            running.stdout.close()
            assert running.wait(30) == 0
            assert running.stderr
            assert running.stderr.read() == b""


def test_a_table_in_a_pipe_keeps_every_cell_whole_and_every_row_on_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    output.table(["document", "text"], [["a\nb", "x" * 500], ["c", "y"]])
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 4
    assert r"a\nb" in lines[2]
    assert "x" * 500 in lines[2]
    output.table([f"column {n}" for n in range(20)], [])
    assert len(capsys.readouterr().out.splitlines()) == 2


def test_an_interrupt_while_workers_embed_ends_at_once_and_in_words(tmp_path: Path) -> None:
    """Also where the workers are still starting: the terminal sends the signal to all of them."""
    desk = Desk(tmp_path)
    desk.file.write_text(desk.file.read_text().replace('[embedder]\nprovider = "hashing"', "[build]\njobs = 2"))
    write(tmp_path / "docs", {f"{n}.md": f"# Page {n}\n\n" + f"Word{n} and others. " * 40 for n in range(300)})
    desk("init")
    command = [sys.executable, "-m", "kbcore.cli", "refresh", "--json", "-c", str(desk.file)]
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as running:
        assert running.stderr
        for line in running.stderr:
            if '"embed"' in line:
                break
        os.killpg(running.pid, signal.SIGINT)
        started = time.monotonic()
        rest = running.stderr.read()
        assert running.wait(30) == 130
    assert time.monotonic() - started < 10
    assert [json.loads(line).get("error") for line in rest.splitlines() if "status" not in line] == ["Interrupted"]
    assert "nothing was published yet" in desk("releases")


def test_the_settings_in_force_are_shown_without_what_may_be_a_secret(tmp_path: Path) -> None:
    file = tmp_path / "kb.toml"
    file.write_text(
        '[kb]\nname = "a"\n[build]\nexecutor = "dask"\naddress = "tcp://me:hunter2@10.0.0.5:8786"\n'
        '[[sources]]\nname = "wiki"\ntype = "rest"\nrecipe = "mediawiki"\n'
        'base_url = "https://me:hunter2@wiki.example/w?token=hunter2"\nparameters = { key = "hunter2" }\n'
    )
    for arguments in (["config", "show"], ["config", "show", "--json"], ["config", "show", "--sources"]):
        shown = CliRunner().invoke(app, [*arguments, "-c", str(file)])
        assert shown.exit_code == 0
        assert "wiki.example" in shown.output
        assert "hunter2" not in shown.output


def test_a_broken_section_and_a_variable_for_it_end_in_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "kb.toml"
    file.write_text('kb = "x"\n')
    monkeypatch.setenv("KB_KB__NAME", "a")
    done = CliRunner().invoke(app, ["config", "show", "-c", str(file)])
    assert done.exit_code == 2
    assert "kb is a table" in done.output


def test_a_document_that_rests_is_shown_with_its_time_and_the_command_that_tries_it_at_once(desk: Desk) -> None:
    (desk.root / "docs" / "broken.html").write_bytes(b"\x00\x01\x02" * 99)
    said = desk("refresh", code=4)
    assert re.search(r"docs:broken.html .* \d{4}-\d\d-\d\dT", said)
    assert f"kb refresh -c {desk.file} --retry-failed" in said


def gated(desk: Desk) -> None:
    """A set of five questions, of which one is about each document and one is a canary."""
    lines = [
        {"id": "vpn", "question": "ERR-4012 gateway", "expected": [{"doc_id": "docs:vpn.md"}], "tags": ["canary"]},
        {"id": "password", "question": "password reset self-service", "expected": [{"doc_id": "docs:passwords.md"}]},
        {"id": "print", "question": "follow-me printing badge", "expected": [{"doc_id": "docs:printers.txt"}]},
        {"id": "phone", "question": "lost phone wiped", "expected": [{"doc_id": "docs:phones.html"}]},
    ]
    evalset = desk.root / "set.jsonl"
    evalset.write_text("".join(json.dumps(line) + "\n" for line in lines))
    desk.file.write_text(desk.file.read_text() + f'[gate]\nevalset = "{evalset}"\n')


def test_a_pass_of_the_gate_is_one_line_with_the_first_measure(desk: Desk) -> None:
    gated(desk)
    said = [line for line in desk("refresh").splitlines() if line.startswith("gate:")]
    assert len(said) == 1
    assert re.fullmatch(r"gate: pass, nDCG@10 \d\.\d{3} -> \d\.\d{3}, \d+ checks", said[0])


def test_a_verdict_that_is_repeated_shows_the_same_measure(desk: Desk) -> None:
    gated(desk)
    desk("refresh", "--no-promote")
    desk("gate", "latest")
    assert re.search(r"^gate: pass, as judged before, nDCG@10 \d", desk("refresh"), re.MULTILINE)


def test_a_refusal_of_the_gate_has_each_failed_check_on_a_line_and_the_commands_that_go_on(desk: Desk) -> None:
    gated(desk)
    (desk.root / "docs" / "vpn.md").unlink()
    said = desk("refresh", code=3)
    assert "not promoted: readers stay with r000001" in said
    lines = said.splitlines()
    at = next(n for n, line in enumerate(lines) if line.startswith("gate: fail, nDCG@10 "))
    refused = [line for line in lines[at + 1 :] if line.startswith("  fail")]
    assert any(line.startswith("  fail    canary: vpn 'ERR-4012 gateway' is not found any more") for line in refused)
    assert len(refused) == len(json.loads(desk("gate", "latest", "--json", code=3))["reasons"])
    assert lines[-3:] == [
        f"see what changed: kb compare -c {desk.file} current r000002",
        f'promote it all the same: kb promote -c {desk.file} r000002 --reason "..."',
        f"or without asking: kb refresh -c {desk.file} --no-gate",
    ]
    assert not any("; " in line and "canary" in line and "judged" in line for line in lines)


def test_a_candidate_that_was_asked_for_says_that_the_next_refresh_promotes_it(desk: Desk) -> None:
    said = desk("refresh", "--no-promote")
    after = "the next refresh promotes r000002 if it passes the gate, unless held: kb hold -c"
    assert after in said
    assert after in desk("refresh", "--no-promote")
    desk("hold", "--reason", "an audit")
    held = desk("refresh", "--no-promote")
    assert "not promoted: on hold: an audit" in held
    assert after not in held
    desk("hold", "--lift", "--reason", "done")
    desk("refresh")
    assert "r000002 is current" in desk("refresh", "--no-promote")


def test_documents_that_failed_before_and_do_not_now_explain_the_exit_code(desk: Desk) -> None:
    (desk.root / "docs" / "broken.html").write_bytes(b"\x00\x01\x02" * 99)
    desk("refresh", code=4)
    assert "none when r000001 was built; since then: kb freshness -c" in desk("show", "r1", "--failures")
    assert "docs:broken.html" in desk("show", "--failures")
    (desk.root / "docs" / "broken.html").write_text("<h1>Mended</h1><p>It reads.</p>")
    assert "failed before, not now: 1 document (a change of what fails ends with 4)" in desk("refresh", code=4)
    assert "failed before" not in desk("refresh")


def test_a_plan_ends_with_the_code_that_the_refresh_ends_with(desk: Desk) -> None:
    assert "1 text to embed" in desk("plan")
    desk("plan", "--exit-code", code=5)
    away = desk.root / "away"
    write(away, {"one.md": "# One\n\nA text.\n"})
    desk.file.write_text(desk.file.read_text() + f'[[sources]]\nname = "away"\npath = "{away}"\n')
    desk("refresh")
    away.rename(desk.root / "gone")
    for arguments in (["plan"], ["plan", "--exit-code"], ["refresh", "--dry-run"], ["refresh"]):
        said = desk(*arguments, code=1)
        assert said.count("source 'away'") + said.count("source away") == 1
    (desk.root / "gone").rename(away)
    write(desk.root / "docs", dict.fromkeys(DOCUMENTS))
    for arguments in (["plan"], ["refresh", "--dry-run"], ["refresh"]):
        assert "4 removals withheld; if they are meant" in desk(*arguments, code=3)


def test_a_plan_of_what_would_be_refused_says_so_and_ends_with_3(desk: Desk) -> None:
    write(desk.root / "docs", {f"{n}.html": b"\x00\x01\x02" * 99 for n in range(12)})
    for verb in ("plan", "refresh"):
        assert "12 of 16 documents failed" in desk(verb, code=3)
    assert desk("releases").count("r00000") == 1


def test_a_move_that_never_was_and_failures_that_are_none_are_said_in_words(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    assert desk("init").count("next:") == 1
    assert "nothing was promoted yet" in desk("history")
    assert "nothing was published yet; publish with: kb refresh -c" in desk("releases")
    desk("refresh")
    assert "none when r000001 was built; since then: kb freshness -c" in desk("show", "--failures")


def test_init_prints_one_next_line_also_where_the_sources_are_to_be_named(tmp_path: Path) -> None:
    file = tmp_path / "new" / "kb.toml"
    file.parent.mkdir()
    file.write_text(
        f'[kb]\nname = "a"\nrepository = "{tmp_path}/r"\n[[sources]]\nname = "s"\npath = "{tmp_path}/none"\n'
    )
    said = CliRunner().invoke(app, ["init", "-c", str(file)]).output
    lines = [line for line in said.splitlines() if line.startswith("next:")]
    assert len(lines) == 1
    assert f"there is no folder {tmp_path}/none yet" in lines[0]
    assert "then kb doctor -c" in lines[0]


def test_what_concerns_two_settings_is_said_of_the_variable_that_one_stands_in(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KB_CHUNKING__CONTEXT", "heading")
    monkeypatch.setenv("KB_CHUNKING__SIZE", "3")
    assert "kb: KB_CHUNKING__SIZE: chunking: size (3) must be larger" in desk("config", "show", code=2)
    monkeypatch.delenv("KB_CHUNKING__SIZE")
    desk.file.write_text(desk.file.read_text() + "[chunking]\nsize = 3\n")
    assert f"kb: {desk.file}: chunking: size (3)" in desk("config", "show", code=2)


@pytest.mark.parametrize("text", ["", "# nothing yet\n", '[kb]\nrepository = "r"\n'])
def test_an_empty_configuration_says_which_setting_it_lacks(tmp_path: Path, text: str) -> None:
    file = tmp_path / "kb.toml"
    file.write_text(text)
    said = CliRunner().invoke(app, ["config", "show", "-c", str(file)])
    assert (said.exit_code, "[kb] name is missing" in said.output) == (2, True)


def test_a_release_that_cannot_expire_says_which_of_the_reasons_applies(desk: Desk) -> None:
    desk("pin", "r1", "--reason", "audit")
    said = desk("expire", "r000001", "--reason", "old", code=2)
    assert "r000001 is current, is pinned, is the newest, which the next refresh builds on, and cannot expire" in said
    desk("refresh")
    assert "r000001 is pinned and cannot expire" in desk("expire", "r000001", "--reason", "old", code=2)
    said = desk("expire", "r000002", "--reason", "old", code=2)
    assert "r000002 is current, is the newest, which" in said
    assert "pinned" not in said
