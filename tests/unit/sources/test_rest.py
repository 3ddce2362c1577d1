"""What a REST source makes of what APIs answer, over a real connection."""

from __future__ import annotations

import base64
import gc
import os
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("dlt")

from kbcore.config import effective, load
from kbcore.config.sources import RestSection
from kbcore.errors import ConfigError, DocumentError, SkippedDocumentError, SourceError
from kbcore.sources import make_source
from kbcore.sources.rest import session as rest_session
from kbcore.sources.rest.recipe import load_recipe
from kbcore.sources.rest.source import RestSource
from tests.support import ROOT, knowledge_base, refreshed
from tests.unit.sources.dripping import dripping
from tests.unit.sources.rest_server import (
    Articles,
    Asked,
    Reply,
    Site,
    confluence,
    mediawiki,
    servicenow,
    serving,
    zendesk,
)

AT = "2026-11-30T08:00:00Z"
SECRET = "s3cr3t-T0ken/planted+value"
SYSTEMS: dict[str, tuple[Callable[[Articles], Callable[[Asked], Reply]], dict[str, str]]] = {
    "mediawiki": (mediawiki, {}),
    "zendesk": (zendesk, {"locale": "en-us"}),
    "confluence": (confluence, {"space_id": "7"}),
    "servicenow": (servicenow, {"page_size": "4"}),
}
AUTH = {"mediawiki": {}, "zendesk": True, "confluence": True, "servicenow": True}


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("KB_TEST_TOKEN", SECRET)
    monkeypatch.setenv("KB_TEST_USER", "agent@example.com")
    monkeypatch.setattr(rest_session, "BACKOFF_SECONDS", 0.01)


