"""A knowledge base as a LangChain retriever."""

from __future__ import annotations

from typing import Any

from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from pydantic import Field

from kbcore.retrieval.live import LiveRetriever
from kbcore.retrieval.retriever import Retriever
from kbcore.serving.answers import hit_metadata
from kbcore.types import SearchResult


class KbRetriever(BaseRetriever):
    """Documents are passages, best first; their metadata say where each comes from and how it was found (see
    ``hit_metadata``). ``weak_evidence`` gives documents too, marked so; nothing found gives none. A knowledge base that
    cannot be asked raises, and is never an empty list.

    ``retriever`` is ``open_repository(...).live_retriever()``, which follows promotions, or ``.retriever(release)``, which
    stays. ``k`` and ``options`` (those of ``Retriever.search``) may also be given to a call: ``invoke(question, k=3)``.
    """

    retriever: Retriever | LiveRetriever
    k: int | None = None
    options: dict[str, Any] = Field(default_factory=dict)

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun, k: int | None = None, **options: Any
    ) -> list[Document]:
        return _documents(self.retriever.search(query, self._most(k), **{**self.options, **options}))

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun, k: int | None = None, **options: Any
    ) -> list[Document]:
        return _documents(await self.retriever.asearch(query, self._most(k), **{**self.options, **options}))

    def _most(self, k: int | None) -> int | None:
        """A call's own k, be it one that is refused (0), goes before the retriever's."""
        return self.k if k is None else k


def _documents(result: SearchResult) -> list[Document]:
    return [Document(id=hit.chunk_id, page_content=hit.text, metadata=hit_metadata(result, hit)) for hit in result.hits]
