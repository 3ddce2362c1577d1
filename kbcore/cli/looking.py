"""Verbs that look: releases, show, documents, diff, history, search, sql."""

from __future__ import annotations

from dataclasses import asdict
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kbcore.cli.building import DIFFERENCES
from kbcore.cli.output import AsJson, ConfigFile, emit, guarded, say, table

if TYPE_CHECKING:
    from kbcore.types import Hit, SearchResult

app = typer.Typer()

ReleaseOption = Annotated[
    str, typer.Option("--release", "-R", help="current, previous, latest, a release or a prefix of one.")
]
ReleaseArgument = Annotated[str, typer.Argument(help="current, previous, latest, a release or a prefix of one.")]
EXCERPT = 320


class SearchMode(StrEnum):
    vector = "vector"
    keyword = "keyword"
    hybrid = "hybrid"


class FusionName(StrEnum):
    rrf = "rrf"
    minmax = "minmax"


@app.command()
@guarded
def releases(config: ConfigFile = None, as_json: AsJson = False) -> None:
    """List every release, newest first."""
    from kbcore.knowledge_base import open_repository
    from kbcore.releases import list_releases

    repository = open_repository(config).repository
    rows = list_releases(repository)
    if as_json:
        emit([row.to_json() for row in rows])
        return
    if not rows:
        say("nothing was published yet; publish with: kb refresh")
        return
    table(
        ["release", "state", "created", "documents", "+", "~", "-", "renamed", "chunks", "segments", "content"],
        [
            [r.release, r.state + (" pinned" if r.pinned else ""), r.created_at, r.documents,
             *([r.changes[key] for key in ("added", "changed", "removed", "renamed")] if r.changes else [None] * 4),
             r.chunks, r.segments, (r.content_digest or "")[:12]]
            for r in rows
        ],
    )  # fmt: skip
    held = repository.state().hold
    if held:
        say(f"on hold: {held['reason']} ({held['by']}, {held['since']})")


