"""A folder of files."""

from __future__ import annotations

from typing import Literal

from kbcore.config.sources.source import FILES, Globs, SourceSection


class DirectorySection(SourceSection):
    """Files below a folder."""

    type: Literal["directory"] = "directory"
    path: str
    include: Globs = FILES
    exclude: Globs = ()
