"""A small knowledge base with questions, its releases, and their comparisons."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from kbcore.evaluation import runner
from kbcore.evaluation.causes import Releases
from kbcore.evaluation.comparison import Comparison, compare
from kbcore.evaluation.questions import QuestionSet, load_questions
from kbcore.knowledge_base import KnowledgeBase
from kbcore.retrieval.settings import RetrievalSettings
from tests.support import DOCUMENTS, knowledge_base, refreshed, write

SETTINGS = RetrievalSettings(mode="keyword")
NAMES = ("nDCG@10", "RR@10", "Success@1")
QUESTIONS: list[dict[str, Any]] = [
    {
        "id": "vpn",
        "question": "What does ERR-4012 mean?",
        "expected": [{"uri": "vpn.md", "grade": 2}],
        "tags": ["code"],
    },
    {
        "id": "password",
        "question": "How is a password reset?",
        "expected": [{"doc_id": "docs:passwords.md", "quote": "must have fourteen characters"}],
        "tags": ["account"],
    },
    {"id": "printing", "question": "printing with the badge", "expected": [{"uri": "printers.txt"}]},
    {"id": "phone", "question": "lost phone", "expected": [{"uri": "phones.html"}], "tags": ["account"]},
    {"id": "lunch", "question": "When does the canteen open?", "expected": [{"uri": "canteen.md"}]},
    {"id": "moon", "question": "xylophone quarantine zanzibar", "no_answer": True},
]


def questions(folder: Path, entries: list[dict[str, Any]] | None = None, name: str = "set.jsonl") -> QuestionSet:
    file = folder / name
    file.write_text("".join(json.dumps(entry) + "\n" for entry in entries or QUESTIONS), encoding="utf-8")
    return load_questions(file)


def history(root: Path, *changes: dict[str, str | bytes | None], **sections: Any) -> KnowledgeBase:
    """A base with DOCUMENTS as r000001 and a release for each of ``changes``."""
    base = knowledge_base(root, DOCUMENTS, **sections)
    refreshed(base)
    for change in changes:
        write(root / "docs", change)
        refreshed(base)
    return base


def compared(base: KnowledgeBase, old: str, new: str, asked: QuestionSet) -> tuple[Comparison, Releases]:
    cards = [runner.card_of(base.repository, name, asked, base.catalog, SETTINGS, names=NAMES) for name in (old, new)]
    releases = Releases(base.repository, old, new)
    return compare(*cards, releases, names=NAMES), releases
