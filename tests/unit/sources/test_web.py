"""What a listing of a web site says, and what it does not."""

from __future__ import annotations

import itertools
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from kbcore.config import load
from kbcore.config.sources import WebSection
from kbcore.errors import ConfigError, DocumentError, SkippedDocumentError, SourceError
from kbcore.sources import make_source
from kbcore.sources.web.source import WebSource
from kbcore.types import Listed, Listing
from tests.unit.sources.site import Reply, Site, page, redirect, serving, sitemap

NOW = "2026-11-30T04:00:00Z"
OLD = "Wed, 25 Nov 2015 08:00:00 GMT"


@pytest.fixture
def site() -> Iterator[Site]:
    with serving() as found:
        yield found


@pytest.fixture
def other() -> Iterator[Site]:
    with serving("127.0.0.2") as found:
        yield found


def section(site: Site, **more: Any) -> WebSection:
    values: dict[str, Any] = {"ports": [site.port], "allow_private": ["127.0.0.0/8"], "delay_seconds": 0}
    if "sitemaps" not in more and "start_urls" not in more:
        values["start_urls"] = [site.url("/docs/")]
    return WebSection.model_validate({"name": "web", "type": "web", "request_seconds": 2, **values, **more})


def web(site: Site, cache: Path, **more: Any) -> WebSource:
    return WebSource(section(site, **more), cache=cache)


def mapped(site: Site, cache: Path, *paths: str, **more: Any) -> WebSource:
    """A source over a sitemap of these paths."""
    site.pages["/docs/sitemap.xml"] = sitemap(*(site.url(path) for path in paths))
    return web(site, cache, sitemaps=[site.url("/docs/sitemap.xml")], **more)


def paths(listing: Listing) -> list[str]:
    return [item.uri.split("/", 3)[3] for item in listing.items]


def again(source: WebSource, listing: Listing) -> Listing:
    """Another listing, told what the first one said."""
    source.known({item.uri: item.etag for item in listing.items if item.etag})
    return source.list(NOW)


def docs(site: Site) -> None:
    site.pages |= {
        "/docs/": page("home", links=("a.html", "/docs/b.html?utm_source=x#part", "deep/c", "/blog/", "pic.png")),
        "/docs/a.html": page("a", links=("/docs/",), etag='"a1"'),
        "/docs/b.html": page("b", modified=OLD),
        "/docs/deep/c": page("c", links=("d",)),
        "/docs/deep/d": page("d"),
        "/blog/": page("blog"),
    }


def test_a_crawl_lists_what_links_lead_to_within_the_prefix(site: Site, tmp_path: Path) -> None:
    docs(site)
    source = web(site, tmp_path)
    listing = source.list(NOW)
    assert paths(listing) == ["docs/", "docs/a.html", "docs/b.html", "docs/deep/c", "docs/deep/d"]
    assert (listing.complete, listing.problems) == (True, ())
    assert "/blog/" not in site.paths()
    assert "/docs/pic.png" not in site.paths()
    assert len(site.paths()) == 6  # robots.txt and each page once
    fetched = [source.fetch(item, NOW) for item in listing.items]
    assert len(site.paths()) == 6  # the bodies were kept
    assert fetched[1].data == site.pages["/docs/a.html"].body
    assert [entry.etag for entry in fetched] == [item.etag for item in listing.items]
    assert (fetched[1].etag, fetched[2].etag) == ('"a1"', f"modified {OLD}")
    assert fetched[3].etag is not None
    assert fetched[3].etag.startswith("sha256-")
    assert (fetched[2].modified_at, fetched[2].media_type) == ("2015-11-25T08:00:00Z", "text/html")


def test_pages_that_did_not_change_are_not_sent_again_and_their_links_stay(site: Site, tmp_path: Path) -> None:
    docs(site)
    site.pages["/docs/deep/c"] = page("c", links=("d",), etag='"c1"')
    source = web(site, tmp_path)
    first = source.list(NOW)
    site.asked.clear()
    second = again(web(site, tmp_path), first)
    assert [(item.uri, item.etag) for item in second.items] == [(item.uri, item.etag) for item in first.items]
    assert site.count(304) == 3
    assert "docs/deep/d" in paths(second)


