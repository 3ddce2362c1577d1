"""What callers hear of an error, and what a log line looks like whatever stands in it."""

from __future__ import annotations

import json
import logging

import pytest

from kbcore.errors import CorruptReleaseError, EmbedderUnavailableError, KbUnavailableError, UsageError
from kbcore.serving.failures import told
from kbcore.serving.logs import JsonLines


def test_a_callers_own_error_keeps_message_and_remedy() -> None:
    assert told(UsageError("there is no mode 'x'", remedy="it is vector"), "kb") == "there is no mode 'x'. it is vector"


@pytest.mark.parametrize(
    ("error", "again"),
    [
        (KbUnavailableError("r1 could not be searched", transient=True), True),
        (OSError(5, "Input/output error", "/srv/kb/segments/x"), True),
        (TimeoutError(), True),
        (KbUnavailableError("no release is current yet"), False),
        (CorruptReleaseError("is damaged", file="segments/x"), False),
        (EmbedderUnavailableError("there is no model folder /srv/models/x"), False),
    ],
)
def test_unavailable_is_no_miss_and_says_whether_to_ask_again(error: Exception, again: bool) -> None:
    said = told(error, "helpdesk")
    assert said.startswith("UNAVAILABLE: helpdesk")
    assert ("Retrying may help" in said) is again
    assert ("Retrying will not help" in said) is not again
    assert "/srv" not in said


@pytest.mark.parametrize(
    "text", ["a\nb", "\x1b[31mred", "\u202egnp.exe", "a\r\nat: forged", "\u2028", "\ud800", "\x00", '"}\n{"at": 1}']
)
def test_a_log_line_is_one_line_of_json(text: str) -> None:
    record = logging.LogRecord("kbcore", logging.INFO, "f", 1, "title=%s", (text,), None)
    line = JsonLines().format(record)
    assert len(line.splitlines()) == 1
    assert set(json.loads(line)) == {"at", "level", "logger", "message"}
    assert not any(mark in line for mark in ("\x1b", "\u202e", "\u2028", "\ud800", "\x00"))
