"""The command line. Each verb lives with its kind: building, looking, searching, moving, caring."""

from __future__ import annotations

from typing import Annotated

import typer

from kbcore import __version__
from kbcore.cli import building, caring, looking, moving, searching

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


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


for part in (building.app, looking.app, searching.app, moving.app, caring.app):
    app.registered_commands += part.registered_commands
    app.registered_groups += part.registered_groups


def main() -> None:
    app()