def test_a_lost_cache_costs_requests_and_nothing_else(site: Site, tmp_path: Path) -> None:
    docs(site)
    first = web(site, tmp_path / "one").list(NOW)
    assert paths(again(web(site, tmp_path / "two"), first)) == paths(first)
    (tmp_path / "one" / "pages.json").write_bytes(b'{"format": 1')
    assert paths(again(web(site, tmp_path / "one"), first)) == paths(first)
    unwritable = tmp_path / "file"
    unwritable.write_text("")
    source = web(site, unwritable)
    item = source.list(NOW).items[0]
    with pytest.raises(DocumentError, match="could not be kept"):
        source.fetch(item, NOW)


def test_a_sitemap_lists_pages_and_asks_on_condition(site: Site, tmp_path: Path) -> None:
    docs(site)
    source = mapped(site, tmp_path, "/docs/a.html", "/docs/b.html", "/docs/deep/d", "/blog/")
    first = source.list(NOW)
    assert paths(first) == ["docs/a.html", "docs/b.html", "docs/deep/d"]
    assert [item.modified_at for item in first.items] == [
        "2026-11-01T00:00:00Z",
        "2015-11-25T08:00:00Z",
        "2026-11-01T00:00:00Z",
    ]
    site.asked.clear()
    second = again(source, first)
    assert [item.etag for item in second.items] == [item.etag for item in first.items]
    assert site.count(304) == 2
    assert "authorization" not in site.asked[0].headers


def test_an_index_of_sitemaps_is_read_with_gzip_and_without_circles(site: Site, tmp_path: Path) -> None:
    docs(site)
    packed = sitemap(site.url("/docs/a.html"))
    import gzip

    site.pages["/index.xml"] = sitemap(
        site.url("/one.xml.gz"), site.url("/two.xml"), site.url("/index.xml"), index=True
    )
    site.pages["/one.xml.gz"] = Reply(gzip.compress(packed.body), kind="application/gzip")
    site.pages["/two.xml"] = sitemap(site.url("/docs/b.html"), site.url("/docs/a.html"))
    source = web(site, tmp_path, sitemaps=[site.url("/index.xml")], prefix=site.url("/docs"))
    assert paths(source.list(NOW)) == ["docs/a.html", "docs/b.html"]
    site.pages["/two.xml"] = Reply(status=500)
    with pytest.raises(SourceError, match=r"two\.xml answers 500"):
        source.list(NOW)


@pytest.mark.parametrize("status", [404, 410])
def test_a_page_that_is_gone_is_left_out_of_a_complete_listing(site: Site, tmp_path: Path, status: int) -> None:
    docs(site)
    source = mapped(site, tmp_path, "/docs/a.html", "/docs/b.html")
    first = source.list(NOW)
    site.pages["/docs/a.html"] = Reply(b"gone", status)
    second = again(source, first)
    assert (paths(second), second.complete, second.problems) == (["docs/b.html"], True, ())


def broken(out: Any) -> None:
    out.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")


NEVER_GONE = {
    "500": Reply(status=500),
    "503": Reply(status=503),
    "429": Reply(status=429, headers={"Retry-After": "0"}),
    "401": Reply(status=401),
    "403": Reply(status=403),
    "400": Reply(status=400),
    "204": Reply(status=204),
    "empty": Reply(),
    "broken": Reply(write=broken),
    "closed": Reply(write=lambda out: None),
    "silent": Reply(write=lambda out: time.sleep(1.2)),
    "login": redirect("/docs/login?next=/docs/a.html"),
    "sign in": redirect("/accounts/sign_in"),
    "other host": redirect("http://127.0.0.2:1/"),
    "metadata": redirect("http://169.254.169.254/latest/meta-data/"),
    "own machine": redirect("http://127.0.0.1:22/"),
    "outside": redirect("/blog/"),
    "circle": redirect("/docs/a.html"),
    "odd encoding": page("a", headers={"Content-Encoding": "br"}),
}


