"""An embedder that keeps what it embedded in a file, so that a measurement can be run again in seconds."""

from __future__ import annotations

import contextlib
import hashlib
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from kbcore.arrays import Vectors
from kbcore.config import Config
from kbcore.embedding.catalog import Catalog, EmbedderSpec
from kbcore.embedding.embedder import Embedder, identify
from kbcore.embedding.onnx import OnnxEmbedder, bundled_files
from kbcore.ingest import refresh as refreshing
from kbcore.ingest.recipe import Recipe
from kbcore.knowledge_base import KnowledgeBase
from kbcore.types import Json


class CachedEmbedder:
    """The bundled model with its own fingerprint: a release made with it is one of the default embedder."""

    def __init__(self, file: Path) -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        self.inner = OnnxEmbedder(bundled_files(), threads=1)
        self.fingerprint: Json = dict(self.inner.fingerprint)
        self.dimension, self.max_tokens = self.inner.dimension, self.inner.max_tokens
        self.tokenizer_id = self.inner.tokenizer_id
        self._store = sqlite3.connect(file, isolation_level=None, check_same_thread=False)
        self._store.execute("pragma journal_mode = wal")
        self._store.execute("pragma synchronous = off")
        self._store.execute("create table if not exists vectors (key text primary key, vector blob)")

    @property
    def embedder_id(self) -> str:
        return identify(self.fingerprint)

    def count_tokens(self, text: str) -> int:
        return self.inner.count_tokens(text)

    def embed(self, texts: Sequence[str]) -> Vectors:
        return self._known([("p", text) for text in texts])

    def embed_query(self, text: str) -> Vectors:
        vector: Vectors = self._known([("q", text)])[0]
        return vector

    def _known(self, asked: list[tuple[str, str]]) -> Vectors:
        keys = [
            hashlib.sha256(f"{self.inner.embedder_id}\0{kind}\0{text}".encode()).hexdigest() for kind, text in asked
        ]
        vectors = np.empty((len(asked), self.dimension), dtype=np.float32)
        missing = []
        for row, key in enumerate(keys):
            found = self._store.execute("select vector from vectors where key = ?", (key,)).fetchone()
            if found is None:
                missing.append(row)
            else:
                vectors[row] = np.frombuffer(found[0], dtype=np.float32)
        if missing:
            kind = asked[0][0]
            texts = [asked[row][1] for row in missing]
            vectors[missing] = self.inner.embed(texts) if kind == "p" else [self.inner.embed_query(t) for t in texts]
            rows = [(keys[row], vectors[row].tobytes()) for row in missing]
            self._store.executemany("insert or ignore into vectors values (?, ?)", rows)
        return vectors


class Shuffled(CachedEmbedder):
    """Passages come out with their dimensions in another order than questions do: a conversion gone wrong.

    Its fingerprint is another one, as that of another model file would be, and its probes agree with it: only answers
    show what is wrong.
    """

    def __init__(self, file: Path) -> None:
        super().__init__(file)
        self.fingerprint["model"] = f"{self.fingerprint['model']}-shuffled"
        self._order = np.random.default_rng(1).permutation(self.dimension)

    def embed(self, texts: Sequence[str]) -> Vectors:
        return np.ascontiguousarray(super().embed(texts)[:, self._order])


class OneOf(Catalog):
    """A catalog that has embedders in hand."""

    def __init__(self, *embedders: Embedder) -> None:
        super().__init__(EmbedderSpec())
        self._checked.update({embedder.embedder_id: embedder for embedder in embedders})


def recipe(config: Config, embedder: Any) -> Recipe:
    return Recipe(EmbedderSpec(), embedder, config.chunking.size, config.chunking.overlap, config.chunking.context)


def released(config: Config, embedder: Embedder, **parameters: Any) -> KnowledgeBase:
    """A new knowledge base of ``config`` with its first release, made with ``embedder``; no gate is asked."""
    base = KnowledgeBase(config)
    base.create()
    with in_process(embedder):
        refreshing.refresh(base.repository, config, recipe=recipe(config, embedder), gate=False, **parameters)
    return base


@contextlib.contextmanager
def in_process(*embedders: Embedder) -> Iterator[None]:
    """A refresh within embeds with what its recipe has, in this process, and finds the embedders of releases in hand."""
    with (
        mock.patch.object(refreshing, "worker_pool", return_value=contextlib.nullcontext(None)),
        mock.patch.object(refreshing, "Catalog", return_value=OneOf(*embedders)),
    ):
        yield
