"""A knowledge-base system behind a REST API."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from kbcore.config.sources.source import Globs, SourceSection


class RestSection(SourceSection):
    """Articles of a knowledge-base system, read through its REST API as a recipe says.

    ``recipe`` is the name of a shipped recipe (mediawiki, zendesk, confluence, servicenow) or the path of a TOML file,
    relative to the working directory; ``parameters`` fill its placeholders. ``token_env`` and ``user_env`` are names of
    environment variables, never the secrets themselves. ``include`` and ``exclude`` are globs over titles.
    """

    type: Literal["rest"]
    recipe: str
    base_url: str
    parameters: dict[str, str] = Field(default_factory=dict)
    token_env: str = ""
    user_env: str = ""
    include: Globs = ("**",)
    exclude: Globs = ()
    allow_http: bool = False
    parallel: int = Field(4, ge=1, le=32)
