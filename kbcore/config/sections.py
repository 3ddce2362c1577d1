"""The sections of a configuration file, their settings and defaults."""

from __future__ import annotations

import zoneinfo
from typing import Literal

from pydantic import Field, ValidationInfo, field_validator, model_validator

from kbcore.config.cron import check_cron
from kbcore.config.duration import Duration, seconds_of
from kbcore.config.gate import GateSection
from kbcore.config.section import Section
from kbcore.config.sources import AnySource


class KbSection(Section):
    name: str = Field(pattern=r"^[a-z0-9][a-z0-9._-]{0,63}$")
    repository: str = "releases"


class ChunkingSection(Section):
    size: int = Field(512, ge=1)
    overlap: int = Field(50, ge=0)
    context: Literal["none", "heading"] = "heading"

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
    edition: int = Field(1, ge=1)


class BuildSection(Section):
    """Who cuts and embeds documents: processes of this machine (``jobs``; 0 is one a core), or a Dask cluster."""

    executor: Literal["process", "dask"] = "process"
    jobs: int = Field(0, ge=0)
    address: str | None = None

    @model_validator(mode="after")
    def _addressed(self) -> BuildSection:
        if self.executor == "dask" and not self.address:
            raise ValueError('a Dask cluster needs the address of its scheduler, as in "tcp://10.0.0.5:8786"')
        return self


class ModelsSection(Section):
    folders: tuple[str, ...] = ()


class RetrievalSection(Section):
    """``k1``, ``b`` and ``idf`` are BM25's: how soon repeats of a word stop counting, and how much a chunk's length does.
    ``reranker`` (a name that FastEmbed knows) or ``reranker_path`` (a folder) orders the first ``rerank_depth`` chunks
    anew. Evidence below ``weak_cosine`` and ``weak_share`` is weak, and below ``no_match_cosine`` and ``no_match_share`` too
    nothing is shown (``no_match_cosine = -1`` shows everything); None: as an evaluation calibrated it, else by default."""

    mode: Literal["vector", "keyword", "hybrid"] = "hybrid"
    fusion: Literal["rrf", "minmax"] = "minmax"
    alpha: float = Field(0.5, ge=0, le=1)
    k: int = Field(5, ge=1, le=200)
    idf: Literal["lucene", "okapi"] = "lucene"
    k1: float = Field(1.5, ge=0, le=100)
    b: float = Field(0.75, ge=0, le=1)
    reranker: str | None = None
    reranker_path: str | None = None
    rerank_depth: int = Field(20, ge=1, le=200)
    weak_cosine: float | None = Field(None, ge=-1, le=1.01)
    weak_share: float | None = Field(None, ge=0, le=1.01)
    no_match_cosine: float | None = Field(None, ge=-1, le=1.01)
    no_match_share: float | None = Field(None, ge=0, le=1.01)


class ScheduleSection(Section):
    """When freshness runs: on ``cron``, or, where it is set, each ``every`` (30s, 15m, 6h). Maintenance has a cron of its
    own; empty switches it off."""

    cron: str = "0 6 * * *"
    every: Duration | None = None
    maintenance: str = "0 3 * * 0"
    timezone: str = "UTC"

    @field_validator("cron", "maintenance")
    @classmethod
    def _five_fields(cls, value: str, info: ValidationInfo) -> str:
        if not value and info.field_name == "maintenance":
            return value
        return check_cron(value)

    @property
    def every_seconds(self) -> int | None:
        return None if self.every is None else seconds_of(self.every)

    @field_validator("timezone")
    @classmethod
    def _known(cls, value: str) -> str:
        if value not in zoneinfo.available_timezones():
            raise ValueError('there is no time zone of this name; one looks like "Europe/Berlin"')
        return value


class LimitsSection(Section):
    parse_seconds: float = Field(60.0, gt=0)
    parse_memory_mb: int = Field(2048, ge=256)


class SearchLogSection(Section):
    """The local log of searches (see ``kbcore.search_log``): ``path`` is its folder; without one nothing is logged.
    Questions and the ids of what answered them are kept with ``payloads`` only."""

    path: str | None = None
    payloads: bool = False
    keep_days: int = Field(30, ge=1, le=3650)


class Config(Section):
    """The whole configuration; ``file`` is where it was read from, ``origins`` where each set value came from."""

    kb: KbSection
    sources: tuple[AnySource, ...] = ()
    chunking: ChunkingSection = ChunkingSection()
    embedder: EmbedderSection = EmbedderSection()
    build: BuildSection = BuildSection()
    models: ModelsSection = ModelsSection()
    retrieval: RetrievalSection = RetrievalSection()
    gate: GateSection = GateSection()
    schedule: ScheduleSection = ScheduleSection()
    limits: LimitsSection = LimitsSection()
    search_log: SearchLogSection = SearchLogSection()
    file: str = Field(default="", exclude=True)
    origins: dict[str, str] = Field(default_factory=dict, exclude=True)

    @model_validator(mode="after")
    def _source_names(self) -> Config:
        names = [source.name for source in self.sources]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"two sources are named {twice[0]!r}")
        return self
