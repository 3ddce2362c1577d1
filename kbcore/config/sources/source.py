"""What every section of ``[[sources]]`` has."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, Field

from kbcore.config.duration import Duration, seconds_of
from kbcore.config.section import Section
from kbcore.globs import glob_pattern


def _compiles(pattern: str) -> str:
    try:
        glob_pattern(pattern)
    except re.error as error:
        raise ValueError(f"is not a pattern: {error}") from None
    return pattern


Globs = tuple[Annotated[str, AfterValidator(_compiles)], ...]
_ENDINGS = ("md", "markdown", "html", "htm", "txt", "pdf", "docx", "pptx", "xlsx", "csv", "tsv", "epub")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
FILES = tuple(f"**/*.{ending}" for ending in _ENDINGS)


class GuardSection(Section):
    """Removals of one source in one run beyond these bounds are withheld until a person approves them. A run in which
    more than ``failures`` documents of a source, and more than ``failures_percent`` of those it lists, failed or came
    out doubtful publishes nothing until a person accepts it."""

    removals: int = Field(3, ge=0)
    removals_percent: float = Field(25.0, ge=0, le=100)
    removals_most: int = Field(500, ge=0)
    failures: int = Field(10, ge=0)
    failures_percent: float = Field(50.0, ge=0, le=100)


class SourceSection(Section):
    """What every source has, whatever its type."""

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9._-]{0,63}$")
    type: str
    max_bytes: int = Field(50_000_000, ge=1)
    freshness_target: Duration | None = None
    guard: GuardSection = GuardSection()

    @property
    def freshness_days(self) -> float | None:
        """The freshness target in days, or None."""
        return None if self.freshness_target is None else seconds_of(self.freshness_target) / 86_400

    def variables(self) -> tuple[str, ...]:
        """The environment variables that the section names for its secrets. What cannot be such a name is left out: it
        may be the secret itself, put in the wrong place."""
        named = [str(getattr(self, key) or "") for key in type(self).model_fields if key.endswith("_env")]
        return tuple(name for name in named if _VARIABLE.fullmatch(name))
