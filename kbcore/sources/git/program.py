"""The git program as kbcore runs it: with a time limit, and with nothing of what the machine or the user configured.

A repository is data here. Nothing is checked out, so no filter, no hook and no submodule comes into play; what a
repository's own configuration could run is switched off below.
"""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from kbcore.errors import SourceError

NOWHERE = Path("/dev/null")
"""The git directory of a call that needs none, so that git does not look for one in the working directory."""

SETTINGS = (
    "core.hooksPath=/dev/null",
    "safe.directory=*",
    "credential.helper=",
    "log.showSignature=false",
    "log.showRoot=true",
    "gc.autoDetach=false",
    "maintenance.autoDetach=false",
    "http.lowSpeedLimit=1",
    "http.lowSpeedTime=60",
)
# What reaches git of the environment: where programs, proxies and certificates are. No GIT_DIR, no GIT_TRACE.
INHERITED = (
    "PATH",
    "TMPDIR",
    "LD_LIBRARY_PATH",
    "http_proxy",
    "https_proxy",
    "HTTPS_PROXY",
    "no_proxy",
    "NO_PROXY",
    "all_proxy",
    "ALL_PROXY",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "GIT_SSL_CAINFO",
    "GIT_SSL_CAPATH",
)
PATIENCE_SECONDS = 2.0


class GitFailed(Exception):
    """A call of git ended with an error: ``said`` is what it wrote about it, without secrets."""

    def __init__(self, command: str, said: str, *, timed_out: bool = False) -> None:
        super().__init__(f"git {command}: {said}")
        self.command = command
        self.said = said
        self.timed_out = timed_out


@dataclass(frozen=True)
class Git:
    """The git directory that calls are about. ``protocols`` is what may be fetched by, ``none`` by default: a clone
    that lacks objects would fetch them as its own configuration says. ``variables`` may hold secrets, which are told
    to git by its environment and never on its command line."""

    directory: Path
    seconds: float
    protocols: str = "none"
    variables: Mapping[str, str] = field(default_factory=dict, repr=False)
    secrets: tuple[str, ...] = field(default=(), repr=False)

    def run(self, *arguments: str) -> bytes:
        """What a call writes. GitFailed where it ends with an error or takes too long."""
        process = self.start(*arguments, errors=subprocess.PIPE)
        try:
            out, errors = process.communicate(timeout=self.seconds)
        except subprocess.TimeoutExpired:
            raise GitFailed(arguments[0], f"gave no answer in {self.seconds:g} s", timed_out=True) from None
        finally:
            end(process)
        if process.returncode:
            raise GitFailed(arguments[0], self.cleaned(errors))
        return bytes(out)

    def start(self, *arguments: str, errors: int = subprocess.DEVNULL) -> subprocess.Popen[bytes]:
        """A running call, to be ended by ``end``. It leads a process group, since git has helpers of its own."""
        settings = [part for setting in SETTINGS for part in ("-c", setting)]
        try:
            return subprocess.Popen(
                ["git", f"--git-dir={self.directory}", *settings, *arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env={**_environment(), "GIT_ALLOW_PROTOCOL": self.protocols, **self.variables},
                start_new_session=True,
            )
        except FileNotFoundError:
            raise SourceError(
                "there is no git program", remedy="install git 2.32 or newer: apt-get install git, or brew install git"
            ) from None

    def cleaned(self, errors: bytes) -> str:
        """What git wrote of an error, without secrets and hints."""
        text = errors.decode("utf-8", "replace")
        for secret in self.secrets:
            text = text.replace(secret, "***")
        lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("hint:")]
        fatal = [line for line in lines if line.startswith(("fatal:", "error:", "remote:"))]
        return "; ".join((fatal or lines)[-4:])[:600] or "ended without a word"


def end(process: subprocess.Popen[bytes]) -> None:
    """End a call and its helpers, if they still run, and close its pipes. Git removes its lock files meanwhile."""
    for pipe in (process.stdin, process.stdout, process.stderr):
        try:
            if pipe:
                pipe.close()
        except OSError:
            pass
    for number in (signal.SIGTERM, signal.SIGKILL):
        if process.poll() is not None:
            return
        try:
            os.killpg(process.pid, number)
            process.wait(PATIENCE_SECONDS)
        except (ProcessLookupError, PermissionError, subprocess.TimeoutExpired):
            continue
    process.wait()


class Stream:
    """What a running call writes, read in parts of known length or up to a known byte, never waiting for long."""

    def __init__(self, out: IO[bytes], seconds: float) -> None:
        self._descriptor = out.fileno()
        self._buffer = bytearray()
        self._seconds = seconds
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._descriptor, selectors.EVENT_READ)
        self.restart()

    def restart(self) -> None:
        """The time limit counts from now."""
        self._deadline = time.monotonic() + self._seconds

    def until(self, stop: bytes) -> bytes | None:
        """Up to the next ``stop`` and without it; None where nothing more comes. TimeoutError past the limit."""
        begin = 0
        while (at := self._buffer.find(stop, begin)) < 0:
            begin = len(self._buffer)
            if not self._more():
                return None
        return self._take(at, len(stop))

    def exactly(self, length: int) -> bytes | None:
        """The next ``length`` bytes; None where fewer come. TimeoutError past the limit."""
        while len(self._buffer) < length:
            if not self._more():
                return None
        return self._take(length, 0)

    def close(self) -> None:
        self._selector.close()

    def _take(self, length: int, skipped: int) -> bytes:
        taken = bytes(self._buffer[:length])
        del self._buffer[: length + skipped]
        return taken

    def _more(self) -> bool:
        if not self._selector.select(max(0.0, self._deadline - time.monotonic())):
            raise TimeoutError
        part = os.read(self._descriptor, 1 << 20)
        self._buffer += part
        return bool(part)


def _environment() -> dict[str, str]:
    return {
        **{name: os.environ[name] for name in INHERITED if name in os.environ},
        "LC_ALL": "C",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_LITERAL_PATHSPECS": "1",
    }
