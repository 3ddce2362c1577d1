"""Where documents come from. Each type of source is imported only where it is configured."""

from __future__ import annotations

from pathlib import Path

from kbcore.config import SourceSection
from kbcore.config.sources import DirectorySection, GitSection, WebSection
from kbcore.errors import ConfigError
from kbcore.sources.source import Source

__all__ = ["Source", "make_source"]


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
        case WebSection():
            try:
                from kbcore.sources.web import WebSource
            except ModuleNotFoundError as error:
                if error.name not in ("httpx2", "httpcore2", "protego", "idna"):
                    raise
                raise ConfigError(
                    f"source {section.name!r} is of type web, and {error.name} is not installed",
                    remedy='pip install "kbcore[web]"',
                ) from error

            return WebSource(section, cache=cache)
    raise TypeError(f"{type(section).__name__} describes no source")