@pytest.mark.parametrize("way", NEVER_GONE)
def test_a_page_that_fails_is_a_problem_and_never_gone(site: Site, tmp_path: Path, way: str) -> None:
    docs(site)
    source = mapped(site, tmp_path, "/docs/a.html", "/docs/b.html", request_seconds=0.5)
    first = source.list(NOW)
    site.pages["/docs/a.html"] = NEVER_GONE[way]
    site.pages["/docs/login?next=/docs/a.html"] = page("Log in")
    second = again(source, first)
    assert paths(second) == ["docs/b.html"]
    assert [uri for uri, _ in second.problems] == [site.url("/docs/a.html")]
    with pytest.raises(DocumentError):
        source.fetch(Listed(site.url("/docs/a.html")), NOW)


def test_an_answer_that_nothing_changed_counts_only_where_that_was_asked(site: Site, tmp_path: Path) -> None:
    docs(site)
    site.pages["/docs/a.html"] = Reply(status=304)
    listing = mapped(site, tmp_path, "/docs/a.html", "/docs/b.html").list(NOW)
    assert paths(listing) == ["docs/b.html"]
    assert "not conditional" in listing.problems[0][1]


def test_what_fails_for_now_is_asked_for_once_more(site: Site, tmp_path: Path) -> None:
    docs(site)
    source = mapped(site, tmp_path, "/docs/a.html", "/docs/b.html")
    source.list(NOW)
    good = site.pages["/docs/a.html"]
    site.pages["/docs/a.html"] = Reply(status=503, headers={"Retry-After": "1"})
    threading.Timer(0.5, lambda: site.pages.update({"/docs/a.html": good})).start()
    started = time.monotonic()
    assert paths(source.list(NOW)) == ["docs/a.html", "docs/b.html"]
    assert time.monotonic() - started >= 1.0  # the pause that was asked for


@pytest.mark.parametrize("status", [429, 500, 503])
def test_robots_that_cannot_be_had_is_a_site_that_cannot(site: Site, tmp_path: Path, status: int) -> None:
    docs(site)
    site.pages["/robots.txt"] = Reply(status=status)
    with pytest.raises(SourceError, match=f"robots.txt answers {status}") as caught:
        web(site, tmp_path).list(NOW)
    assert caught.value.transient
    assert site.paths() == ["/robots.txt"]


def test_what_robots_forbids_is_not_asked_for(site: Site, tmp_path: Path) -> None:
    docs(site)
    rules = b"User-agent: *\nDisallow: /docs/deep/\n\nUser-agent: kbcore\nDisallow: /docs/a\nDisallow: /docs/deep/c$\n"
    site.pages["/robots.txt"] = Reply(rules, kind="text/plain")
    assert paths(web(site, tmp_path).list(NOW)) == ["docs/", "docs/b.html"]
    assert not {"/docs/a.html", "/docs/deep/c"} & set(site.paths())
    site.pages["/robots.txt"] = Reply(b"User-agent: *\nDisallow: /\n", kind="text/plain")
    with pytest.raises(SourceError, match=r"robots\.txt forbids it"):
        web(site, tmp_path).list(NOW)


@pytest.mark.parametrize(
    ("start", "transient"), [(Reply(status=404), False), (Reply(status=503), True), (redirect("/login"), False)]
)
def test_a_start_page_that_fails_fails_the_listing(site: Site, tmp_path: Path, start: Reply, transient: bool) -> None:
    site.pages["/docs/"] = start
    with pytest.raises(SourceError, match="the start page") as caught:
        web(site, tmp_path).list(NOW)
    assert caught.value.transient == transient


@pytest.mark.parametrize(
    "found",
    [
        Reply(status=404),
        Reply(status=503),
        page("Log in"),
        sitemap(),
        sitemap("https://elsewhere.example/a"),
        redirect("http://127.0.0.2:1/login"),
    ],
    ids=["404", "503", "html", "empty", "other site", "other host"],
)
def test_a_sitemap_that_fails_or_lists_nothing_fails_the_listing(site: Site, tmp_path: Path, found: Reply) -> None:
    site.pages["/docs/sitemap.xml"] = found
    with pytest.raises(SourceError, match="sitemap"):
        web(site, tmp_path, sitemaps=[site.url("/docs/sitemap.xml")]).list(NOW)


