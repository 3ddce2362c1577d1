"""``kb eval`` as a person and as a program meets it."""

from __future__ import annotations

import json
from pathlib import Path

from typer.testing import CliRunner

from kbcore.cli import app
from kbcore.store import layout
from tests.unit.evaluation.sets import history, questions


def test_a_release_is_measured_though_its_parent_is_damaged_and_that_is_said(tmp_path: Path) -> None:
    questions(tmp_path)
    base = history(tmp_path, {"phones.html": None})
    file = tmp_path / "kb.toml"
    file.write_text(
        f'[kb]\nname = "test"\nrepository = "{base.folder.parent}"\n[embedder]\nprovider = "hashing"\n'
        f'[[sources]]\nname = "docs"\npath = "{tmp_path}/docs"\n[retrieval]\nmode = "keyword"\n'
    )
    asked = ["eval", "-c", str(file), "--set", str(tmp_path / "set.jsonl")]
    whole = json.loads(CliRunner().invoke(app, [*asked, "--json"]).stdout)
    assert whole["baseline"] == "r000001"
    (base.folder / layout.manifest_file("r000001")).write_bytes(b"x")
    found = CliRunner().invoke(app, asked)
    assert found.exit_code == 0, found.output
    assert "r000001 does not read any more: what changed since it is not told apart" in found.output
    again = json.loads(CliRunner().invoke(app, [*asked, "--json"]).stdout)
    assert (again["baseline"], again["means"]) == (None, whole["means"])
    assert CliRunner().invoke(app, [*asked, "--baseline", "r000001"]).exit_code == 1
