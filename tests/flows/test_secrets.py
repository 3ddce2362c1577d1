"""Secrets from blocks of a real Prefect server, for a source whose real server asks for them."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("dlt")

from flows.secret_blocks import block_name, secrets_of
from kbcore.config import load
from kbcore.config.sources import SECTION_OF
from kbcore.errors import SourceError
from kbcore.knowledge_base import open_repository
from kbcore.sources.secrets import ENVIRONMENT, Secrets
from tests.unit.sources.rest_server import Articles, Asked, Reply, Site, serving, zendesk

# Digits and an e: what Secret.get() would give back as a number.
TOKEN = "73190264e5"
USER = "agent-5150@example.com"


@pytest.fixture(scope="module")
def prefect() -> Iterator[None]:
    from prefect.testing.utilities import prefect_test_harness

    with prefect_test_harness(server_startup_timeout=180):
        yield


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    for name in ("KB_BLOCK_TOKEN", "KB_BLOCK_USER"):
        monkeypatch.delenv(name, raising=False)


def save(name: str, value: object) -> None:
    from prefect.blocks.system import Secret

    Secret(value=value).save(name, overwrite=True)  # type: ignore[type-var, arg-type]


def forget(*names: str) -> None:
    from prefect.blocks.system import Secret

    for name in names:
        try:
            Secret.delete(name)
        except ValueError:
            continue


def set_up(root: Path, url: str) -> Path:
    config = root / "kb.toml"
    config.write_text(
        f'[kb]\nname = "secret-test"\nrepository = "{root}/releases"\n'
        f'[[sources]]\nname = "desk"\ntype = "rest"\nrecipe = "zendesk"\nbase_url = "{url}"\nallow_http = true\n'
        'token_env = "KB_BLOCK_TOKEN"\nuser_env = "KB_BLOCK_USER"\nparameters = { locale = "en-us" }\n'
        '[embedder]\nprovider = "hashing"\n'
    )
    return config


def asking_for(token: str, user: str, seen: list[bool]) -> Site:
    """A help desk that answers to these credentials alone; ``seen`` gets whether they stand in the environment."""
    from base64 import b64encode

    right = "Basic " + b64encode(f"{user}/token:{token}".encode()).decode()
    answer = zendesk(Articles(6))

    def guarded(asked: Asked) -> Reply:
        seen.append(any(token in value for value in os.environ.values()))
        return answer(asked) if asked.headers.get("Authorization") == right else Reply({"error": "who?"}, 401)

    return Site(guarded)


def everything_prefect_keeps() -> str:
    """Logs, runs with their parameters and states, artifacts and events, as the API shows them."""
    from prefect.client.orchestration import get_client

    with get_client(sync_client=True) as client:
        found = []
        for kind in ("logs", "flow_runs", "task_runs", "artifacts", "events"):
            answer = client._client.post(f"/{kind}/filter", json={})
            answer.raise_for_status()
            found.append(json.dumps(answer.json()))
    assert "refresh" in found[2]
    assert "kb-refresh-secret-test" in found[3]
    return "\n".join(found)


def test_a_secret_block_is_sent_to_its_source_and_kept_nowhere(
    prefect: None, tmp_path: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    from flows.freshness import freshness
    from flows.maintenance import maintenance

    caplog.set_level(logging.DEBUG)
    save("kb-block-token", TOKEN)
    save("kb-block-user", USER)
    seen: list[bool] = []
    with serving(asking_for(TOKEN, USER, seen)) as site:
        config = set_up(tmp_path, site.url)
        report = freshness(str(config))
        checks = maintenance(str(config))["checks"]
    assert (report["promoted"], report["changes"]["added"]) == (True, 6)
    assert {check["name"]: check["status"] for check in checks}["source desk"] == "ok"
    assert seen
    assert not any(seen)
    out, err = capfd.readouterr()
    files = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    kept = [json.dumps(report), json.dumps(checks), caplog.text, out, err, everything_prefect_keeps()]
    for secret in (TOKEN, USER):
        assert not [text for text in kept if secret in text]
        assert not [data for data in files if secret.encode() in data]


def test_the_environment_comes_before_a_block(prefect: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save("kb-block-token", "of the block")
    monkeypatch.setenv("KB_BLOCK_TOKEN", "of the environment")
    config = load(set_up(tmp_path, "http://127.0.0.1:9"))
    assert secrets_of(config).get("KB_BLOCK_TOKEN") == "of the environment"
    monkeypatch.setenv("KB_BLOCK_TOKEN", " ")
    assert secrets_of(config).get("KB_BLOCK_TOKEN") == "of the block"


@pytest.mark.parametrize(
    ("saved", "text"),
    [("0123", "0123"), ("12", "12"), ("true", "true"), (12, "12"), ({"key": "x"}, '{"key": "x"}')],
)
def test_a_block_gives_what_was_saved_letter_by_letter(prefect: None, tmp_path: Path, saved: object, text: str) -> None:
    save("kb-block-token", saved)
    assert secrets_of(load(set_up(tmp_path, "http://127.0.0.1:9"))).get("KB_BLOCK_TOKEN") == text


def test_what_looks_secrets_up_shows_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KB_BLOCK_TOKEN", TOKEN)
    assert ENVIRONMENT.get("KB_BLOCK_TOKEN") == TOKEN
    assert TOKEN not in repr(ENVIRONMENT)
    assert TOKEN not in repr(Secrets({"KB_BLOCK_TOKEN": TOKEN}.get))


def test_a_secret_that_is_nowhere_is_named_with_both_places(prefect: None, tmp_path: Path) -> None:
    from flows.freshness import freshness

    forget("kb-block-token", "kb-block-user")
    with serving(asking_for(TOKEN, USER, [])) as site:
        config = set_up(tmp_path, site.url)
        with pytest.raises(SourceError) as error:
            freshness(str(config))
        assert site.asked == []
    assert "the environment variable KB_BLOCK_USER is not set" in error.value.message
    assert "there is no Prefect Secret block 'kb-block-user'" in error.value.message
    assert error.value.remedy == "export KB_BLOCK_USER=…, or save the Prefect Secret block 'kb-block-user'"
    assert open_repository(config).repository.releases() == []


def test_every_type_of_source_names_its_variables_and_never_what_is_none() -> None:
    sections = {
        "git": {"url": "https://git.example.org/x.git", "token_env": "A_TOKEN"},
        "web": {"start_urls": ["https://help.example.org/"], "token_env": "A_TOKEN"},
        "rest": {"recipe": "zendesk", "base_url": "https://x.example.org", "token_env": "A_TOKEN", "user_env": "s3/x="},
        "object_store": {"url": "s3://team-docs/x", "access_key_env": "A_TOKEN", "secret_key_env": "A_KEY"},
        "directory": {"path": "docs"},
    }
    assert sections.keys() == SECTION_OF.keys()
    named = {
        kind: SECTION_OF[kind].model_validate({"name": "x", "type": kind, **values}).variables()
        for kind, values in sections.items()
    }
    assert named == {
        "git": ("A_TOKEN",),
        "web": ("A_TOKEN",),
        "rest": ("A_TOKEN",),
        "object_store": ("A_TOKEN", "A_KEY"),
        "directory": (),
    }


def test_a_block_is_named_as_prefect_allows() -> None:
    assert block_name("RUNBOOKS_TOKEN_2") == "runbooks-token-2"
