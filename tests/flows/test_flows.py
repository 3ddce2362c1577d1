"""The flows under a real Prefect server of their own, and the deployments against their flows' signatures."""

from __future__ import annotations

import inspect
import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from flows import events
from flows.artifacts import age_table, cell, comparison_report, figure, gate_section, key_for, refresh_report
from flows.deployments import deployments
from kbcore.config import load
from kbcore.errors import ConfigError, SourceError
from kbcore.freshness import measure
from kbcore.ingest.refresh import refresh
from kbcore.knowledge_base import KnowledgeBase, open_repository
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
    assert [d.flow.name for d in found] == ["freshness", "maintenance", "rollback", "compare"]
    for deployment in found:
        signature = inspect.signature(deployment.flow.fn)
        assert set(deployment.parameters) <= set(signature.parameters)
        required = {n for n, p in signature.parameters.items() if p.default is inspect.Parameter.empty}
        # A rollback asks whoever starts it for the reason: one that is filled in says nothing in the log.
        assert required - set(deployment.parameters) == ({"reason"} if deployment.flow.name == "rollback" else set())
        built = deployment.build()
        assert built.concurrency_limit == 1
        assert built.tags == ["kbcore", "flow-test"]
        assert built.description not in (None, "", inspect.getdoc(deployment.flow.fn))
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
        "outcome": "refused", "release": "r000001", "promoted": False, "not_promoted": hostile, "changes": {"added": 1},
        "texts_embedded": 1, "texts_reused": 0, "texts_resumed": 0, "bytes_written": 10, "withheld_removals": [hostile],
        "failures": [{"doc_id": hostile, "reason": hostile, "since": "now", "carried_over": False}],
        "flagged": [{"doc_id": hostile, "flags": [hostile]}], "refused": [hostile], "promoted_from": None,
        "sources": [{"name": hostile, "type": "web", "listed_at": "now", "items": 1, "complete": False, "error": hostile}],
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


def test_the_settings_of_prefect_yaml_fit_the_flows_and_are_those_that_are_served() -> None:
    """Read by Prefect's own model, which drops what it does not know in silence."""
    from prefect.cli.deploy._models import PrefectYamlModel
    from prefect.utilities.importtools import load_script_as_module

    text = yaml.safe_load((ROOT / "prefect.yaml").read_text())
    declared = PrefectYamlModel.model_validate(text).deployments
    served = {deployment.name: deployment for deployment in deployments(load(ROOT / "config" / "kb.toml"))}
    assert {deployment.name for deployment in declared} == set(served)
    for written, deployment in zip(text["deployments"], declared, strict=True):
        assert set(written) <= set(type(deployment).model_fields)
        file, _, name = str(deployment.entrypoint).partition(":")
        flow = getattr(load_script_as_module(str(ROOT / file)), name)
        twin = served[str(deployment.name)]
        assert flow.name == twin.flow.name
        assert deployment.parameters == {**twin.parameters, "config": "config/kb.toml"}
        assert set(deployment.parameters) <= set(inspect.signature(flow.fn).parameters)
        assert deployment.concurrency_limit.limit == 1  # type: ignore[union-attr]
        assert deployment.concurrency_limit.collision_strategy == "CANCEL_NEW"  # type: ignore[union-attr]
        assert deployment.tags == list(twin.tags)
        assert str(deployment.description).split() == twin.description.split()
        crons = [schedule.cron for schedule in deployment.schedules or []]
        assert crons == ([twin.cron] if twin.cron else [])


