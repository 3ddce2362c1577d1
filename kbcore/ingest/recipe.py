"""How a release is to be made: chunker, analyzer and embedder, with the identities that a release records."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from kbcore.chunking import ChunkSpec, chunker_id
from kbcore.config import Config
from kbcore.embedding.catalog import EmbedderSpec, make
from kbcore.embedding.embedder import Embedder
from kbcore.store.manifest import Manifest, settings
from kbcore.tokenization import ANALYZER_ID
from kbcore.types import Json


def embedder_spec(config: Config) -> EmbedderSpec:
    chosen = config.embedder
    return EmbedderSpec(chosen.provider, chosen.model, chosen.path, chosen.dimension, chosen.edition)


@dataclass(frozen=True)
class Recipe:
    """Chunker, analyzer and embedder of the next release. No model is loaded by making one."""

    spec: EmbedderSpec
    embedder: Embedder
    size: int
    overlap: int
    context: str

    @classmethod
    def of(cls, config: Config) -> Recipe:
        spec = embedder_spec(config)
        return cls(spec, make(spec), config.chunking.size, config.chunking.overlap, config.chunking.context)

    @cached_property
    def chunk_spec(self) -> ChunkSpec:
        # With a context in front of the chunk, a quarter of the tokens is kept for it.
        reserved = self.embedder.max_tokens // 4 if self.context == "heading" else 0
        return ChunkSpec(self.size, self.overlap, self.embedder.max_tokens - reserved)

    @property
    def analyzer_id(self) -> str:
        return ANALYZER_ID

    @property
    def embedder_id(self) -> str:
        return self.embedder.embedder_id

    @cached_property
    def chunker_id(self) -> str:
        return chunker_id(self.chunk_spec, tokenizer_id=self.embedder.tokenizer_id, context=self.context)

    @property
    def chunking(self) -> Json:
        """What a manifest says of the chunker."""
        return {
            "chunker_id": self.chunker_id,
            "unit": "characters",
            "size": self.size,
            "overlap": self.overlap,
            "max_tokens": self.chunk_spec.max_tokens,
            "tokenizer_id": self.embedder.tokenizer_id,
            "context": self.context,
        }

    @property
    def settings(self) -> Json:
        """The settings by name, as ``Manifest.settings`` has them of a release."""
        model = str(self.embedder.fingerprint["model"])
        return settings(self.chunking, self.analyzer_id, model, self.embedder_id)

    def made(self, manifest: Manifest) -> bool:
        """True where ``manifest`` was made with the same chunker, analyzer and embedder."""
        return (manifest.chunking["chunker_id"], manifest.analyzer_id, manifest.embedder_id) == (
            self.chunker_id,
            self.analyzer_id,
            self.embedder_id,
        )
