"""When the files of a commit were last changed."""

from __future__ import annotations

import json
import os
from collections.abc import Collection
from datetime import UTC, datetime
from pathlib import Path

from kbcore.clock import iso
from kbcore.sources.git.program import Git, GitFailed, Stream, end

WALK = (
    *("log", "--first-parent", "--diff-merges=first-parent", "--raw", "-z", "--no-renames", "--format=%H%x20%ct"),
    *("--no-relative", "--no-ext-diff", "--no-textconv", "--no-color", "--no-show-signature", "--no-notes"),
)


def last_changed(git: Git, commit: str, paths: Collection[str], *, folder: str, memory: Path) -> dict[str, str]:
    """Path to the time of the last commit that touched it, on the line of first parents (a merge touches what it
    brings in). ``paths`` are whole paths inside the repository, all below ``folder``.

    A path is missing where its last change lies beyond the history that is there, or is not found in time. ``memory``
    is a file that spares the next walk what lies behind this commit; it may be lost.
    """
    known_commit, known = _recall(memory)
    times: dict[str, str] = {}
    pending = set(paths)
    cut = _cut_off(git)
    # The walk has to meet the known commit, which a limit to the folder could leave out.
    limit = ("--", folder) if folder and not known_commit else ()
    process = git.start(*WALK, "--end-of-options", commit, *limit)
    assert process.stdout is not None
    stream = Stream(process.stdout, git.seconds)
    at, when, timed_out = "", "", False
    try:
        while pending and (token := stream.until(b"\0")) is not None:
            token = token.lstrip(b"\n")
            if not token:
                continue
            if token.startswith(b":"):
                path = (stream.until(b"\0") or b"").decode("utf-8", "surrogateescape")
                if path in pending:
                    pending.discard(path)
                    if at not in cut:
                        times[path] = when
                continue
            at, _, seconds = token.decode("ascii").partition(" ")
            when = _time(seconds)
            if at == known_commit:
                times |= {path: known[path] for path in pending & known.keys()}
                pending -= known.keys()
    except TimeoutError:
        timed_out = True
    finally:
        stream.close()
        end(process)
    if not timed_out:
        _remember(memory, commit, times)
    return times


def _cut_off(git: Git) -> set[str]:
    """The commits of a shallow clone whose parents are not there: they seem to touch every file."""
    try:
        name = git.run("rev-parse", "--git-path", "shallow").decode("utf-8", "surrogateescape").rstrip("\n")
        return set(Path(name).read_text("ascii").split())
    except (OSError, ValueError, GitFailed):
        return set()


def _time(seconds: str) -> str:
    return iso(datetime.fromtimestamp(max(0, min(int(seconds), 253_402_300_799)), UTC))


def _recall(memory: Path) -> tuple[str, dict[str, str]]:
    try:
        found = json.loads(memory.read_text("utf-8"))
        return str(found["commit"]), {str(path): str(time) for path, time in found["times"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return "", {}


def _remember(memory: Path, commit: str, times: dict[str, str]) -> None:
    part = memory.with_name(f"{memory.name}.{os.getpid()}.part")
    try:
        memory.parent.mkdir(parents=True, exist_ok=True)
        part.write_text(json.dumps({"commit": commit, "times": times}), "utf-8")
        os.replace(part, memory)
    except OSError:
        pass  # it only spares work
