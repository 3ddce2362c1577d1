"""Which embedders are here: the one the configuration names, and the one a release was built with.

A release's embedder is found by the hashes of its files, never by what the configuration says now.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from kbcore.embedding.embedder import Embedder, describe, identify, judge, mismatch
from kbcore.embedding.hashing import HashingEmbedder
from kbcore.embedding.onnx import BUNDLED, ModelFiles, OnnxEmbedder, bundled_files, folder_files, token_limit
from kbcore.errors import EmbedderUnavailableError, KbError
from kbcore.types import Json

MODEL_SUFFIXES = (".json", ".onnx", ".onnx_data", ".txt", ".model")
BUNDLED_NAMES = (BUNDLED, f"sentence-transformers/{BUNDLED}")


@dataclass(frozen=True, slots=True)
class EmbedderSpec:
    """How to make an embedder; plain values, so that it can be handed to another process."""

    provider: str = "fastembed"
    model: str = BUNDLED
    path: str | None = None
    dimension: int = 256
    edition: int = 1


def make(spec: EmbedderSpec, *, threads: int = 1, download: bool = True) -> Embedder:
    """The embedder ``spec`` names. EmbedderUnavailableError if it is not on this machine; there is no fallback.

    A model that FastEmbed knows by name is downloaded where ``download`` and HF_HUB_OFFLINE allow that. An edition other
    than 1 is part of the fingerprint: the same files, whose vectors are not to be mixed with those of another edition.
    """
    embedder = _made(spec, threads, download)
    if spec.edition != 1:
        embedder.fingerprint["edition"] = spec.edition
    return embedder


def _made(spec: EmbedderSpec, threads: int, download: bool) -> Embedder:
    if spec.provider == "hashing":
        return HashingEmbedder(spec.dimension)
    if spec.path is not None:
        return OnnxEmbedder(
            folder_files(Path(spec.path), spec.model if spec.model != BUNDLED else None), threads=threads
        )
    if spec.model in BUNDLED_NAMES:
        return OnnxEmbedder(bundled_files(), threads=threads)
    return OnnxEmbedder(_downloaded(spec.model, download=download), threads=threads)


class Catalog:
    """Finds the embedder of a release among the bundled model, model folders and FastEmbed's cache."""

    def __init__(self, configured: EmbedderSpec, folders: Sequence[str] = (), *, download: bool = True) -> None:
        self.configured = configured
        self.download = download
        self.folders = tuple(folders)
        self._checked: dict[str, Embedder] = {}

    def find(self, record: Json, *, release: str) -> Embedder:
        """The embedder of a release, its probes compared once per process; ``record`` is {fingerprint, probes}.

        EmbedderMismatchError with both fingerprints where the configured one is another, or where it drifted.
        """
        wanted = identify(record["fingerprint"])
        if wanted in self._checked:
            return self._checked[wanted]
        embedder = self.locate(record["fingerprint"], release=release)
        verdict, cosine = judge(record, embedder)
        if verdict != "identical":
            raise (
                mismatch(release, record["fingerprint"], embedder.fingerprint)
                if verdict == "different"
                else (
                    EmbedderUnavailableError(
                        f"{release}: {describe(record['fingerprint'])} gives other vectors than when the release was built "
                        f"(lowest cosine of the probes {cosine:.5f})",
                        remedy="compare the library versions in kb show with those of kb doctor",
                    )
                )
            )
        self._checked[wanted] = embedder
        return embedder

    def locate(self, fingerprint: Json, *, release: str) -> Embedder:
        """The embedder whose files have the hashes in ``fingerprint``; no model is loaded."""
        wanted = identify(fingerprint)
        nearest: Embedder | None = None
        problems: list[str] = []
        edition = int(fingerprint.get("edition", 1))
        if fingerprint.get("provider") == "hashing":
            candidate = make(EmbedderSpec("hashing", dimension=int(fingerprint["dimension"]), edition=edition))
            if candidate.embedder_id == wanted:
                return candidate
            nearest = candidate
        for spec in self._candidates(str(fingerprint.get("model"))):
            try:
                candidate = make(replace(spec, edition=edition), download=self.download)
            except KbError as error:
                problems.append(error.message)
                continue
            if candidate.embedder_id == wanted:
                return candidate
            if nearest is None or candidate.fingerprint.get("model") == fingerprint.get("model"):
                nearest = candidate
        if nearest is not None:
            raise mismatch(release, fingerprint, nearest.fingerprint)
        raise EmbedderUnavailableError(
            f"{release} was built with {describe(fingerprint)}, which is not on this machine"
            + (f" ({'; '.join(problems)})" if problems else ""),
            remedy="name its folder in [models] folders; keyword search works without it",
        )

    def _candidates(self, model: str) -> Iterator[EmbedderSpec]:
        yield self.configured
        yield EmbedderSpec()
        for folder in self.folders:
            root = Path(folder)
            for path in [root, *sorted(root.glob("*/"))]:
                if (path / "tokenizer.json").is_file():
                    yield EmbedderSpec(model=model if "/" not in model else BUNDLED, path=str(path))
                    yield EmbedderSpec(path=str(path))
        if "/" in model and model not in BUNDLED_NAMES:
            yield EmbedderSpec(model=model)


def _downloaded(model: str, *, download: bool) -> ModelFiles:
    """The files of a model FastEmbed knows by name, downloaded by it where a network and the user allow that."""
    from fastembed import TextEmbedding

    known = {entry["model"].lower(): entry for entry in TextEmbedding.list_supported_models()}
    entry = known.get(model.lower())
    if entry is None:
        raise EmbedderUnavailableError(
            f"FastEmbed knows no model {model!r}",
            remedy=f"use {BUNDLED} (bundled), a FastEmbed name, or [embedder] path = a model folder",
        )
    offline = not download or os.environ.get("HF_HUB_OFFLINE", "").lower() in ("1", "true", "yes", "on")
    try:
        loaded = TextEmbedding(model_name=entry["model"], lazy_load=True, local_files_only=offline)
        inner: Any = loaded.model
        folder = Path(inner._model_dir)
    except Exception as error:
        raise EmbedderUnavailableError(
            f"{model} is not on this machine and could not be downloaded: {error}",
            remedy="download it where there is a network and name its folder in [embedder] path",
        ) from error
    names = [path for path in sorted(folder.rglob("*")) if path.suffix in MODEL_SUFFIXES and path.is_file()]
    return ModelFiles(
        entry["model"],
        {path.relative_to(folder).as_posix(): path for path in names},
        entry["model_file"],
        dimension=int(entry["dim"]),
        pooling=f"fastembed {type(loaded.model).__name__}",
        max_tokens=token_limit(folder),
        fastembed_name=entry["model"],
    )
