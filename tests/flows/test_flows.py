"""The flows under a real Prefect server of their own, and the deployments against their flows' signatures."""

from __future__ import annotations

import inspect
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from flows.artifacts import cell, key_for, refresh_report
from flows.deployments import deployments
from kbcore.config import load
from kbcore.knowledge_base import open_repository
from tests.support import DOCUMENTS, ROOT, write


@pytest.fixture(scope="module")
def prefect() -> Iterator[None]:
    from prefect.testing.utilities import prefect_test_harness

    with prefect_test_harness(server_startup_timeout=180):
        yield


def set_up(root: Path) -> Path:
    write(root / "docs", DOCUMENTS)
    config = root / "kb.toml"
    config.write_text(
        f'[kb]\nname = "flow-test"\nrepository = "{root}/releases"\n'
        f'[[sources]]\nname = "docs"\npath = "{root}/docs"\n'
        '[embedder]\nprovider = "hashing"\n[schedule]\ncron = "15 5 * * 1"\ntimezone = "Europe/Berlin"\n'
    )
    return config


def test_the_flows_publish_promote_and_roll_back_and_leave_artifacts(prefect: None, tmp_path: Path) -> None:
    from prefect.client.orchestration import get_client

    from flows.freshness import freshness
    from flows.rollback import rollback

    config = set_up(tmp_path)
    first = freshness(str(config))
    assert (first["release"], first["promoted"]) == ("r000001", True)
    write(tmp_path / "docs", {"vpn.md": "# VPN\n\nWrong.\n"})
    assert freshness(str(config))["release"] == "r000002"
    record = rollback("it was wrong", config=str(config))
    assert (record["kind"], record["release"]) == ("rollback", "r000001")
    assert open_repository(config).repository.state().release == "r000001"
    with get_client(sync_client=True) as client:
        artifacts = {artifact.key: str(artifact.data) for artifact in client.read_artifacts()}
    assert "r000001" in artifacts["kb-refresh-flow-test"]
    assert "| release |" in artifacts["kb-releases-flow-test"]


def test_the_flow_comes_to_the_same_release_as_the_command(prefect: None, tmp_path: Path) -> None:
    from flows.freshness import freshness

    by_flow = open_repository_after(lambda config: freshness(str(config)), tmp_path / "flow")
    by_command = open_repository_after(kb_refresh, tmp_path / "command")
    assert by_flow == by_command


def open_repository_after(run: object, root: Path) -> str:
    config = set_up(root)
    run(config)  # type: ignore[operator]
    return open_repository(config).repository.manifest("r000001").content_digest


def kb_refresh(config: Path) -> None:
    for verb in ("init", "refresh"):
        subprocess.run(
            [sys.executable, "-m", "kbcore.cli", verb, "--config", str(config)],
            cwd=ROOT,
            check=True,
            capture_output=True,
        )


def test_every_deployment_fits_its_flow_and_the_configuration(tmp_path: Path) -> None:
    config = load(set_up(tmp_path))
    found = deployments(config)
    assert [d.flow.name for d in found] == ["freshness", "rollback"]
    for deployment in found:
        signature = inspect.signature(deployment.flow.fn)
        assert set(deployment.parameters) <= set(signature.parameters)
        required = {n for n, p in signature.parameters.items() if p.default is inspect.Parameter.empty}
        assert required <= set(deployment.parameters)
        built = deployment.build()
        assert built.concurrency_limit == 1
        assert built.concurrency_options is not None
        assert built.concurrency_options.collision_strategy == "CANCEL_NEW"
    schedule = found[0].build().schedules[0].schedule
    assert (schedule.cron, schedule.timezone) == ("15 5 * * 1", "Europe/Berlin")


def test_text_of_documents_cannot_write_markup_into_an_artifact() -> None:
    hostile = "<script>x</script> | [a](http://b) `c`\n# d"
    shown = cell(hostile)
    assert "<script>" not in shown.replace("\\<", "")
    assert "\n" not in shown
    for address in ("https://evil.example/x", "www.evil.example", "mailto:a@evil.example", "a@evil.example"):
        # GitHub's Markdown makes links of bare addresses: https://github.github.com/gfm/#autolinks-extension-
        assert not re.search(r"https?://|www\.|mailto:|@", cell(f"see {address}"))
    report = {
        "outcome": "published", "release": "r000001", "promoted": True, "not_promoted": None, "changes": {"added": 1},
        "texts_embedded": 1, "texts_reused": 0, "bytes_written": 10, "withheld_removals": [hostile],
        "failures": [{"doc_id": hostile, "reason": hostile, "since": "now", "carried_over": False}],
    }  # fmt: skip
    assert "<script>" not in refresh_report(report, []).replace("\\<", "")
    assert key_for("KB refresh", "Help.Desk_1") == "kb-refresh-help-desk-1"


def test_prefect_reads_its_settings_from_the_project() -> None:
    out = subprocess.run(
        [sys.executable, "-c", "from prefect.settings import get_current_settings as s; c = s().server; "
         "print(c.analytics_enabled, c.ephemeral.startup_timeout_seconds)"],
        cwd=ROOT, capture_output=True, text=True, check=True, env={**os.environ, "PREFECT_HOME": "prefect-home-unused"},
    ).stdout  # fmt: skip
    assert out.split() == ["False", "120"]
