"""The verb that searches, and how hits are shown."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kbcore.cli.output import AsJson, ConfigFile, ReleaseOption, emit, guarded, say, table

if TYPE_CHECKING:
    from kbcore.types import Hit, SearchResult

app = typer.Typer()

EXCERPT = 320
CONDITION = "source=handbook, uri^=vpn/, modified_at>=2026-01-01; again for more, all must hold."
WhereOption = Annotated[list[str] | None, typer.Option("--where", "-w", metavar="CONDITION", help=CONDITION)]
WORDS = {
    "no_match": "nothing matches",
    "kb_empty": "the release holds no documents",
    "weak_evidence": "weak evidence: these may not answer the question",
    "hits": "",
}


class SearchMode(StrEnum):
    vector = "vector"
    keyword = "keyword"
    hybrid = "hybrid"


class FusionName(StrEnum):
    rrf = "rrf"
    minmax = "minmax"


@app.command()
@guarded
def search(
    query: Annotated[str, typer.Argument(help="The question.")],
    k: Annotated[int | None, typer.Option("-k", help="How many chunks at most.")] = None,
    mode: Annotated[SearchMode | None, typer.Option(help="vector, keyword or hybrid.")] = None,
    fusion: Annotated[FusionName | None, typer.Option(help="How hybrid joins the two lists.")] = None,
    where: WhereOption = None,
    keys: Annotated[
        bool,
        typer.Option("--keys", help="Look up ids, titles, aliases and codes first; search only where none is known."),
    ] = False,
    merge: Annotated[bool, typer.Option("--merge", help="Join chunks that overlap or follow each other.")] = False,
    neighbours: Annotated[int, typer.Option("--neighbours", help="Show so many chunks before and after each.")] = 0,
    fold: Annotated[bool, typer.Option("--fold", help="Count near-copies under the best of them.")] = False,
    release: ReleaseOption = "current",
    against: Annotated[str | None, typer.Option("--against", help="Search this release too, side by side.")] = None,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Search a release; every hit says where it comes from and what both matchers made of it."""
    from kbcore.knowledge_base import open_repository
    from kbcore.serving.answers import result_json

    base = open_repository(config)
    chosen: Any = mode.value if mode else None
    results = [
        base.retriever(name, mode=chosen).search(
            query,
            k,
            fusion=fusion.value if fusion else None,
            where=where,
            keys=keys,
            merge=merge,
            neighbours=neighbours,
            fold=fold,
        )
        for name in ([release] if against is None else [release, against])
    ]
    if as_json:
        bodies = [result_json(result) for result in results]
        emit(bodies[0] if against is None else {"release": bodies[0], "against": bodies[1]})
        return
    if against is None:
        _print_result(results[0])
    else:
        _print_against(*results)


