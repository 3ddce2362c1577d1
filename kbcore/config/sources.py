"""``[[sources]]``: where documents come from, one section for each type of source."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag, field_validator

from kbcore.config.section import Section

_DURATION = re.compile(r"(\d+)\s*([smhdw])")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_ENDINGS = ("md", "markdown", "html", "htm", "txt", "pdf", "docx", "pptx", "xlsx", "csv", "tsv", "epub")
FILES = tuple(f"**/*.{ending}" for ending in _ENDINGS)


class GuardSection(Section):
    """Removals of one source in one run beyond these bounds are withheld until a person approves them."""

    removals: int = Field(3, ge=0)
    removals_percent: float = Field(25.0, ge=0, le=100)
    removals_most: int = Field(500, ge=0)


class SourceSection(Section):
    """What every source has, whatever its type."""

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9._-]{0,63}$")
    type: str
    max_bytes: int = Field(50_000_000, ge=1)
    freshness_target: str | None = None
    guard: GuardSection = GuardSection()

    @field_validator("freshness_target")
    @classmethod
    def _duration(cls, value: str | None) -> str | None:
        if value is not None and not _DURATION.fullmatch(value):
            raise ValueError("a duration looks like 12h, 7d or 2w")
        return value

    @property
    def freshness_days(self) -> float | None:
        """The freshness target in days, or None."""
        match = _DURATION.fullmatch(self.freshness_target or "")
        return int(match[1]) * _SECONDS[match[2]] / 86_400 if match else None


class DirectorySection(SourceSection):
    """Files below a folder."""

    type: Literal["directory"] = "directory"
    path: str
    include: tuple[str, ...] = FILES
    exclude: tuple[str, ...] = ()


class GitSection(SourceSection):
    """Files of one commit of a git repository: a local path or an https URL, and a branch, tag or commit."""

    type: Literal["git"]
    url: str
    ref: str = "HEAD"
    folder: str = ""
    include: tuple[str, ...] = FILES
    exclude: tuple[str, ...] = ()


def type_of(value: Any) -> Any:
    """The type of a source as it was written; a folder where nothing is said."""
    return value.get("type", "directory") if isinstance(value, dict) else getattr(value, "type", None)


AnySource = Annotated[
    Annotated[DirectorySection, Tag("directory")] | Annotated[GitSection, Tag("git")],
    Discriminator(type_of, custom_error_type="unknown_type", custom_error_message="there is no source of this type"),
]
SECTION_OF: dict[str, type[SourceSection]] = {"directory": DirectorySection, "git": GitSection}
