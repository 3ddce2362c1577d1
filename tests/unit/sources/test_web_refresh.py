"""A knowledge base over a site that changes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kbcore.errors import SourceError
from kbcore.ingest import fetching
from kbcore.ingest.retry import retried
from tests.support import configure, knowledge_base, refreshed, tree
from tests.unit.sources.site import Reply, Site, page, serving, sitemap

NAMES = [f"/docs/{name}.html" for name in ("vpn", "phones", "printers", "badges", "rooms", "parking", "travel", "mail")]


@pytest.fixture
def site() -> Iterator[Site]:
    with serving() as found:
        found.pages["/docs/"] = page("Handbook", "Everything about the office in one place.", links=tuple(NAMES))
        for name in NAMES:
            found.pages[name] = page(name, f"How we handle {name} at the office, in some words.", etag=f'"{name}-1"')
        found.pages["/docs/mail.html"] = page("mail", "Mail goes out at noon and at five.")
        yield found


def base_of(site: Site, root: Path, **more: Any) -> Any:
    source = {
        "name": "site",
        "type": "web",
        "start_urls": [site.url("/docs/")],
        "ports": [site.port],
        "allow_private": ["127.0.0.1"],
        "delay_seconds": 0,
        "request_seconds": 2,
        **more,
    }
    return knowledge_base(root, sources=[source])


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetching, "retried", lambda call: retried(call, base_seconds=0.01))


def changes(report: Any) -> dict[str, int]:
    return {name: count for name, count in report.changes.items() if count}


@pytest.mark.parametrize("by", ["crawl", "sitemap"])
def test_three_states_of_a_site_become_what_was_added_changed_and_removed(site: Site, tmp_path: Path, by: str) -> None:
    def state() -> None:
        """The sitemap says what the start page links to."""
        listed = [site.url(name) for name in ["/docs/", *NAMES] if name in site.pages]
        site.pages["/docs/sitemap.xml"] = sitemap(*listed, *(site.url(name) for name in site.pages if "new" in name))
        site.asked.clear()

    more = {"start_urls": [], "sitemaps": [site.url("/docs/sitemap.xml")]} if by == "sitemap" else {}
    state()
    base = base_of(site, tmp_path, **more)
    assert changes(refreshed(base)) == {"added": 9}
    hit = base.retriever().search("How we handle printers", mode="keyword").hits[0]
    assert hit.uri == site.url("/docs/printers.html")

    state()
    report = refreshed(base)
    assert (report.outcome, changes(report)) == ("unchanged", {"unchanged": 9})
    assert site.count(304) == 7
    assert len(site.asked) == 10 + (by == "sitemap")

    site.pages["/docs/"] = page("Handbook", "Everything about the office.", links=(*NAMES, "/docs/new.html"))
    site.pages["/docs/new.html"] = page("New", "A page about lockers that was not there before.")
    site.pages["/docs/phones.html"] = page("phones", "A lost phone is wiped at once.", etag='"phones-2"')
    site.pages["/docs/vpn.html"] = page("vpn", "The same words under another tag.", etag='"vpn-2"')
    del site.pages["/docs/rooms.html"]
    site.pages["/docs/travel.html"] = Reply(status=410)
    site.pages["/docs/badges.html"] = Reply(status=500)
    state()
    report = refreshed(base)
    assert changes(report) == {"added": 1, "changed": 3, "removed": 2, "unchanged": 3, "carried_over": 1}
    assert site.count(304) == 2
    assert [failure["doc_id"] for failure in report.failures] == [f"site:{site.url('/docs/badges.html')}"]
    assert base.retriever().search("handle badges", mode="keyword").hits[0].carried_over
    assert not any("rooms" in hit.uri for hit in base.retriever().search("rooms", mode="keyword").hits)
    assert base.retriever().search("lockers", mode="keyword").hits

    state()
    site.pages["/docs/badges.html"] = page("badges", "How we handle badges now.", etag='"badges-2"')
    assert changes(refreshed(base)) == {"changed": 1, "unchanged": 7}


def test_the_same_bytes_under_another_validator_change_nothing(site: Site, tmp_path: Path) -> None:
    base = base_of(site, tmp_path)
    refreshed(base)
    site.pages["/docs/vpn.html"].etag = '"other"'
    assert changes(refreshed(base)) == {"unchanged": 9}
    site.asked.clear()
    refreshed(base)
    assert site.count(304) == 7


def test_a_site_that_is_down_removes_nothing(site: Site, tmp_path: Path) -> None:
    base = base_of(site, tmp_path)
    refreshed(base)
    before = base.repository.releases()
    good = dict(site.pages)
    for path in ("/robots.txt", "/docs/"):
        site.pages = {**good, path: Reply(status=503)}
        with pytest.raises(SourceError, match="503"):
            refreshed(base)
    for reply in (Reply(status=503), Reply(status=403), page("Log in"), page("Log in")):
        site.pages = {**good, **{name: reply for name in NAMES}}
        report = refreshed(base)
        assert (report.changes["removed"], report.changes["carried_over"]) == (0, 8)
    assert base.repository.releases() == before


def test_a_bound_on_pages_that_is_reached_removes_nothing_and_is_reported(site: Site, tmp_path: Path) -> None:
    base = base_of(site, tmp_path)
    refreshed(base)
    base.config = configure(tmp_path, sources=[{**base.config.sources[0].model_dump(), "max_pages": 6}])
    report = refreshed(base)
    assert (report.outcome, report.changes["removed"], report.withheld_removals) == ("unchanged", 0, [])
    assert report.sources[0]["complete"] is False
    assert ["more pages than max_pages (6): 3 that" in failure["reason"] for failure in report.failures] == [True]


def test_pages_that_vanish_together_are_withheld(site: Site, tmp_path: Path) -> None:
    base = base_of(site, tmp_path)
    refreshed(base)
    for name in NAMES[:5]:
        del site.pages[name]
    report = refreshed(base)
    assert (report.changes["removed"], len(report.withheld_removals)) == (0, 5)


def test_no_secret_is_kept_in_the_repository(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SITE_TOKEN", "s3cret-bearer")
    links = (
        *NAMES,
        "/docs/vpn.html?token=s3cret-query",
        "http://ada:s3cret-user@127.0.0.1/docs/",
        "/docs/odd?sig=s3cret",
    )
    site.pages["/docs/"] = page("Handbook", "Everything about the office.", links=links)
    site.pages["/docs/odd"] = Reply(status=500)
    base = base_of(site, tmp_path, token_env="SITE_TOKEN")
    report = refreshed(base)
    assert site.asked[-1].headers["authorization"] == "Bearer s3cret-bearer"
    shown = "".join(str(value) for value in report.to_json().values())
    files = b"".join(data for name, data in tree(base.folder).items() if not name.endswith(".parquet"))
    assert "s3cret" not in shown
    assert b"s3cret" not in files
    assert all("s3cret" not in hit.uri for hit in base.retriever().search("office", 50).hits)
