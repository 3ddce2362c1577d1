"""Events of a knowledge base, for automations to act on: published, promoted, refused; a source failed, or is stale."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from prefect.events import emit_event

PUBLISHED = "kb.release.published"
PROMOTED = "kb.release.promoted"
REFUSED = "kb.release.refused"
FAILED = "kb.source.failed"
STALE = "kb.source.stale"


def emit_refresh(kb: str, report: dict[str, Any], freshness: dict[str, Any] | None) -> None:
    """What one refresh came to, as events of the knowledge base and of its stale sources. Names and counts only: no text
    of a document leaves with them. What is refused or withheld is told once, and again when it is something else."""
    release = report["release"]
    changes = {key: value for key, value in report["changes"].items() if value}
    if report["outcome"] == "published":
        _emit(kb, PUBLISHED, {"release": release, "parent": report["parent"], "changes": changes, "run": report["run"]})
    gate = report.get("gate")
    reasons = list(report["refused"])
    if report["withheld_removals"] and not reasons:
        reasons.append(withheld_said(len(report["withheld_removals"])))
    if gate and not gate["passes"]:
        reasons += _refusals(gate)
    if reasons and not report["standing"]:
        verdict = gate["verdict"] if gate else None
        _emit(kb, REFUSED, {"release": release, "reasons": reasons, "verdict": verdict, "run": report["run"]})
    if report["promoted"]:
        _emit(kb, PROMOTED, {"release": release, "from": report["promoted_from"], "run": report["run"]})
    emit_failed(kb, report["sources"], report["run"])
    emit_stale(kb, freshness)


def withheld_said(count: int) -> str:
    return "1 removal is withheld" if count == 1 else f"{count} removals are withheld"


def emit_failed(kb: str, sources: Sequence[dict[str, Any]], run: str) -> None:
    """Sources that could not be listed, each with the reason."""
    for source in sources:
        if source.get("error"):
            _emit(kb, FAILED, {"source": source["name"], "reason": source["error"], "run": run}, source=source["name"])


def _refusals(gate: dict[str, Any]) -> list[str]:
    """Why the gate said no. Of canaries only how many: what is said of them has words of questions and documents in it."""
    refusing = [finding for finding in gate["findings"] if finding["verdict"] == gate["verdict"]]
    lost = sum(finding["check"] == "canary" for finding in refusing)
    reasons = [finding["said"] for finding in refusing if finding["check"] != "canary"]
    return [*reasons, *([f"canary questions not found any more: {lost}"] if lost else [])]


def emit_stale(kb: str, freshness: dict[str, Any] | None) -> None:
    """Sources of which readers get something older than its target."""
    for source in (freshness or {}).get("sources", ()):
        if source["stale"]:
            figures = ("age_days", "target_days", "confirmed_at", "error")
            _emit(kb, STALE, {key: source[key] for key in figures}, source=source["source"])


def emit_promotion(kb: str, record: dict[str, Any], before: str | None) -> None:
    """A move of readers from ``before`` that a flow made."""
    figures = {name: record[name] for name in ("release", "kind", "seq", "reason")}
    _emit(kb, PROMOTED, {**figures, "from": before})


def _emit(kb: str, event: str, payload: dict[str, Any], *, source: str | None = None) -> None:
    resource = {"prefect.resource.id": f"kbcore.knowledge-base.{kb}", "prefect.resource.name": kb}
    if source is not None:
        resource = {"prefect.resource.id": f"kbcore.source.{kb}.{source}", "prefect.resource.name": source}
    emit_event(event, resource=resource, payload=payload)