@app.command()
@guarded
def lookup(
    key: Annotated[str, typer.Argument(help="A document id, URI, title or alias, or a code such as ERR-4012.")],
    k: Annotated[int | None, typer.Option("-k", help="How many chunks at most.")] = None,
    where: WhereOption = None,
    release: ReleaseOption = "current",
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Find what goes by exactly this name; nothing is guessed, near names are only named."""
    from kbcore.knowledge_base import open_repository
    from kbcore.serving.answers import result_json

    result = open_repository(config).retriever(release, mode="keyword").lookup(key, k, where=where)
    if as_json:
        emit(result_json(result))
    elif result.hits:
        say(f"{result.release}: {key} is known")
        table(
            ["by", "document", "chunks"],
            [[match["kind"], match["doc_id"], match["chunks"]] for match in result.evidence["matches"]],
        )
        _print_hits(result)
    elif result.evidence.get("known"):
        say(f"{result.release}: {key} is known, and " + ("the filter leaves none of it" if where else "has no text"))
    else:
        near = result.evidence.get("near")
        say(f"{result.release}: {key} is not known" + (f"; known: {', '.join(near)}" if near else ""))


def _print_result(result: SearchResult) -> None:
    head = f"{result.release}, {result.mode}" + (f", ordered by {result.score_kind}" if result.hits else "")
    words = "the question is blank" if result.evidence.get("blank_query") else WORDS[result.outcome]
    say(f"{head}: {words}" if words else head)
    for note in _notes(result):
        say(note)
    _print_hits(result)


def _notes(result: SearchResult) -> Iterator[str]:
    """What is to be known of an answer beside its hits."""
    if not_shown := result.evidence.get("not_shown"):
        said = f"{not_shown} nearest chunks are too far from the question to be shown"
        best = result.evidence["best_cosine"]
        yield said if best is None else f"{said} (best cosine {best:.3f})"
    if unknown := result.evidence.get("unknown_codes"):
        yield f"not known here: {', '.join(unknown)}"
    if chosen := result.evidence.get("filter"):
        yield f"the filter leaves {chosen['documents']} documents, {chosen['rows']} chunks"
    if result.evidence.get("query_truncated"):
        yield "the question is longer than the embedder reads; its end counts in keyword search only"


def _print_hits(result: SearchResult) -> None:
    for rank, hit in enumerate(result.hits, start=1):
        say()
        path = hit.heading if hit.heading.startswith(hit.title) else " > ".join(filter(None, (hit.title, hit.heading)))
        say(f"{rank}. [{result.score_kind} {hit.score:.3f}] {path}")
        flags = ", carried over" * hit.carried_over + ", over its freshness target" * hit.over_age
        flags += f", {len(hit.copies)} near-copies" if hit.copies else ""
        say(f"   {citation(hit)}{_figures(hit)}{flags}")
        text = " ".join(hit.text.split())
        say("   " + (text if len(text) <= EXCERPT else text[: EXCERPT - 1].rsplit(" ", 1)[0] + " …"))


def citation(hit: Hit) -> str:
    """Where a hit comes from: what a text cites it by, its pages and offsets."""
    pages = (
        ""
        if hit.page_start is None
        else f" p.{hit.page_start}" + (f"-{hit.page_end}" if hit.page_end != hit.page_start else "")
    )
    return f"{hit.citation}{pages} {hit.start}-{hit.end}"


def _figures(hit: Hit) -> str:
    parts = []
    if hit.cosine is not None:
        parts.append(f"cosine {hit.cosine:.3f}" + (f" (rank {hit.vector_rank})" if hit.vector_rank else ""))
    if hit.bm25 is not None:
        parts.append(f"bm25 {hit.bm25:.2f}" + (f" (rank {hit.keyword_rank})" if hit.keyword_rank else ""))
    if hit.fused is not None:
        parts.append(f"fused {hit.fused:.3f}")
    return "  " + ", ".join(parts)


def _print_against(left: SearchResult, right: SearchResult) -> None:
    """Both orders in one table: what is in both, what changed its text (old and new around the first difference), what
    is in one alone."""
    kinds = dict.fromkeys(result.score_kind for result in (left, right) if result.hits)
    order = f", ordered by {' and '.join(kinds)}" if kinds else ""
    say(f"{left.release} against {right.release}, {left.mode}{order}")
    for result in (left, right):
        for said in filter(None, (WORDS[result.outcome], *_notes(result))):
            say(f"{result.release}: {said}")
    ranks = {(hit.doc_id, hit.text): rank for rank, hit in enumerate(right.hits, start=1)}
    same = {key: ranks[key] for hit in left.hits if (key := (hit.doc_id, hit.text)) in ranks}
    # A text that is in one release alone, paired with the nearest one of the same document in the other.
    others = {rank: right.hits[rank - 1] for key, rank in ranks.items() if key not in same}
    rows: list[list[Any]] = []
    for rank, hit in enumerate(left.hits, start=1):
        key = (hit.doc_id, hit.text)
        if key in same:
            rows.append([rank, same[key], "", f"{hit.score:.3f}", hit.doc_id, _short(hit.text)])
            continue
        pairs = [(place, other) for place, other in others.items() if other.doc_id == hit.doc_id]
        if not pairs:
            rows.append([rank, "-", f"only {left.release}", f"{hit.score:.3f}", hit.doc_id, _short(hit.text)])
            continue
        place, other = max(pairs, key=lambda pair: _agreeing(pair[1].text, hit.text))
        del others[place]
        at = _agreeing(hit.text, other.text)
        rows.append([rank, place, f"now in {left.release}", f"{hit.score:.3f}", hit.doc_id, _short(hit.text, at)])
        rows.append(["", "", f"was in {right.release}", f"{other.score:.3f}", other.doc_id, _short(other.text, at)])
    for place, other in others.items():
        rows.append(["-", place, f"only {right.release}", f"{other.score:.3f}", other.doc_id, _short(other.text)])
    if rows:
        table([left.release, right.release, "", "score", "document", "text"], rows, sentences=True)


def _agreeing(a: str, b: str) -> int:
    """How many characters two texts share at their beginning."""
    return next((at for at, (left, right) in enumerate(zip(a, b)) if left != right), min(len(a), len(b)))


def _short(text: str, at: int = 0) -> str:
    """Some words of a text, from a little before ``at`` on."""
    start = max(0, at - 30)
    return ("… " if start else "") + " ".join(text[start : start + 90].split())[:76]
