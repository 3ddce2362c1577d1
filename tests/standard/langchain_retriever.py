"""LangChain's own standard tests of retrievers, on ours. Run by tests/unit/serving/test_frameworks.py."""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path
from typing import Any

from langchain_core.retrievers import BaseRetriever
from langchain_tests.integration_tests import RetrieversIntegrationTests

from kbcore.knowledge_base import KnowledgeBase
from kbcore.serving.langchain import KbRetriever
from tests.support import knowledge_base, refreshed


@cache
def base() -> tuple[KnowledgeBase, Any]:
    folder = tempfile.TemporaryDirectory()
    made = knowledge_base(Path(folder.name))
    refreshed(made)
    return made, folder


class TestKbRetriever(RetrieversIntegrationTests):
    @property
    def retriever_constructor(self) -> type[BaseRetriever]:
        return KbRetriever

    @property
    def retriever_constructor_params(self) -> dict[str, Any]:
        return {"retriever": base()[0].live_retriever()}

    @property
    def retriever_query_example(self) -> str:
        return "what does ERR-4012 of the gateway mean?"
