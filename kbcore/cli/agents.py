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

    Over HTTP, KB_READER_TOKENS and KB_OPERATOR_TOKENS hold the tokens (16 characters or more, separated by commas); without
    any, programs on this machine read. Logs are JSON lines on stderr.
    """
    from kbcore import telemetry
    from kbcore.serving.bases import Bases
    from kbcore.serving.extras import need
    from kbcore.serving.logs import write_to

    need("serve", "mcp", "uvicorn")
    over_http = transport is Transport.http
    if over_http:
        from kbcore.serving.access import Access, check_bind

        access = Access.of()
        check_bind(host, access, insecure=insecure)
    bases = Bases.load(list(configs or []))
    write_to()
    telemetry.start("kb-mcp")
    from kbcore.serving.mcp import HTTP_PATH, http_app, make_server

    server = make_server(bases)
    if not over_http:
        server.run("stdio")
        return
    from kbcore.serving.running import bound, run, url_of

    with bound(host, port) as listener:
        said = f"kb mcp: {', '.join(bases)} at {url_of(listener)}{HTTP_PATH}"
        app = http_app(server, host, allow_host or [], access)
        run(app, listener, lambda _: print(said, file=sys.stderr, flush=True))
