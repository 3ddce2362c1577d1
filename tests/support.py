"""What several tests need: a small knowledge base in a temporary folder, built with the embedder that needs no model."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kbcore.config import Config
from kbcore.ingest.refresh import refresh
from kbcore.ingest.report import RefreshReport
from kbcore.knowledge_base import KnowledgeBase
from kbcore.store.objects import FileSystem, LocalStore

ROOT = Path(__file__).parents[1]
SHARED = ROOT.parent / "shared" / "data"

DOCUMENTS = {
    "vpn.md": "# VPN\n\nTo connect, open the client and choose the *Office* profile.\n\n"
    "## Errors\n\nERR-4012 means that the gateway did not answer.\n",
    "passwords.md": "# Passwords\n\nA password is reset at the self-service page and must have fourteen characters.\n",
    "printers.txt": "Printers\n\nFollow-me printing works with the badge on every floor.\n",
    "phones.html": "<html><head><title>Phones</title></head><body><h1>Phones</h1>"
    "<p>A lost phone is wiped by the service desk on the same day.</p></body></html>",
}


def write(folder: Path, documents: Mapping[str, str | bytes | None]) -> None:
    """Write documents below ``folder``; None deletes one."""
    for name, content in documents.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if content is None:
            path.unlink()
        else:
            path.write_bytes(content if isinstance(content, bytes) else content.encode())


def configure(root: Path, **sections: Any) -> Config:
    values: dict[str, Any] = {
        "kb": {"name": "test", "repository": str(root / "releases")},
        "sources": [{"name": "docs", "path": str(root / "docs"), "include": ["**/*"]}],
        "embedder": {"provider": "hashing", "dimension": 64},
    }
    return Config.model_validate({**values, **sections})


def knowledge_base(
    root: Path, documents: Mapping[str, str | bytes] = DOCUMENTS, *, fs: FileSystem | None = None, **sections: Any
) -> KnowledgeBase:
    """A created repository below ``root`` with its source folder; nothing is published yet."""
    (root / "docs").mkdir(parents=True, exist_ok=True)
    write(root / "docs", documents)
    base = KnowledgeBase(configure(root, **sections))
    if fs is not None:
        base.__dict__["store"] = LocalStore(base.folder, fs)
    base.create()
    return base


def refreshed(base: KnowledgeBase, **parameters: Any) -> RefreshReport:
    return refresh(base.repository, base.config, **parameters)


def answers(base: KnowledgeBase, release: str = "current", k: int = 20) -> list[list[tuple[str, float]]]:
    """Ids and scores of some questions in all modes."""
    retriever = base.retriever(release)
    return [
        [(hit.chunk_id, hit.score) for hit in retriever.search(question, k, mode=mode).hits]
        for question in ("ERR-4012 gateway", "reset my password", "lost phone", "printing")
        for mode in ("vector", "keyword", "hybrid")
    ]


def tree(folder: Path) -> dict[str, bytes]:
    """Every file below a folder with its content."""
    return {os.path.relpath(p, folder): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def served(base: KnowledgeBase) -> dict[str, bytes]:
    """All that readers rest on: what is published, less the records of what each run saw."""
    return {name: data for name, data in published(base).items() if not name.startswith("checks")}


def published(base: KnowledgeBase) -> dict[str, bytes]:
    """The files that may never change once they are there."""
    passing = ("staging", "cache", "lease")
    return {name: data for name, data in tree(base.folder).items() if not name.startswith(passing)}