@pytest.fixture(params=list(SYSTEMS))
def system(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def articles() -> Articles:
    return Articles(10)


@pytest.fixture
def site(system: str, articles: Articles) -> Iterator[Site]:
    with serving(Site(SYSTEMS[system][0](articles))) as running:
        yield running


def section(site: Site, system: str, **values: Any) -> RestSection:
    credentials = {"token_env": "KB_TEST_TOKEN", "user_env": "KB_TEST_USER"} if AUTH.get(system) else {}
    given = {"parameters": SYSTEMS.get(system, (None, {}))[1], **credentials, **values}
    return RestSection(name="kb", type="rest", recipe=system, base_url=site.url, allow_http=True, **given)


def source(site: Site, system: str, tmp_path: Path, **values: Any) -> RestSource:
    return RestSource(section(site, system, **values), cache=tmp_path / "cache")


def key(system: str, number: int) -> str:
    return f"page/{'KB' if system == 'servicenow' else ''}{100 + number}"


def test_every_page_of_the_list_is_read_and_bodies_carry_their_titles(
    site: Site, system: str, articles: Articles, tmp_path: Path
) -> None:
    read = source(site, system, tmp_path)
    listing = read.list(AT)
    assert listing.complete
    assert [item.uri for item in listing.items] == [key(system, n) for n in range(1, 11)]
    assert listing.items[0].modified_at == "2026-11-01T10:00:00Z"
    fetched = read.fetch(listing.items[2], AT)
    assert fetched.media_type == "text/html"
    assert fetched.etag == listing.items[2].etag
    assert b"<title>Title 3</title>" in fetched.data
    assert b"<h1>Title 3</h1>\n<p>Body number 3 of the help desk.</p>" in fetched.data
    assert "10 items" in read.probe() or "4 items" in read.probe()


def test_a_validator_changes_with_the_revision_and_with_nothing_else(
    site: Site, system: str, articles: Articles, tmp_path: Path
) -> None:
    before = {item.uri: item.etag for item in source(site, system, tmp_path).list(AT).items}
    articles.put("103", "Title 3", "<p>Another text about badges.</p>", revision=2)
    articles.put("104", "Another title", articles["104"]["body"])
    del articles["105"]
    articles.put("111", "Title 11", "<p>An addition about scanners.</p>")
    after = {item.uri: item.etag for item in source(site, system, tmp_path).list(AT).items}
    assert before.keys() - after.keys() == {key(system, 5)}
    assert after.keys() - before.keys() == {key(system, 11)}
    assert {uri for uri in before if uri in after and before[uri] != after[uri]} == {key(system, 3), key(system, 4)}


@pytest.mark.parametrize("system", ["confluence"])
def test_a_refresh_fetches_only_what_has_another_revision_and_a_rename_keeps_the_document(
    site: Site, system: str, articles: Articles, tmp_path: Path
) -> None:
    base = knowledge_base(tmp_path, sources=[section(site, system).model_dump()])
    assert refreshed(base).changes["added"] == 10
    before = len(site.asked)
    assert refreshed(base).outcome == "unchanged"
    pages = len(site.asked) - before
    articles.put("103", "Title 3", "<p>Another text about badges.</p>", revision=2)
    articles.put("104", "Another title", articles["104"]["body"], revision=2)
    del articles["105"]
    articles.put("111", "Title 11", "<p>An addition about scanners.</p>")
    before = len(site.asked)
    report = refreshed(base)
    assert (report.changes["changed"], report.changes["removed"], report.changes["added"]) == (2, 1, 1)
    assert len(site.asked) - before == pages + 3
    hit = base.retriever().search("badges", mode="keyword").hits[0]
    assert (hit.uri, hit.title) == (key(system, 3), "Title 3")
    renamed = base.retriever().search("Another title", mode="keyword").hits[0]
    assert (renamed.uri, renamed.title) == (key(system, 4), "Another title")


def test_an_item_at_the_edge_of_two_pages_is_listed_once(
    site: Site, system: str, articles: Articles, tmp_path: Path
) -> None:
    articles.repeat = 1
    if system == "servicenow":
        articles.repeat = 0
        site.disturb = _repeated_row
    listing = source(site, system, tmp_path).list(AT)
    assert [item.uri for item in listing.items] == [key(system, n) for n in range(1, 11)]
    assert listing.complete


def _repeated_row(asked: Asked) -> Reply | None:
    if asked.query.get("sysparm_offset") != "4":
        return None
    reply = servicenow(Articles(10))(asked)
    first = servicenow(Articles(10))(Asked(asked.path, {**asked.query, "sysparm_offset": "3"}, {}))
    reply.body["result"].insert(0, first.body["result"][0])
    return reply


def test_a_busy_server_is_asked_again_when_it_said(site: Site, system: str, tmp_path: Path) -> None:
    refused: list[Asked] = []

    def once(asked: Asked) -> Reply | None:
        if len(site.asked) == 2 and not refused:
            refused.append(asked)
            return Reply({"error": "slow down"}, 429, {"Retry-After": "0"})
        return None

    site.disturb = once
    assert len(source(site, system, tmp_path).list(AT).items) == 10
    assert len(refused) == 1


def test_a_page_that_fails_fails_the_whole_list(site: Site, system: str, tmp_path: Path) -> None:
    known: set[str] = set()

    def second_page(asked: Asked) -> Reply | None:
        known.add(str(sorted(asked.query.items())))
        return Reply({"error": "broken"}, 500) if len(known) > 1 else None

    site.disturb = second_page
    with pytest.raises(SourceError, match="answers 500") as error:
        source(site, system, tmp_path).list(AT)
    assert error.value.transient
    assert len(site.asked) == 1 + rest_session.ATTEMPTS


def test_refused_credentials_are_said_without_showing_them(site: Site, system: str, tmp_path: Path) -> None:
    if system == "mediawiki":
        pytest.skip("has no credentials in this test")
    echo = base64.b64encode(f"agent@example.com:{SECRET}".encode()).decode()
    message = f"bad token {SECRET} and {echo}"
    site.disturb = lambda asked: Reply(
        {"error": {"message": message, "info": message}, "errors": [{"title": message}]}, 401
    )
    with pytest.raises(SourceError, match=r"answers 401: bad token \*\*\*") as error:
        source(site, system, tmp_path).list(AT)
    assert "KB_TEST_TOKEN" in error.value.remedy
    assert not error.value.transient
    assert_hidden(error.value)


def assert_hidden(error: BaseException) -> None:
    # With its causes; source lines of this file name the secret only by its variable.
    text = "".join(traceback.format_exception(error)) + repr(error)
    assert SECRET not in text
    assert base64.b64encode(f"agent@example.com/token:{SECRET}".encode()).decode() not in text


def test_no_secret_is_written_anywhere(tmp_path: Path) -> None:
    articles = Articles(3)
    with serving(Site(zendesk(articles))) as site:
        base = knowledge_base(tmp_path, sources=[section(site, "zendesk").model_dump()])
        refreshed(base)
        assert site.asked[0].headers["Authorization"].startswith("Basic ")
        articles.put("101", "Another", "<p>Text.</p>", revision=2)
        articles.put("102", "Blank", None, revision=2)
        refreshed(base)
    written = b"".join(path.read_bytes() for path in base.folder.rglob("*") if path.is_file())
    assert b"Title 1" in written
    assert SECRET.encode() not in written


@pytest.mark.parametrize(
    ("system", "status"), [("zendesk", "draft"), ("confluence", "archived"), ("servicenow", "retired")]
)
def test_drafts_and_archived_articles_are_left_out(
    site: Site, system: str, status: str, articles: Articles, tmp_path: Path
) -> None:
    articles.put("103", "Title 3", "<p>Not public.</p>", status=status)
    listing = source(site, system, tmp_path).list(AT)
    assert key(system, 3) not in {item.uri for item in listing.items}
    assert (len(listing.items), listing.complete) == (9, True)


@pytest.mark.parametrize(
    "answer",
    [
        {"status": "ok"},
        {"error": {"info": "You need read permission.", "message": "You need read permission."}},
        {"query": {"pages": {"1": {}}}, "articles": {}, "results": "none", "result": {"id": 1}},
        {"query": {"pages": [{"id": 1}]}, "articles": [{"x": 1}], "results": [{"x": 1}], "result": [{"x": 1}]},
        [],
        b"<html>Please sign in</html>",
        b"",
    ],
    ids=["other keys", "an error", "no list", "other items", "a list", "not JSON", "nothing"],
)
def test_an_answer_that_is_not_what_the_recipe_says_is_an_error_and_no_empty_list(
    site: Site, system: str, answer: Any, tmp_path: Path
) -> None:
    site.disturb = lambda asked: Reply(answer)
    with pytest.raises(SourceError) as error:
        source(site, system, tmp_path).list(AT)
    assert error.value.remedy
    if isinstance(answer, dict) and "error" in answer and system != "confluence":
        assert "You need read permission" in error.value.message


def test_a_system_without_articles_is_an_empty_list(
    site: Site, system: str, articles: Articles, tmp_path: Path
) -> None:
    articles.clear()
    listing = source(site, system, tmp_path).list(AT)
    assert (list(listing.items), listing.complete) == ([], True)


def test_a_document_that_went_away_or_is_blank_says_so(
    site: Site, system: str, articles: Articles, tmp_path: Path
) -> None:
    articles.put("101", "Blank", " \n")
    read = source(site, system, tmp_path)
    first, second, *_ = read.list(AT).items
    with pytest.raises(SkippedDocumentError, match="blank"):
        read.fetch(first, AT)
    if system in ("mediawiki", "confluence"):
        del articles["102"]
        with pytest.raises(DocumentError, match=r"no page with ID|answers 404"):
            read.fetch(second, AT)


@pytest.mark.parametrize("system", ["mediawiki", "confluence", "servicenow"])
def test_a_body_newer_than_the_list_gets_no_validator(
    site: Site, system: str, articles: Articles, tmp_path: Path
) -> None:
    read = source(site, system, tmp_path)
    item = read.list(AT).items[0]
    articles.put("101", "Title 1", "<p>Newer.</p>", revision=2)
    assert read.fetch(item, AT).etag is None


@pytest.mark.parametrize("system", ["servicenow"])
def test_fewer_items_than_the_server_counts_make_the_list_incomplete(
    site: Site, system: str, articles: Articles, tmp_path: Path
) -> None:
    whole = site.answer

    def fewer(asked: Asked) -> Reply | None:
        reply = whole(asked)
        if "X-Total-Count" in reply.headers:
            reply.body["result"] = [row for row in reply.body["result"] if row["number"] != "KB102"]
        return reply

    site.disturb = fewer
    listing = source(site, system, tmp_path).list(AT)
    assert not listing.complete
    assert [reason for _, reason in listing.problems] == [
        "the server says it has 10 items, but 9 came",
        "a page of fewer than 4 items was not the last one",
    ]


@pytest.mark.parametrize("system", ["servicenow"])
def test_a_server_that_gives_smaller_pages_than_asked_makes_the_list_incomplete(
    site: Site, system: str, articles: Articles, tmp_path: Path
) -> None:
    whole = site.answer

    def capped(asked: Asked) -> Reply:
        reply = whole(asked)
        reply.headers.clear()
        if isinstance(reply.body["result"], list):
            reply.body["result"] = reply.body["result"][:3]
        return reply

    site.answer = capped
    listing = source(site, system, tmp_path).list(AT)
    assert (len(listing.items), listing.complete) == (8, False)


@pytest.mark.parametrize("system", ["mediawiki"])
def test_properties_of_a_wiki_page_may_come_in_parts(
    site: Site, system: str, articles: Articles, tmp_path: Path
) -> None:
    whole = site.answer

    def parts(asked: Asked) -> Reply | None:
        if asked.query["action"] == "parse":
            return None
        reply = whole(asked)
        late = asked.query.get("rvcontinue")
        for page in reply.body["query"]["pages"]:
            for name in ["revisions"] if not late else ["lastrevid", "touched", "canonicalurl"]:
                page.pop(name)
        if not late:
            start = asked.query.get("gapcontinue")
            here = {"gapcontinue": start} if start else {}
            reply.body["continue"] = {**here, "rvcontinue": "1", "continue": "gapcontinue||" if start else "||info"}
            reply.body.pop("batchcomplete")
        return reply

    site.disturb = parts
    listing = source(site, system, tmp_path).list(AT)
    assert [item.modified_at for item in listing.items] == ["2026-11-01T10:00:00Z"] * 10


@pytest.mark.parametrize("system", ["confluence"])
def test_a_next_link_to_another_origin_gets_no_credentials(
    site: Site, system: str, articles: Articles, tmp_path: Path
) -> None:
    with serving(Site(lambda asked: Reply({"results": [], "_links": {}}))) as other:
        for link in (other.url + "/x", site.url.replace("//", "//@") + ".evil.example/x", "ftp://x/y"):
            site.disturb = lambda asked, link=link: Reply({"results": [], "_links": {"next": link}})  # type: ignore[misc]
            with pytest.raises(SourceError, match="another address than base_url") as error:
                source(site, system, tmp_path).list(AT)
            assert_hidden(error.value)
        assert other.asked == []


@pytest.mark.parametrize("system", ["confluence"])
def test_a_redirect_is_not_followed(site: Site, system: str, tmp_path: Path) -> None:
    with serving(Site(lambda asked: Reply({}))) as other:
        site.disturb = lambda asked: Reply({}, 302, {"Location": other.url + "/login"})
        with pytest.raises(SourceError, match=r"answers 302 and sends on to 127\.0\.0\.1"):
            source(site, system, tmp_path).list(AT)
        assert other.asked == []


@pytest.mark.parametrize("system", ["confluence"])
def test_paging_in_circles_is_an_error(site: Site, system: str, tmp_path: Path) -> None:
    site.disturb = lambda asked: Reply({"results": [], "_links": {"next": "/wiki/api/v2/spaces/7/pages?cursor=1"}})
    with pytest.raises(SourceError, match="in circles"):
        source(site, system, tmp_path).list(AT)


@pytest.mark.parametrize("system", ["zendesk"])
@pytest.mark.parametrize("meta", [{"has_more": True, "after_cursor": None}, {"has_more": True}, {}])
def test_a_page_that_says_there_are_more_but_not_where_is_an_error(
    site: Site, system: str, meta: dict[str, Any], tmp_path: Path
) -> None:
    site.disturb = lambda asked: Reply({"articles": [], "meta": meta})
    with pytest.raises(SourceError):
        source(site, system, tmp_path).list(AT)


@pytest.mark.parametrize("system", ["mediawiki"])
def test_include_and_exclude_are_globs_over_titles(site: Site, system: str, articles: Articles, tmp_path: Path) -> None:
    articles.put("201", "Archive/Old", "<p>Old.</p>")
    listing = source(site, system, tmp_path, exclude=["Archive/**", "Title 1*"]).list(AT)
    assert [item.uri for item in listing.items] == [key(system, n) for n in range(2, 10)]
    assert len(source(site, system, tmp_path, include=["Archive/*"]).list(AT).items) == 1


@pytest.mark.parametrize("system", ["mediawiki"])
def test_markup_in_titles_and_odd_characters_stay_text(
    site: Site, system: str, articles: Articles, tmp_path: Path
) -> None:
    articles.put("100", 'A <b>"x"</b> & \ud800', "<p>\ud800 half a character</p>")
    read = source(site, system, tmp_path)
    data = read.fetch(read.list(AT).items[0], AT).data
    assert "<h1>A &lt;b&gt;&quot;x&quot;&lt;/b&gt; &amp; ?</h1>" in data.decode("utf-8")


@pytest.mark.parametrize("system", ["zendesk"])
@pytest.mark.parametrize("title", ["", None])
def test_an_article_without_a_title_is_called_by_its_id(
    site: Site, system: str, title: Any, articles: Articles, tmp_path: Path
) -> None:
    articles.put("100", title, "<p>Text.</p>")
    read = source(site, system, tmp_path)
    assert b"<h1>100</h1>" in read.fetch(read.list(AT).items[0], AT).data


@pytest.mark.parametrize("system", ["zendesk"])
def test_items_are_fetched_from_many_threads_at_once(
    site: Site, system: str, articles: Articles, tmp_path: Path
) -> None:
    read = source(site, system, tmp_path)
    items = list(read.list(AT).items) * 20
    found: list[bool] = []

    def work(mine: list[Any]) -> None:
        for item in mine:
            number = int(item.uri.removeprefix("page/")) - 100
            found.append(f"Body number {number} of".encode() in read.fetch(item, AT).data)

    threads = [threading.Thread(target=work, args=(items[n::4],)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(found), all(found)) == (200, True)


@pytest.mark.parametrize("system", ["zendesk"])
def test_a_source_that_is_gone_has_closed_what_it_opened(
    site: Site,
    system: str,
    articles: Articles,
    tmp_path: Path,
    recwarn: pytest.WarningsRecorder,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("kbcore.sources.rest.source._SPOOL_BYTES", 100)
    read = source(site, system, tmp_path)
    read.list(AT)
    read.list(AT)
    del read
    gc.collect()
    assert [str(w.message) for w in recwarn if issubclass(w.category, ResourceWarning)] == []
    assert list((tmp_path / "cache").iterdir()) == []


OWN = """
error = "error"
requests_per_minute = {pace}
parameters = {{ page_size = "4" }}
[list]
path = "/items"
query = {{ per = "{{page_size}}" }}
items = "$"
id = "id"
title = "name"
revision = ["rev"]
{count}
pages = {pages}
[body]
path = "/items/{{id}}"
content = "md"
media_type = "text/markdown"
[auth]
{auth}
"""


def own_recipe(tmp_path: Path, **parts: str) -> str:
    values = {"pace": "0", "pages": '{ kind = "single" }', "auth": 'kind = "none"', "count": "", **parts}
    path = tmp_path / "own.toml"
    path.write_text(OWN.format(**values))
    return str(path)


def items_of(asked: Asked) -> Reply:
    if asked.path == "/token":
        right = "client_secret=" in asked.body and "client_credentials" in asked.body
        return Reply({"access_token": "traded", "expires_in": 60} if right else {}, 200)
    if asked.path != "/items":
        return Reply({"md": f"Text of {asked.path}"})
    rows = [{"id": f"a/{n}", "name": f"Item {n}", "rev": n} for n in range(6)]
    if "page" in asked.query:
        page = int(asked.query["page"])
        return Reply(rows[(page - 1) * 4 : page * 4])
    after = '</items?from=4>; rel="next"' if "from" not in asked.query else ""
    return Reply(rows[:4] if after else rows[4:], headers={"Link": after} if after else {})


@pytest.mark.parametrize("pages", ['{ kind = "header_link" }', '{ kind = "page", parameter = "page", first = 1 }'])
def test_a_recipe_of_ones_own_reads_another_system(tmp_path: Path, pages: str) -> None:
    with serving(Site(items_of)) as site:
        auth = 'kind = "header"\nheader = "X-Key"'
        recipe = own_recipe(tmp_path, pages=pages, auth=auth)
        read = source(site, recipe, tmp_path, parameters={}, token_env="KB_TEST_TOKEN")
        listing = read.list(AT)
        assert [item.uri for item in listing.items] == [f"page/a%2F{n}" for n in range(6)]
        assert read.fetch(listing.items[5], AT).data == b"# Item 5\n\nText of /items/a%2F5"
        assert {asked.headers.get("X-Key") for asked in site.asked} == {SECRET}


def test_client_credentials_are_traded_for_a_token_at_the_same_origin(tmp_path: Path) -> None:
    with serving(Site(items_of)) as site:
        recipe = own_recipe(tmp_path, auth='kind = "oauth"\ntoken_path = "/token"')
        names = {"token_env": "KB_TEST_TOKEN", "user_env": "KB_TEST_USER"}
        read = source(site, recipe, tmp_path, parameters={}, **names)
        read.list(AT)
        assert site.paths() == ["/token", "/items"]
        assert site.asked[1].headers["Authorization"] == "Bearer traded"
        site.disturb = lambda asked: Reply({"error": "no traded here"}, 403) if asked.path == "/items" else None
        with pytest.raises(SourceError, match=r"answers 403: no \*\*\* here"):
            read.list(AT)
        site.disturb = lambda asked: Reply({"token_type": "bearer"})
        with pytest.raises(SourceError, match="no access_token") as error:
            source(site, recipe, tmp_path, parameters={}, **names).list(AT)
        assert_hidden(error.value)


def test_requests_keep_the_pace_of_the_recipe(tmp_path: Path) -> None:
    with serving(Site(items_of)) as site:
        read = source(site, own_recipe(tmp_path, pace="600", pages='{ kind = "header_link" }'), tmp_path, parameters={})
        started = time.monotonic()
        read.list(AT)
        read.list(AT)
        assert time.monotonic() - started >= 0.3


def test_a_server_that_asks_to_wait_for_long_is_not_asked_again(tmp_path: Path) -> None:
    with serving(Site(lambda asked: Reply({}, 429, {"Retry-After": "3600"}))) as site:
        with pytest.raises(SourceError, match="asks to wait 3600 seconds") as error:
            source(site, "mediawiki", tmp_path).list(AT)
        assert not error.value.transient
        assert len(site.asked) == 1


def test_a_server_that_is_not_there_is_a_transient_error(tmp_path: Path) -> None:
    with serving(Site(items_of)) as site:
        pass
    with pytest.raises(SourceError, match="cannot be reached") as error:
        source(site, "mediawiki", tmp_path).list(AT)
    assert error.value.transient


HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"


@pytest.mark.parametrize(
    ("start", "piece"),
    [
        (HEAD + b"Content-Length: 100000\r\n\r\n", b" "),
        (HEAD + b"\r\n", b" "),
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\n \r\n"),
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\nfff\r\n", b" "),
        (HEAD + b"X-Long: ", b"x"),
        (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
        (b"HTTP/1.1 302 Found\r\nLocation: /x\r\nContent-Length: 100000\r\n\r\n", b" "),
        (b"", b""),
    ],
    ids=["body", "body without length", "chunks", "one chunk", "header", "interim answers", "redirect", "silence"],
)
def test_an_answer_that_drips_ends_at_the_limit_of_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, start: bytes, piece: bytes
) -> None:
    monkeypatch.setattr(rest_session, "LONGEST_ANSWER_SECONDS", 0.8)
    with dripping(start, piece) as url:
        given = RestSection(name="kb", type="rest", recipe="mediawiki", base_url=url, allow_http=True)
        started = time.monotonic()
        with pytest.raises(SourceError, match=r"took more than 0\.8 seconds to answer") as error:
            RestSource(given, cache=tmp_path).list(AT)
    assert error.value.transient
    assert 0.7 < time.monotonic() - started < 1.8


def test_the_body_of_a_redirect_has_the_bound_of_every_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from kbcore.sources.rest import source as rest

    monkeypatch.setattr(rest, "_PAGE_BYTES", 1000)
    big = Site(lambda asked: Reply({"x": "y" * 100_000}, 302, {"Location": "/elsewhere"}))
    with serving(big) as site, pytest.raises(SourceError, match="more than 1000 bytes"):
        source(site, "mediawiki", tmp_path, max_bytes=400).list(AT)


def test_an_answer_over_the_bound_is_not_read_to_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from kbcore.sources.rest import source as rest

    monkeypatch.setattr(rest, "_PAGE_BYTES", 1000)
    big = Site(lambda asked: Reply({"query": {"pages": []}, "x": "y" * 100_000}))
    with serving(big) as site, pytest.raises(SourceError, match="more than 1000 bytes"):
        source(site, "mediawiki", tmp_path, max_bytes=400).list(AT)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"base_url": "http://wiki.example.org", "allow_http": False}, "base_url is http"),
        ({"base_url": f"https://u:{SECRET.replace('/', '')}@wiki.example.org"}, "holds a user"),
        ({"base_url": "wiki.example.org"}, "not an address"),
        ({"base_url": "https://wiki.example.org:99999"}, "not an address"),
        ({"recipe": "mediawki"}, "there is no recipe 'mediawki'; shipped: confluence, mediawiki"),
        ({"recipe": "no/such.toml"}, "cannot be read"),
        ({"recipe": "zendesk"}, "parameters.locale is missing"),
        ({"parameters": {"namespac": "0"}}, "no parameter 'namespac'; known: namespace, page_size"),
        ({"parameters": {"page_size": "many"}}, "page_size is not a number"),
        ({"token_env": SECRET}, "not the name of an environment variable"),
    ],
)
def test_what_cannot_be_is_a_configuration_error_that_quotes_no_secret(
    values: dict[str, Any], message: str, tmp_path: Path
) -> None:
    given = {"recipe": "mediawiki", "base_url": "http://127.0.0.1", "allow_http": True, **values}
    with pytest.raises(ConfigError, match=message) as error:
        RestSource(RestSection(name="kb", type="rest", **given), cache=tmp_path)
    assert_hidden(error.value)


