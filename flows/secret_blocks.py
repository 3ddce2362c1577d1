"""Secrets of sources that are not in the environment of a flow: they are taken from Prefect's ``Secret`` blocks.

A block is named like the variable, in lower case and with dashes: ``WIKI_TOKEN`` is ``wiki-token``. Values go to the
sources alone, never into the environment (processes inherit it), parameters, results or artifacts.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

from prefect.blocks.system import Secret

from kbcore.config import Config
from kbcore.sources.secrets import Secrets


def block_name(variable: str) -> str:
    """The name of a block for an environment variable; Prefect allows lower-case letters, digits and dashes."""
    return variable.lower().replace("_", "-")


def secrets_of(config: Config, environ: Mapping[str, str] = os.environ) -> Secrets:
    """The secrets that ``config`` names: from the environment, and from blocks those that are not set there.

    Blocks are asked for at once, since sources fetch from threads that know nothing of the flow.
    """
    names = dict.fromkeys(name for section in config.sources for name in section.variables())
    found = {name: _of_block(block_name(name)) for name in names if not environ.get(name, "").strip()}
    return Secrets(
        look=lambda name: found.get(name) or environ.get(name),
        elsewhere=lambda name: f"Prefect Secret block {block_name(name)!r}",
    )


def _of_block(name: str) -> str | None:
    """What a block holds, as it was saved; None where there is no such block, or it is no Secret."""
    try:
        block: Any = Secret.load(name)
    except ValueError:
        return None
    # Secret.get() would read a token of digits as a number.
    value = block.value.get_secret_value()
    return value if isinstance(value, str) else json.dumps(value)
