"""What an embedder is, how it is identified, and how the one in hand is compared with the one a release names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from kbcore.arrays import Vectors
from kbcore.errors import EmbedderMismatchError, EmbeddingFailedError
from kbcore.fingerprint import short_id
from kbcore.types import Json

Verdict = Literal["identical", "equivalent", "drifted", "different"]

PROBES = (
    "How do I reset my password?",
    "ERR-4012: the gateway did not answer in time.",
    "A laptop that was lost or stolen must be reported on the same day.",
    "Größe, café, 東京, emoji 🙂 and a table | with | cells",
)
SAME = 0.9999


class Embedder(Protocol):
    """Vectors are float32 of unit length, shape (texts, dimension), rows in the order of the texts.

    ``fingerprint`` is the identity (hashed into ``embedder_id``); ``max_tokens`` counts the special tokens too.
    Constructing one loads no model; the first ``embed`` does.
    """

    fingerprint: Json
    dimension: int
    max_tokens: int
    tokenizer_id: str

    @property
    def embedder_id(self) -> str: ...

    def count_tokens(self, text: str) -> int:
        """Tokens the model would read for ``text``, before any truncation."""

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Vectors of passages. Raises EmbeddingFailedError rather than return a vector that is none."""

    def embed_query(self, text: str) -> Vectors:
        """The vector of one question, shape (dimension,)."""

    def embed_queries(self, texts: Sequence[str]) -> Vectors:
        """The vectors of questions, the same as one by one, in one call."""


def identify(fingerprint: Json) -> str:
    """``embedder_id``: 32 hex of the fingerprint's digest."""
    return short_id(fingerprint)


def unit(vectors: NDArray[np.floating], *, count: int, dimension: int) -> Vectors:
    """Scale rows to unit length. EmbeddingFailedError on another shape, a value that is not finite, or a zero row."""
    if vectors.shape != (count, dimension):
        raise EmbeddingFailedError(
            f"the embedder gave vectors of shape {vectors.shape} where ({count}, {dimension}) were asked for"
        )
    wide = vectors.astype(np.float64)
    if not np.isfinite(wide).all():
        raise EmbeddingFailedError("the embedder gave a vector that is not finite")
    norms = np.sqrt((wide * wide).sum(axis=1, keepdims=True))
    if not norms.all():
        raise EmbeddingFailedError("the embedder gave a vector that is all zero")
    scaled: Vectors = (wide / norms).astype(np.float32)
    return scaled


def probe(embedder: Embedder) -> list[Json]:
    """The probe texts with the vectors this embedder gives them, as they are kept beside a fingerprint."""
    vectors = embedder.embed(PROBES)
    return [{"text": text, "vector": [float(v) for v in row]} for text, row in zip(PROBES, vectors, strict=True)]


def judge(record: Json, embedder: Embedder) -> tuple[Verdict, float]:
    """Compare an embedder with a record {fingerprint, probes}; gives the verdict and the lowest cosine of the probes.

    identical: same fingerprint and same vectors; drifted: same fingerprint, other vectors; equivalent: another
    fingerprint, same vectors; different: neither.
    """
    stored = np.asarray([row["vector"] for row in record["probes"]], dtype=np.float64)
    lowest = -1.0
    if stored.shape[1] == embedder.dimension:
        found = embedder.embed([row["text"] for row in record["probes"]]).astype(np.float64)
        lowest = float((stored * found).sum(axis=1).min())
    same_files = identify(record["fingerprint"]) == embedder.embedder_id
    if lowest >= SAME:
        return ("identical" if same_files else "equivalent"), lowest
    return ("drifted" if same_files else "different"), lowest


def mismatch(release: str, expected: Json, found: Json) -> EmbedderMismatchError:
    """The refusal, with both fingerprints and what differs between them."""
    differing = sorted(key for key in {*expected, *found} if key != "files" and expected.get(key) != found.get(key))
    files_a, files_b = expected.get("files", {}), found.get("files", {})
    differing += [f"file {name}" for name in sorted({*files_a, *files_b}) if files_a.get(name) != files_b.get(name)]
    return EmbedderMismatchError(
        f"{release} was built with {describe(expected)}; the embedder here is {describe(found)} "
        f"(they differ in: {', '.join(differing) or 'nothing that is recorded'})",
        remedy="put the model that built the release where [models] folders names it, "
        "or build a release with the new one: kb refresh",
    )


def describe(fingerprint: Json) -> str:
    """A fingerprint in one line: model, dimension, id."""
    model = fingerprint.get("model", fingerprint.get("provider"))
    return f"{model} ({fingerprint.get('dimension')} dimensions, embedder {identify(fingerprint)})"
