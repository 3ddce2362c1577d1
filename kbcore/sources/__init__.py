"""Where documents come from. Each type of source is imported only where it is configured."""

from __future__ import annotations

from pathlib import Path

from kbcore.config import SourceSection
from kbcore.config.sources import DirectorySection, GitSection
from kbcore.sources.source import Source

__all__ = ["Source", "close_source", "make_source"]


def make_source(section: SourceSection, *, cache: Path) -> Source:
    """The source that ``section`` describes. Nothing is listed or fetched yet.

    ``cache`` is a folder that the source may make and fill to have less to transfer next time; it may be lost.
    """
    match section:
        case DirectorySection():
            from kbcore.sources.directory import DirectorySource

            return DirectorySource(section.name, section.path, section.include, section.exclude, section.max_bytes)
        case GitSection():
            from kbcore.sources.git import GitSource

            return GitSource(section, cache=cache)
    raise TypeError(f"{type(section).__name__} describes no source")


def close_source(source: Source) -> None:
    """Give up what a source holds open, such as a process or connections, if it is of a type that holds any."""
    close = getattr(source, "close", None)
    if close is not None:
        close()
