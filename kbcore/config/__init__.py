"""The configuration: one file for one knowledge base."""

from kbcore.config.loading import DEFAULT_FILE, effective, load
from kbcore.config.sections import BuildSection, ChunkingSection, Config
from kbcore.config.sources import GuardSection, SourceSection

__all__ = [
    "DEFAULT_FILE",
    "BuildSection",
    "ChunkingSection",
    "Config",
    "GuardSection",
    "SourceSection",
    "effective",
    "load",
]
