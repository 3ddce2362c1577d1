"""What every command shares: options, printing for people and for programs, errors and exit codes, progress."""

from __future__ import annotations

import functools
import json
import os
import re
import shlex
import shutil
import sys
import textwrap
import time
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from kbcore.errors import KbError, UsageError

ConfigFile = Annotated[
    Path | None, typer.Option("--config", "-c", help="Configuration file (default: KB_CONFIG, else config/kb.toml).")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON alone on stdout.")]
NAMES = "current, previous, latest, a release or a prefix of one."
ReleaseOption = Annotated[str, typer.Option("--release", "-R", help=NAMES)]
ReleaseArgument = Annotated[str, typer.Argument(help=NAMES)]
Reason = Annotated[str, typer.Option("--reason", "-r", help="Why; kept in the log. Required.")]

POLICY, FAILURES_CHANGED, DIFFERENCES, INVALID, INTERRUPTED = 3, 4, 5, 6, 130
"""Exit codes of what is no error; those of errors stand with their classes."""
LEGIBLE, SHORT, WORD = 20, 8, 14
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
_COMMAND = re.compile(r"\bkb (?:(?:config|evalset) )?[a-z]+")
F = TypeVar("F", bound=Callable[..., Any])


def guarded(command: F) -> F:
    """End a command with the exit code of its error, said in words or, with --json, as the last line on stderr."""

    @functools.wraps(command)
    def run(*args: Any, **kwargs: Any) -> Any:
        config, as_json = kwargs.get("config"), kwargs.get("as_json", False)
        try:
            _refuse_broken(kwargs)
            return command(*args, **kwargs)
        except KbError as error:
            fail(error.message, hint(error.remedy, config), error.exit_code, type(error).__name__, as_json)
        except KeyboardInterrupt:
            fail("interrupted: nothing half-done is visible", "", INTERRUPTED, "Interrupted", as_json)
        except BrokenPipeError:
            # The reader of a pipe went away: not an error of ours.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(0) from None
        except PermissionError as error:
            from kbcore.store.lease import user

            what = f"{error.filename or 'a file'} may not be read or written by {user()}: {error.strerror}"
            fail(what, "give that user the right, or run as another one", 1, "PermissionError", as_json)
        except (OSError, MemoryError) as error:
            if os.environ.get("KB_DEBUG"):
                raise
            fail(f"{type(error).__name__}: {error}", "set KB_DEBUG=1 to see where", 1, type(error).__name__, as_json)

    return run  # type: ignore[return-value]


def _refuse_broken(given: dict[str, Any]) -> None:
    """An argument that is not UTF-8 arrives with lone surrogates, which no library beneath takes."""
    for name, value in given.items():
        if isinstance(value, str) and not value.isascii():
            try:
                value.encode("utf-8")
            except UnicodeEncodeError:
                raise UsageError(f"{name.replace('_', ' ')} is not valid UTF-8: {value!a}") from None


def hint(text: str, config: Path | None) -> str:
    """A text with commands in it, each for the configuration file that was given to this one."""
    if config is None:
        return text
    return _COMMAND.sub(lambda match: f"{match[0]} -c {shlex.quote(str(config))}", text)


def fail(message: str, remedy: str, code: int, kind: str, as_json: bool) -> None:
    if as_json:
        line = {"message_type": "error", "error": kind, "code": code, "message": message, "remedy": remedy}
        print(json.dumps(line, ensure_ascii=False), file=sys.stderr)
    else:
        print(f"kb: {clean(message)}", file=sys.stderr)
        if remedy:
            print(f"    {clean(remedy)}", file=sys.stderr)
    raise typer.Exit(code)


def emit(value: Any) -> None:
    """Print one JSON value on stdout."""
    json.dump(value, sys.stdout, ensure_ascii=False, indent=2, allow_nan=False)
    sys.stdout.write("\n")


def clean(text: str) -> str:
    """Text that came from documents, made safe for a terminal: control and direction marks become visible escapes."""
    return "".join(
        c if c in "\n\t" or unicodedata.category(c) not in ("Cc", "Cf") else f"\\u{ord(c):04x}" for c in text
    )


def say(text: str = "") -> None:
    print(clean(text))


def paragraph(text: str, indent: str = "") -> None:
    """A sentence on stdout: on a terminal broken between words, in a pipe one line."""
    if not sys.stdout.isatty():
        say(indent + text)
        return
    width = max(20, shutil.get_terminal_size().columns)
    for line in textwrap.wrap(
        clean(text), width, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False
    ):
        print(line)


def finding(verdict: str, check: str, said: str) -> None:
    """One check of the gate: its verdict, and what was seen, with the check's name where that does not begin with it."""
    paragraph(f"{verdict:7} {said if said.startswith(check) else f'{check}: {said}'}", "  ")


def table(
    columns: Sequence[str], rows: Iterable[Sequence[Any]], *, records: bool = False, sentences: bool = False
) -> None:
    """A table on stdout; numbers to the right. In a pipe it is as wide as its content. On a terminal long cells are cut
    with an ellipsis, or, with ``sentences``, broken between words; no column is ever left out: where not even the least
    of each fits, and with ``records`` where they are not legible, rows are printed one value a line."""
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    cells = [["" if value is None else _one_line(str(value)) for value in row] for row in rows]
    widths = [max([len(name), *(len(row[i]) for row in cells)]) for i, name in enumerate(columns)]
    wide = sum(widths) + 3 * len(widths)
    terminal = sys.stdout.isatty()
    # Rich ends the program with 1 where the reader of a pipe went away; that is no error of ours.
    console_type = type("Pipe", (Console,), {"on_broken_pipe": _raise_broken_pipe})
    console = console_type() if terminal else console_type(width=max(80, wide + 2), force_terminal=False)
    kinds = [all(_number(row[i]) for row in cells if row[i]) for i in range(len(columns))]
    # A time that is cut says nothing.
    times = [bool(cells) and all(_TIME.fullmatch(row[i]) for row in cells if row[i]) for i in range(len(columns))]
    short = WORD if sentences else SHORT
    least = [min(width, LEGIBLE if number or exact else short) for width, number, exact in zip(widths, kinds, times)]
    room = console.width - 3 * len(columns) + 2
    legible = not records or sum(min(width, LEGIBLE) + 3 for width in widths) <= console.width
    if terminal and not (legible and sum(least) <= room):
        _records(columns, cells)
        return
    drawn = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    # Rich would take the same from every column, and leave nothing of a narrow one.
    shared = _shared(widths, least, room) if terminal else widths
    for name, number, exact, width in zip(columns, kinds, times, shared):
        drawn.add_column(
            name,
            justify="right" if number and cells else "left",
            overflow="fold" if sentences else "ellipsis",
            no_wrap=number or exact or not sentences,
            min_width=width,
            max_width=width,
        )
    for row in cells:
        drawn.add_row(*(Text(value) for value in row))
    console.print(drawn)


def _shared(widths: Sequence[int], least: Sequence[int], room: int) -> list[int]:
    """Widths that fit ``room`` where that can be: the widest column gives way first, none below its ``least``."""
    found = list(widths)
    while sum(found) > room:
        widest = max(range(len(found)), key=lambda i: (found[i] > least[i], found[i]))
        if found[widest] <= least[widest]:
            break
        found[widest] -= 1
    return found


def _raise_broken_pipe(_: Any) -> None:
    raise BrokenPipeError


def _records(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Rows too wide for the terminal: one value a line, in full."""
    space = max(map(len, columns), default=0)
    for number, row in enumerate(rows, start=1):
        if len(rows) > 1:
            say(f"-- {number} " + "-" * max(0, space - len(str(number)) - 2))
        for name, value in zip(columns, row):
            if name or value:
                say(f"{name:<{space}}  {value}".rstrip())


def _one_line(text: str) -> str:
    return clean(text).replace("\n", "\\n").replace("\t", "\\t")


def _number(text: str) -> bool:
    return text.replace(".", "", 1).replace(",", "").lstrip("+-").isdigit()


def count(number: int, noun: str) -> str:
    """1 text, 2 texts."""
    return f"{number} {noun}" + "s" * (number != 1)


def size(number: int) -> str:
    """Bytes for people."""
    value = float(number)
    for unit in ("B", "kB", "MB", "GB"):
        if value < 1000 or unit == "GB":
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1000
    return ""


STAGES = {
    "list": "listing sources",
    "read": "reading documents",
    "cut": "cutting documents anew",
    "embed": "embedding texts",
    "write": "writing the release",
    "ask": "asking questions",
    "promote": "checking before promotion",
    "verify": "verifying releases",
}


@contextmanager
def progress(as_json: bool) -> Any:
    """A progress callback (stage, done, total): bars on a terminal, JSON lines on stderr with --json, else nothing."""
    if as_json:
        yield _json_progress()
    elif sys.stderr.isatty():
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        with Progress(
            TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
            console=Console(stderr=True), transient=True,
        ) as bars:  # fmt: skip
            tasks: dict[str, Any] = {}

            def show(stage: str, done: int, total: int) -> None:
                if stage not in tasks:
                    # One stage ends where the next begins, also where it was not told so.
                    for task in tasks.values():
                        bars.stop_task(task)
                    tasks[stage] = bars.add_task(STAGES.get(stage, stage), total=total)
                bars.update(tasks[stage], completed=done, total=total)
                if done == total:
                    bars.stop_task(tasks[stage])

            yield show
    else:
        yield lambda stage, done, total: None


def _json_progress() -> Callable[[str, int, int], None]:
    last: dict[str, float] = {}

    def show(stage: str, done: int, total: int) -> None:
        now = time.monotonic()
        if done not in (0, total) and now - last.get(stage, 0.0) < 1.0:
            return
        last[stage] = now
        line = {"message_type": "status", "stage": stage, "done": done, "total": total}
        print(json.dumps(line), file=sys.stderr, flush=True)

    return show
