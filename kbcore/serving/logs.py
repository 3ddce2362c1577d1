"""The server's log: one JSON object a line on stderr, whatever documents and callers put into it."""

from __future__ import annotations

import datetime
import json
import logging
import sys
from collections.abc import Sequence
from typing import Any, TextIO

MAX_CHARACTERS = 2_000
log = logging.getLogger("kbcore.serving")


class JsonLines(logging.Formatter):
    """``fields`` of a record stand beside its message. Everything but visible ASCII is escaped, so that no text in a line
    ends it, colours a terminal or turns around how it reads."""

    def format(self, record: logging.LogRecord) -> str:
        moment = datetime.datetime.fromtimestamp(record.created, datetime.UTC)
        line: dict[str, Any] = {
            "at": moment.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage()[:MAX_CHARACTERS],
            **getattr(record, "fields", {}),
        }
        if record.exc_info and record.exc_info[0]:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=True, default=str).replace("\x7f", "\\u007f")


def write_to(stream: TextIO = sys.stderr, *, quiet: Sequence[str] = ()) -> None:
    """Send all loggers of this process there: ours from INFO on, those of libraries and ``quiet`` from WARNING on."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonLines())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger("kbcore").setLevel(logging.INFO)
    for name in quiet:
        logging.getLogger(name).setLevel(logging.WARNING)


def request_line(**fields: Any) -> None:
    log.info("request", extra={"fields": {key: value for key, value in fields.items() if value is not None}})
