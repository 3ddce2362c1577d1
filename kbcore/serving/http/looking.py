"""Routes that look: knowledge bases, releases, what changed, who moved readers, how releases were judged."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path, Query
from starlette.responses import Response

from kbcore.differences import compare_releases, text_diff
from kbcore.errors import CorruptReleaseError, KbError
from kbcore.releases import list_releases
from kbcore.serving.bases import Base
from kbcore.serving.failures import without_paths
from kbcore.serving.http import answers, models
from kbcore.serving.http.searching import HELD, IfNoneMatch
from kbcore.serving.http.service import Answered, Named, Serving, answer, run, validated
from kbcore.store import evals

router = APIRouter(prefix="/v1", tags=["releases"])
UNREAD = "the promotion log cannot be read"


@router.get("", response_model=answers.BasesAnswer, responses=HELD)
async def knowledge_bases(service: Serving, if_none_match: IfNoneMatch = None) -> Response:
    """The knowledge bases that are served, with the release that answers in each."""

    def found() -> Answered:
        return validated({"knowledge_bases": [_summary(base) for base in service.bases.values()]}, None, if_none_match)

    return await run(service.searching, found)


@router.get("/{kb}", response_model=answers.BaseAnswer, responses=HELD)
async def knowledge_base(kb: Named, service: Serving, if_none_match: IfNoneMatch = None) -> Response:
    """One knowledge base: the release that answers, and the number of the newest promotion record."""

    def found() -> Answered:
        body = _summary(kb)
        return validated(body, body["release"], if_none_match)

    return await run(service.searching, found)


@router.get("/{kb}/releases", response_model=answers.ReleasesAnswer, responses=HELD)
async def releases(kb: Named, service: Serving, if_none_match: IfNoneMatch = None) -> Response:
    """Every release that was ever published, newest first."""

    def found() -> Answered:
        repository = kb.base.repository
        current = repository.state().release
        rows = [row.to_json() for row in list_releases(repository)]
        return validated({"release": current, "releases": rows}, current, if_none_match)

    return await run(service.reading, found)


@router.get("/{kb}/releases/{release}", response_model=answers.ReleaseAnswer, responses=HELD)
async def release(
    kb: Named,
    service: Serving,
    release: Annotated[models.ReleaseName, Path()],
    if_none_match: IfNoneMatch = None,
) -> Response:
    """What a release is: its content, settings, embedder, sources, failures and changes."""

    def found() -> Answered:
        repository = kb.base.repository
        manifest = repository.manifest(repository.resolve(release))
        body = manifest.to_body()
        body["embedder"] = {**body["embedder"], "fingerprint": repository.embedder(manifest)["fingerprint"]}
        return validated(body, manifest.release, if_none_match)

    return await run(service.reading, found)


@router.get("/{kb}/diff", response_model=answers.DiffAnswer | answers.TextDiffAnswer)
async def diff(kb: Named, service: Serving, asked: Annotated[models.DiffQuery, Query()]) -> Response:
    """What changed from one release to another, by document; or how the text of one document changed."""

    def found() -> Answered:
        repository = kb.base.repository
        new = repository.resolve(asked.new)
        old = repository.resolve(asked.old or ("previous" if new == repository.state().release else "current"))
        if asked.document is not None:
            lines = text_diff(repository, old, new, asked.document)
            return answer({"release": new, "old": old, "new": new, "doc_id": asked.document, "diff": lines}, new)
        return answer({"release": new, **compare_releases(repository, old, new).to_json()}, new)

    return await run(service.reading, found)


@router.get("/{kb}/history", response_model=answers.HistoryAnswer, responses=HELD)
async def history(
    kb: Named,
    service: Serving,
    asked: Annotated[models.HistoryQuery, Query()],
    if_none_match: IfNoneMatch = None,
) -> Response:
    """Who moved readers, from where to where, and why; newest first."""

    def found() -> Answered:
        repository = kb.base.repository
        seqs = repository.promotions()[-asked.limit :]
        records = [repository.promotion(seq) for seq in reversed(seqs)]
        current = records[0].release if records else None
        body = {
            "release": current,
            "seq": records[0].seq if records else 0,
            "records": [record.to_body() for record in records],
        }
        return validated(body, current, if_none_match)

    return await run(service.reading, found)


@router.get("/{kb}/evals", response_model=answers.EvalsAnswer)
async def evaluations(kb: Named, service: Serving, asked: Annotated[models.EvalsQuery, Query()]) -> Response:
    """How releases were judged: the figures of scorecards, and what the gate found. Newest first."""

    def found() -> Answered:
        repository = kb.base.repository
        release = repository.resolve(asked.release) if asked.release else None
        names = [name for name in evals.listed(repository, release) if name.kind in (evals.SCORECARD, evals.GATE)]
        records: list[dict[str, Any]] = []
        unreadable: list[str] = []
        for name in reversed(names[-asked.limit :]):
            try:
                records.append(evals.read(repository, name))
            except CorruptReleaseError:
                unreadable.append(name.file)
        shown = release or repository.state().release
        return answer({"release": shown, "records": records, "unreadable": unreadable}, shown)

    return await run(service.reading, found)


def _summary(entry: Base) -> dict[str, Any]:
    live = entry.live()
    retriever = live.current()
    try:
        state = entry.base.repository.state()
        moved = {"promoted": state.release, "seq": state.seq, "hold": state.hold}
    except (KbError, OSError):
        # Searches go on; one base whose log is damaged must not hide itself and all others from those who look.
        moved = {"promoted": None, "seq": None, "hold": None}
    totals = retriever.manifest.totals
    return {
        "name": entry.name,
        "release": retriever.release,
        **moved,
        "mode": retriever.mode,
        "documents": totals["documents"],
        "chunks": totals["chunks"],
        "problem": without_paths(live.problem) if live.problem else UNREAD if moved["seq"] is None else None,
    }
