"""The newest validators of documents, between runs. Only a cache: where it is lost, the next run reads files once more."""

from __future__ import annotations

import json

from kbcore.errors import KbError
from kbcore.fingerprint import canonical
from kbcore.ingest.plan import Plan
from kbcore.store import layout
from kbcore.store.repository import Repository

FILE = f"{layout.CACHE}/validators.json"


def known(repository: Repository) -> dict[str, tuple[str, str]]:
    """By doc_id: the newest validator, and the digest of the bytes it stands for."""
    try:
        found = json.loads(repository.store.get(FILE))
        return {str(doc_id): (str(etag), str(content)) for doc_id, (etag, content) in found.items()}
    except (OSError, ValueError, AttributeError, TypeError):
        return {}


def keep(repository: Repository, plan: Plan, before: dict[str, tuple[str, str]]) -> None:
    """Write down what ``plan`` saw over what was known ``before``, less what the base does not hold."""
    held = plan.base.held
    fresh = {doc_id: entry for doc_id, entry in before.items() if doc_id in held}
    fresh |= {doc_id: (etag, held[doc_id].content_sha256) for doc_id, etag in plan.etags.items()}
    fresh |= {row.doc_id: (row.etag, row.content_sha256) for row in plan.rows if row.etag}
    if fresh != before:
        try:
            repository.store.replace(FILE, canonical(fresh))
        except (OSError, KbError):
            pass
