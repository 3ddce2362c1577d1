"""What every command shares: options, printing for people and for programs, errors and exit codes, progress."""

from __future__ import annotations

import functools
import json
import os
import sys
import time
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from kbcore.errors import KbError

ConfigFile = Annotated[
    Path | None, typer.Option("--config", "-c", help="Configuration file (default: KB_CONFIG, else config/kb.toml).")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON alone on stdout.")]
NAMES = "current, previous, latest, a release or a prefix of one."
ReleaseOption = Annotated[str, typer.Option("--release", "-R", help=NAMES)]
ReleaseArgument = Annotated[str, typer.Argument(help=NAMES)]
Reason = Annotated[str, typer.Option("--reason", "-r", help="Why; kept in the log.")]

INTERRUPTED = 130
F = TypeVar("F", bound=Callable[..., Any])


def guarded(command: F) -> F:
    """End a command with the exit code of its error, said in words or, with --json, as the last line on stderr."""

    @functools.wraps(command)
    def run(*args: Any, **kwargs: Any) -> Any:
        try:
            return command(*args, **kwargs)
        except KbError as error:
            fail(error.message, error.remedy, error.exit_code, type(error).__name__, kwargs.get("as_json", False))
        except KeyboardInterrupt:
            fail(
                "interrupted: nothing half-done is visible",
                "",
                INTERRUPTED,
                "Interrupted",
                kwargs.get("as_json", False),
            )
        except BrokenPipeError:
            # The reader of a pipe went away: not an error of ours.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(0) from None
        except (OSError, MemoryError) as error:
            if os.environ.get("KB_DEBUG"):
                raise
            fail(
                f"{type(error).__name__}: {error}", "set KB_DEBUG=1 to see where", 1, type(error).__name__,
                kwargs.get("as_json", False),
            )  # fmt: skip

    return run  # type: ignore[return-value]


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


def table(columns: Sequence[str], rows: Iterable[Sequence[Any]], *, title: str | None = None) -> None:
    """A table on stdout; numbers to the right. In a pipe it is as wide as its content."""
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    cells = [["" if value is None else clean(str(value)) for value in row] for row in rows]
    kinds = [all(_number(row[i]) for row in cells if row[i]) for i in range(len(columns))]
    drawn = Table(box=box.SIMPLE_HEAD, title=title, title_justify="left", pad_edge=False, show_edge=False)
    for name, number in zip(columns, kinds):
        drawn.add_column(name, justify="right" if number and cells else "left", overflow="fold")
    for row in cells:
        drawn.add_row(*(Text(value) for value in row))
    console = Console() if sys.stdout.isatty() else Console(width=max(80, _width(columns, cells)), force_terminal=False)
    console.print(drawn)


def _number(text: str) -> bool:
    return text.replace(".", "", 1).replace(",", "").lstrip("+-").isdigit()


def _width(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> int:
    return sum(max(len(c), *(len(row[i]) for row in rows), 0) + 3 for i, c in enumerate(columns)) if rows else 80


def size(count: int) -> str:
    """Bytes for people."""
    value = float(count)
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
                    tasks[stage] = bars.add_task(STAGES.get(stage, stage), total=total)
                bars.update(tasks[stage], completed=done, total=total)

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
