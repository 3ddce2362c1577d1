"""A diagnosis names the first step that lost the document, and what to do about it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kbcore.errors import UsageError
from kbcore.knowledge_base import KnowledgeBase
from kbcore.retrieval.diagnosing import Diagnosis, diagnose, failed
from kbcore.store.segment import Segment
from tests.support import DOCUMENTS, ROOT, knowledge_base, refreshed, write

QUESTION = "what does ERR-4012 of the gateway mean?"


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> KnowledgeBase:
    root = tmp_path_factory.mktemp("diagnose")
    more = {f"{n}.md": f"# Gateway {n}\n\nThe gateway number {n} stands in room {n}.\n" for n in range(30)}
    copies = {"copy.md": DOCUMENTS["passwords.md"]}
    made = knowledge_base(root, {**DOCUMENTS, **more, **copies, "blank.txt": "   \n"})
    refreshed(made)
    write(root / "docs", {"later.md": "# Later\n\nA newer page.\n", "0.md": None})
    refreshed(made, promote=False)
    return made


def told(base: KnowledgeBase, expected: str, query: str = QUESTION, *, tokens: int = 1500, **options: Any) -> Diagnosis:
    retriever = base.retriever("r000001")
    return diagnose(retriever, retriever.request(query, options.pop("k", None), **options), expected, tokens)


def lost_at(found: Diagnosis) -> str | None:
    step = failed(found.steps)
    return None if step is None else step.step


def test_a_document_that_arrives_is_followed_to_the_context(base: KnowledgeBase) -> None:
    found = told(base, "vpn.md")
    assert found.ok
    assert found.doc_id == "docs:vpn.md"
    assert [step.step for step in found.steps] == [
        "release", "chunks", "vectors", "postings", "by meaning", "by words", "hits", "evidence", "context",
    ]  # fmt: skip
    assert all(step.ok for step in found.steps)
    assert "it is hit 1" in found.steps[6].finding


def test_one_chunk_is_followed_as_its_document_is(base: KnowledgeBase) -> None:
    found = told(base, "vpn.md#c0")
    assert (found.ok, found.doc_id) == (True, "docs:vpn.md#c0")
    assert [step.step for step in found.steps] == [step.step for step in told(base, "vpn.md").steps]
    assert "chunk 0 of it" in found.steps[1].finding
    beyond = told(base, "vpn.md#c9")
    assert (lost_at(beyond), beyond.steps[-1].finding[:6], beyond.steps[-1].advice) == (
        "chunks", "it has", "ask for one of these",
    )  # fmt: skip
    assert "did you mean docs:vpn.md?" in told(base, "docs:vpm.md#c0").steps[0].advice
    assert "r000002 does" in told(base, "later.md#c0").steps[0].finding


def test_blank_questions_and_names_are_refused(base: KnowledgeBase) -> None:
    with pytest.raises(UsageError, match="question is blank"):
        told(base, "vpn.md", " ")
    with pytest.raises(UsageError, match="name of the document is blank"):
        told(base, " ")


def test_what_no_source_listed_is_lost_at_the_release_and_the_walk_ends(base: KnowledgeBase) -> None:
    found = told(base, "docs:vpm.md")
    assert [(step.step, step.ok) for step in found.steps] == [("release", False)]
    assert "did you mean docs:vpn.md?" in found.steps[0].advice


def test_a_newer_release_that_holds_it_is_named(base: KnowledgeBase) -> None:
    found = told(base, "later.md")
    assert lost_at(found) == "release"
    assert "r000002" in found.steps[0].finding
    assert "kb promote r000002" in found.steps[0].advice


def test_what_a_release_removed_says_where(base: KnowledgeBase) -> None:
    retriever = base.retriever("r000002")
    found = diagnose(retriever, retriever.request(QUESTION), "docs:0.md")
    assert lost_at(found) == "release"
    assert "removed in r000002" in found.steps[0].finding


def test_a_blank_file_says_that_there_is_nothing_in_it(base: KnowledgeBase) -> None:
    found = told(base, "blank.txt")
    assert lost_at(found) == "release"
    assert "nothing to index" in found.steps[0].finding


def test_a_filter_that_leaves_it_out_is_the_step(base: KnowledgeBase) -> None:
    found = told(base, "vpn.md", where="uri=phones.html")
    assert lost_at(found) == "filter"
    assert found.steps[-1].step == "filter"


def test_a_document_that_no_matcher_names_says_its_rank(base: KnowledgeBase) -> None:
    found = told(base, "printers.txt", "gateway number room", k=1)
    steps = {step.step: step for step in found.steps}
    assert lost_at(found) == "by meaning"
    assert "not among the 3 it names; its best chunk is" in steps["by meaning"].finding
    assert "it holds 0 of 3 words" in steps["by words"].finding
    assert steps["hits"].ok is False
    assert "context" not in steps


def test_what_one_matcher_names_is_not_lost_by_the_other(base: KnowledgeBase) -> None:
    found = told(base, "vpn.md", "ERR-4012", k=1, mode="hybrid")
    steps = {step.step: step for step in found.steps}
    assert steps["by words"].ok is True
    assert steps["by meaning"].ok is not False


def test_a_document_cut_by_k_says_which_k_would_do(base: KnowledgeBase) -> None:
    asked: dict[str, Any] = {"query": "gateway number", "mode": "keyword"}
    full = told(base, "vpn.md", k=60, **asked)
    shown = next(step for step in full.steps if step.step == "hits").finding
    place = int(shown.removeprefix("it is hit ").split()[0])
    assert place > 1
    cut = told(base, "vpn.md", k=place - 1, depth=60, **asked)
    assert lost_at(cut) == "hits"
    step = failed(cut.steps)
    assert step is not None
    assert f"-k {place}" in step.advice
    assert lost_at(told(base, "vpn.md", k=place, depth=60, **asked)) is None


def test_a_copy_that_is_folded_is_noted_and_not_lost(base: KnowledgeBase) -> None:
    question = "how is a password reset at the self-service page"
    hidden = next(
        name
        for name in ("copy.md", "passwords.md")
        if "nearly repeats" in next(s for s in told(base, name, question, fold=True).steps if s.step == "hits").finding
    )
    found = told(base, hidden, question, fold=True)
    assert found.ok
    assert next(s for s in found.steps if s.step == "hits").ok is None


def test_a_context_too_small_for_it_is_the_step(base: KnowledgeBase) -> None:
    found = told(base, "vpn.md", tokens=5)
    assert lost_at(found) == "context"
    assert "--max-tokens" in found.steps[-1].advice


def test_weak_evidence_is_noted(base: KnowledgeBase) -> None:
    found = told(base, "vpn.md", "zebra umbrella client", mode="keyword")
    step = next(step for step in found.steps if step.step == "evidence")
    assert step.ok is None
    assert "weak_evidence" in step.finding


def test_a_chunk_without_a_vector_and_one_without_postings_are_the_steps(
    base: KnowledgeBase, monkeypatch: pytest.MonkeyPatch
) -> None:
    retriever = base.retriever("r000001")
    request = retriever.request(QUESTION)
    vectors, postings = Segment.vectors, Segment.postings
    with monkeypatch.context() as patched:
        patched.setattr(Segment, "vectors", lambda self: np.zeros_like(vectors(self)))
        assert lost_at(diagnose(retriever, request, "vpn.md")) == "vectors"
    with monkeypatch.context() as patched:

        def without(self: Segment) -> Any:
            found = postings(self)
            object.__setattr__(found, "lengths", np.zeros_like(found.lengths))
            return found

        patched.setattr(Segment, "postings", without)
        assert lost_at(diagnose(retriever, request, "vpn.md")) == "postings"


def test_text_in_no_chunk_is_lost_at_the_chunks(base: KnowledgeBase, monkeypatch: pytest.MonkeyPatch) -> None:
    retriever = base.retriever("r000001")
    whole = type(retriever.snapshot).document_text
    monkeypatch.setattr(type(retriever.snapshot), "document_text", lambda self, row: whole(self, row) + "and more")
    found = diagnose(retriever, retriever.request(QUESTION), "vpn.md")
    assert lost_at(found) == "chunks"
    assert "8 characters are in none" in found.steps[1].finding


def test_modes_look_at_their_own_matcher_alone(base: KnowledgeBase) -> None:
    assert "by words" not in {step.step for step in told(base, "vpn.md", mode="vector").steps}
    assert "by meaning" not in {step.step for step in told(base, "vpn.md", mode="keyword").steps}


def test_the_command_prints_a_table_or_json_and_ends_with_5_where_it_is_lost(tmp_path: Path) -> None:
    made = knowledge_base(tmp_path)
    refreshed(made)
    (tmp_path / "kb.toml").write_text(
        f'[kb]\nname = "test"\nrepository = "{tmp_path / "releases"}"\n\n'
        '[embedder]\nprovider = "hashing"\ndimension = 64\n'
    )

    def kb(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [
            sys.executable,
            "-m",
            "kbcore.cli",
            "diagnose",
            QUESTION,
            "-c",
            str(tmp_path / "kb.toml"),
            *arguments,
        ]
        return subprocess.run(
            command, capture_output=True, text=True, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}
        )

    arrived = kb("--expect", "vpn.md")
    assert arrived.returncode == 0, arrived.stderr
    assert "it arrives" in arrived.stdout
    lost = kb("--expect", "nothing.md", "--json")
    assert lost.returncode == 5
    body = json.loads(lost.stdout)
    assert body["ok"] is False
    assert body["steps"][0]["step"] == "release"
    assert kb().returncode == 2
