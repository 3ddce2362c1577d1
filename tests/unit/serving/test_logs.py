"""One line a record, whatever is in it."""

from __future__ import annotations

import io
import json
import logging

import pytest

from kbcore.serving.logs import JsonLines

HOSTILE = [
    "a\nb", "a\r\nb", '{"level": "error"}\n', "\x1b[31mred", "\u202eabc", "\u2028", "\x85", "\x7f", "\x00", "\ud800",
    "<script>", '=HYPERLINK("x")', '"}\n{"at": 1}', "a\r\nat: forged",
]  # fmt: skip


@pytest.mark.parametrize("text", HOSTILE, ids=ascii)
def test_a_hostile_text_is_one_line_that_reads_back(text: str) -> None:
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonLines())
    logger = logging.Logger("t")
    logger.addHandler(handler)
    try:
        raise ValueError(text)
    except ValueError:
        logger.exception("title %s", text, extra={"fields": {"path": text}})
    written = stream.getvalue()
    assert written.count("\n") == 1
    assert written[:-1].isascii()
    assert written[:-1].isprintable()
    line = json.loads(written)
    assert line["message"] == f"title {text}"
    assert line["path"] == text
    assert "ValueError" in line["traceback"]


def test_a_line_says_when_how_grave_and_by_whom() -> None:
    record = logging.LogRecord("kbcore", logging.INFO, "f", 1, "title=%s", ("a",), None)
    line = json.loads(JsonLines().format(record))
    assert (set(line), line["level"]) == ({"at", "level", "logger", "message"}, "info")
