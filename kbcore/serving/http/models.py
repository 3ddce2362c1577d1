"""What may be asked: the bodies and parameters of requests, with their limits. Unknown names are refused."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from kbcore.retrieval.request import MAX_NEIGHBOURS
from kbcore.serving.questions import MAX_QUERY, MAX_TERMS, few_terms
from kbcore.types import Fusion, Mode

MAX_K = 200
MAX_ANSWER = 200_000
MAX_CONTEXT = 100_000


def _visible(text: str) -> str:
    if not text.strip():
        raise ValueError("must say something")
    return text.strip()


Query = Annotated[
    str,
    Field(
        max_length=MAX_QUERY,
        description=f"The question: at most {MAX_QUERY:,} characters and {MAX_TERMS} distinct terms.",
        examples=["how do I reset my password"],
    ),
    AfterValidator(few_terms),
]
K = Annotated[int, Field(ge=1, le=MAX_K, description="How many hits at most; not given, as configured.", examples=[5])]
ReleaseName = Annotated[
    str,
    Field(
        max_length=20,
        pattern=r"^[a-z0-9]+$",
        description="current, previous, latest, a release or a prefix of one.",
        examples=["current", "r000012"],
    ),
]
Alpha = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False, description="The vector side's weight in min-max.")]
Line = Annotated[str, Field(max_length=5_000)]
Lines = Annotated[list[Line], Field(max_length=64)]
Neighbours = Annotated[int, Field(ge=0, le=MAX_NEIGHBOURS, description="Chunks shown before and after each hit.")]
Where = Annotated[
    dict[str, Any] | Line | Lines,
    Field(
        description="A filter: a mapping of fields, one line, or several lines that must all hold.",
        examples=[{"source": "handbook", "uri": {"prefix": "vpn/"}}, "source=handbook", ["language!=de"]],
    ),
]
Reason = Annotated[
    str,
    Field(max_length=500, description="Why; kept in the promotion log.", examples=["answers about VPN were wrong"]),
    AfterValidator(_visible),
]
Seq = Annotated[
    int,
    Field(
        ge=0, description="The number of the newest promotion record you have seen: GET /v1/{kb} says it.", examples=[7]
    ),
]


class Body(BaseModel):
    """The body of a request: types are taken as they stand ("5" is no number)."""

    model_config = ConfigDict(extra="forbid", strict=True)


class Asked(Body):
    """A question and what decides how it is answered."""

    query: Query
    k: K | None = None
    mode: Mode | None = Field(None, description="vector, keyword or hybrid; not given, as configured.")
    fusion: Fusion | None = Field(None, description="How hybrid joins the two lists: minmax or rrf.")
    alpha: Alpha | None = None
    where: Where | None = None
    release: ReleaseName = "current"

    def options(self) -> dict[str, Any]:
        """What goes to the retriever beside question and k."""
        return self.model_dump(exclude={"query", "k", "release", "document", "max_tokens", "key"})


class SearchBody(Asked):
    keys: bool = Field(False, description="Look up ids, titles, aliases and codes first.")
    merge: bool = Field(False, description="Join chunks that overlap or follow each other.")
    neighbours: Neighbours = 0
    fold: bool = Field(False, description="Count near-copies under the best of them.")


class SearchQuery(SearchBody):
    """The same as parameters of an address; ``where`` is one condition, again for more."""

    model_config = ConfigDict(extra="forbid", strict=False)
    where: Lines | None = None


class LookupQuery(BaseModel):
    model_config = ConfigDict(extra="forbid")
    key: Query = Field(description="A document id, URI, title or alias, or a code such as ERR-4012.")
    k: K | None = None
    where: Lines | None = None
    release: ReleaseName = "current"


class ExplainBody(Asked):
    document: Annotated[str, Field(max_length=2_000)] | None = Field(
        None, description="Follow this document (id or URI) to the stage that lost it.", examples=["handbook:vpn.md"]
    )


class ContextBody(Asked):
    max_tokens: int = Field(1_500, ge=1, le=MAX_CONTEXT, description="The budget, in the embedder's tokens.")
    neighbours: Neighbours = 0


class CiteBody(Body):
    answer: str = Field(
        max_length=MAX_ANSWER,
        description="A text with citations; at most 20 releases.",
        examples=["A password has fourteen characters [r000001 handbook:accounts/password-reset.md#c0]."],
    )
    release: ReleaseName | None = Field(None, description="The release that was asked: citations of another are wrong.")


class DiffQuery(BaseModel):
    model_config = ConfigDict(extra="forbid")
    old: ReleaseName | None = Field(None, description="Default: current, or previous where the newer one is current.")
    new: ReleaseName = "latest"
    document: Annotated[str, Field(max_length=2_000)] | None = Field(
        None, description="Give a unified diff of this document's text instead."
    )


class EvalsQuery(BaseModel):
    model_config = ConfigDict(extra="forbid")
    release: ReleaseName | None = None
    limit: Annotated[int, Field(ge=1, le=200, description="The newest so many records.")] = 20


class HistoryQuery(BaseModel):
    model_config = ConfigDict(extra="forbid")
    limit: Annotated[int, Field(ge=1, le=1_000, description="The newest so many records.")] = 100


class MoveBody(Body):
    reason: Reason
    expected_seq: Seq


class PromoteBody(MoveBody):
    release: ReleaseName = Field("latest", description="latest, previous, a release or a prefix of one.")
    lift: bool = Field(False, description="End the hold as well.")


class RollbackBody(MoveBody):
    to: ReleaseName | None = Field(None, description="A release that was current before; not given, the last one.")


class HoldBody(MoveBody):
    lift: bool = Field(False, description="End the hold, and unblock what was rolled back from.")
