"""A small support knowledge base, and its embedder counting what it is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kbcore.config import Config
from kbcore.knowledge_base import KnowledgeBase

POLICY = (
    "Refund policy. Items can be sent back within 30 days of purchase for a full refund.\n\n"
    "They must be unused and in their original packaging. Digital products are final.\n\n"
    "Shipping. Domestic orders ship in two days, and orders from abroad in ten. Parcels are insured. "
    "The carrier leaves a card where nobody answers the door, and the parcel waits in its shop for a week."
)
DOCUMENTS = {
    "policy.md": POLICY,
    "errors.md": "Error code ERR-4012 means the payment gateway timed out. Retry after 30 seconds, then contact support.",
    "login.md": "Error code ERR-5001 means authentication failed because the session has expired. Log in again.",
    "hours.md": "Support hours are Monday to Friday, 9am to 5pm. At weekends the on-call engineer answers outages only.",
}
MODEL = {"provider": "fastembed", "model": "all-MiniLM-L6-v2"}


def support(root: Path, *, embedder: Any = None, size: int = 512, overlap: int = 50, **sections: Any) -> KnowledgeBase:
    """Created, with the documents in its folder; nothing is published."""
    (root / "docs").mkdir(parents=True, exist_ok=True)
    for name, text in DOCUMENTS.items():
        (root / "docs" / name).write_text(text + "\n")
    values: dict[str, Any] = {
        "kb": {"name": "support", "repository": str(root / "releases")},
        "sources": [{"name": "docs", "path": str(root / "docs")}],
        "embedder": embedder or MODEL,
        "chunking": {"size": size, "overlap": overlap},
        "build": {"jobs": 1},
    }
    base = KnowledgeBase(Config.model_validate({**values, **sections}))
    base.create()
    return base


class Counting:
    """An embedder that counts the texts it embeds."""

    def __init__(self, embedder: Any) -> None:
        self._embedder = embedder
        self.texts = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._embedder, name)

    def embed_query(self, text: str) -> Any:
        self.texts += 1
        return self._embedder.embed_query(text)

    def embed_queries(self, texts: Sequence[str]) -> Any:
        self.texts += len(texts)
        return self._embedder.embed_queries(texts)

    def embed(self, texts: Sequence[str]) -> Any:
        self.texts += len(texts)
        return self._embedder.embed(texts)
