"""What is answered: the form of every body, as the OpenAPI document shows it."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from kbcore.serving.bodies import Body, ExplainedBody, ResultBody
from kbcore.types import Mode, Outcome


class Error(Body):
    """What went wrong: every answer with a status from 400 on, but that of /health/ready, is of this form."""

    error: str = Field(examples=["ReleaseNotFoundError"])
    message: str = Field(examples=["there is no release 'r000099'"], description="What was wrong, and where.")
    remedy: str = Field(examples=["see: kb releases"], description="What to do about it; may be empty.")


class ExplainAnswer(ExplainedBody):
    result: ResultBody


class PassageBody(Body):
    citation: str
    chunk_id: str
    doc_id: str
    sentences: int
    sentences_cut: int


class ContextAnswer(Body):
    release: str
    outcome: Outcome
    text: str = Field(description="Ready to be put before a language model.")
    tokens: int
    max_tokens: int
    unit: str
    passages: list[PassageBody]
    left_out: list[str]
    untrusted: Literal[True]
    complete: bool


class CitationBody(Body):
    cited: str
    offset: int
    release: str
    doc_id: str
    first: int
    last: int
    state: str = Field(examples=["ok", "no document"])
    said: str
    text: str | None


class CiteAnswer(Body):
    release: str = Field(description="The current release, or the one that the citations had to be of.")
    ok: bool = Field(description="Whether every citation holds.")
    citations: list[CitationBody]


class BaseAnswer(Body):
    name: str
    release: str = Field(description="The release that answers.")
    promoted: str | None = Field(description="The release that readers are to get; it is opened before it answers.")
    seq: int | None = Field(
        description="The number of the newest promotion record: the expected_seq of the next change. Null where the "
        "promotion log cannot be read."
    )
    hold: dict[str, Any] | None
    mode: Mode
    documents: int
    chunks: int
    problem: str | None = Field(
        description="Why a promoted release is not the one that answers, or it is not known which one is promoted."
    )


class BasesAnswer(Body):
    knowledge_bases: list[BaseAnswer]


class ReleaseRowBody(Body):
    release: str
    state: Literal["current", "previous", "refused", "candidate", "expired", "damaged"]
    created_at: str | None
    documents: int | None
    chunks: int | None
    content_digest: str | None
    parent: str | None
    kind: str | None
    embedder_id: str | None
    chunker_id: str | None
    segments: int | None
    changes: dict[str, Any] | None
    pinned: bool
    blocked: bool
    gate: str | None = Field(description="What the gate said of a release that never was current.")
    quality: dict[str, Any] | None = Field(description="The first measure of its newest scorecard.")


class ReleasesAnswer(Body):
    release: str | None = Field(description="The current one.")
    releases: list[ReleaseRowBody] = Field(description="Newest first.")


class ReleaseAnswer(BaseModel):
    """The manifest of a release, with its embedder's fingerprint and its state."""

    model_config = ConfigDict(extra="allow")
    release: str
    parent: str | None
    created_at: str
    content_digest: str
    totals: dict[str, Any]
    changes: dict[str, Any]
    embedder: dict[str, Any]


class DiffAnswer(Body):
    release: str = Field(description="The newer of the two.")
    old: str
    new: str
    added: list[str]
    removed: list[str]
    changed: list[dict[str, Any]]
    renamed: list[dict[str, Any]]
    unchanged: int
    carried_over: list[dict[str, Any]]
    withheld: list[str]
    settings: list[dict[str, Any]]
    tombstones: list[dict[str, Any]]
    totals: dict[str, dict[str, Any]]
    differs: bool


class TextDiffAnswer(Body):
    release: str
    old: str
    new: str
    doc_id: str
    diff: str = Field(description="Unified; empty where the text is the same.")


class RecordBody(BaseModel):
    """One record of the promotion log."""

    model_config = ConfigDict(extra="allow")
    seq: int
    kind: Literal["promote", "rollback", "undo", "hold", "lift", "pin", "unpin"]
    release: str | None
    hold: dict[str, Any] | None
    reason: str
    by: str
    at: str


class HistoryAnswer(Body):
    release: str | None
    seq: int
    records: list[RecordBody] = Field(description="Newest first.")


class EvaluationBody(BaseModel):
    """A scorecard (without the answers it sums up) or a gate record, as it is kept beside its release."""

    model_config = ConfigDict(extra="allow")
    release: str
    kind: Literal["scorecard", "gate"]
    key: str
    run: str
    at: str
    by: str


class EvalsAnswer(Body):
    release: str | None
    records: list[EvaluationBody] = Field(description="Newest first.")
    unreadable: list[str] = Field(description="Records that are damaged, by file.")


class MovedAnswer(RecordBody):
    from_: str | None = Field(alias="from", description="The release that readers got before.")
    answering: str = Field(
        description="The release that answers here now: the promoted one, unless opening it takes long."
    )
    seconds: float


class HealthAnswer(Body):
    status: Literal["ok"]


class NotReadyAnswer(Body):
    status: Literal["not ready"]
    not_ready: list[str]
