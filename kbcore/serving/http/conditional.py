"""Validators: whether what a caller holds is what it would get again."""

from __future__ import annotations

from typing import Any

from kbcore.fingerprint import canonical, sha256
from kbcore.retrieval.retriever import Retriever


def of_search(retriever: Retriever, request: dict[str, Any]) -> str:
    """The validator of an answer, before it is searched for: the release's manifest, how it is searched, the request, what
    was erased, and the newest check (when documents were last confirmed). It is a weak one: ages go on meanwhile."""
    repository = retriever.repository
    parts = {
        "manifest": retriever.manifest.digest,
        "settings": repr(retriever.settings),
        "request": request,
        "erased": sorted([doc_id, sorted(map(str, digests))] for doc_id, digests in repository.erased().items()),
        "checked": repository.newest_check_file(),
    }
    return f'W/"{sha256(canonical(parts))[:32]}"'


def of_body(body: bytes) -> str:
    return f'"{sha256(body)[:32]}"'


def matches(tag: str, if_none_match: str | None) -> bool:
    """Whether the header names ``tag`` (compared weakly, as RFC 9110 has it for If-None-Match)."""
    if if_none_match is None:
        return False
    bare = tag.removeprefix("W/")
    return any(given.strip().removeprefix("W/") in (bare, "*") for given in if_none_match[:8_000].split(","))
