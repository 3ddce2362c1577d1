"""Deployments: freshness on the cron of the configuration, one run at a time; rollback on demand.

``python -m flows.deployments [config]`` serves both until it is stopped; it needs a Prefect server (PREFECT_API_URL,
or ``prefect server start``).
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from typing import Any

from prefect import serve
from prefect.client.schemas.objects import ConcurrencyLimitConfig, ConcurrencyLimitStrategy
from prefect.deployments.runner import RunnerDeployment
from prefect.flows import Flow
from prefect.schedules import Cron

from flows.freshness import freshness
from flows.rollback import rollback
from kbcore.config import DEFAULT_FILE, Config, load


@dataclass(frozen=True)
class Deployment:
    """One deployment as plain values, so that it can be checked against its flow without a server."""

    flow: Flow[..., Any]
    name: str
    parameters: dict[str, Any]
    cron: str | None = None
    timezone: str = "UTC"
    tags: tuple[str, ...] = field(default=("kbcore",))

    def build(self) -> RunnerDeployment:
        # CANCEL_NEW: a run that would start while another works is dropped, the next one sees what it would have seen.
        deployment = self.flow.to_deployment(
            name=self.name,
            parameters=self.parameters,
            schedules=[Cron(self.cron, timezone=self.timezone, slug="schedule")] if self.cron else None,
            concurrency_limit=ConcurrencyLimitConfig(limit=1, collision_strategy=ConcurrencyLimitStrategy.CANCEL_NEW),
            tags=list(self.tags),
        )
        assert isinstance(deployment, RunnerDeployment)
        return deployment


def deployments(config: Config) -> list[Deployment]:
    """What is served for one knowledge base."""
    kb = config.kb.name
    parameters = {"config": config.file}
    return [
        Deployment(freshness, f"freshness-{kb}", parameters, config.schedule.cron, config.schedule.timezone),
        Deployment(rollback, f"rollback-{kb}", {**parameters, "reason": "started from Prefect"}),
    ]


def main(config: str = DEFAULT_FILE) -> None:
    serve(*(deployment.build() for deployment in deployments(load(config))), pause_on_shutdown=False)


if __name__ == "__main__":
    main(*sys.argv[1:2])
