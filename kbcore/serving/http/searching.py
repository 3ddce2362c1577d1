"""Routes that answer questions: search, lookup, explain, context, cite."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Request
from starlette.responses import Response

from kbcore.citations import check_citations, cited
from kbcore.retrieval.explaining import explain as told
from kbcore.serving.answers import result_json
from kbcore.serving.bases import Base
from kbcore.serving.bodies import ResultBody
from kbcore.serving.failures import Refusal
from kbcore.serving.http import answers, models
from kbcore.serving.http.conditional import matches, of_search
from kbcore.serving.http.service import Answered, Named, Service, Serving, answer, dumps, run
from kbcore.serving.pools import Pool

router = APIRouter(prefix="/v1/{kb}", tags=["questions"])
MAX_RELEASES_CITED = 20
IfNoneMatch = Annotated[str | None, Header(description="An ETag of an earlier answer: 304 where it still holds.")]
HELD: dict[int | str, dict[str, Any]] = {304: {"description": "What you hold is what you would get."}}


@router.post("/search", response_model=ResultBody)
async def search(kb: Named, service: Serving, request: Request, asked: models.SearchBody) -> Response:
    """The chunks that answer a question best, each with where it comes from and what both matchers made of it."""
    return await _search(kb, service, request, asked, None, conditional=False)


@router.get("/search", response_model=ResultBody, responses=HELD)
async def search_by_address(
    kb: Named,
    service: Serving,
    request: Request,
    asked: Annotated[models.SearchQuery, Query()],
    if_none_match: IfNoneMatch = None,
) -> Response:
    """The same as an address, with an ETag: it holds as long as release, request, erasures and checks are the same."""
    return await _search(kb, service, request, asked, if_none_match, conditional=True)


async def _search(
    kb: Base,
    service: Service,
    request: Request,
    asked: models.SearchBody,
    if_none_match: str | None,
    *,
    conditional: bool,
) -> Response:
    def found() -> Answered:
        retriever = kb.retriever(asked.release)
        tag = None
        if conditional:
            tag = of_search(retriever, {"kb": kb.name, "search": asked.model_dump(mode="json")})
            if matches(tag, if_none_match):
                return Answered(None, retriever.release, tag)
        result = retriever.search(asked.query, asked.k, **asked.options())
        service.metrics.searched(kb.name, result)
        return Answered(dumps(result_json(result)), result.release, tag)

    _note(request, service, asked.query)
    return await run(_pool(service, asked.release), found)


@router.get("/lookup", response_model=ResultBody)
async def lookup(
    kb: Named, service: Serving, request: Request, asked: Annotated[models.LookupQuery, Query()]
) -> Response:
    """What goes by exactly this name: a document id, URI, title or declared alias, or a code in the text."""

    def found() -> Answered:
        result = kb.retriever(asked.release).lookup(asked.key, asked.k, where=asked.where)
        service.metrics.searched(kb.name, result)
        return answer(result_json(result), result.release)

    _note(request, service, asked.key)
    return await run(_pool(service, asked.release), found)


@router.post("/explain", response_model=answers.ExplainAnswer)
async def explain(kb: Named, service: Serving, request: Request, asked: models.ExplainBody) -> Response:
    """Every figure that led to an answer, and where a document was lost on the way."""

    def found() -> Answered:
        retriever = kb.retriever(asked.release)
        explanation = told(retriever, retriever.request(asked.query, asked.k, **asked.options()), asked.document)
        body = explanation.to_json()
        body["result"] = result_json(explanation.result)
        return answer({"release": retriever.release, **body}, retriever.release)

    _note(request, service, asked.query)
    return await run(_pool(service, asked.release), found)


@router.post("/context", response_model=answers.ContextAnswer)
async def context(kb: Named, service: Serving, request: Request, asked: models.ContextBody) -> Response:
    """The passages that answer a question, packed for a language model: whole sentences, each passage with its citation."""

    def found() -> Answered:
        retriever = kb.retriever(asked.release)
        result, packed = retriever.context(asked.query, asked.max_tokens, asked.k, **asked.options())
        service.metrics.searched(kb.name, result)
        body = {"release": result.release, "outcome": result.outcome, **asdict(packed), "complete": packed.complete}
        return answer(body, result.release)

    _note(request, service, asked.query)
    return await run(_pool(service, asked.release), found)


@router.post("/cite", response_model=answers.CiteAnswer)
async def cite(kb: Named, service: Serving, asked: models.CiteBody) -> Response:
    """Check the citations in an answer against the releases that they name."""
    releases = {citation[1:].split(" ", 1)[0] for citation in cited(asked.answer)}
    if len(releases) > MAX_RELEASES_CITED:
        raise Refusal(
            422,
            "Invalid",
            f"answer: it cites {len(releases)} releases; at most {MAX_RELEASES_CITED} are looked at",
            "check its parts one by one",
        )

    def found() -> Answered:
        repository = kb.base.repository
        wanted = repository.resolve(asked.release) if asked.release else None
        citations = check_citations(repository, asked.answer, wanted)
        release = wanted or kb.live().release
        body = {
            "release": release,
            "ok": all(citation.state == "ok" for citation in citations),
            "citations": [citation.to_json() for citation in citations],
        }
        return answer(body, release)

    return await run(service.reading, found)


def _pool(service: Service, release: str) -> Pool:
    """Opening an old release must keep nobody waiting who asks the current one."""
    return service.searching if release == "current" else service.reading


def _note(request: Request, service: Service, query: str) -> None:
    """The text of a question goes into the log only where that was asked for."""
    if service.log_queries:
        request.state.query = query
