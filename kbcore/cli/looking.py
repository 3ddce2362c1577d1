"""Verbs that look: releases, show, documents, diff, history, sql."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kbcore.cli.output import (
    DIFFERENCES,
    AsJson,
    ConfigFile,
    ReleaseArgument,
    ReleaseOption,
    emit,
    finding,
    guarded,
    hint,
    say,
    table,
)
from kbcore.errors import UsageError

if TYPE_CHECKING:
    from kbcore.store.manifest import Manifest

app = typer.Typer()


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
        say(hint("nothing was published yet; publish with: kb refresh", config))
        return
    measured = next((row.quality["measure"] for row in rows if row.quality), None)
    # Eighty columns hold it: what changed stands in one, the rest of a release is told by kb show.
    table(
        ["release", "state", "created", *([measured] if measured else []), "docs", "changes", "chunks"],
        [
            [r.release, r.state + ", pinned" * r.pinned + ", blocked" * r.blocked, (r.created_at or "")[:16].replace("T", " "),
             *([f"{r.quality['mean']:.3f}" if r.quality else None] if measured else []), r.documents,
             _changes(r.changes), r.chunks]
            for r in rows
        ],
    )  # fmt: skip
    say("changes: + added, ~ changed, - removed, > renamed documents; times are UTC")
    held = repository.state().hold
    if held:
        say(f"on hold: {held['reason']} ({held['by']}, {held['since']})")


def _changes(counts: dict[str, int] | None) -> str:
    """Counts of documents against the release before, what is none left out."""
    signs = {"added": "+", "changed": "~", "removed": "-", "renamed": ">"}
    return " ".join(f"{sign}{counts[name]}" for name, sign in signs.items() if counts.get(name)) if counts else ""


@app.command()
@guarded
def show(
    release: ReleaseArgument = "current",
    failures: Annotated[bool, typer.Option("--failures", help="Only the documents that failed.")] = False,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Show what a release is: content, settings, embedder fingerprint, changes, sources, how good its answers are."""
    from kbcore.knowledge_base import open_repository
    from kbcore.releases import evaluations_of

    repository = open_repository(config).repository
    manifest = repository.manifest(repository.resolve(release))
    record = repository.embedder(manifest)
    card, gate = evaluations_of(repository, manifest.release)
    if as_json:
        body = manifest.to_body()
        body["embedder"] = {**body["embedder"], "fingerprint": record["fingerprint"]}
        body |= {"scorecard": card, "gate": gate}
        emit(list(manifest.exceptions) if failures else body)
        return
    if failures:
        _print_failures(manifest, config)
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
            f"{s['type']}, {s['items']} listed {s['listed_at']}, {'complete' if s['complete'] else 'incomplete'}"
            + (f", at {s['version']}" if s.get("version") else ""),
        )
        for s in manifest.sources
    ]
    rows += [(f"made with {name}", version) for name, version in manifest.versions.items()]
    table(["", ""], [*rows, *_quality_rows(card)])
    _print_gate(gate)
    if manifest.exceptions:
        say(f"{len(manifest.exceptions)} documents failed; see: kb show {manifest.release} --failures")


def _print_failures(manifest: Manifest, config: Path | None) -> None:
    """Those of the release; what failed in runs that published nothing is known to kb freshness."""
    if manifest.exceptions:
        table(["document", "reason", "since", "kept"], [
            [e["doc_id"], e["reason"], e["since"], "former version" if e["carried_over"] else "nothing"]
            for e in manifest.exceptions
        ], sentences=True)  # fmt: skip
    else:
        say(hint(f"none when {manifest.release} was built; since then: kb freshness", config))


def _quality_rows(card: dict[str, Any] | None) -> list[tuple[str, Any]]:
    """What the newest scorecard says."""
    if card is None:
        return []
    counts, settings = card["counts"], card["settings"]
    fusion = f", {settings['fusion']}" if settings["fusion"] else ""
    what = f"{card['set']['name']}, {settings['mode']}{fusion}, {counts['judged']} of {counts['questions']} judged"
    rows: list[tuple[str, Any]] = [("evaluated", f"{what}, {card['at']}")]
    rows += [(f"  {name}", f"{card['means'][name]:.3f}") for name in card["measures"] if name in card["means"]]
    found = card["abstention"]
    if found["no_answer"]:
        turned = f"{found['no_answer'] - found['no_answer_answered']} of {found['no_answer']}"
        rows.append(("  without an answer", f"{turned} turned away"))
    return rows


def _print_gate(gate: dict[str, Any] | None) -> None:
    if gate is None:
        return
    against = f" against {gate['baseline']}" if gate["baseline"] else ""
    say(f"gate: {gate['verdict'].replace('_', ' ')}{against}, {len(gate['findings'])} checks, {gate['at']}")
    for found in gate["findings"]:
        if found["verdict"] != "pass":
            finding(**found)


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
    known = sorted({row["source"] for row in found} | {entry["name"] for entry in manifest.sources})
    if source is not None and source not in known:
        raise UsageError(
            f"{manifest.release} has no source {source!r}", remedy=f"its sources: {', '.join(known) or 'none'}"
        )
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
    old: Annotated[
        str | None,
        typer.Argument(help="The release to compare with (default: current, or previous where the latest is current)."),
    ] = None,
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
    right = repository.resolve(new)
    if old is None:
        old = "previous" if right == repository.state().release else "current"
    left = repository.resolve(old)
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
    went = {entry["doc_id"]: f"{entry['reason']}; {entry['release']}, {entry['at']}" for entry in body["tombstones"]}
    rows += [["removed", doc_id, went.get(doc_id, "")] for doc_id in body["removed"]]
    rows += [["renamed", r["old"], f"now {r['new']}"] for r in body["renamed"]]
    rows += [["carried over", e["doc_id"], f"{e['reason']}, since {e['since']}"] for e in body["carried_over"]]
    rows += [["withheld", doc_id, "removal not approved"] for doc_id in body["withheld"]]
    if rows:
        table(["", "document", ""], rows, sentences=True)


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
    if not records:
        say(hint("nothing was promoted yet; kb refresh publishes and promotes", config))
        return
    before = [None, *(record.release for record in records)]
    table(
        ["seq", "when", "what", "from", "to", "hold", "by", "reason"],
        [
            [r.seq, r.at, r.kind, was, r.release, "on hold" if r.hold else "", r.by, r.reason]
            for r, was in reversed(list(zip(records, before)))
        ],
        sentences=True,
    )


@app.command()
@guarded
def sql(
    statement: Annotated[str, typer.Argument(help="One statement that reads.")],
    release: ReleaseOption = "current",
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Ask DuckDB about one release (documents, chunks, vectors, postings) and about all (releases, promotions, checks,
    evals, eval_questions, gates, chunk_changes(old, new)). Nothing can be written."""
    from kbcore.knowledge_base import open_repository
    from kbcore.sql import query

    repository = open_repository(config).repository
    result = query(repository, release, statement)
    if as_json:
        emit([dict(zip(result.columns, row)) for row in result.rows])
    else:
        table(result.columns, result.rows, records=True)
