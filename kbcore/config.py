"""One file configures one knowledge base. Unknown keys are errors that name the nearest known one.

Values come, strongest first, from ``KB_SECTION__KEY`` in the environment, the file, and the defaults below.
"""

from __future__ import annotations

import difflib
import os
import re
import tomllib
import types
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from kbcore.errors import ConfigError

DEFAULT_FILE = "config/kb.toml"
_DURATION = re.compile(r"(\d+)\s*([smhdw])")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}


class Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True)


class KbSection(Section):
    name: str = Field(pattern=r"^[a-z0-9][a-z0-9._-]{0,63}$")
    repository: str = "releases"


class GuardSection(Section):
    """Removals of one source in one run beyond these bounds are withheld until a person approves them."""

    removals: int = Field(3, ge=0)
    removals_percent: float = Field(25.0, ge=0, le=100)
    removals_most: int = Field(500, ge=0)


class SourceSection(Section):
    name: str = Field(pattern=r"^[a-z0-9][a-z0-9._-]{0,63}$")
    type: Literal["directory"] = "directory"
    path: str
    include: tuple[str, ...] = ("**/*.md", "**/*.markdown", "**/*.html", "**/*.htm", "**/*.txt", "**/*.pdf")
    exclude: tuple[str, ...] = ()
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
        if self.freshness_target is None:
            return None
        match = _DURATION.fullmatch(self.freshness_target)
        assert match
        return int(match[1]) * _SECONDS[match[2]] / 86_400


class ChunkingSection(Section):
    size: int = Field(512, ge=1)
    overlap: int = Field(50, ge=0)
    context: Literal["none", "heading"] = "none"

    @model_validator(mode="after")
    def _bounds(self) -> ChunkingSection:
        if self.size <= self.overlap:
            raise ValueError(f"size ({self.size}) must be larger than overlap ({self.overlap})")
        return self


class EmbedderSection(Section):
    provider: Literal["fastembed", "hashing"] = "fastembed"
    model: str = "all-MiniLM-L6-v2"
    path: str | None = None
    dimension: int = Field(256, ge=8, le=4096)
    jobs: int = Field(0, ge=0)


class ModelsSection(Section):
    folders: tuple[str, ...] = ()


class RetrievalSection(Section):
    mode: Literal["vector", "keyword", "hybrid"] = "hybrid"
    fusion: Literal["rrf", "minmax"] = "minmax"
    alpha: float = Field(0.5, ge=0, le=1)
    k: int = Field(5, ge=1, le=200)
    idf: Literal["lucene", "okapi"] = "lucene"
    weak_cosine: float = Field(0.25, ge=-1, le=1)


class ScheduleSection(Section):
    cron: str = "0 6 * * *"
    timezone: str = "UTC"


class LimitsSection(Section):
    parse_seconds: float = Field(60.0, gt=0)
    parse_memory_mb: int = Field(2048, ge=256)


class Config(Section):
    """The whole configuration; ``file`` is where it was read from, ``origins`` where each set value came from."""

    kb: KbSection
    sources: tuple[SourceSection, ...] = ()
    chunking: ChunkingSection = ChunkingSection()
    embedder: EmbedderSection = EmbedderSection()
    models: ModelsSection = ModelsSection()
    retrieval: RetrievalSection = RetrievalSection()
    schedule: ScheduleSection = ScheduleSection()
    limits: LimitsSection = LimitsSection()
    file: str = Field(default="", exclude=True)
    origins: dict[str, str] = Field(default_factory=dict, exclude=True)

    @model_validator(mode="after")
    def _source_names(self) -> Config:
        names = [source.name for source in self.sources]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"two sources are named {twice[0]!r}")
        return self


SECTIONS = [name for name in Config.model_fields if name not in ("file", "origins")]