def test_a_secret_that_is_not_set_stops_this_source_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(Site(zendesk(Articles(2)))) as site:
        monkeypatch.delenv("KB_TEST_TOKEN")
        docs = {"name": "docs", "path": str(tmp_path / "docs"), "include": ["**/*"]}
        base = knowledge_base(tmp_path, sources=[section(site, "zendesk").model_dump(), docs])
        report = refreshed(base)
        assert report.changes["added"] == 4
        assert "KB_TEST_TOKEN is not set" in report.sources[0]["error"]
        assert site.asked == []
        monkeypatch.setenv("KB_TEST_TOKEN", "two\nlines")
        with pytest.raises(SourceError, match="characters that no header may hold") as error:
            source(site, "zendesk", tmp_path).probe()
        assert "two" not in str(error.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("list = 1", "list"),
        ("[list", "not valid TOML"),
        (OWN.format(pace="0", count="", pages='{ kind = "cursor" }', auth=""), "needs path"),
        (OWN.format(pace="0", count="", pages='{ kind = "single" }', auth='kind = "header"'), "needs header"),
        (OWN.format(pace="0", count='url = "{slug}"', pages='{ kind = "single" }', auth=""), "neither a parameter"),
        (OWN.format(pace="0", count='cout = "x"', pages='{ kind = "single" }', auth=""), "list.cout"),
        (OWN.format(pace="0", count='count = "a[b"', pages='{ kind = "single" }', auth=""), "not a JSON path"),
    ],
)
def test_a_recipe_that_is_none_is_named_with_what_is_wrong(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "bad.toml").write_text(text)
    with pytest.raises(ConfigError, match=message):
        RestSource(
            RestSection(name="kb", type="rest", recipe=str(tmp_path / "bad.toml"), base_url="https://x.example"),
            cache=tmp_path,
        )


