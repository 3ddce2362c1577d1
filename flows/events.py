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
    if report["outcome"] == "refused":
        _emit(kb, REFUSED, {"release": release, "reasons": report["refused"], "run": report["run"]})
    elif report["withheld_removals"]:
        reason = f"{len(report['withheld_removals'])} removals are withheld"
        _emit(kb, REFUSED, {"release": release, "reasons": [reason], "run": report["run"]})
    if report["promoted"]:
        _emit(kb, PROMOTED, {"release": release, "from": report["promoted_from"], "run": report["run"]})
    emit_stale(kb, freshness)


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
