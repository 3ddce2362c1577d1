"""Every command of the README runs as it stands there."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str = "") -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", README, flags=re.MULTILINE | re.DOTALL)


def shell(script: str, folder: Path) -> subprocess.CompletedProcess[str]:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("KB_")}
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{environment['PATH']}"
    return subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("readme")
    shutil.copytree(ROOT / "config", folder / "config")
    return folder


@pytest.fixture(scope="module")
def session(project: Path) -> subprocess.CompletedProcess[str]:
    return shell(README.split("<!-- session -->")[1].split("```")[1], project)


def test_the_session_has_twelve_lines_and_every_command_of_it_works(session: subprocess.CompletedProcess[str]) -> None:
    lines = README.split("<!-- session -->")[1].split("```")[1].strip().splitlines()
    assert len(lines) == 12
    assert session.returncode == 0, session.stderr
    assert "Traceback" not in session.stderr


def test_the_session_shows_what_the_text_around_it_says(
    session: subprocess.CompletedProcess[str], project: Path
) -> None:
    out = session.stdout
    assert "published r000001" in out
    assert "mfa-lost-phone" in out
    assert "published r000002" in out
    assert "1 changed" in out
    assert "rollback: r000002 -> r000001" in out
    prefix = "export KB_KB__NAME=session KB_CONFIG=config/session.toml\n"
    held = shell(prefix + "kb refresh --json", project)
    report = json.loads(held.stdout)
    assert (report["release"], report["promoted"]) == ("r000002", False)
    assert "on hold" in report["not_promoted"]
    assert (
        shell(prefix + 'kb undo --reason "it was right" && kb history && kb hold --lift --reason x', project).returncode
        == 2
    )
    assert json.loads(shell(prefix + "kb show current --json", project).stdout)["release"] == "r000002"


def test_the_python_example_runs(session: subprocess.CompletedProcess[str], project: Path) -> None:
    example = blocks("python")[0]
    out = shell(f"export KB_KB__NAME=session\npython - <<'EOF'\n{example}\nEOF", project)
    assert out.returncode == 0, out.stderr
    assert "r000002" in out.stdout


def test_each_curl_of_the_readme_is_answered_and_none_with_an_error(project: Path) -> None:
    """After ``make run``, which publishes one release: what is shown there must not be refused."""
    block = README.split("<!-- serve -->")[1].split("```")[1]
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    started = (
        f"kb serve --port {port} 2> serve.log &\ntrap 'kill %1' EXIT\n"
        f"curl -sf --retry 60 --retry-delay 1 --retry-connrefused 127.0.0.1:{port}/health/ready\n"
    )
    made = "kb init > kb.log && kb refresh > kb.log\n"
    out = shell(made + re.sub(r"kb serve &.*\n", started, block).replace(":8000", f":{port}"), project)
    assert out.returncode == 0, out.stderr
    text = out.stdout[out.stdout.index('{"status"') :]
    answers = []
    while text:
        answer, end = json.JSONDecoder().raw_decode(text)
        answers.append(answer)
        text = text[end:].strip()
    assert [answer["error"] for answer in answers if "error" in answer] == []
    ready, found, held, lifted = answers
    assert ready == {"status": "ok"}
    assert found["hits"][0]["uri"] == "vpn/error-codes.md"
    assert (held["kind"], held["seq"]) == ("hold", 2)
    assert (lifted["kind"], lifted["seq"]) == ("lift", 3)


def test_every_command_in_the_table_exists() -> None:
    listed = set(re.findall(r"`kb ([a-z]+)", README))
    out = subprocess.run(
        [sys.executable, "-m", "kbcore.cli", "--help"], capture_output=True, text=True, check=True
    ).stdout
    known = set(re.findall(r"^│ ([a-z]+) ", out, flags=re.MULTILINE))
    assert listed <= known
    assert known - {"config"} <= listed | {"config"}


def test_every_make_target_of_the_readme_exists() -> None:
    targets = set(re.findall(r"^(?:PREFECT_\S+ )?make ([a-z-]+)", README, flags=re.MULTILINE))
    makefile = (ROOT / "Makefile").read_text()
    assert targets
    for target in targets:
        assert re.search(rf"^{target}:", makefile, flags=re.MULTILINE), target
