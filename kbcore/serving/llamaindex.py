"""A knowledge base as a LlamaIndex retriever."""

from __future__ import annotations

from typing import Any

from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode

from kbcore.retrieval.live import LiveRetriever
from kbcore.retrieval.retriever import Retriever
from kbcore.serving.answers import hit_metadata
from kbcore.types import SearchResult

SHOWN_TO_MODELS = ("citation", "title", "heading")


class KbRetriever(BaseRetriever):
    """Nodes are passages, best first; their metadata say where each comes from and how it was found (see ``hit_metadata``).
    Of these a model is shown citation, title and heading. ``weak_evidence`` gives nodes too, marked so; nothing found gives
    none. A knowledge base that cannot be asked raises, and is never an empty list.

    ``retriever`` is ``open_repository(...).live_retriever()``, which follows promotions, or ``.retriever(release)``, which
    stays; ``options`` are those of ``Retriever.search``.
    """

    def __init__(self, retriever: Retriever | LiveRetriever, k: int | None = None, **options: Any) -> None:
        super().__init__()
        self.retriever = retriever
        self.k = k
        self.options = options

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return _nodes(self.retriever.search(query_bundle.query_str, self.k, **self.options))

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return _nodes(await self.retriever.asearch(query_bundle.query_str, self.k, **self.options))


def _nodes(result: SearchResult) -> list[NodeWithScore]:
    nodes = []
    for hit in result.hits:
        metadata = hit_metadata(result, hit)
        hidden = [key for key in metadata if key not in SHOWN_TO_MODELS]
        node = TextNode(
            id_=hit.chunk_id,
            text=hit.text,
            metadata=metadata,
            excluded_llm_metadata_keys=hidden,
            excluded_embed_metadata_keys=list(metadata),
            start_char_idx=hit.start,
            end_char_idx=hit.end,
        )
        nodes.append(NodeWithScore(node=node, score=hit.score))
    return nodes
