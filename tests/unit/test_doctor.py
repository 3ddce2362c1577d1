"""The doctor finds what is not in place, names what mends it, and is not stopped by one finding from making the next."""

from __future__ import annotations

import errno
import importlib.metadata
import json
import os
import socket
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from kbcore import doctor
from kbcore.doctor import Check, examine, worst
from kbcore.embedding import reranking
from kbcore.embedding.embedder import identify
from kbcore.errors import EmbedderUnavailableError
from kbcore.fingerprint import sha256
from kbcore.ingest.publish import versions
from kbcore.knowledge_base import KnowledgeBase
from kbcore.promotion import hold
from kbcore.store import envelope, layout
from kbcore.store.lease import writer_lease
from kbcore.store.objects import LocalStore
from kbcore.store.probe import ProbeResult
from tests.cross_encoder import write_cross_encoder
from tests.support import ROOT, knowledge_base, refreshed, write

CONFIG = """
[kb]
name = "test"
repository = "{root}/releases"
[[sources]]
name = "docs"
path = "{root}/docs"
[embedder]
provider = "hashing"
dimension = {dimension}
"""


def configuration(root: Path, dimension: int = 64, more: str = "") -> Path:
    file = root / "kb.toml"
    file.write_text(CONFIG.format(root=root, dimension=dimension) + more)
    return file


def examined(root: Path, environ: Mapping[str, str] | None = None, dimension: int = 64) -> dict[str, Check]:
    checks = examine(configuration(root, dimension), environ or {})
    for check in checks:
        assert check.status in ("ok", "warn", "fail", "skipped")
        assert check.detail, check
        assert check.remedy or check.status in ("ok", "skipped"), check
    json.dumps([check.to_json() for check in checks])
    return {check.name: check for check in checks}


@pytest.fixture
def base(tmp_path: Path) -> KnowledgeBase:
    """Two releases, the second current."""
    made = knowledge_base(tmp_path)
    refreshed(made)
    write(tmp_path / "docs", {"new.md": "# New\n\nA new page.\n"})
    refreshed(made)
    return made


def damage(base: KnowledgeBase, name: str) -> None:
    path = base.folder / name
    path.write_bytes(path.read_bytes()[:-1])


def test_a_knowledge_base_that_is_well_has_no_failure(base: KnowledgeBase, tmp_path: Path) -> None:
    found = examined(tmp_path)
    assert worst(list(found.values())) == 0
    assert {name for name, check in found.items() if check.status != "ok"} <= {"embedder", "storage free space"}
    assert found["current"].detail == "r000002, read in full"
    assert base.store.list(layout.STAGING) == []


def test_only_a_failure_ends_with_1() -> None:
    by_status = {status: worst([Check("x", status, "d")]) for status in ("ok", "warn", "skipped", "fail")}
    assert by_status == {"ok": 0, "warn": 0, "skipped": 0, "fail": 1}


def test_without_a_configuration_what_rests_on_it_is_skipped_and_not_passed(tmp_path: Path) -> None:
    found = {check.name: check for check in examine(tmp_path / "none.toml", {})}
    assert (found["configuration"].status, "kb init" in found["configuration"].remedy) == ("fail", True)
    assert {found[name].status for name in ("sources", "embedder", "repository")} == {"skipped"}
    assert found["libraries"].status == "ok"


def test_a_wrong_key_is_named(tmp_path: Path) -> None:
    found = {c.name: c for c in examine(configuration(tmp_path, more="[retrieval]\nmoed = 'hybrid'\n"), {})}
    assert "did you mean 'mode'" in found["configuration"].detail
    assert found["configuration"].remedy


