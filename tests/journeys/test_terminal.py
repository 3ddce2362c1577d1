"""What people see on a real terminal: no column is lost at 80 columns, and sentences are broken between words."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest

from tests.support import DOCUMENTS, ROOT, write


def on_terminal(width: int, *arguments: str) -> str:
    """What a command prints on a terminal of so many columns."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, width, 0, 0))
    environment = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
    command = [sys.executable, "-m", "kbcore.cli", *arguments]
    with subprocess.Popen(
        command, cwd=ROOT, env={**environment, "TERM": "xterm"}, stdin=theirs, stdout=theirs, stderr=theirs
    ) as running:
        os.close(theirs)
        said = b""
        while True:
            try:
                part = os.read(ours, 65536)
            except OSError:  # Linux says so where the other end is closed
                break
            if not part:
                break
            said += part
        running.wait(60)
    os.close(ours)
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", said.decode()).replace("\r", "")


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("terminal")
    write(root / "docs", {**DOCUMENTS, "a/long/way/down/to/a/broken-document.html": b"\x00\x01\x02" * 99})
    file = root / "kb.toml"
    file.write_text(
        f'[kb]\nname = "desk"\nrepository = "{root}/releases"\n'
        f'[[sources]]\nname = "docs"\npath = "{root}/docs"\nfreshness_target = "7d"\n[embedder]\nprovider = "hashing"\n'
    )
    on_terminal(120, "init", "-c", str(file))
    on_terminal(120, "refresh", "-c", str(file))
    write(root / "docs", {"vpn.md": DOCUMENTS["vpn.md"].replace("did not answer", "is asleep"), "printers.txt": None})
    on_terminal(120, "refresh", "-c", str(file))
    return file


COLUMNS = {
    ("releases",): ("release", "state", "created", "docs", "changes", "chunks"),
    ("freshness",): ("source", "last listed", "last confirmed", "age (days)", "target", "carried over", "withheld"),
    ("history",): ("seq", "when", "what", "from", "to", "by", "reason"),
    ("diff", "previous", "current"): ("docs:printers.txt", "removed", "r000002"),
    ("doctor",): ("check", "detail", "mend it with"),
    ("refresh",): ("added", "changed", "carried_over", "skipped", "failed", "withheld", "tried again", "kept"),
    ("search", "ERR-4012", "--against", "previous"): ("r000001", "r000002", "score", "document", "text"),
    ("config", "show", "--sources"): ("setting", "value", "from"),
    ("show", "--failures"): ("document", "reason", "since", "kept"),
}


@pytest.mark.parametrize("width", [80, *(pytest.param(width, marks=pytest.mark.long) for width in (40, 120))])
@pytest.mark.parametrize("verb", COLUMNS, ids=lambda verb: verb[0])
def test_no_column_is_lost_whatever_the_width_and_no_line_is_longer(
    desk: Path, verb: tuple[str, ...], width: int
) -> None:
    said = on_terminal(width, *verb, "-c", str(desk))
    assert "Traceback" not in said
    for column in COLUMNS[verb]:
        assert column in said, said
    table = [line for line in said.splitlines() if "─" in line]
    assert all(len(line) <= width for line in table)


@pytest.mark.parametrize("verb", [("doctor",), ("show", "--failures"), ("diff", "previous", "current"), ("refresh",)])
def test_sentences_are_whole_at_80_columns(desk: Path, verb: tuple[str, ...]) -> None:
    """A reason or a remedy that ends in an ellipsis helps nobody."""
    said = on_terminal(80, *verb, "-c", str(desk))
    assert "…" not in said
    if verb == ("doctor",):
        assert 'set provider = "fastembed" in' in re.sub(r"\s+", " ", _column(said, "mend it with"))


def _column(said: str, name: str) -> str:
    """The text of the last column of a table, its lines joined."""
    lines = said.splitlines()
    at = lines[0].index(name)
    return " ".join(line[at:].strip() for line in lines[1:])


def test_a_table_of_one_row_that_does_not_fit_is_one_value_a_line_without_a_number(desk: Path) -> None:
    said = on_terminal(60, "refresh", "-c", str(desk))
    assert re.search(r"^withheld +0$", said, re.MULTILINE)
    assert "-- 1" not in said
