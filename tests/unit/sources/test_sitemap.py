"""What is read as a sitemap."""

from __future__ import annotations

import gzip
import time

import pytest

from kbcore.sources.web.inflate import gunzip
from kbcore.sources.web.page import read_page
from kbcore.sources.web.sitemap import MOST_ENTRIES, read_sitemap
from tests.unit.sources.site import sitemap

A, B = "https://d.example/a", "https://d.example/b"


def test_pages_come_with_their_time_and_an_index_names_sitemaps() -> None:
    assert read_sitemap(sitemap(A, B).body).pages == ((A, "2026-11-01T00:00:00Z"), (B, "2026-11-01T00:00:00Z"))
    assert [url for url, _ in read_sitemap(sitemap(A, index=True).body).sitemaps] == [A]
    assert read_sitemap(gzip.compress(sitemap(A).body)).pages[0][0] == A
    assert [url for url, _ in read_sitemap(f"{A}\n{B}\n".encode()).pages] == [A, B]
    assert read_sitemap(sitemap().body).pages == ()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"not a sitemap",
        b"<html><body>Log in</body></html>",
        b"<urlset><url><loc>https://d.example/a</loc></url>",
        b'<!DOCTYPE urlset [<!ENTITY x SYSTEM "file:///etc/passwd">]><urlset><url><loc>&x;</loc></url></urlset>',
        b'<!DOCTYPE r [<!ENTITY a "' + b"x" * 1000 + b'"><!ENTITY b "' + b"&a;" * 1000 + b'">]><urlset>&b;</urlset>',
        b"<urlset>" + b"<url>" * 5000 + b"</url>" * 5000 + b"</urlset>",
        b"<urlset>" + b"<url><loc>https://d.example/</loc></url>" * (MOST_ENTRIES + 1) + b"</urlset>",
        gzip.compress(bytes(60_000_000)),
        gzip.compress(sitemap(A).body)[:-9],
    ],
    ids=["empty", "text", "html", "cut", "entity", "laughs", "deep", "long", "bomb", "broken gzip"],
)
def test_what_is_no_sitemap_is_refused_within_bounds(data: bytes) -> None:
    with pytest.raises(ValueError):
        read_sitemap(data)


def test_gzip_of_several_members_with_padding_is_one_text() -> None:
    assert gunzip(gzip.compress(b"one ") + gzip.compress(b"two") + b"\0\0", 100) == b"one two"


PAGE = b"""<html><head><base href="/docs/"><meta name="Robots" content="%s"><link rel="canonical" href="/docs/c?utm_x=1">
</head><body><!-- <a href="/comment"> --><script>"<a href='/script'>"</script><a href="a#x">A</a> <a href="a">A</a>
<a href="../b" rel="nofollow">B</a><a href="mailto:x@y">M</a><a href="javascript:x()">J</a><a href="//o.example/">O</a>
<area href=" d "><a href="http://u:p@d.example/">U</a><a>none</a></body></html>"""


def test_links_are_those_of_the_page_in_one_spelling() -> None:
    facts = read_page(PAGE % b"all", "https://d.example/x/y")
    assert facts.links == ("https://d.example/docs/a", "https://o.example/", "https://d.example/docs/d")
    assert (facts.noindex, facts.canonical) == (False, "https://d.example/docs/c")


def test_a_page_and_its_header_may_forbid_to_index_and_to_follow() -> None:
    assert read_page(PAGE % b"noindex, nofollow", A).noindex
    assert read_page(PAGE % b"noindex, nofollow", A).links == ()
    assert read_page(PAGE % b"NONE", A).noindex
    assert read_page(b"", A, header="noindex").noindex
    assert read_page(b"", A, header="kbcore: noindex", agent="kbcore/0.1").noindex
    assert not read_page(b"", A, header="otherbot: noindex", agent="kbcore/0.1").noindex


def test_bytes_that_are_no_page_have_no_links() -> None:
    for data in (b"", b"\x00\xff" * 500, b"<" * 5000, b"<a href=" * 5000, b"<div>" * 20000):
        assert read_page(data, A).noindex is False


def test_gzip_of_many_small_members_costs_no_more_than_its_bytes() -> None:
    member = gzip.compress(b"")
    started = time.monotonic()
    with pytest.raises(ValueError, match="members"):
        gunzip(member * 200_000, 1000)
    assert gunzip(member * 9_000 + gzip.compress(b"x"), 1000) == b"x"
    assert time.monotonic() - started < 3