def test_a_rest_source_is_configured_like_any_other(tmp_path: Path) -> None:
    text = (
        '[kb]\nname = "x"\n[[sources]]\nname = "wiki"\ntype = "rest"\nrecipe = "mediawiki"\n'
        'base_url = "https://wiki.example.org/w"\nparameters = { namespace = "12" }\n'
    )
    (tmp_path / "kb.toml").write_text(text)
    config = load(tmp_path / "kb.toml", {})
    assert isinstance(make_source(config.sources[0], cache=tmp_path), RestSource)
    assert ("sources[0].parameters.namespace", "…") in [row[:2] for row in effective(config)]
    (tmp_path / "kb.toml").write_text(text + 'tokn_env = "X"\n')
    with pytest.raises(ConfigError, match="did you mean 'token_env'"):
        load(tmp_path / "kb.toml", {})


def test_another_recipe_looks_at_every_document_again(tmp_path: Path) -> None:
    recipe = load_recipe("mediawiki")
    other = recipe.model_copy(update={"body": recipe.body.model_copy(update={"content": "parse.wikitext"})})
    assert recipe.digest({"namespace": "0", "page_size": "1"}) == recipe.digest({"namespace": "0", "page_size": "2"})
    assert recipe.digest({"namespace": "0"}) != other.digest({"namespace": "0"})


