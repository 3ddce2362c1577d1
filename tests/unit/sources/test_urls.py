"""One spelling of a URL, and what is never asked for."""

from __future__ import annotations

import pytest

from kbcore.sources.web.urls import folder, normal, shown, within


@pytest.mark.parametrize(
    ("url", "spelt"),
    [
        ("HTTP://Docs.Example.ORG", "http://docs.example.org/"),
        ("https://docs.example.org:443/a", "https://docs.example.org/a"),
        ("http://docs.example.org:443/a", "http://docs.example.org:443/a"),
        ("https://docs.example.org./a", "https://docs.example.org/a"),
        ("https://docs.example.org/a/./b/../c", "https://docs.example.org/a/c"),
        ("https://docs.example.org/a/%2e%2e/b", "https://docs.example.org/b"),
        ("https://docs.example.org/../../a/..", "https://docs.example.org/"),
        ("https://docs.example.org/%7euser/%e4%f6 x", "https://docs.example.org/~user/%E4%F6%20x"),
        ("https://docs.example.org/100%", "https://docs.example.org/100%25"),
        ("https://docs.example.org/ä", "https://docs.example.org/%C3%A4"),
        ("https://docs.example.org/a?b=1&utm_source=x&c=2#part", "https://docs.example.org/a?b=1&c=2"),
        ("https://docs.example.org/a?utm_campaign=x", "https://docs.example.org/a"),
        ("https://docs.example.org/a?", "https://docs.example.org/a"),
        (
            "https://docs.example.org/a?X-Amz-Signature=1&token=2&sig=3&key=4&page=5",
            "https://docs.example.org/a?page=5",
        ),
        ("https://docs.example.org/a;jsessionid=0A1B?x=1", "https://docs.example.org/a?x=1"),
        ("https://bücher.example/a", "https://xn--bcher-kva.example/a"),
        ("http://[2001:DB8::0:1]/a", "http://[2001:db8::1]/a"),
    ],
)
def test_a_page_has_one_spelling(url: str, spelt: str) -> None:
    assert normal(url) == spelt
    assert normal(spelt) == spelt


@pytest.mark.parametrize(
    "url",
    [
        "ftp://docs.example.org/",
        "file:///etc/passwd",
        "javascript:alert(1)",
        "data:text/html,x",
        "gopher://docs.example.org/",
        "https:///a",
        "https://ada:secret@docs.example.org/",
        "https://docs.example.org@other.example/",
        "https://docs.example.org\\@other.example/",
        "https://docs.example.org/a\x00b",
        "https://docs.example.org:0/",
        "https://docs.example.org:99999/",
        "https://docs.example.org:/",
        "https://docs example.org/",
        "https://%64ocs.example.org/",
        "https://[fe80::1%25eth0]/",
        "https://[::1/",
        "https://" + "a" * 64 + ".example/",
        "https://docs.example.org/" + "a" * 3000,
    ],
)
def test_what_is_no_plain_web_address_is_refused(url: str) -> None:
    with pytest.raises(ValueError):
        normal(url)


def test_a_redirect_keeps_the_parameters_it_needs() -> None:
    assert normal("/x?token=1", "https://docs.example.org/a", as_asked=True) == "https://docs.example.org/x?token=1"


def test_a_prefix_ends_at_a_part_of_the_path() -> None:
    assert within("https://d.example/docs", "https://d.example/docs/")
    assert within("https://d.example/docs/a", "https://d.example/docs")
    assert within("https://d.example/docs?a=1", "https://d.example/docs")
    assert not within("https://d.example/docs-old/a", "https://d.example/docs")
    assert not within("https://d.example.org/docs/", "https://d.example/docs/")
    assert not within("http://d.example/docs/", "https://d.example/docs/")
    assert folder("https://d.example/docs/index.html?x=1") == "https://d.example/docs/"


def test_messages_show_a_url_without_what_may_be_secret() -> None:
    assert shown("https://ada:secret@d.example/a?token=1#x") == "https://d.example/a"
