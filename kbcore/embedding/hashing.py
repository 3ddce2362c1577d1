"""A deterministic embedder without a model, for tests and for trying things out. Never a fallback."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np

from kbcore.arrays import Vectors
from kbcore.embedding.embedder import identify, unit
from kbcore.tokenization import ANALYZER_ID, tokens
from kbcore.types import Json


class HashingEmbedder:
    """Feature hashing of the BM25 tokens with signs (Weinberger et al. 2009), scaled to unit length.

    It knows words, not meaning. A text without a word gets the vector of its characters.
    """

    max_tokens = 256

    def __init__(self, dimension: int = 256) -> None:
        self.dimension = dimension
        self.fingerprint: Json = {
            "provider": "hashing",
            "model": "hashing-1",
            "dimension": dimension,
            "analyzer": ANALYZER_ID,
            "normalised": True,
            "max_tokens": self.max_tokens,
        }
        self.tokenizer_id = ANALYZER_ID
        self._features: dict[str, tuple[int, float]] = {}

    @property
    def embedder_id(self) -> str:
        return identify(self.fingerprint)

    def count_tokens(self, text: str) -> int:
        return len(tokens(text))

    def embed(self, texts: Sequence[str]) -> Vectors:
        vectors = np.zeros((len(texts), self.dimension))
        for row, text in enumerate(texts):
            for word in tokens(text) or list(text) or [""]:
                place, sign = self._feature(word)
                vectors[row, place] += sign
            if not vectors[row].any():
                vectors[row, self._feature(text)[0]] = 1.0
        return unit(vectors, count=len(texts), dimension=self.dimension)

    def embed_query(self, text: str) -> Vectors:
        vector: Vectors = self.embed([text])[0]
        return vector

    def embed_queries(self, texts: Sequence[str]) -> Vectors:
        return self.embed(texts)

    def _feature(self, word: str) -> tuple[int, float]:
        if word not in self._features:
            digest = hashlib.blake2b(word.encode("utf-8", "surrogatepass"), digest_size=8).digest()
            number = int.from_bytes(digest, "big")
            self._features[word] = ((number >> 1) % self.dimension, 1.0 if number & 1 else -1.0)
        return self._features[word]
