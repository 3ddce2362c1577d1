"""Verbs around an answer: explain, context, cite, lineage."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kbcore.cli.output import DIFFERENCES, AsJson, ConfigFile, ReleaseOption, clean, emit, guarded, say, table
from kbcore.cli.searching import WORDS, FusionName, SearchMode, WhereOption

if TYPE_CHECKING:
    from kbcore.retrieval.explaining import Explanation

app = typer.Typer()


@app.command()
@guarded
def explain(
    query: Annotated[str, typer.Argument(help="The question.")],
    document: Annotated[
        str | None, typer.Option("--doc", "-d", help="Follow this document (id or URI; #c3 after it: one chunk).")
    ] = None,
    k: Annotated[int | None, typer.Option("-k", help="How many chunks at most.")] = None,
    mode: Annotated[SearchMode | None, typer.Option(help="vector, keyword or hybrid.")] = None,
    fusion: Annotated[FusionName | None, typer.Option(help="How hybrid joins the two lists.")] = None,
    where: WhereOption = None,
    release: ReleaseOption = "current",
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Show every figure that led to an answer, and where a document was lost on the way."""
    from kbcore.knowledge_base import open_repository
    from kbcore.retrieval.explaining import explain as told

    chosen: Any = mode.value if mode else None
    retriever = open_repository(config).retriever(release, mode=chosen)
    request = retriever.request(query, k, fusion=fusion.value if fusion else None, where=where)
    found = told(retriever, request, document)
    if as_json:
        emit(found.to_json())
    else:
        _print_explanation(found)


