"""Where documents come from. Each type of source is imported only where it is configured."""

from __future__ import annotations

from pathlib import Path

from kbcore.config import SourceSection
from kbcore.config.sources import DirectorySection, GitSection, ObjectStoreSection, RestSection, WebSection
from kbcore.errors import ConfigError
from kbcore.sources.secrets import ENVIRONMENT, Secrets
from kbcore.sources.source import Source

__all__ = ["ENVIRONMENT", "Secrets", "Source", "close_source", "make_source"]


EXTRAS = {"object_store": "objects", "rest": "rest", "web": "web"}


def make_source(section: SourceSection, *, cache: Path, secrets: Secrets = ENVIRONMENT) -> Source:
    """The source that ``section`` describes. Nothing is listed or fetched yet.

    ``cache`` is a folder that the source may make and fill to have less to transfer next time; it may be lost.
    ``secrets`` are where it looks for those that the section names. ConfigError where the packages of its type are not installed.
    """
    try:
        return _made(section, cache, secrets)
    except ModuleNotFoundError as error:
        if section.type not in EXTRAS or (error.name or "").startswith("kbcore"):
            raise
        raise ConfigError(
            f"source {section.name!r} is of type {section.type}, and {error.name} is not installed",
            remedy=f'pip install "kbcore[{EXTRAS[section.type]}]"',
        ) from error


def _made(section: SourceSection, cache: Path, secrets: Secrets) -> Source:
    match section:
        case DirectorySection():
            from kbcore.sources.directory import DirectorySource

            return DirectorySource(section.name, section.path, section.include, section.exclude, section.max_bytes)
        case GitSection():
            from kbcore.sources.git.source import GitSource

            return GitSource(section, cache=cache, secrets=secrets)
        case ObjectStoreSection():
            from kbcore.sources.object_store.source import ObjectStoreSource

            return ObjectStoreSource(section, cache=cache, secrets=secrets)
        case RestSection():
            from kbcore.sources.rest.source import RestSource

            return RestSource(section, cache=cache, secrets=secrets)
        case WebSection():
            from kbcore.sources.web.source import WebSource

            return WebSource(section, cache=cache, secrets=secrets)
    raise TypeError(f"{type(section).__name__} describes no source")


def close_source(source: Source) -> None:
    """Give up what a source holds open, such as a process or connections, if it is of a type that holds any."""
    close = getattr(source, "close", None)
    if close is not None:
        close()