def test_a_site_without_any_page_left_is_no_empty_site(site: Site, tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="none of 3 pages"):
        mapped(site, tmp_path, "/docs/a", "/docs/b", "/docs/c").list(NOW)


def test_a_site_that_stops_answering_is_left_alone(site: Site, tmp_path: Path) -> None:
    many = [f"/docs/{n}" for n in range(200)]
    site.pages |= {path: Reply(status=503) for path in many}
    with pytest.raises(SourceError, match="does not answer any more"):
        mapped(site, tmp_path, *many).list(NOW)
    assert len(site.asked) < 40


def test_a_crawl_that_reaches_a_bound_is_incomplete(site: Site, tmp_path: Path) -> None:
    docs(site)
    listing = web(site, tmp_path, max_pages=3).list(NOW)
    assert (len(listing.items), listing.complete) == (3, False)
    assert "max_pages" in listing.problems[0][1]
    listing = web(site, tmp_path, total_seconds=0.5, delay_seconds=0.2).list(NOW)
    assert not listing.complete
    assert "total_seconds" in listing.problems[0][1]
    assert web(site, tmp_path, max_depth=1).list(NOW).complete
    assert "docs/deep/d" not in paths(web(site, tmp_path, max_depth=1).list(NOW))


@pytest.mark.parametrize("by", ["crawl", "sitemap"])
def test_a_bound_on_pages_is_named_with_its_number_and_how_many_were_left(site: Site, tmp_path: Path, by: str) -> None:
    docs(site)
    if by == "crawl":
        listing = web(site, tmp_path, max_pages=3).list(NOW)
    else:
        names = ("/docs/", "/docs/a.html", "/docs/b.html", "/docs/deep/c")
        listing = mapped(site, tmp_path, *names, max_pages=3).list(NOW)
    [(where, reason)] = listing.problems
    assert where == site.url("/docs/")
    assert "more pages than max_pages (3): 1 that are linked or listed" in reason
    assert "raise max_pages" in reason


def test_with_too_many_pages_those_that_are_held_stay_and_new_ones_fill_the_room_of_those_gone(
    site: Site, tmp_path: Path
) -> None:
    old, new = [f"/docs/old{n}" for n in range(6)], [f"/docs/new{n}" for n in range(9)]
    site.pages |= {path: page(path) for path in (*old, *new)}
    site.pages |= {
        "/docs/": page("home", links=("hub", *old[:3])),
        "/docs/hub": page("hub", head='<meta name="robots" content="noindex">', links=tuple(old[3:])),
    }
    source = web(site, tmp_path, max_pages=8)
    first = source.list(NOW)
    assert (first.complete, paths(first)) == (True, ["docs/", *(path[1:] for path in old)])
    # Everything new is nearer to the start than what is held.
    site.pages["/docs/"] = page("home", links=(*new, *old[:3], "hub"))
    second = again(source, first)
    assert (second.complete, paths(second)) == (False, paths(first))
    assert paths(again(web(site, tmp_path, max_pages=8), second)) == paths(first)
    del site.pages["/docs/old1"], site.pages["/docs/old4"]
    site.pages["/docs/"] = page("home", links=(*new, "old0", "old2", "hub"))
    site.pages["/docs/hub"] = page("hub", head='<meta name="robots" content="noindex">', links=("old3", "old5"))
    third = again(source, second)
    assert [path for path in paths(third) if "old" in path] == ["docs/old0", "docs/old2", "docs/old3", "docs/old5"]
    assert [path for path in paths(third) if "new" in path] == ["docs/new0", "docs/new1"]
    assert not third.complete


def test_all_start_urls_are_asked_for_whatever_the_bound_on_pages(site: Site, tmp_path: Path) -> None:
    docs(site)
    starts = [site.url("/docs/"), site.url("/docs/a.html")]
    listing = web(site, tmp_path, start_urls=starts, max_pages=1).list(NOW)
    assert paths(listing) == ["docs/", "docs/a.html"]


