"""The parent's side: it hands documents to child processes, one at a time, and outlives whatever becomes of them."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

from kbcore.errors import DocumentError, SkippedDocumentError, UsageError
from kbcore.parsing.frames import LENGTH_BYTES, BadFrameError, length_of, read_answer, request
from kbcore.parsing.limits import MB, ParseLimits
from kbcore.parsing.media import DOCX, EPUB, PDF, PPTX, XLSX, media_type_of, suffix_of
from kbcore.types import Parsed

# -P: the working directory is no place to import from; -B: the child may not write files anyway.
_COMMAND = (sys.executable, "-P", "-B", "-m", "kbcore.parsing.child")
_PER_CHILD = {"pdf": 20, "office": 20, "text": 500}
_CHILD_OF = {PDF: "pdf", DOCX: "office", PPTX: "office", XLSX: "office", EPUB: "office"}
_STDERR_BYTES = 2_000
_STDERR_IN_REASON = 200
_READ_BYTES = 1 << 18
_EXIT_SECONDS = 1.0


class ParserPool:
    """Parses documents in child processes: ``with ParserPool() as pool: parsed = pool.parse(uri, data)``.

    Light formats share one child for up to 500 documents; PDF and the formats in ZIP containers have each their own for
    up to 20. A child is killed when it
    dies, is late, answers nonsense or reports a failure; a document that failed in a used child is tried once more
    alone in a fresh one. Calls from several threads are answered one after the other. ``command`` replaces the child
    program, for tests.
    """

    def __init__(self, limits: ParseLimits | None = None, *, command: Sequence[str] | None = None) -> None:
        self.limits = limits or ParseLimits()
        self._command = tuple(command or _COMMAND)
        self._children: dict[str, _Child] = {}
        self._lock = threading.Lock()
        self._closed = False

    def __enter__(self) -> ParserPool:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End all children. The pool cannot be used again."""
        with self._lock:
            self._closed = True
            for name in list(self._children):
                self._discard(name)

    def parse(self, uri: str, data: bytes, media_type: str | None = None) -> Parsed:
        """Parse one document; ``uri`` gives its kind, unless ``media_type`` does, and, where it names none, its title.

        Raises SkippedDocumentError where there is nothing to index (blank, or no parser for this kind), DocumentError
        with a short reason where it cannot be parsed within the limits, UsageError on a closed pool.
        """
        media_type = media_type or media_type_of(uri, data)
        if media_type is None:
            raise SkippedDocumentError(f"no parser for {suffix_of(uri) or 'files without an ending'}")
        if len(data) > self.limits.input_bytes:
            raise DocumentError(f"{len(data) / MB:.1f} MB, more than the limit of {self.limits.input_bytes / MB:g} MB")
        name = _CHILD_OF.get(media_type, "text")
        with self._lock:
            if self._closed:
                raise UsageError("the parser pool is closed")
            while True:
                child = self._child(name)
                used = child.served > 0
                try:
                    kind, value = child.ask(uri, media_type, data, self.limits)
                except _ChildFailure as exc:
                    kind, value = "failed", str(exc)
                except BaseException:  # an interrupt: the child may be in the midst of an answer
                    self._discard(name)
                    raise
                if kind != "failed":
                    break
                self._discard(name)
                if not used:
                    break
        if isinstance(value, Parsed):
            return value
        raise SkippedDocumentError(value) if kind == "skipped" else DocumentError(value)

    def _child(self, name: str) -> _Child:
        child = self._children.get(name)
        if child is not None and child.served >= _PER_CHILD[name]:
            self._discard(name)
            child = None
        if child is None:
            child = self._children[name] = _Child(self._command)
        return child

    def _discard(self, name: str) -> None:
        child = self._children.pop(name, None)
        if child is not None:
            child.kill()


class _ChildFailure(Exception):
    """The child died, was late or answered nonsense. Its message is the reason that is listed."""