def test_what_a_refresh_came_to_is_told_as_events_without_a_word_of_the_documents(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[tuple[str, dict[str, str], dict[str, object]]] = []
    monkeypatch.setattr(events, "emit_event", lambda event, resource, payload: told.append((event, resource, payload)))
    config = set_up(tmp_path)
    config.write_text(config.read_text().replace('name = "docs"', 'name = "docs"\nfreshness_target = "7d"'))
    base = KnowledgeBase(load(config))
    base.create()

    def run() -> list[str]:
        told.clear()
        report = refresh(base.repository, base.config).to_json()
        events.emit_refresh("desk", report, measure(base.repository, base.config, "r000001").to_json())
        return [event for event, _, _ in told]

    assert run() == ["kb.release.published", "kb.release.promoted"]
    assert run() == []
    write(tmp_path / "docs", dict.fromkeys(DOCUMENTS))
    base.repository.clock = lambda: datetime(2036, 1, 1, tzinfo=UTC)
    (tmp_path / "docs").rename(tmp_path / "away")
    with pytest.raises(SourceError):
        run()
    (tmp_path / "docs").mkdir()
    assert run() == ["kb.release.refused"]
    assert told[0][2]["reasons"] == ["4 removals are withheld"]
    # The same situation is told once, another one again.
    assert run() == []
    write(tmp_path / "docs", {"broken.html": b"\x00\x01\x02" * 99})
    assert run() == ["kb.release.refused"]
    assert run() == []
    write(tmp_path / "docs", {"broken.html": None})
    base.repository.clock = lambda: datetime(2037, 1, 1, tzinfo=UTC)
    told.clear()
    report = refresh(base.repository, base.config, dry_run=True).to_json()
    events.emit_refresh(
        "desk", {**report, "withheld_removals": []}, measure(base.repository, base.config, "r000001").to_json()
    )
    assert [(event, resource["prefect.resource.id"]) for event, resource, _ in told] == [
        ("kb.source.stale", "kbcore.source.desk.docs")
    ]


def test_maintenance_fails_where_a_file_is_damaged_and_says_which(prefect: None, tmp_path: Path) -> None:
    from flows.freshness import freshness
    from flows.maintenance import Unsound, maintenance

    config = set_up(tmp_path)
    freshness(str(config))
    assert maintenance(str(config))["findings"] == []
    damaged = next((tmp_path / "releases").rglob("vectors.parquet"))
    data = bytearray(damaged.read_bytes())
    data[len(data) // 2] ^= 1
    damaged.write_bytes(data)
    with pytest.raises(Unsound, match="1 file is not as written"):
        maintenance(str(config))


def test_a_deployment_on_a_schedule_of_seconds_publishes_release_after_release(tmp_path: Path) -> None:
    """On a server of its own, as `make serve` starts it; the events it sends are there to be acted on."""
    config = set_up(tmp_path)
    config.write_text(config.read_text() + 'every = "8s"\nmaintenance = ""\n')
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT_")}
    environment |= {"PREFECT_HOME": str(tmp_path / "prefect"), "DO_NOT_TRACK": "1", "PYTHONPATH": str(ROOT)}
    log = tmp_path / "log"
    with open(log, "wb") as out:
        serving = subprocess.Popen(
            [sys.executable, "-u", "-m", "flows.deployments", str(config)],
            cwd=ROOT, env=environment, stdout=out, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
    try:
        wait_for_release(config, "r000001", serving, log)
        write(tmp_path / "docs", {"vpn.md": "# VPN\n\nAnother text.\n"})
        wait_for_release(config, "r000002", serving, log)
        url = next(iter(re.findall(r"http://127\.0\.0\.1:\d+", log.read_text())))
        asked = urllib.request.Request(
            f"{url}/api/events/filter",
            data=json.dumps({"filter": {"event": {"prefix": ["kb."]}}}).encode(),
            headers={"Content-Type": "application/json"},
        )
        deadline = time.monotonic() + 30
        told: set[str] = set()
        while not told >= {"kb.release.published", "kb.release.promoted"}:
            assert time.monotonic() < deadline, told
            with urllib.request.urlopen(asked, timeout=10) as answer:
                told = {event["event"] for event in json.load(answer)["events"]}
            time.sleep(0.5)
    finally:
        os.killpg(serving.pid, signal.SIGINT)
        try:
            serving.wait(30)
        except subprocess.TimeoutExpired:
            os.killpg(serving.pid, signal.SIGKILL)


def wait_for_release(config: Path, release: str, serving: subprocess.Popen[bytes], log: Path) -> None:
    base = KnowledgeBase(load(config))
    deadline = time.monotonic() + 180
    while not (base.exists() and open_repository(config).repository.state().release == release):
        assert serving.poll() is None, log.read_text()
        assert time.monotonic() < deadline, log.read_text()[-3000:]
        time.sleep(0.3)


def with_questions(root: Path, config: Path) -> None:
    lines = [
        {"id": "vpn", "question": "ERR-4012 | gateway", "expected": [{"doc_id": "docs:vpn.md"}], "tags": ["canary"]},
        {"id": "phone", "question": "lost phone wiped", "expected": [{"doc_id": "docs:phones.html"}]},
    ]
    (root / "set.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    config.write_text(config.read_text() + f'[gate]\nevalset = "{root}/set.jsonl"\n')


def test_a_refusal_of_the_gate_reaches_artifact_and_event_and_the_comparison_says_why(
    prefect: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from flows.compare import compare
    from flows.freshness import freshness

    told: list[tuple[str, dict[str, object]]] = []
    monkeypatch.setattr(events, "emit_event", lambda event, resource, payload: told.append((event, payload)))
    config = set_up(tmp_path)
    with_questions(tmp_path, config)
    assert freshness(str(config))["gate"]["verdict"] == "no_baseline"
    write(tmp_path / "docs", {"vpn.md": None})
    told.clear()
    report = freshness(str(config))
    assert (report["release"], report["promoted"], report["gate"]["verdict"]) == ("r000002", False, "fail")
    assert [event for event, _ in told] == ["kb.release.published", "kb.release.refused"]
    payload = told[1][1]
    assert (payload["release"], payload["verdict"]) == ("r000002", "fail")
    assert "canary questions not found any more: 1" in payload["reasons"]  # type: ignore[operator]
    assert "gateway" not in str(payload)
    found = compare(config=str(config))
    assert (found["old"], found["new"]) == ("r000001", "r000002")
    left = artifacts()
    refused = left["kb-refresh-flow-test"]
    assert "### Gate: fail against r000001" in refused
    assert "| nDCG&#64;10 | 1.000 | 0.500 |" in refused
    assert "document deleted: docs:vpn.md is not in r000002" in refused
    compared = left["kb-compare-flow-test"]
    assert "gateway" not in str(last_run("freshness").state.message)
    assert "| lost | vpn |" in compared
    assert "document deleted: docs:vpn.md is not in r000002" in compared
    # Told not to ask, the flow promotes it.
    assert freshness(str(config), gate=False)["promoted"]


def test_what_the_gate_and_a_comparison_say_cannot_write_markup() -> None:
    hostile = "<script>x</script> | [a](http://b) `c`\n# d"
    cause = {"kind": "title changed", "said": hostile}
    gate = {
        "verdict": "fail", "baseline": "r000001", "release": "r000002", "measures": {hostile: {"new": 1.0}},
        "findings": [{"check": "canary", "verdict": "fail", "said": hostile}],
        "causes": [{"id": hostile, "question": hostile, "causes": [cause]}],
    }  # fmt: skip
    paired = {"old": 1.0, "new": 0.5, "difference": -0.5, "low": -1.0, "high": 0.0, "p_value": 0.5, "wins": 0, "losses": 1,
              "count": 2}  # fmt: skip
    counts = dict.fromkeys(("no_answer", "no_answer_answered", "answerable", "answerable_abstained"), 0)
    changed = {"kind": "lost", "id": hostile, "question": hostile, "old": {"nDCG@10": 1.0}, "new": {"nDCG@10": 0.5},
               "old_outcome": "answered", "new_outcome": hostile, "causes": [cause]}  # fmt: skip
    found = {
        "old": "r000001", "new": "r000002", "set": {"name": hostile}, "settings": {"mode": "hybrid", "k": 5}, "judged": 2,
        "unjudged": [], "measures": {"nDCG@10": paired}, "abstention": {"old": counts, "new": counts},
        "similarity": {"rbo": 0.5}, "changed": [changed] * 150,
    }  # fmt: skip
    for text in ("\n\n".join(gate_section(gate)), comparison_report(found)):
        assert "<script>" not in text.replace("\\<", "")
        assert not re.search(r"(?<!\\)[`\[]|http://|^# d", text, re.MULTILINE)
    assert "and 50 more" in comparison_report(found)


def artifacts() -> dict[str, str]:
    from prefect.client.orchestration import get_client

    with get_client(sync_client=True) as client:
        found = sorted(client.read_artifacts(), key=lambda artifact: str(artifact.created))
    return {str(artifact.key): str(artifact.data) for artifact in found}


def last_run(kind: str) -> Any:
    from prefect.client.orchestration import get_client
    from prefect.client.schemas.filters import FlowFilter, FlowFilterName
    from prefect.client.schemas.sorting import FlowRunSort

    with get_client(sync_client=True) as client:
        runs = client.read_flow_runs(
            flow_filter=FlowFilter(name=FlowFilterName(any_=[kind])), sort=FlowRunSort.START_TIME_DESC, limit=1
        )
    return runs[0]


def two_sources(root: Path) -> Path:
    config = set_up(root)
    write(root / "more", {"more.md": "# More\n\nOf everything.\n"})
    more = f'[[sources]]\nname = "more"\npath = "{root}/more"\n[embedder]'
    config.write_text(config.read_text().replace("[embedder]", more))
    return config


def test_a_run_without_one_of_its_sources_fails_with_the_sentence_and_an_event_though_the_rest_ships(
    prefect: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from flows.freshness import freshness
    from flows.runs import SourcesFailed

    told: list[tuple[str, dict[str, str], dict[str, Any]]] = []
    monkeypatch.setattr(events, "emit_event", lambda event, resource, payload: told.append((event, resource, payload)))
    config = two_sources(tmp_path)
    freshness(str(config))
    run = last_run("freshness")
    assert re.fullmatch(r"flow-test \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC", run.name)
    assert run.state.message == "published r000001, promoted: 5 added; 0 failed, 0 withheld"
    (tmp_path / "more").rename(tmp_path / "away")
    write(tmp_path / "docs", {"new.md": "# New\n\nSomething about laptops.\n"})
    told.clear()
    with pytest.raises(SourcesFailed) as failure:
        freshness(str(config))
    assert (failure.value.report["release"], failure.value.report["promoted"]) == ("r000002", True)
    failed = [(resource["prefect.resource.id"], payload) for event, resource, payload in told if event == events.FAILED]
    assert [(name, payload["source"]) for name, payload in failed] == [("kbcore.source.flow-test.more", "more")]
    assert "does not exist" in failed[0][1]["reason"]
    run = last_run("freshness")
    assert run.state.type == "FAILED"
    assert run.state.message.startswith("source 'more': ")
    assert run.state.message.count("more'") == 1
    assert "apart from that: published r000002, promoted: 1 added" in run.state.message
    assert "does not exist" in artifacts()["kb-refresh-failed-flow-test"]


def test_a_failed_run_logs_its_sentence_and_no_traceback_and_leaves_the_remedy(
    prefect: None, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    from flows.freshness import freshness

    told: list[str] = []
    monkeypatch.setattr(events, "emit_event", lambda event, resource, payload: told.append(event))
    config = set_up(tmp_path)
    (tmp_path / "docs").rename(tmp_path / "away")
    with caplog.at_level("INFO"), pytest.raises(SourceError):
        freshness(str(config))
    assert told == [events.FAILED]
    said = [record for record in caplog.records if "does not exist" in record.getMessage()]
    assert said
    assert not any(record.exc_info and record.exc_info[0] for record in caplog.records)
    run = last_run("freshness")
    assert (run.state.type, "does not exist" in run.state.message) == ("FAILED", True)
    report = artifacts()["kb-refresh-failed-flow-test"]
    assert "does not exist" in report
    assert "**To do:**" in report


def test_a_configuration_that_does_not_load_fails_the_run_with_the_sentence(prefect: None, tmp_path: Path) -> None:
    from flows.freshness import freshness

    config = set_up(tmp_path)
    config.write_text(config.read_text().replace("15 5 * * 1", "99 99 * * *"))
    with pytest.raises(ConfigError, match="the minute '99' is not from 0 to 59"):
        freshness(str(config))
    assert "the minute '99'" in last_run("freshness").state.message


def test_removals_that_are_withheld_come_first_with_both_ways_to_approve_them(prefect: None, tmp_path: Path) -> None:
    from flows.freshness import freshness

    config = set_up(tmp_path)
    freshness(str(config))
    write(tmp_path / "docs", dict.fromkeys(DOCUMENTS))
    freshness(str(config))
    report = artifacts()["kb-refresh-flow-test"].replace("\\", "")
    assert report.startswith("## 4 removals withheld\n")
    assert "run this deployment with approve_removals = 4" in report
    assert f"kb refresh -c {config} --approve-removals 4" in report
    assert freshness(str(config), approve_removals=4)["changes"]["removed"] == 4


def test_the_artifact_of_a_rollback_has_reason_and_hold_and_its_event_whence(
    prefect: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from flows.freshness import freshness
    from flows.rollback import rollback

    config = set_up(tmp_path)
    freshness(str(config))
    write(tmp_path / "docs", {"vpn.md": "# VPN\n\nWrong.\n"})
    freshness(str(config))
    told: list[tuple[str, dict[str, Any]]] = []
    monkeypatch.setattr(events, "emit_event", lambda event, resource, payload: told.append((event, payload)))
    rollback("it was <wrong>", config=str(config))
    report = artifacts()["kb-releases-flow-test"]
    assert "## Readers went back from r000002 to r000001" in report
    assert r"**Reason:** it was \<wrong\>" in report
    assert r"**On hold:** it was \<wrong\>" in report
    assert [(event, payload["reason"], payload["from"], payload["release"]) for event, payload in told] == [
        (events.PROMOTED, "it was <wrong>", "r000002", "r000001")
    ]
    assert "rolled back from r000002 to r000001" in last_run("rollback").state.message


def test_maintenance_tells_of_sources_that_are_stale(
    prefect: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from flows.freshness import freshness
    from flows.maintenance import maintenance

    config = set_up(tmp_path)
    freshness(str(config))
    config.write_text(config.read_text().replace('name = "docs"', 'name = "docs"\nfreshness_target = "7d"'))
    monkeypatch.setattr("kbcore.freshness.age_days", lambda then, now: 9.0)
    told: list[str] = []
    monkeypatch.setattr(events, "emit_event", lambda event, resource, payload: told.append(event))
    maintenance(str(config))
    assert told == [events.STALE]


def test_ages_and_yes_or_no_are_written_for_people() -> None:
    source = {"source": "docs", "documents": 4, "confirmed_at": "now", "age_days": 1.234567, "target_days": 0.3333333333,
              "stale": True, "error": None, "carried_over": 0, "withheld": 0}  # fmt: skip
    shown = age_table({"sources": [source]})
    assert "| 1.2 | 0.33 | stale |" in shown
    assert "True" not in shown
    assert [figure(days) for days in (None, 0.0417, 7.0, 30.0, 365.0)] == [None, "0.042", "7", "30", "365"]


def test_a_wrong_configuration_and_two_of_one_name_end_serving_with_the_sentence(tmp_path: Path) -> None:
    one, two = set_up(tmp_path / "one"), set_up(tmp_path / "two")

    def serve(*files: Path, **environment: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "flows.deployments", *map(str, files)]
        known = {**os.environ, "PREFECT_HOME": str(tmp_path / "prefect"), **environment}
        return subprocess.run(command, cwd=ROOT, env=known, capture_output=True, text=True, check=False)

    done = serve(one, two)
    assert (done.returncode, "Traceback" in done.stderr) == (2, False)
    assert f"{one} and {two} both name the knowledge base 'flow-test'" in done.stderr
    one.write_text(one.read_text().replace("15 5 * * 1", "99 99 * * *"))
    done = serve(KB_CONFIG=str(one))
    assert (done.returncode, "Traceback" in done.stderr) == (2, False)
    assert f"{one}: schedule.cron: the minute '99'" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "environment", "served"),
    [
        ([], {}, "config/kb.toml"),
        (["CONFIG=one.toml two.toml"], {}, "one.toml two.toml"),
        ([], {"KB_CONFIG": "mine.toml"}, "mine.toml"),
        ([], {"CONFIG": "mine.toml"}, "mine.toml"),
    ],
)
def test_make_serve_serves_the_files_that_are_named(
    arguments: list[str], environment: dict[str, str], served: str
) -> None:
    known = {name: value for name, value in os.environ.items() if name not in ("CONFIG", "KB_CONFIG", "MAKEFLAGS")}
    done = subprocess.run(
        ["make", "--no-print-directory", "-n", "-o", "install", "serve", *arguments],
        cwd=ROOT, env={**known, **environment}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.strip().splitlines()[-1].endswith(f"-m flows.deployments {served}")
    assert "DO_NOT_TRACK=1" in done.stdout


def test_no_flow_file_has_the_name_of_a_module_of_python() -> None:
    """Prefect puts the folder of a flow first on the path, for worker processes too: ours would be taken for Python's."""
    names = {path.stem for path in (ROOT / "flows").glob("*.py")} - {"__init__"}
    assert not names & sys.stdlib_module_names
