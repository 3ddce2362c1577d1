"""A reranker reads question and chunk together and says how well the one answers the other. Off unless configured."""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, Protocol

from kbcore.embedding.embedder import identify
from kbcore.embedding.onnx import MODEL_FILES, file_sha256
from kbcore.errors import EmbeddingFailedError, RerankerUnavailableError
from kbcore.types import Json

NEEDED = ("tokenizer.json", "tokenizer_config.json")
MODEL_SUFFIXES = (".json", ".onnx", ".onnx_data", ".txt", ".model")


class Reranker(Protocol):
    """Scores are of a kind of their own: more is better, and they mean nothing beside those of another question.

    ``fingerprint`` is the identity (hashed into ``reranker_id``). Constructing one loads no model; ``load`` does, as does
    the first ``score``.
    """

    @property
    def fingerprint(self) -> Json: ...

    @property
    def reranker_id(self) -> str: ...

    def load(self) -> None:
        """RerankerUnavailableError where the model does not load."""

    def score(self, query: str, texts: Sequence[str]) -> list[float]:
        """One finite score a text, in their order; that of a text does not depend on the others."""


@dataclass(frozen=True, slots=True)
class RerankerSpec:
    """A reranker by the name that FastEmbed knows it under, or by its folder."""

    model: str = ""
    path: str | None = None


@lru_cache(maxsize=4)
def make_reranker(spec: RerankerSpec, *, download: bool = True) -> Reranker:
    """The reranker ``spec`` names, one a process however many releases are open. RerankerUnavailableError if it is not on
    this machine: a search that was to be reranked is never answered in another order.

    A model that FastEmbed knows by name is downloaded where ``download`` and HF_HUB_OFFLINE allow that.
    """
    if spec.path is None:
        return _named(spec.model, download)
    folder = Path(spec.path)
    if not folder.is_dir():
        raise RerankerUnavailableError(
            f"there is no reranker folder {folder}", remedy="see [retrieval] reranker_path in the configuration"
        )
    model_file = next((name for name in MODEL_FILES if (folder / name).is_file()), None)
    missing = [name for name in NEEDED if not (folder / name).is_file()]
    if model_file is None or missing:
        what = ", ".join(([] if model_file else ["model.onnx"]) + missing)
        raise RerankerUnavailableError(
            f"the reranker folder {folder} lacks {what}",
            remedy="name a folder with all of it: [retrieval] reranker_path",
        )
    return CrossEncoder(spec.model or folder.name, folder, model_file)


class CrossEncoder:
    """A cross-encoder of FastEmbed. Pairs are run one at a time: models with 8-bit weights give a pair other scores beside
    others, and in this size batches are no faster."""

    def __init__(self, model: str, folder: Path, model_file: str, *, fastembed_name: str | None = None) -> None:
        self.model = model
        self._folder = folder
        self._model_file = model_file
        self._name = fastembed_name
        self._lock = threading.Lock()
        self._loaded: Any = None

    @cached_property
    def fingerprint(self) -> Json:
        names = {
            path.relative_to(self._folder).as_posix(): path
            for path in sorted(self._folder.rglob("*"))
            if path.suffix in MODEL_SUFFIXES and path.is_file()
        }
        files: Mapping[str, str] = {name: file_sha256(path) for name, path in names.items()}
        return {"provider": "fastembed", "model": self.model, "model_file": self._model_file, "files": files}

    @property
    def reranker_id(self) -> str:
        return identify(self.fingerprint)

    def load(self) -> None:
        with self._lock:
            if self._loaded is None:
                self._loaded = self._load()

    def score(self, query: str, texts: Sequence[str]) -> list[float]:
        self.load()
        try:
            scores = [float(score) for score in self._loaded.rerank(query, list(texts), batch_size=1)]
        except (RuntimeError, ValueError, IndexError, MemoryError) as error:
            raise EmbeddingFailedError(
                f"the reranker {self.model} did not rerank {len(texts)} texts: {error}"
            ) from error
        if len(scores) != len(texts) or not all(map(math.isfinite, scores)):
            raise EmbeddingFailedError(
                f"the reranker {self.model} gave {len(scores)} scores, or one that is not finite, for {len(texts)} texts"
            )
        return scores

    def _load(self) -> Any:
        from fastembed.common.model_description import ModelSource
        from fastembed.rerank.cross_encoder import TextCrossEncoder

        name = self._name or f"kbcore/{self.reranker_id}"
        known = {model["model"].lower() for model in TextCrossEncoder.list_supported_models()}
        if name.lower() not in known:
            TextCrossEncoder.add_custom_model(model=name, sources=ModelSource(hf=name), model_file=self._model_file)
        try:
            return TextCrossEncoder(model_name=name, specific_model_path=str(self._folder), threads=1)
        except Exception as error:
            raise RerankerUnavailableError(
                f"the reranker {self.model} does not load: {error}", remedy=f"replace the files in {self._folder}"
            ) from error


def _named(model: str, download: bool) -> CrossEncoder:
    from fastembed.rerank.cross_encoder import TextCrossEncoder

    known = {entry["model"].lower(): entry for entry in TextCrossEncoder.list_supported_models()}
    entry = known.get(model.lower())
    if entry is None:
        names = ", ".join(sorted(e["model"] for e in known.values() if not e["model"].startswith("kbcore/")))
        raise RerankerUnavailableError(
            f"FastEmbed knows no reranker {model!r}", remedy=f"it knows {names}; or name a folder: reranker_path"
        )
    offline = not download or os.environ.get("HF_HUB_OFFLINE", "").lower() in ("1", "true", "yes", "on")
    try:
        loaded = TextCrossEncoder(model_name=entry["model"], lazy_load=True, local_files_only=offline)
        inner: Any = loaded.model
        folder = Path(inner._model_dir)
    except Exception as error:
        raise RerankerUnavailableError(
            f"the reranker {model} is not on this machine"
            + ("" if offline else f" and could not be downloaded: {error}"),
            remedy="download it where there is a network and name its folder in [retrieval] reranker_path",
        ) from error
    return CrossEncoder(entry["model"], folder, entry["model_file"], fastembed_name=entry["model"])
