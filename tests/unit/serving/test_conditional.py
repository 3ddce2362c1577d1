"""Validators: what makes an answer another one."""

from __future__ import annotations

from pathlib import Path

from kbcore.serving.http.conditional import matches, of_search
from tests.support import knowledge_base, refreshed, write


def test_a_validator_names_release_request_settings_erasures_and_checks(tmp_path: Path) -> None:
    base = knowledge_base(tmp_path)
    refreshed(base)
    write(tmp_path / "docs", {"new.md": "# New\n\nSomething.\n"})
    refreshed(base)
    one, two = base.retriever("r000001"), base.retriever("r000002")
    tags = {
        of_search(two, {"query": "a"}),
        of_search(two, {"query": "b"}),
        of_search(one, {"query": "a"}),
        of_search(base.retriever("r000002", mode="keyword"), {"query": "a"}),
    }
    assert len(tags) == 4
    assert of_search(base.retriever("r000002"), {"query": "a"}) in tags
    refreshed(base)  # nothing new, all of it confirmed
    assert of_search(two, {"query": "a"}) not in tags
    confirmed = of_search(two, {"query": "a"})
    base.repository.erase(
        [{"doc_id": "docs:new.md", "content_sha256": None}], reason="r", run=base.repository.begin("t")
    )
    assert of_search(two, {"query": "a"}) != confirmed


def test_validators_are_compared_as_the_header_asks() -> None:
    assert matches('W/"a"', 'W/"a"')
    assert matches('W/"a"', '"b", "a"')
    assert matches('"a"', "*")
    assert not matches('"a"', '"ab"')
    assert not matches('"a"', None)
    assert not matches('"a"', "")
