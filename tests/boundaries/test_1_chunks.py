"""1 document and chunks: the overlap carries a rule across the seam, and every chunk is an exact slice."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from kbcore.retrieval.retriever import Retriever
from kbcore.store.inventory import Inventory
from tests.boundaries.claims import Claim
from tests.boundaries.corpus import support
from tests.support import refreshed

HASHING = {"provider": "hashing", "dimension": 64}
RULE = ("full refund", "original packaging")


def cut(root: Path, overlap: int) -> tuple[Retriever, str, list[tuple[int, int]]]:
    base = support(root, embedder=HASHING, size=120, overlap=overlap)
    refreshed(base)
    inventory = Inventory(base.repository, "r000001")
    return base.retriever(), str(inventory.text("docs:policy.md")), list(inventory.chunk_spans("docs:policy.md"))


def whole(text: str, spans: list[tuple[int, int]]) -> list[int]:
    return [at for at, (start, end) in enumerate(spans) if all(part in text[start:end] for part in RULE)]


def test_a_rule_that_straddles_a_seam_is_whole_in_a_chunk(tmp_path: Path, claim: Claim) -> None:
    _, text, apart = cut(tmp_path / "apart", 0)
    retriever, _, spans = cut(tmp_path / "over", 50)
    claim("without overlap no chunk holds the whole rule", whole(text, apart), whole(text, apart) == [])
    claim("with overlap 50 one does", whole(text, spans), len(whole(text, spans)) >= 1)
    shared = [a[1] - b[0] for a, b in pairwise(spans)]
    claim("neighbours share characters, at most 50", shared, all(0 < n <= 50 for n in shared))
    claim("without overlap they share none", [a[1] - b[0] for a, b in pairwise(apart)],
          all(a[1] <= b[0] for a, b in pairwise(apart)))  # fmt: skip
    longest = max(end - start for start, end in spans)
    claim("every chunk has at most 120 characters", longest, longest <= 120)
    claim("the text lies in the chunks but for blanks", f"{len(spans)} chunks", not "".join(
        letter for at, letter in enumerate(text) if not any(a <= at < b for a, b in spans)).strip())  # fmt: skip
    rows = range(int(retriever.snapshot.offsets[-1]))
    chunks = [chunk for row in rows if (chunk := retriever.snapshot.chunk(row))["doc_id"] == "docs:policy.md"]
    exact = [chunk["text"] == text[chunk["start"] : chunk["end"]] for chunk in chunks]
    claim("offsets are exact", f"{sum(exact)} of {len(exact)}", all(exact))
    claim("each span is indexed once", f"{len(set(spans))} of {len(spans)}", len(set(spans)) == len(spans))
    covered = [(a, b) for a in spans for b in spans if a != b and b[0] <= a[0] and a[1] <= b[1]]
    claim("no chunk lies wholly within another", covered, not covered)


@pytest.mark.parametrize("question", ["full refund in original packaging"])
def test_the_whole_rule_is_what_comes_back(tmp_path: Path, claim: Claim, question: str) -> None:
    retriever, _, _ = cut(tmp_path, 50)
    hit = retriever.search(question, 1, mode="keyword").hits[0]
    claim("a question about both halves gets both", hit.citation, all(part in hit.text for part in RULE))
