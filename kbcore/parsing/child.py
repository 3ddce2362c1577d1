"""The process that parses: ``python -m kbcore.parsing.child``. Documents on stdin, one answer each on stdout.

It limits itself before it reads a byte of a document: memory, CPU seconds per document, descriptors, no files
written, no core dumps. It ends when its stdin closes, even in the midst of a document.
"""

from __future__ import annotations

import importlib
import json
import logging
import mimetypes
import os
import resource
import select
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any, BinaryIO

from kbcore.errors import DocumentError, SkippedDocumentError
from kbcore.parsing.frames import LENGTH_BYTES, as_json, frame, length_of
from kbcore.parsing.limits import ParseLimits
from kbcore.parsing.media import CSV, DOCX, EPUB, HTML, MARKDOWN, PDF, PPTX, TEXT, XLSX
from kbcore.parsing.sandbox import confine
from kbcore.types import Parsed

MODULES = {MARKDOWN: "markdown", HTML: "html", TEXT: "plaintext", PDF: "pdf", CSV: "delimited"}
MODULES |= {DOCX: "docx", PPTX: "pptx", XLSX: "xlsx", EPUB: "epub"}
_DESCRIPTORS = 64
_RECURSION = 3_000  # a tree of libxml2's 256 levels costs markdownify several Python frames a level


def parse(uri: str, media_type: str, data: bytes, limits: ParseLimits) -> dict[str, Any]:
    """The answer to one document. No exception of a parser leaves this function."""
    try:
        module = importlib.import_module(f"kbcore.parsing.{MODULES[media_type]}")
        parser: Callable[[str, bytes, ParseLimits], Parsed] = module.parse
        parsed = parser(uri, data, limits)
        if len(parsed.text.encode("utf-8")) > limits.output_bytes:
            return {"failed": f"more than {limits.output_bytes // 1_000_000} MB of text"}
        # One place for all formats, and after the limit: figures of endless text are not worth their time.
        stats = {**parsed.stats, **importlib.import_module("kbcore.parsing.quality").figures(parsed, data)}
        return {"ok": as_json(replace(parsed, stats=stats))}
    except SkippedDocumentError as exc:
        return {"skipped": exc.message}
    except DocumentError as exc:
        return {"failed": exc.message}
    except MemoryError:
        return {"failed": f"needs more than {limits.memory_bytes // 1_000_000} MB of memory"}
    except RecursionError:
        return {"failed": "nested too deeply"}
    except Exception as exc:
        words = " ".join(str(exc).split())[:200].encode("utf-8", "replace").decode()
        return {"failed": f"{type(exc).__name__}: {words}"}


def serve(source: BinaryIO, sink: int) -> None:
    """Answer documents until the source ends."""
    limited = False
    while len(start := source.read(LENGTH_BYTES)) == LENGTH_BYTES:
        header = json.loads(source.read(length_of(start)))
        limits = ParseLimits(**header["limits"])
        data = source.read(header["bytes"])
        if len(data) < header["bytes"]:
            return
        if not limited:
            _limit_memory(limits.memory_bytes)
            limited = True
        _renew_cpu(limits.cpu_seconds)
        answer = frame(parse(header["uri"], header["media_type"], data, limits))
        if len(answer) - LENGTH_BYTES > limits.frame_bytes:
            answer = frame({"failed": "headings and metadata larger than the limit"})
        view = memoryview(answer)
        while view:
            view = view[os.write(sink, view) :]


def _limit_files() -> None:
    for kind, value in (
        (resource.RLIMIT_NOFILE, _DESCRIPTORS),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
    ):
        resource.setrlimit(kind, (value, value))


def _limit_memory(memory_bytes: int) -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    if hard != resource.RLIM_INFINITY:
        memory_bytes = min(memory_bytes, hard)
    try:
        resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    except (OSError, ValueError):  # macOS refuses RLIMIT_AS; the other limits still hold there
        pass


def _renew_cpu(seconds: int) -> None:
    """Kill this process after that many CPU seconds more. Only the soft limit: a hard one could not be raised again."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    soft = int(usage.ru_utime + usage.ru_stime) + 1 + seconds
    resource.setrlimit(resource.RLIMIT_CPU, (soft if hard == resource.RLIM_INFINITY else min(soft, hard), hard))


def _end_with_the_parent(descriptor: int) -> None:
    """Wait until the other end of stdin is closed, then end at once, whatever is being parsed."""
    poll = select.poll()
    poll.register(descriptor, 0)  # POLLHUP is always reported
    while not any(event & (select.POLLHUP | select.POLLERR) for _, event in poll.poll()):
        pass
    os._exit(0)


def main() -> None:
    sys.dont_write_bytecode = True
    sys.setrecursionlimit(_RECURSION)
    logging.disable(logging.CRITICAL)  # pypdf and trafilatura report each oddity of a document
    sink = os.dup(1)
    os.dup2(2, 1)  # whatever a library prints goes to stderr and cannot come between frames
    _limit_files()
    mimetypes.knownfiles.clear()  # what a name means must not depend on the machine, whose files cannot be read either
    confine()
    threading.Thread(target=_end_with_the_parent, args=(0,), daemon=True).start()
    with os.fdopen(0, "rb", buffering=1 << 16, closefd=False) as source:
        serve(source, sink)


if __name__ == "__main__":
    main()