def test_a_page_that_fails_in_a_crawl_keeps_the_links_it_had(site: Site, tmp_path: Path) -> None:
    docs(site)
    source = web(site, tmp_path)
    first = source.list(NOW)
    site.pages["/docs/deep/c"] = Reply(status=500)
    second = again(source, first)
    assert "docs/deep/d" in paths(second)
    assert second.complete
    assert [uri for uri, _ in second.problems] == [site.url("/docs/deep/c")]
    (tmp_path / "pages.json").unlink()
    third = again(source, first)
    assert not third.complete
    assert "docs/deep/d" not in paths(third)


def test_noindex_and_canonical_say_what_is_a_document(site: Site, tmp_path: Path) -> None:
    site.pages |= {
        "/docs/": page("home", links=("hidden", "header", "print", "odd"), etag='"1"'),
        "/docs/hidden": page("hidden", head='<meta name="robots" content="noindex">', links=("a",), etag='"1"'),
        "/docs/header": page("header", headers={"X-Robots-Tag": "noindex, nofollow"}, links=("never",)),
        "/docs/print": page("a for print", head='<link rel="canonical" href="/docs/a">'),
        "/docs/odd": page("odd", head='<link rel="canonical" href="/docs/missing">'),
        "/docs/a": page("a", head='<link rel="canonical" href="/docs/a">'),
        "/docs/never": page("never"),
    }
    source = web(site, tmp_path)
    first = source.list(NOW)
    assert paths(first) == ["docs/", "docs/a", "docs/odd"]
    assert paths(again(source, first)) == paths(first)
    assert "/docs/never" not in site.paths()
    with pytest.raises(SkippedDocumentError, match="noindex"):
        source.fetch(Listed(site.url("/docs/hidden")), NOW)


def test_an_address_that_is_redirected_stands_for_the_page_it_leads_to(site: Site, tmp_path: Path) -> None:
    site.pages |= {
        "/docs/": page("home", links=("old", "older", "new")),
        "/docs/old": redirect("/docs/new", 301),
        "/docs/older": redirect("/docs/elsewhere", 301),
        "/docs/new": page("new", etag='"n"'),
        "/docs/elsewhere": page("elsewhere", etag='"e"'),
    }
    source = web(site, tmp_path)
    first = source.list(NOW)
    assert paths(first) == ["docs/", "docs/elsewhere", "docs/new"]
    second = again(source, first)
    assert [item.etag for item in second.items] == [item.etag for item in first.items]
    assert site.count(304) == 3


def test_many_pages_with_one_answer_are_an_error_page(site: Site, tmp_path: Path) -> None:
    names = [f"/docs/{n}" for n in range(6)]
    site.pages |= {name: page(name) for name in names}
    source = mapped(site, tmp_path, *names)
    first = source.list(NOW)
    site.pages |= {name: page("We are back soon") for name in names[:4]}
    second = again(source, first)
    assert paths(second) == ["docs/4", "docs/5"]
    assert len(second.problems) == 4
    site.pages |= {name: redirect("/docs/5") for name in names[:4]}
    assert len(again(source, first).problems) == 4
    source.known(dict.fromkeys((item.uri for item in first.items), None))  # after a run in which they failed
    assert len(source.list(NOW).problems) == 4
    site.pages |= {name: page("We are back soon") for name in names[:3]}
    site.pages[names[3]] = page(names[3])
    assert len(again(source, first).problems) == 0


def test_pages_that_were_equal_before_may_stay_equal(site: Site, tmp_path: Path) -> None:
    names = [f"/docs/{n}" for n in range(6)]
    site.pages |= {name: page("stub", etag='"1"') for name in names}
    source = mapped(site, tmp_path, *names)
    first = source.list(NOW)
    site.pages |= {name: page("stub", etag='"2"') for name in names}
    assert again(source, first).problems == ()


def test_globs_choose_documents_and_what_is_asked_for(site: Site, tmp_path: Path) -> None:
    docs(site)
    source = web(site, tmp_path, include=["/docs/**/*.html", "/docs/deep/d"], exclude=["/docs/b*"])
    assert paths(source.list(NOW)) == ["docs/a.html", "docs/deep/d"]
    assert "/docs/b.html" not in site.paths()


