"""What is embedded for a chunk, and what its digest stands for."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from kbcore.config import ChunkingSection
from kbcore.embedding.catalog import EmbedderSpec
from kbcore.embedding.hashing import HashingEmbedder
from kbcore.fingerprint import text_sha256
from kbcore.ingest.cutting import cut
from kbcore.ingest.plan import Plan
from kbcore.ingest.recipe import Recipe
from kbcore.types import Heading, Parsed


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=25), min_size=1, max_size=4),
    st.sampled_from(["none", "heading"]),
)
def test_every_digest_names_exactly_the_text_that_is_embedded(headings: list[str], context: str) -> None:
    """Also where a heading holds the separator of heading paths, or begins with blanks."""
    embedder = HashingEmbedder(16)
    recipe = Recipe(EmbedderSpec("hashing", dimension=16), embedder, 60, 0, context)
    text, found = "", []
    for level, words in enumerate([*headings, "Menu > Network > VPN"], start=1):
        found.append(Heading(len(text), level, words))
        text += f"{words}\nSome words below heading {level} that are as long as one chunk may be.\n"
    parsed = Parsed(text, "A > title", "text/markdown", "markdown-1", tuple(found))
    row = cut(parsed, recipe, source="s", uri="a.md", content_sha256="0", etag=None, modified_at=None, fetched_at="")
    texts = Plan(base=None, recipe=recipe, rows=[row]).texts()  # type: ignore[arg-type]
    assert {chunk.embedded_sha256 for chunk in row.chunks} == set(texts)
    for digest, (embedded, count) in texts.items():
        assert text_sha256(embedded) == digest
        assert count == embedder.count_tokens(embedded)
    if context == "heading":
        assert any("Menu > Network > VPN" in embedded.split("\n")[0] for embedded, _ in texts.values())


def embedded(title: str, uri: str = "network/a.md", context: str = ChunkingSection().context) -> str:
    recipe = Recipe(EmbedderSpec("hashing", dimension=16), HashingEmbedder(16), 512, 0, context)
    parsed = Parsed("Wait a minute.", title, "text/markdown", "markdown-1", (Heading(0, 2, "Lost"),))
    row = cut(parsed, recipe, source="s", uri=uri, content_sha256="0", etag=None, modified_at=None, fetched_at="")
    return row.chunks[0].embedded


def test_title_and_heading_path_stand_before_what_is_embedded_unless_it_is_to_be_the_slice_alone() -> None:
    assert embedded("VPN access") == "VPN access > Lost\nWait a minute."
    assert embedded("VPN access", context="none") == "Wait a minute."


def test_the_name_of_a_file_is_not_embedded_so_that_a_rename_embeds_nothing() -> None:
    assert embedded("a", "network/a.md") == embedded("b", "network/b.md") == "Lost\nWait a minute."
