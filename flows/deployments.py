"""Deployments: freshness on the schedule of the configuration, one run at a time; maintenance; rollback
and comparison on demand.

``python -m flows.deployments [config ...]`` serves them until it is stopped. Where PREFECT_API_URL names no server, one
is started on this machine, with its database on disk, and stopped with it.
"""

from __future__ import annotations

import datetime
import sys
from dataclasses import dataclass, field
from typing import Any

from prefect import serve
from prefect.client.schemas.objects import ConcurrencyLimitConfig, ConcurrencyLimitStrategy
from prefect.deployments.runner import RunnerDeployment
from prefect.flows import Flow
from prefect.schedules import Cron, Interval, Schedule

from flows.compare import compare
from flows.freshness import freshness
from flows.maintenance import maintenance
from flows.rollback import rollback
from flows.server import local_server
from kbcore.config import DEFAULT_FILE, Config, load


@dataclass(frozen=True)
class Deployment:
    """One deployment as plain values, so that it can be checked against its flow without a server."""

    flow: Flow[..., Any]
    name: str
    parameters: dict[str, Any]
    cron: str | None = None
    every_seconds: int | None = None
    timezone: str = "UTC"
    tags: tuple[str, ...] = field(default=("kbcore",))

    def schedule(self) -> Schedule | None:
        if self.every_seconds is not None:
            return Interval(datetime.timedelta(seconds=self.every_seconds), timezone=self.timezone, slug="schedule")
        return Cron(self.cron, timezone=self.timezone, slug="schedule") if self.cron else None

    def build(self) -> RunnerDeployment:
        schedule = self.schedule()
        # CANCEL_NEW: a run that would start while another works is dropped, the next one sees what it would have seen.
        deployment = self.flow.to_deployment(
            name=self.name,
            parameters=self.parameters,
            schedules=[schedule] if schedule else None,
            concurrency_limit=ConcurrencyLimitConfig(limit=1, collision_strategy=ConcurrencyLimitStrategy.CANCEL_NEW),
            tags=list(self.tags),
        )
        assert isinstance(deployment, RunnerDeployment)
        return deployment


def deployments(config: Config) -> list[Deployment]:
    """What is served for one knowledge base."""
    kb, schedule = config.kb.name, config.schedule
    parameters = {"config": config.file}
    return [
        Deployment(freshness, f"freshness-{kb}", parameters, schedule.cron, schedule.every_seconds, schedule.timezone),
        Deployment(maintenance, f"maintenance-{kb}", parameters, schedule.maintenance or None, None, schedule.timezone),
        Deployment(rollback, f"rollback-{kb}", {**parameters, "reason": "started from Prefect"}),
        Deployment(compare, f"compare-{kb}", parameters),
    ]


def main(*configs: str) -> None:
    """Serve the deployments of one knowledge base or several."""
    found = [deployment for config in configs or (DEFAULT_FILE,) for deployment in deployments(load(config))]
    with local_server():
        serve(*(deployment.build() for deployment in found), pause_on_shutdown=False)


if __name__ == "__main__":
    main(*sys.argv[1:])
