"""``[[sources]]``: where documents come from, one section for each type of source."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Discriminator, Tag

from kbcore.config.sources.directory import DirectorySection
from kbcore.config.sources.git import GitSection
from kbcore.config.sources.object_store import ObjectStoreSection
from kbcore.config.sources.rest import RestSection
from kbcore.config.sources.source import FILES, Globs, GuardSection, SourceSection
from kbcore.config.sources.web import WebSection

__all__ = [
    "FILES",
    "SECTION_OF",
    "AnySource",
    "DirectorySection",
    "GitSection",
    "Globs",
    "GuardSection",
    "ObjectStoreSection",
    "RestSection",
    "SourceSection",
    "WebSection",
    "type_of",
]


def type_of(value: Any) -> Any:
    """The type of a source as it was written; a folder where nothing is said."""
    return value.get("type", "directory") if isinstance(value, dict) else getattr(value, "type", None)


AnySource = Annotated[
    Annotated[DirectorySection, Tag("directory")]
    | Annotated[GitSection, Tag("git")]
    | Annotated[ObjectStoreSection, Tag("object_store")]
    | Annotated[RestSection, Tag("rest")]
    | Annotated[WebSection, Tag("web")],
    Discriminator(type_of, custom_error_type="unknown_type", custom_error_message="there is no source of this type"),
]
SECTION_OF: dict[str, type[SourceSection]] = {
    "directory": DirectorySection,
    "git": GitSection,
    "object_store": ObjectStoreSection,
    "rest": RestSection,
    "web": WebSection,
}