def test_without_dlt_the_error_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == "dlt" or name == "kbcore.sources.rest.client"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delattr("kbcore.sources.rest.client", raising=False)
    monkeypatch.setitem(sys.modules, "dlt", None)
    given = RestSection(name="kb", type="rest", recipe="mediawiki", base_url="https://x.example")
    with pytest.raises(ConfigError, match="needs the package dlt") as error:
        make_source(given, cache=tmp_path)
    assert "kbcore[rest]" in error.value.remedy


def test_dlt_leaves_nothing_behind_in_the_home_folder(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    code = (
        "import sys; from pathlib import Path\n"
        "from kbcore.config.sources import RestSection\n"
        "from kbcore.sources import make_source\n"
        "given = RestSection(name='kb', type='rest', recipe='mediawiki', base_url=sys.argv[1], allow_http=True)\n"
        "source = make_source(given, cache=Path(sys.argv[2]))\n"
        f"print(len(source.list('{AT}').items), 'dlt.pipeline.pipeline' in sys.modules)\n"
    )
    with serving(Site(mediawiki(Articles(5)))) as site:
        environment = {**os.environ, "HOME": str(home), "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
        command = [sys.executable, "-c", code, site.url, str(tmp_path / "cache")]
        ran = subprocess.run(command, env=environment, cwd=home, capture_output=True, text=True, check=True)
    assert ran.stdout.split()[0] == "5"
    assert list(home.rglob("*")) == []


def test_the_shipped_recipes_are_to_be_found_among_the_configuration_too() -> None:
    named = {path.name for path in (ROOT / "config" / "recipes").glob("*.toml")}
    assert named == {"confluence.toml", "mediawiki.toml", "servicenow.toml", "zendesk.toml"}


@pytest.mark.parametrize(
    "reply",
    [
        Reply({}, 503, {"Retry-After": "Mon, 01 Jan 99999999999 00:00:00 GMT"}),
        Reply(b'{"articles":' + b"[" * 200_000),
    ],
    ids=["a date beyond all dates", "nested without end"],
)
def test_an_answer_that_is_none_is_an_error_of_its_source_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reply: Reply
) -> None:
    monkeypatch.setattr(rest_session, "BACKOFF_SECONDS", 0.01)
    with serving(Site(lambda asked: reply)) as site, pytest.raises(SourceError):
        source(site, "zendesk", tmp_path).list(AT)