def test_a_file_on_an_allowed_host_keeps_the_address_that_names_it(site: Site, other: Site, tmp_path: Path) -> None:
    docs(site)
    site.pages["/docs/a.html"] = redirect(other.url("/files/a.html?sig=1"))
    other.pages["/files/a.html?sig=1"] = page("a file")
    more = {"ports": [site.port, other.port], "allow_hosts": ["127.0.0.2"], "token_env": "WEB_TEST_TOKEN"}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WEB_TEST_TOKEN", "s3cret")
        source = mapped(site, tmp_path, "/docs/a.html", **more)
    listing = source.list(NOW)
    assert paths(listing) == ["docs/a.html"]
    assert b"a file" in source.fetch(listing.items[0], NOW).data
    assert all("authorization" not in entry.headers for entry in other.asked)
    assert site.asked[-1].headers["authorization"] == "Bearer s3cret"
    kept = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert b"s3cret" not in kept
    assert b"sig=" not in kept


def test_requests_to_a_site_keep_their_distance(site: Site, tmp_path: Path) -> None:
    docs(site)
    web(site, tmp_path, delay_seconds=0.1).list(NOW)
    times = [entry.at for entry in site.asked]
    assert min(b - a for a, b in itertools.pairwise(times)) > 0.07
    site.asked.clear()
    site.pages["/robots.txt"] = Reply(b"User-agent: *\nCrawl-delay: 0.2\n", kind="text/plain")
    web(site, tmp_path, max_pages=3).list(NOW)
    times = [entry.at for entry in site.asked]
    assert min(b - a for a, b in itertools.pairwise(times)) > 0.15


def test_the_probe_asks_little_and_writes_nothing(site: Site, tmp_path: Path) -> None:
    docs(site)
    assert "answers" in web(site, tmp_path / "cache").probe()
    assert "lists 2 pages" in mapped(site, tmp_path / "cache", "/docs/a", "/docs/b").probe()
    assert len(site.asked) == 3
    assert not (tmp_path / "cache").exists()
    site.pages["/docs/"] = Reply(status=503)
    with pytest.raises(SourceError, match="answers 503"):
        web(site, tmp_path / "cache").probe()


def test_kept_bodies_go_with_the_source(site: Site, tmp_path: Path) -> None:
    docs(site)
    source = web(site, tmp_path)
    source.list(NOW)
    assert list(tmp_path.glob("spool-*/*"))
    del source
    assert [path.name for path in tmp_path.iterdir()] == ["pages.json"]


@pytest.mark.parametrize(
    ("values", "word"),
    [
        ({}, "start_urls or sitemaps"),
        ({"start_urls": ["https://ada:s3cret@d.example/"]}, "token_env"),
        ({"start_urls": ["ftp://d.example/"]}, "http"),
        ({"start_urls": ["http://d.example/"], "token_env": "T"}, "https only"),
        ({"start_urls": ["https://d.example/"], "allow_private": ["10.0.0.0/99"]}, "10.0.0.0/99"),
        ({"start_urls": ["https://d.example/"], "ports": [0]}, "ports"),
        ({"start_urls": ["https://d.example/"], "user_agent": "a\r\nX: y"}, "user_agent"),
        ({"start_urls": ["https://d.example/"], "max_page": 1}, "did you mean 'max_pages'"),
    ],
)
def test_a_section_that_cannot_work_is_refused_without_showing_secrets(
    tmp_path: Path, values: dict[str, Any], word: str
) -> None:
    import json

    lines = [f"{name} = {json.dumps(value)}" for name, value in values.items()]
    file = tmp_path / "kb.toml"
    file.write_text('[kb]\nname = "t"\n[[sources]]\nname = "web"\ntype = "web"\n' + "\n".join(lines) + "\n")
    with pytest.raises(ConfigError) as caught:
        load(file, {})
    assert word in str(caught.value)
    assert "s3cret" not in str(caught.value)
    with pytest.raises(ValidationError):
        WebSection.model_validate({"name": "web", "type": "web", **values})


