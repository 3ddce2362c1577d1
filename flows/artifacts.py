"""What a run leaves to look at: Markdown tables. Text that comes from documents is escaped."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

RELEASE_COLUMNS = ("release", "state", "created_at", "documents", "chunks", "content_digest")


def key_for(name: str, kb: str) -> str:
    """An artifact key: lower case, digits and dashes."""
    return re.sub(r"[^a-z0-9]+", "-", f"{name}-{kb}".lower()).strip("-")


def cell(value: Any) -> str:
    """One table cell: no markup, no links, no line breaks."""
    text = "" if value is None else str(value)
    text = re.sub(r"([\\`*_{}\[\]<>()#+!|~&-])", r"\\\1", " ".join(text.split()))
    # A viewer makes links of bare addresses too: an entity in their midst keeps it from that, and shows the same.
    return re.sub(r"(?i)\b(https?|ftp|mailto|www)([:.])", lambda m: f"{m[1]}&#{ord(m[2])};", text).replace("@", "&#64;")


def table(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    lines = ["| " + " | ".join(columns) + " |", "|" + " --- |" * len(columns)]
    lines += ["| " + " | ".join(map(cell, row)) + " |" for row in rows]
    return "\n".join(lines)


def release_table(releases: Sequence[dict[str, Any]]) -> str:
    """The releases of a knowledge base, newest first."""
    rows = [
        [(row[name] or "")[:12] if name == "content_digest" else row[name] for name in RELEASE_COLUMNS]
        for row in releases
    ]
    return table(RELEASE_COLUMNS, rows)


def refresh_report(
    report: dict[str, Any], releases: Sequence[dict[str, Any]], freshness: dict[str, Any] | None = None
) -> str:
    """What one refresh listed, fetched, embedded, reused, carried over and withheld, and where the releases stand now."""
    moved = f"promoted, readers had {report['promoted_from']}" if report["promoted"] else (
        f"not promoted: {cell(report['not_promoted'])}"
    )  # fmt: skip
    counts = {
        "listed": sum(source["items"] for source in report["sources"]),
        **report["changes"],
        "failed": len(report["failures"]),
        "withheld": len(report["withheld_removals"]),
    }
    parts = [
        f"## {report['outcome']}: {report['release']} ({moved})",
        table(list(counts), [list(counts.values())]),
        table(
            ["texts embedded", "reused", "resumed", "bytes written"],
            [[report["texts_embedded"], report["texts_reused"], report["texts_resumed"], report["bytes_written"]]],
        ),
        "### Sources",
        table(
            ["source", "type", "listed", "items", "complete", "error"],
            [
                [s["name"], s["type"], s["listed_at"], s["items"], s["complete"], s.get("error")]
                for s in report["sources"]
            ],
        ),
    ]
    parts += [f"**Refused:** {cell(reason)}" for reason in report["refused"]]
    if report["failures"]:
        rows = [[f["doc_id"], f["reason"], f["since"], f["carried_over"]] for f in report["failures"]]
        parts += ["### Documents that failed", table(["document", "reason", "since", "former version kept"], rows)]
    if report["flagged"]:
        rows = [[entry["doc_id"], ", ".join(entry["flags"])] for entry in report["flagged"]]
        parts += ["### Documents whose text is doubtful", table(["document", "why"], rows)]
    if report["withheld_removals"]:
        parts += ["### Removals withheld", table(["document"], [[doc_id] for doc_id in report["withheld_removals"]])]
    if freshness:
        parts += ["### Ages", age_table(freshness)]
    parts += ["### Releases", release_table(releases)]
    return "\n\n".join(parts)


def age_table(freshness: dict[str, Any]) -> str:
    """The age of what readers get, by source."""
    columns = ("source", "documents", "confirmed_at", "age_days", "target_days", "stale", "carried_over", "withheld")
    return table(columns, [[source[name] for name in columns] for source in freshness["sources"]])


def maintenance_report(
    findings: Sequence[dict[str, Any]], checks: Sequence[dict[str, Any]], freshness: dict[str, Any] | None
) -> str:
    """What is not as it was written, what the doctor says, and how old everything is."""
    parts = ["## Files", "All as they were written."]
    if findings:
        parts[1] = table(["release", "file", "finding"], [[f["release"], f["file"], f["reason"]] for f in findings])
    parts += [
        "## Checks",
        table(
            ["check", "status", "detail", "mend it with"],
            [[c["name"], c["status"], c["detail"], c["remedy"]] for c in checks],
        ),
    ]
    if freshness:
        parts += ["## Ages", age_table(freshness)]
    return "\n\n".join(parts)
