"""Many refreshes leave a release like a fresh one: the same digest, hits and scores, and few segments."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from kbcore.ingest import folding
from kbcore.ingest.base import Base
from kbcore.verification import verify_repository
from tests.support import DOCUMENTS, answers, knowledge_base, refreshed, write

ROUNDS = 24


def page(number: int, edition: int = 0) -> str:
    words = " ".join(f"word{number * k % 97}" for k in range(1, 60))
    return f"# Page {number}\n\n## Part A\n\nEdition {edition} {words}\n\n## Part B\n\n{words[::-1]}\n"


@pytest.mark.parametrize("context", ["heading", pytest.param("none", marks=pytest.mark.long)])
def test_a_release_of_many_refreshes_is_that_of_a_fresh_build_and_has_few_segments(
    tmp_path: Path, context: str
) -> None:
    chunking = {"chunking": {"size": 120, "overlap": 20, "context": context}}
    base = knowledge_base(tmp_path, **chunking)
    refreshed(base)
    embedded = 0
    for number in range(ROUNDS):
        change: dict[str, str | None] = {f"{number}.md": page(number)}
        if number % 3 == 2:
            change[f"{number - 1}.md"] = page(number - 1, edition=1)
        if number % 5 == 4:
            change[f"{number - 3}.md"] = None
        write(tmp_path / "docs", change)
        report = refreshed(base)
        embedded += report.texts_embedded
        assert len(base.repository.manifest(str(report.release)).segments) <= folding.MOST_SMALL + 1
    files = {p.relative_to(tmp_path / "docs").as_posix(): p.read_bytes() for p in (tmp_path / "docs").rglob("*.*")}
    fresh = knowledge_base(tmp_path / "fresh", files, **chunking)
    built = refreshed(fresh)
    head = base.repository.manifest(str(base.repository.head()))
    once = fresh.repository.manifest("r000001")
    assert head.content_digest == once.content_digest
    assert {key: head.totals[key] for key in ("documents", "chunks")} == {
        key: once.totals[key] for key in ("documents", "chunks")
    }
    assert answers(base) == answers(fresh)
    assert embedded <= built.texts_embedded + 3 * ROUNDS  # nothing is embedded for being taken along
    assert verify_repository(base.repository, base.repository.releases()) == []
    # What an earlier release holds is still there, and answers as it did.
    assert base.retriever("r000005").search("Page 3", mode="keyword").hits


def test_a_document_is_taken_along_exactly_as_it_was_written(tmp_path: Path) -> None:
    base = knowledge_base(tmp_path, {**DOCUMENTS, "long.md": page(1)})
    refreshed(base)
    (segment,) = Base(base.repository).segments
    rows, digests, vectors = folding.folded(segment, frozenset({1}))
    assert len(rows) == len(DOCUMENTS)
    stored = segment.documents().to_pylist()
    for row in rows:
        (source,) = [values for values in stored if values["doc_id"] == row.doc_id]
        assert row.doc_digest == source["doc_digest"]
        assert [chunk.text for chunk in row.chunks] == [
            chunk["text"] for chunk in segment.chunks().to_pylist()
            if stored[chunk["document_row"]]["doc_id"] == row.doc_id
        ]  # fmt: skip
    assert [chunk.embedded_sha256 for row in rows for chunk in row.chunks] == digests
    assert vectors.shape == (len(digests), 64)
    lengths = {chunk.chunk_id: len(chunk.terms) for row in rows for chunk in row.chunks}
    assert all(lengths.get(c["chunk_id"], c["length"]) == c["length"] for c in segment.chunks().to_pylist())


def test_a_segment_of_which_most_is_dead_is_taken_along(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folding, "SMALL_CHUNKS", 4)
    base = knowledge_base(tmp_path, {f"{n}.md": page(n) for n in range(10)})
    refreshed(base)
    write(tmp_path / "docs", {f"{n}.md": page(n, edition=2) for n in range(6)})
    refreshed(base)
    sizes = [ref.documents - ref.deleted for ref in base.repository.manifest("r000002").segments]
    assert sizes == [10]
    assert np.unique([ref.deleted for ref in base.repository.manifest("r000002").segments]).tolist() == [0]