def test_a_source_that_cannot_work_says_what_to_mend(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    base: dict[str, Any] = {"name": "web", "type": "web", "start_urls": ["https://d.example/docs/"]}
    for more, word in (
        ({"token_env": "NO_SUCH_TOKEN"}, "export NO_SUCH_TOKEN"),
        ({"prefix": "https://d.example/blog/"}, "not below prefix"),
        ({"start_urls": ["https://2130706433/"]}, "unusual form"),
    ):
        with pytest.raises(ConfigError, match=word):
            make_source(WebSection.model_validate({**base, **more}), cache=tmp_path)
    for name in ("httpx2", "protego"):
        with monkeypatch.context() as patch:
            for module in ("http", "source", "robots", "visit", "crawl"):
                patch.delitem(sys.modules, f"kbcore.sources.web.{module}", raising=False)
            patch.setitem(sys.modules, name, None)
            with pytest.raises(ConfigError, match=rf"{name} is not installed\n.*kbcore\[web\]"):
                make_source(WebSection.model_validate(base), cache=tmp_path)


def test_a_page_with_more_links_than_are_read_leaves_the_listing_incomplete_also_when_it_did_not_change(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kbcore.sources.web.page.MOST_LINKS", 3)
    site.pages["/docs/"] = page("Start", links=tuple(f"/docs/{n}" for n in range(6)), etag='"1"')
    for number in range(6):
        site.pages[f"/docs/{number}"] = page(f"Page {number}")
    first = web(site, tmp_path).list(NOW)
    assert not first.complete
    assert any("more links than are read" in reason for _, reason in first.problems)
    again = web(site, tmp_path)
    again.known({item.uri: item.etag for item in first.items})
    assert not again.list(NOW).complete


def test_sitemaps_that_are_not_read_leave_the_listing_incomplete(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"/docs/s{n}.xml" for n in range(4)]
    for number, name in enumerate(names):
        site.pages[name] = sitemap(site.url(f"/docs/{number}"))
        site.pages[f"/docs/{number}"] = page(f"Page {number}")
    site.pages["/docs/all.xml"] = sitemap(*(site.url(name) for name in names), index=True)
    source = web(site, tmp_path, sitemaps=[site.url("/docs/all.xml")])
    assert source.list(NOW).complete
    monkeypatch.setattr("kbcore.sources.web.source.MOST_SITEMAPS", 3)
    cut = source.list(NOW)
    assert (len(cut.items), cut.complete) == (2, False)


def test_a_page_that_failed_at_first_leads_as_far_as_it_would_have(site: Site, tmp_path: Path) -> None:
    links = {"": "ab", "a": "c", "b": "x", "x": "c", "c": "d", "d": ""}
    for name, to in links.items():
        site.pages[f"/docs/{name}"] = page(name or "start", links=tuple(f"/docs/{other}" for other in to))
    whole = paths(web(site, tmp_path / "one", max_depth=3).list(NOW))
    good = site.pages["/docs/a"]

    def busy_once(out: Any) -> None:
        site.pages["/docs/a"] = good
        out.write(b"HTTP/1.0 503 Busy\r\nContent-Length: 0\r\n\r\n")

    site.pages["/docs/a"] = Reply(write=busy_once)
    listing = web(site, tmp_path / "two", max_depth=3).list(NOW)
    assert (paths(listing), listing.complete) == (whole, True)


def test_a_lost_cache_never_makes_a_listing_complete_that_cannot_see_behind_a_page(site: Site, tmp_path: Path) -> None:
    site.pages["/docs/"] = page("Start", links=("/docs/hub", "/docs/p/a"))
    site.pages["/docs/hub"] = page("Hub", links=("/docs/p/b",))
    for name in ("a", "b"):
        site.pages[f"/docs/p/{name}"] = page(name)
    first = web(site, tmp_path, include=["docs/p/**"]).list(NOW)
    assert paths(first) == ["docs/p/a", "docs/p/b"]
    site.pages["/docs/hub"] = Reply(status=403)
    (tmp_path / "pages.json").unlink()
    again = web(site, tmp_path, include=["docs/p/**"])
    again.known({item.uri: item.etag for item in first.items})
    assert not again.list(NOW).complete
