"""Verbs that serve agents: mcp."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from kbcore.cli.output import guarded

app = typer.Typer()


class Transport(StrEnum):
    stdio = "stdio"
    http = "http"


@app.command()
@guarded
def mcp(
    configs: Annotated[
        list[Path] | None,
        typer.Option("--config", "-c", help="Configuration file; again for more knowledge bases in one process."),
    ] = None,
    transport: Annotated[Transport, typer.Option(help="stdio, or streamable HTTP.")] = Transport.stdio,
    host: Annotated[str, typer.Option("--host", help="Where HTTP listens.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="0: any free one.")] = 8765,
    allow_host: Annotated[
        list[str] | None, typer.Option("--allow-host", help="Another name this server is called by; again for more.")
    ] = None,
    insecure: Annotated[
        bool, typer.Option("--insecure", help="Listen beyond this machine without TLS; tokens are needed all the same.")
    ] = False,
) -> None:
    """Serve knowledge bases to agents by the Model Context Protocol: tools that search and look up, nothing that changes.

    Over HTTP, tokens are taken from KB_READER_TOKENS and KB_OPERATOR_TOKENS where they are set. Logs go to stderr.
    """
    from kbcore.serving.access import Tokens, check_bind
    from kbcore.serving.bases import Bases
    from kbcore.serving.extras import need
    from kbcore.serving.logs import log_to_stderr

    need("mcp", "serve")
    tokens = Tokens.of()
    if transport is Transport.http:
        check_bind(host, tokens, insecure=insecure)
    bases = Bases.load(list(configs or []))
    log_to_stderr()
    from kbcore.serving.mcp import HTTP_PATH, http_app, make_server
    from kbcore.serving.running import address, listening, run

    server = make_server(bases)
    if transport is Transport.stdio:
        server.run("stdio")
        return
    listener = listening(host, port)
    print(f"kb mcp: {', '.join(bases)} at {address(listener)}{HTTP_PATH}", file=sys.stderr, flush=True)
    try:
        run(http_app(server, host, allow_host or [], tokens), listener)
    except KeyboardInterrupt:
        return
