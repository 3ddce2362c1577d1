"""What every page must be: well-formed, self-contained, without a script, and legible to those who do not see it."""

from __future__ import annotations

import base64
import hashlib
import re
from html.parser import HTMLParser

VOID = {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"}
LOADING = {
    "src",
    "href",
    "srcset",
    "action",
    "formaction",
    "data",
    "poster",
    "background",
    "xlink:href",
    "ping",
    "manifest",
}
ACTIVE = {
    "script",
    "iframe",
    "object",
    "embed",
    "link",
    "base",
    "form",
    "img",
    "foreignobject",
    "audio",
    "video",
    "use",
}


class Page(HTMLParser):
    """Reads a page and fails on the first tag that is closed in the wrong place, or is not closed."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.open: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == [], f"never closed: {self.open}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = [name for name, _ in attrs]
        assert len(names) == len(set(names)), f"an attribute stands twice in {tag}"
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"{tag} closes nothing"
        assert self.open[-1] == tag, f"{tag} closes {self.open}"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] != "style":
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


def check(text: str) -> Page:
    """Assert all that must hold of any page; gives it as it was read."""
    page = Page(text)
    assert text.startswith("<!DOCTYPE html>")
    assert len(page.all("h1")) == 1
    ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(ids) == len(set(ids)), "an id stands twice"
    for tag, attributes in page.tags:
        assert tag not in ACTIVE, f"there is a {tag}"
        for name, value in attributes.items():
            assert not name.startswith("on"), f"{tag} has a handler"
            assert name != "style", "the policy forbids styles of single elements"
            if name in LOADING:
                assert value is not None
                assert value.startswith("#"), f"{tag} leads to {value!r}"
                assert value[1:] in ids, f"{value} leads nowhere"
            if name in ("aria-labelledby", "aria-describedby"):
                assert set((value or "").split()) <= set(ids)
    assert "url(" not in text
    assert "@import" not in text
    assert all(attributes.get("scope") in ("col", "row") for attributes in page.all("th"))
    assert len(page.all("caption")) == len(page.all("table")), "a table has no caption"
    assert all(attributes.get("role") == "img" for attributes in page.all("svg"))
    assert page.tags[0][1] == {"lang": "en"}
    policy = next(a["content"] for a in page.all("meta") if a.get("http-equiv") == "Content-Security-Policy")
    assert policy is not None
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    style = re.search(r"<style>(.*?)</style>", text, re.DOTALL)
    assert style is not None
    assert base64.b64encode(hashlib.sha256(style[1].encode()).digest()).decode() in policy
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]", text)
    return page
