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


def refresh_report(report: dict[str, Any], releases: Sequence[dict[str, Any]]) -> str:
    """What one refresh did, and where the releases stand now."""
    moved = "promoted" if report["promoted"] else f"not promoted: {cell(report['not_promoted'])}"
    parts = [
        f"## {report['outcome']}: {report['release']} ({moved})",
        table(list(report["changes"]), [list(report["changes"].values())]),
        f"{report['texts_embedded']} texts embedded, {report['texts_reused']} reused, {report['bytes_written']} bytes written",
    ]
    if report["failures"]:
        rows = [[f["doc_id"], f["reason"], f["since"], f["carried_over"]] for f in report["failures"]]
        parts += ["### Documents that failed", table(["document", "reason", "since", "former version kept"], rows)]
    if report["withheld_removals"]:
        parts += ["### Removals withheld", table(["document"], [[doc_id] for doc_id in report["withheld_removals"]])]
    parts += ["### Releases", release_table(releases)]
    return "\n\n".join(parts)
