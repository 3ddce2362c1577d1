"""2 text and vector: the embedder is part of the release; another one is refused, of the same dimension too."""

from __future__ import annotations

from pathlib import Path

import pytest

from kbcore.embedding.catalog import EmbedderSpec, make
from kbcore.errors import EmbedderMismatchError
from kbcore.retrieval.retriever import Retriever
from tests.boundaries.claims import Claim
from tests.boundaries.corpus import MODEL, Counting, support
from tests.support import refreshed

HASHING = {"provider": "hashing", "dimension": 384}


def test_another_embedder_is_refused(tmp_path: Path, claim: Claim) -> None:
    base = support(tmp_path, embedder=HASHING)
    report = refreshed(base)
    claim("indexing embeds each chunk once", report.texts_embedded, report.texts_embedded == report.chunks["total"])
    manifest = base.repository.manifest("r000001")
    for said, spec in (
        ("another dimension", EmbedderSpec("hashing", dimension=128)),
        ("another edition of the same model and dimension", EmbedderSpec("hashing", dimension=384, edition=2)),
        ("another model of the same dimension", EmbedderSpec()),
    ):
        other = make(spec)
        with pytest.raises(EmbedderMismatchError) as caught:
            Retriever(base.repository, manifest, base.catalog, embedder=other)
        named = manifest.embedder_id in str(caught.value) and other.embedder_id in str(caught.value)
        claim(f"{said} is refused, both named", f"{other.fingerprint['dimension']} dimensions", named)
    counter = Counting(make(EmbedderSpec("hashing", dimension=384)))
    retriever = Retriever(base.repository, manifest, base.catalog, embedder=counter)  # type: ignore[arg-type]
    claim("opening a release embeds none of its texts", counter.texts, counter.texts == 0)
    retriever.search("gateway")
    claim("a search embeds the question alone", counter.texts, counter.texts == 1)
    retriever.search("gateway", mode="keyword")
    retriever.search("  ")
    claim("keyword search and a blank question embed nothing", counter.texts, counter.texts == 1)


def test_meaning_without_a_shared_word_needs_a_model(tmp_path: Path, claim: Claim) -> None:
    base = support(tmp_path, embedder=MODEL)
    refreshed(base)
    hit = base.retriever().search("can I get my money back?", 1, mode="vector").hits[0]
    claim("the model finds a paraphrase", f"{hit.cosine:.3f} {hit.uri}", hit.uri == "policy.md")
