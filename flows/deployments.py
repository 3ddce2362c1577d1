"""Deployments: freshness on the schedule of the configuration, one run at a time; maintenance; rollback
and comparison on demand.

``python -m flows.deployments [config ...]`` serves them until it is stopped. Where PREFECT_API_URL names no server, one
is started on this machine, with its database on disk, and stopped with it.
"""

from __future__ import annotations

import datetime
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
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
from flows.runs import in_words
from flows.server import ServerDidNotStart, local_server
from kbcore.config import DEFAULT_FILE, Config, load
from kbcore.errors import ConfigError, KbError


@dataclass(frozen=True)
class Deployment:
    """One deployment as plain values, so that it can be checked against its flow without a server."""

    flow: Flow[..., Any]
    name: str
    parameters: dict[str, Any]
    cron: str | None = None
    every_seconds: int | None = None
    timezone: str = "UTC"
    tags: tuple[str, ...] = ("kbcore",)
    description: str = ""

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
            description=self.description,
        )
        assert isinstance(deployment, RunnerDeployment)
        return deployment


FRESHNESS = (
    "Lists the sources, publishes what changed as a release and moves readers to it if it passes the gate. Run it by hand "
    "with approve_removals = N to let N withheld removals through, or with accept_failures to publish although too many "
    "documents failed."
)
MAINTENANCE = (
    "Reads every release in full and checks everything else. Changes nothing; fails if something needs a person."
)
ROLLBACK = (
    "Moves readers back to the release they had before, or to the one named in 'to', and sets a hold, so that no schedule "
    "moves them again. Asks for the reason, which the log keeps."
)
COMPARE = "Asks two releases the same questions and leaves what got better, what got worse and why as an artifact."


def deployments(config: Config) -> list[Deployment]:
    """What is served for one knowledge base. The rollback has no reason filled in: whoever starts it is asked."""
    kb, schedule = config.kb.name, config.schedule
    parameters = {"config": config.file}
    every, zone, tags = schedule.every_seconds, schedule.timezone, ("kbcore", kb)
    return [
        Deployment(freshness, f"freshness-{kb}", parameters, schedule.cron, every, zone, tags, FRESHNESS),
        Deployment(
            maintenance, f"maintenance-{kb}", parameters, schedule.maintenance or None, None, zone, tags, MAINTENANCE
        ),
        Deployment(rollback, f"rollback-{kb}", parameters, tags=tags, description=ROLLBACK),
        Deployment(compare, f"compare-{kb}", parameters, tags=tags, description=COMPARE),
    ]


def load_all(files: Sequence[str]) -> list[Config]:
    """The configurations of ``files``. ConfigError where two of them name one knowledge base: their deployments would
    replace each other."""
    found: dict[str, Config] = {}
    for file in files:
        config = load(file)
        if other := found.get(config.kb.name):
            raise ConfigError(
                f"{other.file} and {file} both name the knowledge base {config.kb.name!r}",
                remedy="give each a [kb] name of its own (KB_KB__NAME, where it is set, names them all)",
            )
        found[config.kb.name] = config
    return list(found.values())


def main(*files: str) -> None:
    """Serve the deployments of one knowledge base or several: of ``files``, else of KB_CONFIG, else config/kb.toml."""
    configs = load_all(files or (os.environ.get("KB_CONFIG") or DEFAULT_FILE,))
    found = [deployment for config in configs for deployment in deployments(config)]
    try:
        with local_server():
            serve(*(deployment.build() for deployment in found), pause_on_shutdown=False)
    except ServerDidNotStart as error:
        raise KbError(str(error), remedy="look at PREFECT_HOME, or name a server in PREFECT_API_URL") from None


if __name__ == "__main__":
    in_words(lambda: main(*sys.argv[1:]))