class _Child:
    """One process, its pipes, and how many documents it was given."""

    def __init__(self, command: Sequence[str]) -> None:
        self.served = 0
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            env=_environment(),
            start_new_session=True,  # an interrupt at the terminal is the parent's to handle
        )
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        self._in, self._out = stdin.fileno(), stdout.fileno()
        os.set_blocking(self._in, False)
        os.set_blocking(self._out, False)
        self._errors = bytearray()
        self._drain = threading.Thread(target=self._read_errors, daemon=True)
        self._drain.start()
        self._answers = select.poll()
        self._answers.register(self._out, select.POLLIN)
        self._both = select.poll()
        self._both.register(self._out, select.POLLIN)
        self._both.register(self._in, select.POLLOUT)

    def ask(self, uri: str, media_type: str, data: bytes, limits: ParseLimits) -> tuple[str, Parsed | str]:
        """The child's answer. _ChildFailure with the reason where there is none within the time."""
        self.served += 1
        if self._answers.poll(0):  # bytes left over here would pass for the answer to this document
            spoke = os.read(self._out, _READ_BYTES)
            raise _ChildFailure("parser spoke before it was asked" if spoke else self._how_it_ended())
        body = self._exchange(memoryview(request(uri, media_type, data, limits)), limits)
        try:
            return read_answer(body, media_type, limits)
        except BadFrameError as exc:
            raise _ChildFailure(f"parser gave {exc}") from exc

    def _exchange(self, unsent: memoryview, limits: ParseLimits) -> bytes:
        """Write the request and read one frame, both as the pipes allow, until the deadline."""
        deadline = time.monotonic() + limits.timeout_seconds
        received = bytearray()
        wanted = LENGTH_BYTES
        unsent = self._send(unsent)
        while len(received) < wanted:
            left = deadline - time.monotonic()
            poll = self._both if unsent else self._answers
            events = dict(poll.poll(max(0.0, left) * 1000)) if left > 0 else {}
            if not events:
                raise _ChildFailure(f"no answer within {limits.timeout_seconds:g} seconds")
            if self._in in events:
                unsent = self._send(unsent)
            if self._out in events:
                chunk = os.read(self._out, _READ_BYTES)
                if not chunk:
                    raise _ChildFailure(self._how_it_ended())
                received += chunk
                if len(received) >= LENGTH_BYTES:
                    wanted = LENGTH_BYTES + length_of(received)
                    if wanted - LENGTH_BYTES > limits.frame_bytes:
                        raise _ChildFailure("parser gave an answer longer than the limit")
        if len(received) > wanted or unsent:
            raise _ChildFailure("parser gave more than one answer")
        return bytes(memoryview(received)[LENGTH_BYTES:])

    def _send(self, unsent: memoryview) -> memoryview:
        try:
            return unsent[os.write(self._in, unsent) :]
        except BlockingIOError:
            return unsent
        except BrokenPipeError:
            return unsent[:0]  # reading tells how it ended

    def _how_it_ended(self) -> str:
        try:
            code = self._process.wait(_EXIT_SECONDS)
        except subprocess.TimeoutExpired:
            return "parser closed its output without an answer"
        self._drain.join(_EXIT_SECONDS)
        words = " ".join(self._errors.decode("utf-8", "replace").split())[-_STDERR_IN_REASON:]
        how = f"killed by {_signal_name(-code)}" if code < 0 else f"ended with code {code} without an answer"
        return f"parser {how}" + (f" (it said: {words})" if words else "")

    def _read_errors(self) -> None:
        """Keep the end of stderr, so that a chatty child neither blocks nor fills memory."""
        stream = self._process.stderr
        assert stream is not None
        while chunk := stream.read(4096):
            self._errors = (self._errors + chunk)[-_STDERR_BYTES:]

    def kill(self) -> None:
        """End the process now and close its pipes."""
        self._process.kill()
        self._process.wait()
        self._drain.join(_EXIT_SECONDS)
        for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
            if stream is not None:
                stream.close()


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _environment() -> dict[str, str]:
    """Only what the interpreter needs: no secrets of the parent. The package is found where the parent found it."""
    root = str(Path(__file__).resolve().parents[2])
    inherited = [os.path.abspath(part) for part in os.environ.get("PYTHONPATH", "").split(os.pathsep) if part]
    return {
        "PATH": os.environ.get("PATH", os.defpath),
        "PYTHONPATH": os.pathsep.join(dict.fromkeys([root, *inherited])),
        "PYTHONHASHSEED": "0",
        "PYTHONUTF8": "1",
        "LANG": "C.UTF-8",
    }
