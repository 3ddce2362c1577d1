"""Events of a knowledge base, for automations to act on: published, promoted, refused, stale."""

from __future__ import annotations

from typing import Any

from prefect.events import emit_event

PUBLISHED = "kb.release.published"
PROMOTED = "kb.release.promoted"
REFUSED = "kb.release.refused"
STALE = "kb.source.stale"


def emit_refresh(kb: str, report: dict[str, Any], freshness: dict[str, Any] | None) -> None:
    """What one refresh came to, as events of the knowledge base and of its stale sources. Names and counts only: no text
    of a document leaves with them."""
    release = report["release"]
    changes = {key: value for key, value in report["changes"].items() if value}
    if report["outcome"] == "published":
        _emit(kb, PUBLISHED, {"release": release, "parent": report["parent"], "changes": changes, "run": report["run"]})
    gate = report.get("gate")
    reasons = list(report["refused"])
    if report["withheld_removals"] and not reasons:
        reasons.append(f"{len(report['withheld_removals'])} removals are withheld")
    if gate and not gate["passes"]:
        reasons += _refusals(gate)
    if reasons:
        verdict = gate["verdict"] if gate else None
        _emit(kb, REFUSED, {"release": release, "reasons": reasons, "verdict": verdict, "run": report["run"]})
    if report["promoted"]:
        _emit(kb, PROMOTED, {"release": release, "from": report["promoted_from"], "run": report["run"]})
    emit_stale(kb, freshness)


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


def emit_promotion(kb: str, record: dict[str, Any]) -> None:
    """A move of readers that a flow made."""
    _emit(kb, PROMOTED, {"release": record["release"], "kind": record["kind"], "seq": record["seq"]})


def _emit(kb: str, event: str, payload: dict[str, Any], *, source: str | None = None) -> None:
    resource = {"prefect.resource.id": f"kbcore.knowledge-base.{kb}", "prefect.resource.name": kb}
    if source is not None:
        resource = {"prefect.resource.id": f"kbcore.source.{kb}.{source}", "prefect.resource.name": source}
    emit_event(event, resource=resource, payload=payload)