def load(path: str | Path | None = None, environ: Mapping[str, str] = os.environ) -> Config:
    """Read a configuration file (default: KB_CONFIG, else config/kb.toml). ConfigError says which key is wrong and why."""
    file = Path(path or environ.get("KB_CONFIG") or DEFAULT_FILE)
    try:
        values: dict[str, Any] = tomllib.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigError(f"there is no configuration file {file}", remedy="write one with: kb init") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file} is not valid TOML: {error}") from None
    except OSError as error:
        raise ConfigError(f"{file} cannot be read: {error.strerror}") from None
    origins = {dotted: str(file) for dotted in _dotted(values)}
    _overlay(values, origins, environ)
    try:
        config = Config.model_validate({**values, "file": str(file), "origins": origins})
    except ValidationError as error:
        raise ConfigError(f"{file}: " + "; ".join(_say(e) for e in error.errors())) from None
    return config


def _overlay(values: dict[str, Any], origins: dict[str, str], environ: Mapping[str, str]) -> None:
    """Put ``KB_SECTION__KEY`` over the file's values, with the type of the setting."""
    for name in sorted(environ):
        if not name.startswith("KB_") or "__" not in name:
            continue
        section, _, key = name.removeprefix("KB_").lower().partition("__")
        if section not in SECTIONS or section == "sources":
            known = [s for s in SECTIONS if s != "sources"]
            raise ConfigError(f"{name}: there is no section {section!r}{_nearest(section, known)}")
        fields = _model(Config, section).model_fields
        if key not in fields:
            raise ConfigError(f"{name}: [{section}] has no setting {key!r}{_nearest(key, list(fields))}")
        text = environ[name]
        is_list = typing.get_origin(fields[key].annotation) is tuple
        value: Any = [part.strip() for part in text.split(",") if part.strip()] if is_list else text
        values.setdefault(section, {})[key] = value
        origins[f"{section}.{key}"] = name


def _dotted(values: Mapping[str, Any], prefix: str = "") -> list[str]:
    names = []
    for key, value in values.items():
        items = value if isinstance(value, list) and all(isinstance(v, dict) for v in value) and value else None
        if isinstance(value, dict):
            names += _dotted(value, f"{prefix}{key}.")
        elif items:
            names += [n for i, item in enumerate(items) for n in _dotted(item, f"{prefix}{key}[{i}].")]
        else:
            names.append(prefix + key)
    return names


def _say(error: Any) -> str:
    where = [part for part in error["loc"] if part != "file"]
    dotted = ".".join(str(part) for part in where) or "configuration"
    if error["type"] == "extra_forbidden":
        known = _known(where[:-1])
        return f"unknown key {dotted!r}{_nearest(str(where[-1]), known)}"
    if error["type"] == "missing":
        return f"{dotted} is missing"
    return f"{dotted}: {error['msg'].removeprefix('Value error, ')} (found {error['input']!r})"


def _known(path: list[Any]) -> list[str]:
    model: Any = Config
    for part in path:
        if isinstance(part, str) and part in model.model_fields:
            model = _model(model, part)
    return [name for name in model.model_fields if name not in ("file", "origins")]


def _model(model: type[BaseModel], field: str) -> type[BaseModel]:
    annotation: Any = model.model_fields[field].annotation
    if typing.get_origin(annotation) in (tuple, types.UnionType):
        annotation = typing.get_args(annotation)[0]
    return typing.cast(type[BaseModel], annotation)


def _nearest(word: str, known: list[str]) -> str:
    close = difflib.get_close_matches(word, known, n=1, cutoff=0.5)
    return f"; did you mean {close[0]!r}?" if close else f"; known: {', '.join(known)}"


def effective(config: Config) -> list[tuple[str, Any, str]]:
    """Every setting as (dotted name, value, where it came from), in the order of the file format."""
    rows: list[tuple[str, Any, str]] = []

    def walk(value: Any, prefix: str) -> None:
        if isinstance(value, dict):
            for key, inner in value.items():
                walk(inner, f"{prefix}.{key}" if prefix else key)
        elif isinstance(value, list) and value and isinstance(value[0], dict):
            for index, inner in enumerate(value):
                walk(inner, f"{prefix}[{index}]")
        else:
            rows.append((prefix, value, config.origins.get(prefix, "default")))

    walk(config.model_dump(mode="json"), "")
    return rows