@app.command()
@guarded
def context(
    query: Annotated[str, typer.Argument(help="The question.")],
    max_tokens: Annotated[
        int, typer.Option("--max-tokens", min=1, help="The budget, in the embedder's tokens.")
    ] = 1500,
    k: Annotated[int | None, typer.Option("-k", help="How many passages at most.")] = None,
    neighbours: Annotated[int, typer.Option("--neighbours", help="Show so many chunks before and after each.")] = 0,
    where: WhereOption = None,
    release: ReleaseOption = "current",
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Pack the passages that answer a question for a language model: whole sentences, each passage with its citation."""
    from kbcore.knowledge_base import open_repository

    retriever = open_repository(config).retriever(release)
    result, packed = retriever.context(query, max_tokens, k, neighbours=neighbours, where=where)
    if as_json:
        emit({"outcome": result.outcome, "release": result.release, **asdict(packed), "complete": packed.complete})
        return
    say(packed.text)
    hint_words = WORDS[result.outcome]
    note = f"{packed.tokens} of {packed.max_tokens} {packed.unit}, {len(packed.passages)} passages"
    cut = sum(passage.sentences_cut for passage in packed.passages)
    note += f", {cut} sentences cut" if cut else ""
    note += f", left out: {' '.join(packed.left_out)}" if packed.left_out else ""
    print(clean(note + (f"; {hint_words}" if hint_words else "")), file=sys.stderr)


@app.command()
@guarded
def cite(
    answer: Annotated[Path | None, typer.Argument(help="A file with the answer; - or nothing: standard input.")] = None,
    release: Annotated[
        str | None, typer.Option("--release", "-R", help="The release that was asked: citations of another are wrong.")
    ] = None,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Check the citations in an answer against the releases they name; ends with 5 where one does not hold."""
    from kbcore.citations import check_citations
    from kbcore.errors import UsageError
    from kbcore.knowledge_base import open_repository

    repository = open_repository(config).repository
    try:
        text = sys.stdin.read() if answer is None or str(answer) == "-" else answer.read_text(encoding="utf-8")
    except (FileNotFoundError, IsADirectoryError, UnicodeDecodeError) as error:
        raise UsageError(f"{answer} cannot be read: {error}", remedy="name a text file in UTF-8") from None
    found = check_citations(repository, text, repository.resolve(release) if release else None)
    if as_json:
        emit([citation.to_json() for citation in found])
    elif found:
        table(["citation", "", "why"], [[entry.cited, entry.state, entry.said] for entry in found])
    else:
        say("no citation was found; one reads [r000012 handbook:vpn.md#c3]")
    if any(entry.state != "ok" for entry in found):
        raise typer.Exit(DIFFERENCES)


@app.command()
@guarded
def lineage(
    release: Annotated[str | None, typer.Option("--release", "-R", help="This release alone (default: all).")] = None,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Show which consumers asked which release what, and how often, from the local log of searches."""
    from kbcore.errors import UsageError
    from kbcore.knowledge_base import open_repository
    from kbcore.lineage import consumers

    base = open_repository(config)
    folder = base.config.search_log.path
    if folder is None:
        raise UsageError(
            "no log of searches is kept", remedy='switch it on in the configuration: [search_log] path = "searches"'
        )
    # Who was answered from a release that was taken out of service is what one asks of it.
    name = base.repository.resolve(release, expired=True) if release else None
    found = consumers(folder, base.config.kb.name, name)
    if as_json:
        emit([entry.to_json() for entry in found])
        return
    if not found:
        say(f"nobody asked {name or 'any release'} since the log in {folder} begins")
        return
    table(
        ["release", "consumer", "searches", "outcomes", "p50 ms", "p95 ms", "last"],
        [
            [
                entry.release, entry.consumer, entry.searches,
                ", ".join(f"{count} {outcome}" for outcome, count in entry.outcomes.items()),
                f"{entry.p50_ms:.1f}", f"{entry.p95_ms:.1f}", entry.last[:19] + "Z",
            ]
            for entry in found
        ],
        records=True,
    )  # fmt: skip
    for entry in found:
        if entry.questions:
            # A client of MCP calls itself what it likes, line ends included.
            say(f"{' '.join(entry.consumer.split())} of {entry.release}, {entry.distinct_questions} questions:")
        for question, count in entry.questions:
            say(f"  {count} x {' '.join(question.split())[:70]}")


def _print_explanation(found: Explanation) -> None:
    result, request = found.result, found.request
    say(f"{result.release}, {result.mode}, k = {request['k']}: {result.outcome}" + (
        f", ordered by {result.score_kind}" if result.hits else ""
    ))  # fmt: skip
    evidence = result.evidence
    if "cut" in evidence:
        cut = evidence["cut"]
        cosine = "none" if evidence["best_cosine"] is None else f"{evidence['best_cosine']:.3f}"
        say(
            f"evidence: best cosine {cosine} (weak below {cut['cosine']:.3f}), matched share "
            f"{evidence['matched_share']:.2f} (weak below {cut['share']:.2f}); cut: {cut['origin']}"
        )
        bounds = {"cosine": cut["no_match_cosine"], "matched share": cut["no_match_share"]}
        said = [f"{name} {bound:.3f}" for name, bound in bounds.items() if bound is not None]
        if said:
            say(f"nothing is shown below {' and '.join(said)}")
    if found.terms:
        table(["term", "chunks", "tells"], [[t["term"], t["chunks"], f"{t['rarity']:.2f}"] for t in found.terms])
    if request["where"]:
        say(f"filter: {request['where']}: {evidence.get('filter', {}).get('rows', 0)} chunks pass")
    if found.candidates:
        say(f"each matcher names {request['lists']} chunks:")
        reranked = any(entry.rerank is not None for entry in found.candidates)
        table(
            ["", "document", "chunk", "cosine", "rank", "bm25", "rank", "vector", "keyword", "fused"]
            + ["rerank"] * reranked,
            [
                [
                    entry.rank, entry.doc_id, entry.ordinal, _three(entry.cosine), entry.vector_rank, _three(entry.bm25),
                    entry.keyword_rank, _three(entry.vector_part), _three(entry.keyword_part), _three(entry.fused),
                    *([_three(entry.rerank)] * reranked),
                ]
                for entry in found.candidates
            ],
        )  # fmt: skip
    if found.document:
        path = found.document
        say(f"{path.doc_id}: {path.stage}: {path.said}")
        if path.vector_rank or path.keyword_rank:
            say(
                "its best chunk among all live ones: "
                + ", ".join(
                    f"{name} rank {rank} ({score:.3f})"
                    for name, rank, score in (
                        ("vector", path.vector_rank, path.cosine), ("keyword", path.keyword_rank, path.bm25),
                    )
                    if rank is not None and score is not None
                )
            )  # fmt: skip


def _three(value: float | None) -> str | None:
    return None if value is None else f"{value:.3f}"