def test_settings_of_the_environment_that_is_given_count(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    found = examined(tmp_path, {"KB_KB__REPOSITORY": str(tmp_path / "elsewhere")})
    assert "elsewhere" in found["repository"].detail


def test_without_a_repository_the_other_checks_still_run(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    found = examined(tmp_path)
    assert (found["repository"].status, found["repository"].remedy) == ("fail", "kb init")
    assert (found["storage"].status, found["releases"].status) == ("skipped", "skipped")
    assert found["source docs"].status == "ok"


def test_a_source_folder_that_is_not_there_is_found(base: KnowledgeBase, tmp_path: Path) -> None:
    (tmp_path / "docs").rename(tmp_path / "unmounted")
    found = examined(tmp_path)
    assert found["source docs"].status == "fail"
    assert "kb.toml" in found["source docs"].remedy
    assert found["current"].status == "ok"


def test_before_the_first_refresh_the_doctor_says_so(tmp_path: Path) -> None:
    knowledge_base(tmp_path)
    found = examined(tmp_path)
    assert (found["releases"].status, found["releases"].remedy) == ("warn", "kb refresh")
    assert found["storage"].status == "ok" or "storage free space" in found


def test_nothing_current_is_a_warning(tmp_path: Path) -> None:
    refreshed(knowledge_base(tmp_path), promote=False)
    assert examined(tmp_path)["current"].status == "warn"


def test_a_newer_release_that_readers_do_not_get_is_a_warning(base: KnowledgeBase, tmp_path: Path) -> None:
    write(tmp_path / "docs", {"more.md": "# More\n\nAnother page.\n"})
    refreshed(base, promote=False)
    found = examined(tmp_path)["head"]
    assert (found.status, found.detail) == ("warn", "r000003 is newer than r000002 and not promoted")
    assert "kb promote" in found.remedy


def test_a_hold_is_a_warning_with_its_reason(base: KnowledgeBase, tmp_path: Path) -> None:
    hold(base.repository, reason="migration week", run=base.repository.begin("ada"))
    found = examined(tmp_path)["hold"]
    assert (found.status, "migration week (ada" in found.detail) == ("warn", True)
    assert "kb hold --lift" in found.remedy


@pytest.mark.parametrize("part", ["manifests/r000002.json", "promotions/000002.json"])
def test_damage_of_what_readers_get_is_a_failure(base: KnowledgeBase, tmp_path: Path, part: str) -> None:
    damage(base, part)
    found = examined(tmp_path)
    assert any(check.status == "fail" and part in check.detail for check in found.values())
    assert "prefect" in found


def test_a_damaged_segment_is_named_with_the_way_back(base: KnowledgeBase, tmp_path: Path) -> None:
    name = next(n for n in base.store.list(layout.SEGMENTS) if n.endswith(layout.VECTORS_FILE))
    damage(base, name)
    found = examined(tmp_path)["current"]
    assert (found.status, name in found.detail, "kb rollback" in found.remedy) == ("fail", True, True)


def test_a_repository_file_that_is_damaged_does_not_stop_the_other_checks(base: KnowledgeBase, tmp_path: Path) -> None:
    damage(base, layout.REPOSITORY)
    found = examined(tmp_path)
    assert found["repository"].status == "fail"
    assert {found["storage"].status, found["source docs"].status, found["prefect"].status} == {"ok"}


def test_an_embedder_that_does_not_load_is_a_failure(
    base: KnowledgeBase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(spec: object, **_: object) -> None:
        raise EmbedderUnavailableError("no such model", remedy="fetch it")

    monkeypatch.setattr(doctor, "make", missing)
    found = examined(tmp_path)
    assert (found["embedder"].status, found["embedder"].detail) == ("fail", "no such model")
    assert found["current"].status == "ok"


def release_of(base: KnowledgeBase, model: str, probes: object = None) -> None:
    """A release whose embedder has the name ``model``; with ``probes``, ours with other vectors on record."""
    repository = base.repository
    manifest = repository.manifest("r000002")
    record = dict(repository.embedder(manifest))
    if probes is None:
        record["fingerprint"] = {**record["fingerprint"], "provider": "fastembed", "model": model}
    embedder_id = identify(record["fingerprint"])
    data = envelope.seal(record if probes is None else {**record, "probes": probes})
    (base.folder / layout.embedder_file(embedder_id)).write_bytes(data)
    entry = {**manifest.embedder, "embedder_id": embedder_id, "model": model, "sha256": sha256(data)}
    repository.publish(replace(manifest, embedder=entry, nonce="n"), expected_head=repository.head())


def test_a_release_whose_embedder_is_not_here_is_listed(base: KnowledgeBase, tmp_path: Path) -> None:
    release_of(base, "of-another-machine")
    found = examined(tmp_path)["embedders"]
    assert (found.status, "of-another-machine" in found.detail, "r000003" in found.detail) == ("fail", True, True)
    assert "r000002" not in found.detail
    assert "[models] folders" in found.remedy


def test_an_embedder_that_drifted_is_found_by_its_probe_vectors(base: KnowledgeBase, tmp_path: Path) -> None:
    record = base.repository.embedder(base.repository.manifest("r000002"))
    turned = [{**row, "vector": [-v for v in row["vector"]]} for row in record["probes"]]
    # The record is changed for all, and only the new release names it by its new digest: the others have to be away.
    release_of(base, "hashing-1", probes=turned)
    for release in ("r000001", "r000002"):
        (base.folder / layout.EXPIRED).mkdir(exist_ok=True)
        (base.folder / layout.expired_file(release)).write_bytes(envelope.seal({"release": release}))
    found = examined(tmp_path)["embedders"]
    assert (found.status, "other vectors" in found.detail) == ("fail", True)


def test_a_library_that_shapes_content_and_changed_is_a_warning(
    base: KnowledgeBase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = versions()
    monkeypatch.setattr(doctor, "versions", lambda: {**now, "pypdf": "99.0"})
    found = examined(tmp_path)["versions"]
    assert (found.status, f"pypdf {now['pypdf']} -> 99.0" in found.detail) == ("warn", True)


@pytest.mark.parametrize(("name", "version"), [("pypdf", "6.16.0"), ("pyarrow", "23.0.0"), ("duckdb", "1.9")])
def test_a_library_below_its_floor_is_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, version: str
) -> None:
    real = importlib.metadata.version
    monkeypatch.setattr(importlib.metadata, "version", lambda asked: version if asked == name else real(asked))
    found = {check.name: check for check in examine(tmp_path / "none.toml", {})}["libraries"]
    assert (found.status, found.remedy) == ("fail", "make install")
    assert f"{name} {version} is older than" in found.detail


@pytest.mark.parametrize(
    ("url", "status"),
    [
        ("", "ok"),
        ("http://127.0.0.1:4200/api", "ok"),
        ("http://localhost:4200/api", "ok"),
        ("http://[::1]:4200/api", "ok"),
        ("https://prefect.example/api", "ok"),
        ("http://prefect.example:4200/api", "warn"),
        ("http://user:secret@10.0.0.5:4200/api", "warn"),
        ("HTTP://10.0.0.5:4200/api", "warn"),
        ("user:secret@prefect.example/api", "fail"),
        ("127.0.0.1:4200/api", "fail"),
        ("http:///api", "fail"),
    ],
)
def test_a_prefect_server_in_plain_text_is_a_warning_and_one_without_host_a_failure(
    tmp_path: Path, url: str, status: str
) -> None:
    (tmp_path / "docs").mkdir()
    found = examined(tmp_path, {"PREFECT_API_URL": url} if url else {})["prefect"]
    assert found.status == status
    assert "secret" not in json.dumps(found.to_json())


def test_storage_that_lost_a_promise_is_a_failure(
    base: KnowledgeBase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = [ProbeResult("link", False, "refused"), ProbeResult("free space", None, "0.1 GB are free")]
    monkeypatch.setattr(doctor, "probe_storage", lambda store: results)
    found = examined(tmp_path)
    assert (found["storage link"].status, found["storage free space"].status) == ("fail", "warn")


def test_much_left_in_staging_is_a_warning(
    base: KnowledgeBase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base.store.put_new({f"{layout.STAGING}/run/part": b"x" * 100})
    monkeypatch.setattr(doctor, "STAGING_BYTES", 50)
    assert examined(tmp_path)["staging"].status == "warn"


def test_a_run_under_way_is_named(base: KnowledgeBase, tmp_path: Path) -> None:
    with writer_lease(base.folder, run="20261130T000000Z-0badcafe", since="2026-11-30T00:00:00Z"):
        assert "20261130T000000Z-0badcafe" in examined(tmp_path)["lease"].detail
    assert "lease" not in examined(tmp_path)


def test_the_note_of_a_killed_run_is_told_from_a_run_under_way(base: KnowledgeBase, tmp_path: Path) -> None:
    note = base.folder / layout.LEASE / "holder.json"
    note.write_text(json.dumps({"run": "r", "since": "s", "pid": 1, "host": socket.gethostname(), "user": "u"}))
    found = examined(tmp_path).get("lease")
    assert found is None or "held by" not in found.detail


def test_a_damaged_old_manifest_does_not_hide_an_embedder_that_is_missing(base: KnowledgeBase, tmp_path: Path) -> None:
    release_of(base, "of-another-machine")
    damage(base, layout.manifest_file("r000001"))
    assert "of-another-machine" in examined(tmp_path)["embedders"].detail


def test_a_draft_that_goes_away_meanwhile_does_not_end_the_doctor(
    base: KnowledgeBase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = LocalStore.list
    monkeypatch.setattr(
        LocalStore,
        "list",
        lambda self, prefix: names(self, prefix) + ([f"{prefix}/gone"] if prefix == layout.STAGING else []),
    )
    examined(tmp_path)


def test_a_disk_that_cannot_be_read_is_a_finding_and_not_the_end(
    base: KnowledgeBase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    get = LocalStore.get

    def broken(self: LocalStore, name: str) -> bytes:
        if name.startswith(layout.PROMOTIONS):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return get(self, name)

    monkeypatch.setattr(LocalStore, "get", broken)
    assert examined(tmp_path)["releases"].status == "fail"


def test_storage_that_may_not_be_written_is_mended_by_a_right_and_not_by_moving_it(
    base: KnowledgeBase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def denied(*_: object) -> None:
        raise OSError(errno.EACCES, "Permission denied")

    monkeypatch.setattr("kbcore.store.objects.FileSystem.write", denied)
    found = next(check for name, check in examined(tmp_path).items() if name.startswith("storage"))
    assert found.status == "fail"
    assert "write below" in found.remedy
    assert "hard links" not in found.remedy


def test_doctor_and_readme_name_the_same_way_to_start_prefect(base: KnowledgeBase, tmp_path: Path) -> None:
    assert "make serve" in examined(tmp_path)["prefect"].detail
    assert "make serve" in (ROOT / "README.md").read_text(encoding="utf-8")


def test_a_finding_about_a_source_names_it_once(base: KnowledgeBase, tmp_path: Path) -> None:
    (tmp_path / "docs").rename(tmp_path / "away")
    assert examined(tmp_path)["source docs"].detail.startswith(f"{tmp_path}/docs does not exist")


def test_the_reranker_that_is_configured_is_loaded_and_asked(base: KnowledgeBase, tmp_path: Path) -> None:
    def seen(folder: Path | str) -> Check:
        file = configuration(tmp_path, more=f'[retrieval]\nreranker_path = "{folder}"\n')
        return {check.name: check for check in examine(file, {})}["reranker"]

    assert "reranker" not in examined(tmp_path)
    model = write_cross_encoder(tmp_path / "overlap", "gateway badge")
    assert (seen(model).status, seen(model).detail) == ("ok", "overlap, orders the first 20 chunks anew")
    gone = seen(tmp_path / "gone")
    assert (gone.status, "no reranker folder" in gone.detail) == ("fail", True)
    assert "reranker_path" in gone.remedy
    broken = write_cross_encoder(tmp_path / "broken", "gateway badge")
    (broken / "model.onnx").write_bytes(b"no model")
    assert seen(broken).status == "fail"
    assert "the reranker broken does not load" in seen(broken).detail
    assert str(broken) in seen(broken).remedy


def test_the_doctor_downloads_no_reranker(base: KnowledgeBase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    monkeypatch.setenv("FASTEMBED_CACHE_PATH", str(tmp_path / "cache"))
    asked: list[bool] = []
    real = reranking._named
    monkeypatch.setattr(reranking, "_named", lambda model, download: asked.append(download) or real(model, download))
    file = configuration(tmp_path, more='[retrieval]\nreranker = "Xenova/ms-marco-MiniLM-L-6-v2"\n')
    found = {check.name: check for check in examine(file, {})}["reranker"]
    assert asked == [False]
    assert (found.status, found.detail) == (
        "fail",
        "the reranker Xenova/ms-marco-MiniLM-L-6-v2 is not on this machine",
    )
    assert "reranker_path" in found.remedy
