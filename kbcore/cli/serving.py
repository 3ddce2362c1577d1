"""Verbs that serve: serve."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from kbcore.cli.output import AsJson, guarded, say
from kbcore.types import Json

app = typer.Typer()


@app.command()
@guarded
def serve(
    configs: Annotated[
        list[Path] | None,
        typer.Option("--config", "-c", help="Configuration file; again for more knowledge bases in one server."),
    ] = None,
    host: Annotated[str, typer.Option(help="Address to listen at.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 takes one that is free.")] = 8000,
    allow_host: Annotated[
        list[str] | None, typer.Option("--allow-host", help="A name that clients call the server by; again for more.")
    ] = None,
    insecure: Annotated[
        bool, typer.Option("--insecure", help="Listen beyond this machine without TLS; tokens are needed all the same.")
    ] = False,
    workers: Annotated[int, typer.Option(min=1, max=64, help="Searches at the same time.")] = 4,
    waiting: Annotated[int, typer.Option(min=0, max=10_000, help="Searches that may wait for one to end.")] = 64,
    seconds: Annotated[float, typer.Option(min=0.1, max=600, help="For one search, waiting included.")] = 5.0,
    connections: Annotated[int, typer.Option(min=16, max=100_000, help="Open connections at most.")] = 2_000,
    log_queries: Annotated[
        bool, typer.Option("--log-queries", help="Write the text of questions into the log.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Answer over HTTP: search, explain, compare; promote and roll back for operators. Ends with SIGTERM or Ctrl-C.

    KB_READER_TOKENS and KB_OPERATOR_TOKENS hold the tokens (16 characters or more, separated by commas). Without any,
    programs on this machine read and nobody operates. The log is JSON lines on stderr.
    """
    from kbcore.serving.extras import need

    need("serve", "fastapi", "uvicorn", "prometheus_client")
    from kbcore.serving.bases import Bases
    from kbcore.serving.http.server import Listening, serve
    from kbcore.serving.http.service import Limits
    from kbcore.serving.running import Patience

    serve(
        Bases.load(configs or [None]),
        Listening(
            host=host,
            port=port,
            hosts=allow_host or (),
            insecure=insecure,
            limits=Limits(workers=workers, waiting=waiting, search_seconds=seconds),
            patience=Patience(connections=connections),
            log_queries=log_queries,
        ),
        os.environ,
        _as_json if as_json else _say,
    )


def _say(served: Json) -> None:
    for base in served["knowledge_bases"]:
        say(
            f"{base['name']}: {base['release']}, {base['documents']} documents, {base['chunks']} chunks, {base['mode']}"
        )
    say(served["access"])
    say(f"listening at {served['url']}")
    _flush()


def _as_json(served: Json) -> None:
    import json

    # One line, so that a program that starts a server knows when it has read all of it.
    print(json.dumps(served, ensure_ascii=False))
    _flush()


def _flush() -> None:
    import sys

    sys.stdout.flush()
