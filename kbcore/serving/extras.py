"""What is installed only where it is asked for."""

from __future__ import annotations

import importlib.util

from kbcore.errors import UsageError


def need(extra: str, *modules: str) -> None:
    """UsageError where an optional dependency is not installed."""
    for module in modules:
        if importlib.util.find_spec(module) is None:
            raise UsageError(f"this needs {module}, which is not installed", remedy=f"pip install 'kbcore[{extra}]'")
