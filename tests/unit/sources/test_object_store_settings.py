"""The settings of a source in an object store."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from kbcore.config import load
from kbcore.config.sources import ObjectStoreSection
from kbcore.errors import ConfigError
from kbcore.sources import make_source

CANARY = "canary/Of+The40CharactersThatAreASecretKey"
ACCESS = "AKIACANARYCANARY0001"


def configured(tmp_path: Path, text: str) -> ObjectStoreSection:
    (tmp_path / "kb.toml").write_text(f'[kb]\nname = "k"\n[[sources]]\nname = "b"\ntype = "object_store"\n{text}\n')
    section = load(tmp_path / "kb.toml", {}).sources[0]
    assert isinstance(section, ObjectStoreSection)
    return section


def test_a_bucket_and_a_folder_are_read_from_the_url(tmp_path: Path) -> None:
    section = configured(tmp_path, 'url = "s3://bucket/team/hand book/"\nregion = "eu-west-1"')
    assert (section.scheme, section.bucket, section.prefix) == ("s3", "bucket", "team/hand book")
    assert configured(tmp_path, 'url = "gs://bucket"').prefix == ""


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('url = "ftp://bucket/x"', "looks like s3://"),
        ('url = "file:///tmp"', "looks like s3://"),
        ('url = "s3://bucket//x"', "prefix is a folder"),
        ('url = "s3://bucket/a/../x"', "prefix is a folder"),
        ('url = "s3://bucket"\nendpoint = "http://store.example.org"', "allow_http = true"),
        ('url = "s3://bucket"\nendpoint = "store.example.org"', "is a server such as https://"),
        ('url = "s3://bucket"\naccess_key_env = "A"', "go together"),
        ('url = "s3://bucket"\nanonymous = true\naccess_key_env = "A"\nsecret_key_env = "B"', "exclude each other"),
        ('url = "gs://bucket"\nregion = "x"', "s3:// only"),
        ('url = "gs://bucket"\nendpoint = "https://x.example.org"', "no endpoint"),
        ('url = "s3://bucket"\naccount = "somebody"', "az:// only"),
        ('url = "az://box"\nsecret_key_env = "A"\nsession_token_env = "B"', "one of"),
        ('url = "s3://bucket"\nbuckets = 1', "unknown key"),
    ],
)
def test_settings_that_cannot_be_meant_are_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        configured(tmp_path, text)


@pytest.mark.parametrize(
    "text",
    [
        f'url = "s3://{ACCESS}:{CANARY}@bucket/x"',
        f'url = "s3://bucket"\nendpoint = "https://me:{CANARY}@store.example.org"',
        f'url = "s3://bucket"\nendpoint = "https://store.example.org?sig={CANARY}"',
        f'url = "s3://bucket"\naccess_key_env = "A"\nsecret_key_env = "{CANARY}"',
        f'url = "s3://bucket"\nendpoint = "http://x.example.org"\naccess_key_env = "{CANARY}"',
    ],
)
def test_a_secret_written_into_the_configuration_is_not_shown(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigError) as error:
        configured(tmp_path, text)
    assert CANARY not in str(error.value)


def test_without_obstore_such_a_source_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    section = ObjectStoreSection.model_validate({"name": "docs", "type": "object_store", "url": "s3://bucket"})
    monkeypatch.setitem(sys.modules, "obstore", None)
    with pytest.raises(ConfigError, match="obstore is not installed") as error:
        make_source(section, cache=Path("unused"))
    assert error.value.remedy == "pip install 'kbcore[objects]'"
