"""6 one contract: every kind of index gives the same cosine, and what FAISS pads with never becomes a hit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import faiss
import numpy as np
import pytest

from kbcore.errors import CorruptReleaseError
from kbcore.index.dense import DenseIndex, DensePart, Kind, bounded, from_index_bytes, to_index_bytes
from tests.boundaries.claims import Claim
from tests.boundaries.corpus import support
from tests.support import refreshed, write

SCOPE = "synthetic vectors: they prove how labels are handled, not quality"
STORED = np.array([[1.0, 0.0]], dtype=np.float32)
QUERIES = {
    "same": ([1, 0], 1.0),
    "orthogonal": ([0, 1], 0.0),
    "opposite": ([-1, 0], -1.0),
    "cos 0.6": ([0.6, 0.8], 0.6),
}


def names(rows: Any) -> list[str]:
    return [f"{row:03}" for row in rows]


def test_the_score_contract(claim: Claim) -> None:
    kinds: tuple[Kind, ...] = ("flat", "fp16")
    for kind in kinds:
        data = to_index_bytes(STORED, kind)
        index = from_index_bytes(data, dimension=2, count=1, file="x", kind=kind)
        dense = DenseIndex([DensePart(index, vectors=STORED if kind == "fp16" else None)], dimension=2)
        scores = {
            said: round(dense.search(np.array(vector, dtype=np.float32), 1, names).hits[0][1], 6)
            for said, (vector, _) in QUERIES.items()
        }
        claim(f"{kind} gives cosines", scores, scores == {said: wanted for said, (_, wanted) in QUERIES.items()})


@pytest.mark.parametrize("kind", ["flat", "hnsw"])
def test_padding_never_becomes_a_hit(claim: Claim, kind: str) -> None:
    vectors = np.eye(3, 8, dtype=np.float32)
    index: Any = faiss.IndexFlatIP(8) if kind == "flat" else faiss.IndexHNSWFlat(8, 16, faiss.METRIC_INNER_PRODUCT)
    index.add(vectors)
    labels = index.search(vectors[:1], 5)[1][0]
    claim(f"a real {kind} index of 3 pads 5 labels with -1 ({SCOPE})", labels.tolist(), (labels == -1).sum() == 2)
    repeated = [["a", "b", "c"][label] for label in labels]
    claim("taken as they are they repeat the last chunk", repeated, repeated[-2:] == ["c", "c"])
    kept = labels[bounded(labels, 3)]
    claim("the bounded look-up keeps the three", kept.tolist(), sorted(kept.tolist()) == [0, 1, 2])


def test_labels_that_cannot_be(claim: Claim) -> None:
    empty: Any = faiss.IndexFlatIP(8)
    labels = empty.search(np.eye(1, 8, dtype=np.float32), 4)[1][0]
    claim("an empty index whose chunks are still there gives no hit", labels.tolist(), not bounded(labels, 0).any())
    with pytest.raises(CorruptReleaseError) as caught:
        bounded(np.array([0, 7], dtype=np.int64), 3, "segments/x/dense.faiss")
    claim("a label beyond the last row is damage, not a hit", caught.value.reason[:40], "7" in str(caught.value))


def test_a_distance_is_not_a_score(claim: Claim) -> None:
    a, b = np.array([[1, 0]], dtype=np.float32), np.array([[0.6, 0.8]], dtype=np.float32)
    index: Any = faiss.IndexFlatL2(2)
    index.add(a)
    squared = float(index.search(b, 1)[0][0][0])
    cosine = float((a @ b.T)[0, 0])
    claim("FAISS gives squared distances: cosine 0.6 is 0.8", round(squared, 6), abs(squared - (2 - 2 * cosine)) < 1e-6)


def test_what_is_logged_and_returned_of_a_search(tmp_path: Path, claim: Claim) -> None:
    base = support(tmp_path, embedder={"provider": "hashing", "dimension": 64})
    refreshed(base)
    evidence = base.retriever().search("gateway", 200, mode="vector").evidence
    counts = {name: evidence[name] for name in ("ntotal", "raw_labels", "bounded_labels")}
    rows = base.retriever().snapshot.rows
    said = "a search says ntotal, raw labels and the bounded count"
    claim(said, list(counts.values()), counts["ntotal"] == counts["bounded_labels"] == rows)
    hits = [hit.chunk_id for hit in base.retriever().search("gateway", 200, mode="vector").hits]
    claim("k above the number of chunks repeats none", f"{len(hits)} hits", len(hits) == len(set(hits)) == rows)
    # Layout is the other backend that may differ: the same documents in one segment and in three.
    write(tmp_path / "docs", {"hours.md": "Support hours are Monday to Saturday now.\n"})
    refreshed(base)
    write(tmp_path / "docs", {"login.md": "ERR-5001 means: log in again.\n"})
    refreshed(base)
    parts = [(h.uri, h.text, h.cosine) for h in base.retriever().search("log in again", 20, mode="vector").hits]
    other = support(tmp_path / "fresh", embedder={"provider": "hashing", "dimension": 64})
    for name in ("hours.md", "login.md"):
        (tmp_path / "fresh" / "docs" / name).write_bytes((tmp_path / "docs" / name).read_bytes())
    refreshed(other)
    one = [(h.uri, h.text, h.cosine) for h in other.retriever().search("log in again", 20, mode="vector").hits]
    segments = len(base.repository.manifest("r000003").segments), len(other.repository.manifest("r000001").segments)
    same = [(uri, text) for uri, text, _ in parts] == [(uri, text) for uri, text, _ in one]
    claim(f"{segments[0]} segments answer as {segments[1]} does", f"{len(parts)} hits", same and segments[0] > segments[1] and
          all(a[2] == b[2] for a, b in zip(parts, one)))  # fmt: skip
