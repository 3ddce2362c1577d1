"""The embedder is part of the release: found by the hashes of its files, compared by probe vectors, never cut in silence."""

from __future__ import annotations

import json
import shutil
import socket
from pathlib import Path

import numpy as np
import pytest

from kbcore.embedding.batches import batches, embed_texts
from kbcore.embedding.catalog import Catalog, EmbedderSpec, make
from kbcore.embedding.embedder import judge, probe
from kbcore.embedding.hashing import HashingEmbedder
from kbcore.embedding.onnx import OnnxEmbedder, bundled_files
from kbcore.errors import ConfigError, EmbedderMismatchError, EmbedderUnavailableError
from kbcore.workers import worker_pool
from tests.support import knowledge_base, refreshed


@pytest.fixture(scope="module")
def minilm() -> OnnxEmbedder:
    return OnnxEmbedder(bundled_files())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The bundled model as a model folder of its own."""
    path = tmp_path / "model"
    path.mkdir()
    for name, file in bundled_files().files.items():
        shutil.copy(file, path / name)
    return path


def test_the_bundled_model_reads_256_tokens_and_gives_unit_vectors(minilm: OnnxEmbedder) -> None:
    vectors = minilm.embed(["How do I reset my password?", "ERR-4012"])
    assert vectors.shape == (2, 384)
    assert vectors.dtype == np.float32
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1.0, atol=1e-6)
    assert minilm.max_tokens == 256
    assert minilm.count_tokens("word " * 300) > 256


def test_a_paraphrase_is_nearer_than_another_subject(minilm: OnnxEmbedder) -> None:
    question = minilm.embed_query("can I get my money back?")
    near, far = minilm.embed(
        ["Items can be sent back within 30 days for a refund.", "The printer is on the third floor."]
    )
    assert question @ near > question @ far


def test_a_vector_does_not_depend_on_its_batch_or_its_process(minilm: OnnxEmbedder) -> None:
    texts = [f"Text number {n}. " + "More words follow here. " * (n % 7) for n in range(80)]
    lengths = [minilm.count_tokens(text) for text in texts]
    alone = np.concatenate([minilm.embed([text]) for text in texts])
    assert np.array_equal(embed_texts(minilm, texts, lengths), alone)
    with worker_pool(2) as pool:
        assert np.array_equal(embed_texts(minilm, texts, lengths, spec=EmbedderSpec(), executor=pool), alone)


def test_batches_hold_every_text_once_within_the_token_budget() -> None:
    lengths = [5, 300, 7, 7, 600, 1, 40, 40]
    groups = batches(lengths, budget=512)
    assert sorted(place for group in groups for place in group) == list(range(len(lengths)))
    for group in groups:
        assert len(group) == 1 or len(group) * max(lengths[i] for i in group) <= 512


def test_constructing_an_embedder_loads_no_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(OnnxEmbedder, "_load", lambda self: pytest.fail("a model was loaded"))
    embedder = OnnxEmbedder(bundled_files())
    assert embedder.count_tokens("two words") == 4
    assert embedder.embedder_id


def test_a_folder_with_the_same_files_is_the_same_embedder_by_its_hashes(folder: Path, minilm: OnnxEmbedder) -> None:
    copy = make(EmbedderSpec(model="all-MiniLM-L6-v2", path=str(folder)))
    assert copy.fingerprint["files"] == minilm.fingerprint["files"]


def test_one_changed_byte_in_tokenizer_json_is_refused_with_both_fingerprints(folder: Path, tmp_path: Path) -> None:
    settings = {"embedder": {"provider": "fastembed", "path": str(folder)}, "build": {"jobs": 1}}
    base = knowledge_base(tmp_path, {"one.md": "# One\n\nA short page.\n"}, **settings)
    refreshed(base)
    assert base.retriever().search("short page", 1).hits
    manifest = base.repository.manifest("r000001")
    tokenizer = folder / "tokenizer.json"
    tokenizer.write_bytes(tokenizer.read_bytes().replace(b'"password"', b'"passworf"', 1))
    fresh = type(base)(base.config)
    with pytest.raises(EmbedderMismatchError) as error:
        fresh.retriever().search("short page", 1)
    assert manifest.embedder_id in str(error.value)
    assert make(EmbedderSpec(path=str(folder))).embedder_id in str(error.value)
    assert "file tokenizer.json" in str(error.value)
    assert error.value.exit_code == 12
    assert fresh.retriever(mode="keyword").search("short page", 1).hits


def test_the_release_finds_its_embedder_whatever_the_configuration_says_now(tmp_path: Path) -> None:
    base = knowledge_base(tmp_path, {"one.md": "# One\n\nA short page.\n"})
    refreshed(base)
    other = type(base)(
        base.config.model_copy(update={"embedder": base.config.embedder.model_copy(update={"provider": "fastembed"})})
    )
    assert other.retriever().embedder.fingerprint["provider"] == "hashing"


def test_probes_tell_identical_drifted_and_different(minilm: OnnxEmbedder) -> None:
    record = {"fingerprint": minilm.fingerprint, "probes": probe(minilm)}
    assert judge(record, minilm)[0] == "identical"
    turned = [{**row, "vector": row["vector"][::-1]} for row in record["probes"]]
    assert judge({**record, "probes": turned}, minilm)[0] == "drifted"
    assert judge({**record, "fingerprint": {**minilm.fingerprint, "model": "copy"}}, minilm)[0] == "equivalent"
    assert judge(record, HashingEmbedder(384))[0] == "different"


def test_a_model_that_is_not_here_is_an_error_and_never_replaced_by_another(tmp_path: Path) -> None:
    with pytest.raises(EmbedderUnavailableError, match="there is no model folder"):
        make(EmbedderSpec(path=str(tmp_path / "none")))
    (tmp_path / "empty").mkdir()
    with pytest.raises(EmbedderUnavailableError, match=r"lacks model\.onnx"):
        make(EmbedderSpec(path=str(tmp_path / "empty")))
    with pytest.raises(EmbedderUnavailableError, match="FastEmbed knows no model"):
        make(EmbedderSpec(model="nobody/nothing"))


def test_a_folder_that_cuts_elsewhere_than_it_says_is_refused(folder: Path) -> None:
    config = folder / "tokenizer_config.json"
    config.write_text(json.dumps({**json.loads(config.read_text()), "model_max_length": 512}))
    embedder = make(EmbedderSpec(path=str(folder)))
    assert embedder.max_tokens == 512
    embedder.max_tokens = 256
    with pytest.raises(EmbedderUnavailableError, match="cuts at 512 tokens"):
        embedder.embed(["text"])


def test_a_release_whose_embedder_is_gone_says_which_it_was() -> None:
    catalog = Catalog(EmbedderSpec())
    gone = {"provider": "fastembed", "model": "lost/model", "dimension": 384, "files": {"model.onnx": "0" * 64}}
    with pytest.raises(EmbedderMismatchError, match="lost/model"):
        catalog.locate(gone, release="r000007")


def test_a_wrong_chunk_size_is_a_configuration_error(tmp_path: Path) -> None:
    from kbcore.config import load

    file = tmp_path / "kb.toml"
    file.write_text('[kb]\nname = "x"\n[chunking]\nsize = 40\noverlap = 40\n')
    with pytest.raises(ConfigError, match="larger than overlap"):
        load(file, {})


def test_a_model_in_fastembeds_cache_is_used_by_its_name_without_a_network(
    tmp_path: Path, minilm: OnnxEmbedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bundled weights stand in for those of the named model: what is tried is the way to them."""
    snapshot = tmp_path / "models--Qdrant--bge-small-en-v1.5-onnx-Q" / "snapshots" / "0123456789"
    snapshot.mkdir(parents=True)
    (snapshot.parents[1] / "refs").mkdir()
    (snapshot.parents[1] / "refs" / "main").write_text("0123456789")
    for name, file in bundled_files().files.items():
        shutil.copy(file, snapshot / name.replace("model.onnx", "model_optimized.onnx"))
    monkeypatch.setenv("FASTEMBED_CACHE_PATH", str(tmp_path))
    spec = EmbedderSpec(model="baai/BGE-small-en-v1.5")
    embedder = make(spec, download=False)
    assert embedder.fingerprint["model"] == "BAAI/bge-small-en-v1.5"
    assert embedder.embedder_id != minilm.embedder_id
    vectors = embedder.embed(["How do I reset my password?", "ERR-4012"])
    assert vectors.shape == (2, 384)
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1.0, atol=1e-6)
    found = Catalog(EmbedderSpec(), download=False).locate(dict(embedder.fingerprint), release="r000001")
    assert found.embedder_id == embedder.embedder_id


def test_a_model_that_may_not_be_downloaded_is_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FASTEMBED_CACHE_PATH", str(tmp_path))
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: pytest.fail("a host was looked up"))
    with pytest.raises(EmbedderUnavailableError, match=r"bge-small-en-v1\.5 is not on this machine"):
        make(EmbedderSpec(model="BAAI/bge-small-en-v1.5"), download=False)
