"""What a run leaves to look at: Markdown tables. Text that comes from documents is escaped."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

QUESTIONS_SHOWN = 100
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


def figure(value: float | None) -> str | None:
    """A number of days, to three digits at most: 0.04, 6.9, 120."""
    return None if value is None else f"{value:.0f}" if value >= 100 else f"{value:.2g}"


def yes(value: bool) -> str:
    return "yes" if value else "no"


def failure_report(flow: str, kb: str, message: str, remedy: str) -> str:
    """Why a run failed, and what to do."""
    return "\n\n".join(
        [f"## {flow} of {cell(kb)} failed", cell(message), *([f"**To do:** {cell(remedy)}"] if remedy else [])]
    )


def rollback_report(record: dict[str, Any], before: str | None, releases: Sequence[dict[str, Any]]) -> str:
    """Where readers were moved, why, what holds now, and the releases."""
    hold = record["hold"]
    parts = [
        f"## Readers went back from {cell(before)} to {cell(record['release'])}",
        f"**Reason:** {cell(record['reason'])} ({cell(record['by'])}, {cell(record['at'])})",
    ]
    if hold:
        parts.append(
            f"**On hold:** {cell(hold['reason'])}. Scheduled refreshes promote nothing until: "
            '`kb hold --lift --reason "..."`'
        )
    return "\n\n".join([*parts, "### Releases", release_table(releases)])


def release_table(releases: Sequence[dict[str, Any]]) -> str:
    """The releases of a knowledge base, newest first."""
    rows = [
        [(row[name] or "")[:12] if name == "content_digest" else row[name] for name in RELEASE_COLUMNS]
        for row in releases
    ]
    return table(RELEASE_COLUMNS, rows)


def refresh_report(
    report: dict[str, Any],
    releases: Sequence[dict[str, Any]],
    freshness: dict[str, Any] | None = None,
    config: str | None = None,
) -> str:
    """What one refresh listed, fetched, embedded, reused, carried over and withheld, and where the releases stand now."""
    moved = f"promoted, readers had {report['promoted_from'] or 'nothing'}" if report["promoted"] else (
        f"not promoted: {cell(report['not_promoted'])}"
    )  # fmt: skip
    counts = {
        "listed": sum(source["items"] for source in report["sources"]),
        **report["changes"],
        "failed": len(report["failures"]),
        "withheld": len(report["withheld_removals"]),
    }
    held = len(report["withheld_removals"])
    parts = withheld_section(report["withheld_removals"], config) if held else []
    parts += [
        f"## {report['outcome']}: {report['release']} ({moved})",
        table(list(counts), [list(counts.values())]),
        table(
            ["texts embedded", "reused", "resumed", "bytes written"],
            [[report["texts_embedded"], report["texts_reused"], report["texts_resumed"], report["bytes_written"]]],
        ),
        *(gate_section(report["gate"]) if report.get("gate") else ()),
        "### Sources",
        table(
            ["source", "type", "listed", "items", "complete", "error"],
            [
                [s["name"], s["type"], s["listed_at"], s["items"], yes(s["complete"]), s.get("error")]
                for s in report["sources"]
            ],
        ),
    ]
    parts += [f"**Refused:** {cell(reason)}" for reason in report["refused"]]
    if report["failures"]:
        rows = [[f["doc_id"], f["reason"], f["since"], yes(f["carried_over"])] for f in report["failures"]]
        parts += ["### Documents that failed", table(["document", "reason", "since", "former version kept"], rows)]
    if report["flagged"]:
        rows = [[entry["doc_id"], ", ".join(entry["flags"])] for entry in report["flagged"]]
        parts += ["### Documents whose text is doubtful", table(["document", "why"], rows)]
    if freshness:
        parts += ["### Ages", age_table(freshness)]
    parts += ["### Releases", release_table(releases)]
    return "\n\n".join(parts)


def withheld_section(documents: Sequence[str], config: str | None) -> list[str]:
    """What waits for a person comes first, with both ways to approve it."""
    count = len(documents)
    command = "kb refresh" + (f" -c {config}" if config else "") + f" --approve-removals {count}"
    return [
        f"## {count} removal{'s' * (count != 1)} withheld",
        f"If they are meant, run this deployment with approve\\_removals = {count}, or: {cell(command)}",
        table(["document"], [[doc_id] for doc_id in documents]),
    ]


def gate_section(gate: dict[str, Any]) -> list[str]:
    """What the gate said: its verdict, every check in words, both means of each measure, and why questions were lost."""
    against = f" against {gate['baseline']}" if gate["baseline"] else ""
    parts = [f"### Gate: {cell(gate['verdict'].replace('_', ' ') + against)}"]
    if gate["findings"]:
        rows = [[f["check"], f["verdict"], f["said"]] for f in gate["findings"]]
        parts.append(table(["check", "verdict", "seen"], rows))
    if gate["measures"]:
        parts.append(measure_table(gate["measures"], gate["baseline"] or "baseline", gate["release"]))
    if gate["causes"]:
        rows = [[entry["id"], entry["question"], _causes(entry["causes"])] for entry in gate["causes"]]
        parts.append(table(["lost", "question", "because"], rows))
    return parts


def measure_table(measures: dict[str, Any], old: str, new: str) -> str:
    """Both means of each measure, and how sure their difference is."""
    return table(
        ["measure", old, new, "difference", "95 % interval", "p", "better", "worse", "of"],
        [
            [name, _figure(m.get("old")), _figure(m.get("new")), _figure(m.get("difference"), "+"),
             "" if m.get("low") is None else f"{m['low']:+.3f} to {m['high']:+.3f}", _figure(m.get("p_value")),
             m.get("wins"), m.get("losses"), m.get("count")]
            for name, m in measures.items()
        ],
    )  # fmt: skip


def comparison_report(found: dict[str, Any]) -> str:
    """Two releases on the same questions: the means, then every question that changed, those that were lost first."""
    settings, old, new = found["settings"], found["old"], found["new"]
    changed = found["changed"]
    counts = {kind: sum(entry["kind"] == kind for entry in changed) for kind in ("lost", "won", "moved")}
    first = next(iter(found["measures"]))
    answers = [[old, *_answered(found["abstention"]["old"])], [new, *_answered(found["abstention"]["new"])]]
    parts = [
        f"## {cell(old)} and {cell(new)} on {cell(found['set']['name'])}",
        f"{found['judged']} questions judged, {len(found['unjudged'])} not; searched {cell(settings['mode'])}, "
        f"k = {settings['k']}",
        measure_table(found["measures"], old, new),
        table(["release", "without an answer", "of them answered", "with one", "of them turned away"], answers),
        table([*counts, *found["similarity"]], [[*counts.values(), *map(_figure, found["similarity"].values())]]),
    ]
    if changed:
        rows = [
            [entry["kind"], entry["id"], entry["question"], _figure(entry["old"].get(first)),
             _figure(entry["new"].get(first)), f"{entry['old_outcome']} -> {entry['new_outcome']}",
             _causes(entry["causes"])]
            for entry in changed[:QUESTIONS_SHOWN]
        ]  # fmt: skip
        columns = ["", "question", "words", f"{first} {old}", f"{first} {new}", "outcome", "because"]
        parts += ["### Questions that changed", table(columns, rows)]
        if len(changed) > QUESTIONS_SHOWN:
            parts.append(f"and {len(changed) - QUESTIONS_SHOWN} more: kb compare names them all")
    return "\n\n".join(parts)


def _answered(found: dict[str, Any]) -> list[int]:
    return [found[name] for name in ("no_answer", "no_answer_answered", "answerable", "answerable_abstained")]


def _causes(causes: Sequence[dict[str, Any]]) -> str:
    return "; ".join(f"{cause['kind']}: {cause['said']}" for cause in causes) or "no cause found"


def _figure(value: float | None, sign: str = "") -> str | None:
    return None if value is None else f"{value:{sign}.3f}"


def age_table(freshness: dict[str, Any]) -> str:
    """The age of what readers get, by source."""
    columns = (
        "source",
        "documents",
        "last confirmed",
        "age (days)",
        "target (days)",
        "state",
        "carried over",
        "withheld",
    )
    rows = [
        [s["source"], s["documents"], s["confirmed_at"], figure(s["age_days"]), figure(s["target_days"]),
         "stale" if s["stale"] else "failing" if s["error"] else "fresh", s["carried_over"], s["withheld"]]
        for s in freshness["sources"]
    ]  # fmt: skip
    return table(columns, rows)


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