@app.command()
@guarded
def show(
    release: ReleaseArgument = "current",
    failures: Annotated[bool, typer.Option("--failures", help="Only the documents that failed.")] = False,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Show what a release is: content, settings, embedder fingerprint, changes, sources."""
    from kbcore.knowledge_base import open_repository

    repository = open_repository(config).repository
    manifest = repository.manifest(repository.resolve(release))
    record = repository.embedder(manifest)
    if as_json:
        body = manifest.to_body()
        body["embedder"] = {**body["embedder"], "fingerprint": record["fingerprint"]}
        emit(list(manifest.exceptions) if failures else body)
        return
    if failures:
        table(["document", "reason", "since", "former version kept"], [
            [e["doc_id"], e["reason"], e["since"], "yes" if e["carried_over"] else "no"] for e in manifest.exceptions
        ])  # fmt: skip
        return
    state = repository.state()
    rows: list[tuple[str, Any]] = [
        ("release", manifest.release + (" (current)" if manifest.release == state.release else "")),
        ("parent", manifest.parent),
        ("made by", f"{manifest.kind}, run {manifest.run}, {manifest.created_at}"),
        ("content digest", manifest.content_digest),
        ("documents", manifest.totals["documents"]),
        ("chunks", f"{manifest.totals['chunks']} ({manifest.totals['chunks_new']} new)"),
        ("changes", ", ".join(f"{count} {name}" for name, count in manifest.changes.items() if count) or "none"),
        ("texts", ", ".join(f"{count} {name.removeprefix('texts_')}" for name, count in manifest.work.items())),
        ("segments", len(manifest.segments)),
    ]
    rows += [(f"chunking {key}", value) for key, value in manifest.chunking.items()]
    rows.append(("analyzer", manifest.analyzer_id))
    rows.append(("embedder", manifest.embedder_id))
    for key, value in record["fingerprint"].items():
        if isinstance(value, dict):
            rows += [(f"  {key[:-1]} {name}", digest) for name, digest in value.items()]
        else:
            rows.append((f"  {key}", value))
    rows += [
        (
            f"source {s['name']}",
            f"{s['items']} listed {s['listed_at']}, {'complete' if s['complete'] else 'incomplete'}",
        )
        for s in manifest.sources
    ]
    rows += [(f"made with {name}", version) for name, version in manifest.versions.items()]
    table(["", ""], rows)
    if manifest.exceptions:
        say(f"{len(manifest.exceptions)} documents failed; see: kb show {manifest.release} --failures")


@app.command()
@guarded
def documents(
    release: ReleaseOption = "current",
    source: Annotated[str | None, typer.Option(help="Only this source.")] = None,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """List the documents of a release."""
    from kbcore.knowledge_base import open_repository

    repository = open_repository(config).repository
    manifest = repository.manifest(repository.resolve(release))
    columns = [
        "doc_id",
        "source",
        "uri",
        "title",
        "media_type",
        "chunk_count",
        "content_sha256",
        "fetched_at",
        "modified_at",
        "stats",
    ]
    found: list[dict[str, Any]] = []
    for segment in repository.segments(manifest):
        live = segment.live_documents(repository.erased())
        found += [row for row, alive in zip(segment.documents(columns).to_pylist(), live) if alive]
    found = sorted((row for row in found if source in (None, row["source"])), key=lambda row: row["doc_id"])
    if as_json:
        import json

        emit([{**row, "stats": json.loads(row["stats"])} for row in found])
        return
    table(
        ["document", "title", "type", "chunks", "version", "modified"],
        [
            [r["doc_id"], r["title"], r["media_type"], r["chunk_count"], r["content_sha256"][:12], r["modified_at"]]
            for r in found
        ],
    )


@app.command()
@guarded
def diff(
    old: Annotated[str, typer.Argument(help="The release to compare with.")] = "previous",
    new: Annotated[str, typer.Argument(help="The release that is compared.")] = "latest",
    text: Annotated[
        str | None, typer.Option("--text", metavar="DOC", help="Show how this document's text changed.")
    ] = None,
    exit_code: Annotated[bool, typer.Option("--exit-code", help="End with 5 if they differ.")] = False,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Say what changed from one release to another, by document."""
    from kbcore.differences import compare_releases, text_diff
    from kbcore.knowledge_base import open_repository

    repository = open_repository(config).repository
    left, right = repository.resolve(old), repository.resolve(new)
    if text is not None:
        lines = text_diff(repository, left, right, text)
        if as_json:
            emit({"old": left, "new": right, "doc_id": text, "diff": lines})
        else:
            say(lines.rstrip("\n") if lines else f"{text}: the same text in {left} and {right}")
        if exit_code and lines:
            raise typer.Exit(DIFFERENCES)
        return
    found = compare_releases(repository, left, right)
    if as_json:
        emit(found.to_json())
    else:
        _print_difference(found)
    if exit_code and found.differs:
        raise typer.Exit(DIFFERENCES)


def _print_difference(found: Any) -> None:
    body = found.to_json()
    say(
        f"{body['old']} -> {body['new']}: {len(body['added'])} added, {len(body['changed'])} changed, "
        f"{len(body['removed'])} removed, {len(body['renamed'])} renamed, {body['unchanged']} unchanged"
    )
    for setting in body["settings"]:
        say(f"setting {setting['name']}: {setting['old']} -> {setting['new']}")
    rows = [["added", doc_id, ""] for doc_id in body["added"]]
    rows += [
        ["changed", c["doc_id"], f"chunks: {c['kept']} kept, {c['new']} new, {c['gone']} gone"] for c in body["changed"]
    ]
    rows += [["removed", doc_id, ""] for doc_id in body["removed"]]
    rows += [["renamed", r["old"], f"now {r['new']}"] for r in body["renamed"]]
    rows += [["carried over", e["doc_id"], f"{e['reason']}, since {e['since']}"] for e in body["carried_over"]]
    rows += [["withheld", doc_id, "removal not approved"] for doc_id in body["withheld"]]
    if rows:
        table(["", "document", ""], rows)


@app.command()
@guarded
def history(config: ConfigFile = None, as_json: AsJson = False) -> None:
    """Show who moved readers, from where to where, and why; newest first."""
    from kbcore.knowledge_base import open_repository

    repository = open_repository(config).repository
    records = [repository.promotion(seq) for seq in repository.promotions()]
    if as_json:
        emit([record.to_body() for record in reversed(records)])
        return
    before = [None, *(record.release for record in records)]
    table(
        ["seq", "when", "what", "from", "to", "hold", "by", "reason"],
        [
            [r.seq, r.at, r.kind, was, r.release, "on hold" if r.hold else "", r.by, r.reason]
            for r, was in reversed(list(zip(records, before)))
        ],
    )


@app.command()
@guarded
def search(
    query: Annotated[str, typer.Argument(help="The question.")],
    k: Annotated[int | None, typer.Option("-k", help="How many chunks at most.")] = None,
    mode: Annotated[SearchMode | None, typer.Option(help="vector, keyword or hybrid.")] = None,
    fusion: Annotated[FusionName | None, typer.Option(help="How hybrid joins the two lists.")] = None,
    release: ReleaseOption = "current",
    against: Annotated[str | None, typer.Option("--against", help="Search this release too, side by side.")] = None,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Search a release; every hit says where it comes from and what both matchers made of it."""
    from kbcore.knowledge_base import open_repository

    base = open_repository(config)
    chosen: Any = mode.value if mode else None
    results = [
        base.retriever(name, mode=chosen).search(query, k, fusion=fusion.value if fusion else None)
        for name in ([release] if against is None else [release, against])
    ]
    if as_json:
        bodies = [_result_json(result) for result in results]
        emit(bodies[0] if against is None else {"release": bodies[0], "against": bodies[1]})
        return
    if against is None:
        _print_result(results[0])
    else:
        _print_against(*results)


def _result_json(result: SearchResult) -> dict[str, Any]:
    body = asdict(result)
    body["hits"] = [asdict(hit) for hit in result.hits]
    return body


def _print_result(result: SearchResult) -> None:
    words = {
        "no_match": "nothing matches",
        "kb_empty": "the release holds no documents",
        "weak_evidence": "weak evidence: these may not answer the question",
        "hits": "",
    }
    head = f"{result.release}, {result.mode}, ordered by {result.score_kind}"
    say(f"{head}: {words[result.outcome]}" if words[result.outcome] else head)
    if result.evidence.get("query_truncated"):
        say("the question is longer than the embedder reads; its end counts in keyword search only")
    for rank, hit in enumerate(result.hits, start=1):
        say()
        path = hit.heading if hit.heading.startswith(hit.title) else " > ".join(filter(None, (hit.title, hit.heading)))
        say(f"{rank}. [{result.score_kind} {hit.score:.3f}] {path}")
        flags = ", carried over" * hit.carried_over + ", over its freshness target" * hit.over_age
        say(f"   {citation(hit)}{_figures(hit)}{flags}")
        text = " ".join(hit.text.split())
        say("   " + (text if len(text) <= EXCERPT else text[: EXCERPT - 1].rsplit(" ", 1)[0] + " …"))


def citation(hit: Hit) -> str:
    """Where a hit comes from, in one bracket."""
    pages = (
        ""
        if hit.page_start is None
        else f" p.{hit.page_start}" + (f"-{hit.page_end}" if hit.page_end != hit.page_start else "")
    )
    return f"[{hit.release} {hit.doc_id}{pages} {hit.start}-{hit.end}]"


def _figures(hit: Hit) -> str:
    parts = []
    if hit.cosine is not None:
        parts.append(f"cosine {hit.cosine:.3f}" + (f" (rank {hit.vector_rank})" if hit.vector_rank else ""))
    if hit.bm25 is not None:
        parts.append(f"bm25 {hit.bm25:.2f}" + (f" (rank {hit.keyword_rank})" if hit.keyword_rank else ""))
    return "  " + ", ".join(parts)


def _print_against(left: SearchResult, right: SearchResult) -> None:
    places = {(hit.doc_id, hit.text): rank for rank, hit in enumerate(right.hits, start=1)}
    say(f"{left.release} against {right.release}, {left.mode}, ordered by {left.score_kind}")
    rows = []
    for rank, hit in enumerate(left.hits, start=1):
        other = places.pop((hit.doc_id, hit.text), None)
        rows.append([rank, other or "-", f"{hit.score:.3f}", hit.doc_id, " ".join(hit.text.split())[:70]])
    for (doc_id, text), rank in places.items():
        rows.append(["-", rank, f"{right.hits[rank - 1].score:.3f}", doc_id, " ".join(text.split())[:70]])
    table([left.release, right.release, "score", "document", "text"], rows)


@app.command()
@guarded
def sql(
    statement: Annotated[str, typer.Argument(help="One statement that reads.")],
    release: ReleaseOption = "current",
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Ask DuckDB about one release (documents, chunks, vectors, postings) and about all (releases, promotions, checks,
    chunk_changes(old, new)). Nothing can be written."""
    from kbcore.knowledge_base import open_repository
    from kbcore.sql import query

    repository = open_repository(config).repository
    result = query(repository, release, statement)
    if as_json:
        emit([dict(zip(result.columns, row)) for row in result.rows])
    else:
        table(result.columns, result.rows)
