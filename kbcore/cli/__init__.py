"""The command line. Each verb lives with its kind: building, looking, searching, explaining, judging ..."""

from __future__ import annotations

import atexit
import contextlib
import io
import json
import os
import signal
import sys
from typing import Annotated

import typer
from typer.exceptions import TyperException

from kbcore import __version__, telemetry
from kbcore.cli import (
    agents,
    bisecting,
    building,
    caring,
    comparing,
    diagnosing,
    evalsets,
    explaining,
    judging,
    looking,
    moving,
    searching,
    serving,
)
from kbcore.cli.output import INTERRUPTED
from kbcore.search_log import asked_by

app = typer.Typer(
    name="kb",
    help="Refreshes of a knowledge base as releases: search, compare, promote and roll back.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(value: bool) -> None:
    if value:
        print(f"kbcore {__version__}")
        raise typer.Exit


SERVERS = ("serve", "mcp")


@app.callback()
def _root(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    if context.invoked_subcommand not in SERVERS:  # they say by themselves what they are
        telemetry.start("kb")


KINDS = (
    building,
    looking,
    searching,
    explaining,
    diagnosing,
    judging,
    comparing,
    bisecting,
    evalsets,
    moving,
    caring,
    serving,
    agents,
)
for kind in KINDS:
    app.registered_commands += kind.app.registered_commands
    app.registered_groups += kind.app.registered_groups


def main() -> None:
    """Run a command line. SIGTERM ends it in the same order as Ctrl-C does, and neither waits for a slow server."""
    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with asked_by("kb"):
            _run()
    except SystemExit as ended:
        if ended.code == INTERRUPTED:
            _leave()
        raise


def _leave() -> None:
    """End now. All that was begun has been given back; what is left are threads that wait for answers, and the
    interpreter would wait for them."""
    atexit._run_exitfuncs()  # those of multiprocessing, among others
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(INTERRUPTED)


def _run() -> None:
    """Whatever the locale, output never fails for want of a letter; usage errors are JSON too where JSON was asked
    for."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    if sys.stdout is None:  # closed by the caller
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    if "--json" not in sys.argv:
        app()
        return
    try:
        code = app(standalone_mode=False)
    except TyperException as error:
        line = {
            "message_type": "error",
            "error": "UsageError",
            "code": 2,
            "message": error.format_message(),
            "remedy": "",
        }
        print(json.dumps(line, ensure_ascii=False), file=sys.stderr)
        code = 2
    except typer.Abort:
        code = INTERRUPTED
    sys.exit(code if isinstance(code, int) else 0)
