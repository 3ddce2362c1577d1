"""The retrievers of LangChain and LlamaIndex: the libraries' own standard checks, and both in a chain with a fake model."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from kbcore.errors import KbUnavailableError, UsageError
from kbcore.knowledge_base import KnowledgeBase
from kbcore.promotion import promote
from kbcore.retrieval.retriever import Retriever
from tests.support import knowledge_base, refreshed, write

QUESTION = "what does ERR-4012 of the gateway mean?"


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> KnowledgeBase:
    made = knowledge_base(tmp_path_factory.mktemp("frameworks"))
    refreshed(made)
    return made


@pytest.fixture
def broken(base: KnowledgeBase, monkeypatch: pytest.MonkeyPatch) -> Retriever:
    def refuse(self: Retriever, *_: Any, **__: Any) -> Any:
        raise KbUnavailableError("r000001 could not be searched", transient=True)

    monkeypatch.setattr(Retriever, "matches", refuse)
    return base.retriever()


def check_metadata(metadata: dict[str, Any], citation: str) -> None:
    assert json.loads(json.dumps(metadata)) == metadata, "plain values alone"
    assert metadata["citation"] == citation
    assert metadata["release"] == "r000001"
    assert metadata["untrusted"] is True
    assert metadata["score_kind"] == "minmax"
    assert metadata["outcome"] == "hits"
    assert metadata["uri"] == "vpn.md"
    assert len(metadata["version"]) == 64
    assert {"score", "page", "doc_id", "heading", "fetched_at", "carried_over", "cosine", "bm25"} <= set(metadata)
    assert "text" not in metadata
    assert not {"metadata", "document_version"} & set(metadata), "said once, as document and version"


class TestLangChain:
    """The names of the first five are those of langchain_tests' RetrieversIntegrationTests, which they stand for where that
    package is not installed."""

    @pytest.fixture
    def make(self, base: KnowledgeBase) -> Any:
        pytest.importorskip("langchain_core")
        from kbcore.serving.langchain import KbRetriever

        return lambda **given: KbRetriever(retriever=base.live_retriever(), **given)

    @pytest.mark.parametrize("k", [1, 3])
    def test_k_constructor_param(self, make: Any, k: int) -> None:
        assert len(make(k=k).invoke(QUESTION)) == k

    @pytest.mark.parametrize("k", [1, 3])
    def test_invoke_with_k_kwarg(self, make: Any, k: int) -> None:
        assert len(make(k=2).invoke(QUESTION, None, k=k)) == k

    def test_a_k_of_0_is_refused_by_a_call_as_by_a_search(self, make: Any) -> None:
        with pytest.raises(UsageError, match="from 1 on, not 0"):
            make(k=2).invoke(QUESTION, None, k=0)
        with pytest.raises(UsageError, match="from 1 on, not 0"):
            asyncio.run(make(k=2).ainvoke(QUESTION, None, k=0))

    def test_invoke_returns_documents(self, make: Any) -> None:
        from langchain_core.documents import Document

        found = make().invoke(QUESTION)
        assert isinstance(found, list)
        assert found
        assert all(isinstance(document, Document) for document in found)

    def test_ainvoke_returns_documents(self, make: Any) -> None:
        assert asyncio.run(make().ainvoke(QUESTION)) == make().invoke(QUESTION)

    def test_documents_say_where_they_come_from(self, make: Any, base: KnowledgeBase) -> None:
        hit = base.retriever().search(QUESTION).hits[0]
        document = make().invoke(QUESTION)[0]
        assert (document.id, document.page_content) == (hit.chunk_id, hit.text)
        check_metadata(document.metadata, hit.citation)

    def test_options_of_a_search_are_those_of_the_retriever_or_of_a_call(self, make: Any) -> None:
        only = make(options={"where": "uri=phones.html"})
        assert {document.metadata["uri"] for document in only.invoke(QUESTION)} == {"phones.html"}
        assert {d.metadata["uri"] for d in make().invoke(QUESTION, where="uri=printers.txt")} == {"printers.txt"}
        with pytest.raises(UsageError):
            make(options={"where": "nope=1"}).invoke(QUESTION)

    def test_nothing_found_is_an_empty_list_and_unavailable_is_raised(self, make: Any, broken: Retriever) -> None:
        from kbcore.serving.langchain import KbRetriever

        assert KbRetriever(retriever=broken).invoke("  ") == []
        with pytest.raises(KbUnavailableError):
            KbRetriever(retriever=broken).invoke(QUESTION)
        with pytest.raises(KbUnavailableError):
            asyncio.run(KbRetriever(retriever=broken).ainvoke(QUESTION))

    def test_a_chain_with_a_model_gets_passages_and_citations(self, make: Any) -> None:
        from langchain_core.language_models import FakeListChatModel
        from langchain_core.output_parsers import StrOutputParser
        from langchain_core.prompts import ChatPromptTemplate
        from langchain_core.runnables import RunnableLambda, RunnablePassthrough

        seen: list[str] = []

        def keep(prompt: Any) -> Any:
            seen.append(prompt.to_string())
            return prompt

        def joined(documents: Any) -> str:
            return "\n\n".join(f"{d.metadata['citation']}\n{d.page_content}" for d in documents)

        prompt = ChatPromptTemplate.from_template("Answer from:\n{context}\n\nQuestion: {question}")
        chain = (
            {"context": make(k=2) | joined, "question": RunnablePassthrough()}
            | prompt
            | RunnableLambda(keep)
            | FakeListChatModel(responses=["The gateway did not answer [r000001 docs:vpn.md#c0]."])
            | StrOutputParser()
        )
        answer = chain.invoke(QUESTION)
        assert "ERR-4012 means that the gateway did not answer" in seen[0]
        assert "[r000001 docs:vpn.md#c" in seen[0]
        assert "did not answer" in answer
        assert len(chain.batch([QUESTION, "lost phone"])) == 2


class TestLlamaIndex:
    @pytest.fixture
    def make(self, base: KnowledgeBase) -> Any:
        pytest.importorskip("llama_index.core")
        from kbcore.serving.llamaindex import KbRetriever

        return lambda **given: KbRetriever(base.live_retriever(), **given)

    def test_nodes_say_where_they_come_from(self, make: Any, base: KnowledgeBase) -> None:
        hits = base.retriever().search(QUESTION, 3).hits
        nodes = make(k=3).retrieve(QUESTION)
        assert [(node.node_id, node.text, node.score) for node in nodes] == [
            (h.chunk_id, h.text, h.score) for h in hits
        ]
        check_metadata(nodes[0].metadata, hits[0].citation)

    def test_a_model_is_shown_the_citation_and_no_hashes(self, make: Any) -> None:
        from llama_index.core.schema import MetadataMode

        node = make(k=1).retrieve(QUESTION)[0].node
        shown = node.get_content(MetadataMode.LLM)
        assert node.metadata["citation"] in shown
        assert node.metadata["version"] not in shown
        assert node.get_content(MetadataMode.EMBED) == node.text

    def test_async_gives_the_same(self, make: Any) -> None:
        ids = [node.node_id for node in asyncio.run(make(k=3).aretrieve(QUESTION))]
        assert ids == [node.node_id for node in make(k=3).retrieve(QUESTION)]

    def test_options_of_a_search_are_passed_on(self, make: Any) -> None:
        assert {node.metadata["uri"] for node in make(where="uri=phones.html").retrieve(QUESTION)} == {"phones.html"}

    def test_nothing_found_is_an_empty_list_and_unavailable_is_raised(self, make: Any, broken: Retriever) -> None:
        from kbcore.serving.llamaindex import KbRetriever

        assert KbRetriever(broken).retrieve("  ") == []
        with pytest.raises(KbUnavailableError):
            KbRetriever(broken).retrieve(QUESTION)

    def test_a_query_engine_with_a_model_gets_passages_and_citations(self, make: Any) -> None:
        from llama_index.core.llms import MockLLM
        from llama_index.core.query_engine import RetrieverQueryEngine
        from llama_index.core.response_synthesizers import get_response_synthesizer

        # This model answers with the prompt it was given.
        engine = RetrieverQueryEngine(make(k=2), get_response_synthesizer(llm=MockLLM()))
        answer = engine.query(QUESTION)
        assert "ERR-4012 means that the gateway did not answer" in str(answer)
        assert "[r000001 docs:vpn.md#c" in str(answer)
        assert len(answer.source_nodes) == 2


def test_both_follow_promotions(tmp_path: Path) -> None:
    pytest.importorskip("langchain_core")
    pytest.importorskip("llama_index.core")
    from kbcore.serving.langchain import KbRetriever as ForLangChain
    from kbcore.serving.llamaindex import KbRetriever as ForLlamaIndex

    made = knowledge_base(tmp_path)
    refreshed(made)
    live = made.live_retriever()
    chain, index = ForLangChain(retriever=live, k=1), ForLlamaIndex(live, k=1)
    write(tmp_path / "docs", {"vpn.md": "# VPN\n\nERR-4012 of the gateway: the certificate is too old.\n"})
    refreshed(made, promote=False)
    assert chain.invoke(QUESTION)[0].metadata["release"] == "r000001"
    promote(made.repository, "r000002", made.catalog, reason="new text", run=made.repository.begin())
    for _ in range(100):
        if live.release == "r000002":
            break
        asyncio.run(asyncio.sleep(0.1))
    assert chain.invoke(QUESTION)[0].metadata["release"] == "r000002"
    assert index.retrieve(QUESTION)[0].metadata["release"] == "r000002"


def test_langchains_own_standard_tests() -> None:
    """Run by pytest in a child, for the plugins that langchain-tests brings."""
    pytest.importorskip("langchain_tests")
    import subprocess
    import sys

    from tests.support import ROOT

    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-o", "addopts=--import-mode=importlib", "-o", "asyncio_mode=auto",
         "tests/standard/langchain_retriever.py"],
        cwd=ROOT, capture_output=True, text=True,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "5 passed" in ended.stdout
