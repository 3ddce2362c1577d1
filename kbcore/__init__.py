"""kbcore: every refresh of a knowledge base is a release that can be searched, compared, promoted and rolled back."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from kbcore.errors import KbError
    from kbcore.knowledge_base import KnowledgeBase, open_repository
    from kbcore.retrieval import Retriever
    from kbcore.store.repository import Repository
    from kbcore.types import Hit, SearchResult

_WHERE = {
    "Hit": "kbcore.types",
    "KbError": "kbcore.errors",
    "KnowledgeBase": "kbcore.knowledge_base",
    "Repository": "kbcore.store.repository",
    "Retriever": "kbcore.retrieval",
    "SearchResult": "kbcore.types",
    "open_repository": "kbcore.knowledge_base",
}

__all__ = [
    "Hit",
    "KbError",
    "KnowledgeBase",
    "Repository",
    "Retriever",
    "SearchResult",
    "__version__",
    "open_repository",
]


def __getattr__(name: str) -> Any:
    # Loaded on first use: importing kbcore brings in neither pyarrow nor FAISS nor FastEmbed.
    if name in _WHERE:
        return getattr(importlib.import_module(_WHERE[name]), name)
    raise AttributeError(f"module 'kbcore' has no attribute {name!r}")
