"""Figures of a server in the text format of Prometheus, in a registry of their own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from prometheus_client import CollectorRegistry, Counter, Histogram, disable_created_metrics, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from kbcore.errors import KbError
from kbcore.serving.bases import Bases
from kbcore.serving.pools import Pool
from kbcore.types import SearchResult

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
METHODS = frozenset({"GET", "POST", "HEAD", "OPTIONS", "PUT", "PATCH", "DELETE"})
BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Metrics:
    """What one server counted since it started."""

    def __init__(self, bases: Bases, pools: Mapping[str, Pool]) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]  # else each series has a twin that says when it began
        self.registry = CollectorRegistry()
        self._requests = Counter(
            "kb_http_requests", "Requests by route, method and status.", ["route", "method", "status"],
            registry=self.registry,
        )  # fmt: skip
        self._seconds = Histogram(
            "kb_http_request_seconds", "From the first byte of a request's head to its answer.", ["route"],
            buckets=BUCKETS, registry=self.registry,
        )  # fmt: skip
        self._searches = Counter(
            "kb_searches", "Searches by knowledge base, mode and outcome.", ["kb", "mode", "outcome"],
            registry=self.registry,
        )  # fmt: skip
        self._evidence = Counter(
            "kb_search_evidence", "Searches by what their evidence says beside the outcome.", ["kb", "kind"],
            registry=self.registry,
        )  # fmt: skip
        self.registry.register(_State(bases, pools))

    def answered(self, route: str, method: str, status: int, seconds: float) -> None:
        """One request; ``route`` is the template of its address, so that callers cannot make up names of series."""
        self._requests.labels(route, method if method in METHODS else "other", str(status)).inc()
        self._seconds.labels(route).observe(seconds)

    def searched(self, kb: str, result: SearchResult) -> None:
        self._searches.labels(kb, result.mode, result.outcome).inc()
        evidence = result.evidence
        for kind in ("blank_query", "query_truncated", "unknown_codes", "filter", "known"):
            if evidence.get(kind):
                self._evidence.labels(kb, kind).inc()

    def text(self) -> bytes:
        return generate_latest(self.registry)


class _State(Collector):
    """What is so now, looked up when it is asked for."""

    def __init__(self, bases: Bases, pools: Mapping[str, Pool]) -> None:
        self._bases = bases
        self._pools = pools

    def collect(self) -> Iterator[Metric]:
        release = GaugeMetricFamily("kb_current_release_info", "The release that answers.", labels=["kb", "release"])
        opened = GaugeMetricFamily("kb_open_retrievers", "Releases that are open.", labels=["kb"])
        behind = GaugeMetricFamily(
            "kb_promotion_not_followed", "1 where the promoted release is not the one that answers.", labels=["kb"]
        )
        for name, entry in self._bases.items():
            opened.add_metric([name], len(entry.opened()))
            try:
                live = entry.live()
                release.add_metric([name, live.release], 1)
                behind.add_metric([name], 1 if live.problem else 0)
            except (KbError, OSError):
                behind.add_metric([name], 1)
        waiting = GaugeMetricFamily("kb_pool_requests", "Requests that run or wait for a thread.", labels=["pool"])
        away = CounterMetricFamily("kb_pool_turned_away", "Requests refused as too many waited.", labels=["pool"])
        for name, pool in self._pools.items():
            waiting.add_metric([name], pool.pending)
            away.add_metric([name], pool.turned_away)
        yield from (release, opened, behind, waiting, away)

    def describe(self) -> Iterator[Metric]:
        return iter(())
