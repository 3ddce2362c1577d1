"""Logs of servers: one JSON line a record on stderr, whatever stands in it."""

from __future__ import annotations

import json
import logging
import sys
import unicodedata
from datetime import UTC, datetime


class JsonLines(logging.Formatter):
    """Line breaks, control and direction marks become escapes: text from outside can neither forge a line nor colour one."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": _escaped(record.getMessage()),
        }
        if record.exc_info:
            line["exception"] = _escaped(self.formatException(record.exc_info))
        return json.dumps(line, ensure_ascii=False)


def log_to_stderr(level: int = logging.INFO) -> None:
    """Send the logs of this process there, in place of whatever handlers were set."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    logging.basicConfig(level=level, handlers=[handler], force=True)


def _escaped(text: str) -> str:
    return "".join(f"\\u{ord(c):04x}" if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp") else c for c in text)
