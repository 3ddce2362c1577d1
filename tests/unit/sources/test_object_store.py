"""Documents from a bucket, over the real protocol: moto's S3 server on loopback."""

from __future__ import annotations

import itertools
import time
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kbcore.config.sources import ObjectStoreSection
from kbcore.errors import DocumentError, SourceError
from kbcore.knowledge_base import KnowledgeBase
from kbcore.sources.object_store import bucket
from kbcore.sources.object_store.source import ObjectStoreSource, validator
from kbcore.types import Fetched, Listed, Listing
from tests.support import DOCUMENTS, configure, knowledge_base, refreshed, tree, write
from tests.unit.sources.dripping import dripping

boto3 = pytest.importorskip("boto3")
pytest.importorskip("obstore")
NUMBERS = itertools.count()
NOW = "2026-11-30T00:00:00Z"
CANARY = "canary/Of+The40CharactersThatAreASecretKey"
ACCESS = "AKIACANARYCANARY0001"


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture(autouse=True)
def _credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL", "AWS_REGION", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", ACCESS)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", CANARY)


class Pail:
    """A bucket of its own for one test, filled by boto3, which takes any key."""

    def __init__(self, endpoint: str, name: str) -> None:
        self.endpoint = endpoint
        self.name = name
        self.client = boto3.client("s3", endpoint_url=endpoint, region_name="us-east-1")
        self.client.create_bucket(Bucket=name)

    def put(self, key: str, data: str | bytes, **more: str) -> None:
        self.client.put_object(Bucket=self.name, Key=key, Body=data, **more)

    def delete(self, key: str) -> None:
        self.client.delete_object(Bucket=self.name, Key=key)

    def settings(self, prefix: str = "handbook", **more: Any) -> dict[str, Any]:
        return {
            "name": "docs",
            "type": "object_store",
            "url": f"s3://{self.name}/{prefix}",
            "include": ["**/*"],
            "endpoint": self.endpoint,
            "allow_http": True,
            **more,
        }

    def source(self, prefix: str = "handbook", **more: Any) -> ObjectStoreSource:
        return source(**self.settings(prefix, **more))


@pytest.fixture
def pail(endpoint: str) -> Pail:
    return Pail(endpoint, f"bucket-{next(NUMBERS)}")


def source(**settings: Any) -> ObjectStoreSource:
    return ObjectStoreSource(ObjectStoreSection.model_validate(settings), cache=Path("unused"))


def uris(listing: Listing) -> list[str]:
    return [item.uri for item in listing.items]


def fetched(source: ObjectStoreSource, uri: str) -> Fetched:
    return source.fetch(next(item for item in source.list(NOW).items if item.uri == uri), NOW)


def test_a_listing_holds_every_page(pail: Pail) -> None:
    # Straight into the server's store: a thousand requests would take longer than all other tests.
    from moto.s3.models import s3_backends

    store = s3_backends["123456789012"]["aws"]
    for number in range(2203):
        store.put_object(pail.name, f"handbook/{number:04}.md", b"x")
    listing = pail.source().list(NOW)
    assert listing.complete
    assert uris(listing) == [f"{number:04}.md" for number in range(2203)]


def test_an_item_says_uri_validator_time_and_size(pail: Pail) -> None:
    pail.put("handbook/vpn/set-up.md", "# VPN\n")
    (item,) = pail.source().list(NOW).items
    assert (item.uri, item.size) == ("vpn/set-up.md", 6)
    assert item.etag == pail.client.head_object(Bucket=pail.name, Key="handbook/vpn/set-up.md")["ETag"]
    assert item.modified_at is not None
    assert abs(time.time() - time.mktime(time.strptime(item.modified_at, "%Y-%m-%dT%H:%M:%SZ")) + time.timezone) < 60


def test_the_prefix_is_a_folder(pail: Pail) -> None:
    for key in ("handbook/a.md", "handbook2/b.md", "handbook.md", "hand/c.md", "handbook"):
        pail.put(key, "text")
    assert uris(pail.source("handbook").list(NOW)) == ["a.md"]
    assert uris(pail.source("handbook/").list(NOW)) == ["a.md"]
    assert len(uris(pail.source("").list(NOW))) == 5


@pytest.mark.parametrize("prefix", ["we ird/ü#1", "100%25", "日本+a&b=c"])
def test_a_prefix_and_keys_of_any_characters_are_read_as_they_are(pail: Pail, prefix: str) -> None:
    names = ["日本.md", "emoji😀.md", "a b#?%25&+.md", "back\\slash.md", unicodedata.normalize("NFD", "größe.md")]
    for name in names:
        pail.put(f"{prefix}/{name}", name)
    source = pail.source(prefix)
    listing = source.list(NOW)
    assert uris(listing) == sorted(unicodedata.normalize("NFC", name) for name in names)
    assert sorted(source.fetch(item, NOW).data.decode() for item in listing.items) == sorted(names)


def test_include_and_exclude_are_globs_over_the_key_below_the_prefix(pail: Pail) -> None:
    for key in ("a.md", "deep/er/b.md", "deep/c.txt", "drafts/d.md"):
        pail.put(f"handbook/{key}", "text")
    listing = pail.source(include=["**/*.md"], exclude=["drafts/**"]).list(NOW)
    assert uris(listing) == ["a.md", "deep/er/b.md"]


def test_folder_keys_are_left_out_and_empty_files_are_not(pail: Pail) -> None:
    for key in ("handbook/", "handbook/sub/", "handbook/sub/empty-folder/", "handbook/page.md/", "handbook/blank.md"):
        pail.put(key, b"")
    pail.put("handbook/sub/a.md", "text")
    pail.put("handbook/page.md", "text")
    listing = pail.source().list(NOW)
    assert uris(listing) == ["blank.md", "page.md", "sub/a.md"]
    assert (listing.complete, listing.problems) == (True, ())


def test_keys_of_one_name_in_nfc_are_a_problem_and_neither_is_taken(pail: Pail) -> None:
    for form in ("NFC", "NFD"):
        pail.put("handbook/" + unicodedata.normalize(form, "é.md"), form)  # type: ignore[arg-type]
    pail.put("handbook/a.md", "text")
    listing = pail.source().list(NOW)
    assert uris(listing) == ["a.md"]
    assert listing.complete
    ((uri, reason),) = listing.problems
    assert uri == unicodedata.normalize("NFC", "é.md")
    assert "NFC" in reason


@pytest.mark.parametrize("key", ["sub//a.md", "sub/../a.md", "sub/./a.md", "sub/bell\x07.md"])
def test_a_key_that_cannot_be_named_costs_its_folder_only_and_the_listing_is_not_complete(pail: Pail, key: str) -> None:
    for good in ("a.md", "sub/lost.md", "sub/deep/b.md", "zone/c.md"):
        pail.put(f"handbook/{good}", "text")
    pail.put(f"handbook/{key}", "text")
    listing = pail.source().list(NOW)
    assert not listing.complete
    assert uris(listing) == ["a.md", "zone/c.md"]
    assert [uri for uri, _ in listing.problems] == ["sub"]
    assert "rename" in listing.problems[0][1]
    without = pail.source(exclude=["sub/**"]).list(NOW)
    assert (without.complete, uris(without)) == (True, ["a.md", "zone/c.md"])
    assert pail.source().probe()


def test_a_control_character_that_the_store_allows_is_a_problem_and_is_shown_escaped(pail: Pail) -> None:
    pail.put("handbook/next\u0085line.md", "text")
    listing = pail.source().list(NOW)
    assert listing.items == []
    assert listing.problems[0][0] == "next\\u0085line.md"


def test_bytes_come_with_their_validator_and_time(pail: Pail) -> None:
    pail.put("handbook/a.md", "# A\n")
    source = pail.source()
    (item,) = source.list(NOW).items
    got = source.fetch(item, NOW)
    assert (got.data, got.etag, got.modified_at, got.fetched_at) == (b"# A\n", item.etag, item.modified_at, NOW)


def test_an_object_changed_since_the_listing_is_transient_and_then_taken_with_its_own_validator(pail: Pail) -> None:
    pail.put("handbook/a.md", "first")
    source = pail.source()
    (item,) = source.list(NOW).items
    pail.put("handbook/a.md", "second")
    with pytest.raises(DocumentError, match="changed since it was listed") as error:
        source.fetch(item, NOW)
    assert error.value.transient
    got = source.fetch(item, NOW)
    assert got.data == b"second"
    assert got.etag == source.list(NOW).items[0].etag != item.etag


def test_an_object_gone_since_the_listing_is_an_error_of_that_document(pail: Pail) -> None:
    pail.put("handbook/a.md", "first")
    source = pail.source()
    (item,) = source.list(NOW).items
    pail.delete("handbook/a.md")
    with pytest.raises(DocumentError, match="not there any more") as error:
        source.fetch(item, NOW)
    assert not error.value.transient


def test_max_bytes_holds_by_the_listing_and_by_what_arrives(pail: Pail) -> None:
    pail.put("handbook/a.md", "x" * 11)
    source = pail.source(max_bytes=10)
    (item,) = source.list(NOW).items
    with pytest.raises(DocumentError, match=r"has 11 bytes, more than max_bytes \(10\)"):
        source.fetch(item, NOW)
    with pytest.raises(DocumentError, match="more than max_bytes"):
        source.fetch(Listed("a.md"), NOW)


def test_an_object_or_a_listing_that_drips_ends_at_the_limit_of_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bucket, "_TIMEOUTS", {**bucket._TIMEOUTS, "timeout": "1s"})
    head = (
        b'HTTP/1.1 200 OK\r\nETag: "x"\r\nLast-Modified: Mon, 30 Nov 2026 00:00:00 GMT\r\n'
        b"Content-Length: 100000\r\n\r\n"
    )
    with dripping(head, b" ") as url:
        read = source(name="docs", type="object_store", url="s3://slow/docs", endpoint=url, allow_http=True)
        for call in (lambda: read.list(NOW), lambda: read.fetch(Listed("a.md", '"x"', None, 100_000), NOW)):
            started = time.monotonic()
            with pytest.raises((SourceError, DocumentError)) as error:
                call()
            assert error.value.transient
            assert time.monotonic() - started < 6


def test_the_content_type_counts_where_the_name_says_nothing(pail: Pail) -> None:
    pail.put("handbook/page", "<p>x", ContentType="text/HTML; charset=utf-8")
    pail.put("handbook/page.md", "x", ContentType="text/html")
    assert fetched(pail.source(), "page").media_type == "text/html"
    assert fetched(pail.source(), "page.md").media_type is None


def test_compressed_objects_are_named_as_such(pail: Pail) -> None:
    pail.put("handbook/a.md", b"\x1f\x8b", ContentEncoding="gzip")
    with pytest.raises(DocumentError, match="Content-Encoding gzip"):
        fetched(pail.source(), "a.md")


def test_items_may_be_fetched_from_as_many_threads_as_parallel_says(pail: Pail) -> None:
    from concurrent.futures import ThreadPoolExecutor

    for number in range(24):
        pail.put(f"handbook/{number}.md", f"text {number}")
    source = pail.source()
    items = source.list(NOW).items
    with ThreadPoolExecutor(source.parallel) as pool:
        got = list(pool.map(lambda item: source.fetch(item, NOW), items))
    assert [each.data.decode() for each in got] == [f"text {item.uri[:-3]}" for item in items]


def test_without_an_etag_the_version_or_time_and_size_are_the_validator() -> None:
    from datetime import UTC, datetime

    meta = {"e_tag": None, "version": None, "last_modified": datetime(2026, 1, 1, tzinfo=UTC), "size": 3}
    assert validator(meta) == "modified:1767225600.000000:3"
    assert validator({**meta, "version": "7"}) == "version:7"
    assert validator({**meta, "e_tag": 'W/"a"'}) == validator(meta)
    assert validator({**meta, "e_tag": '"a"', "version": "7"}, like=validator(meta)) == validator(meta)


def test_an_empty_prefix_of_a_bucket_that_is_there_is_a_complete_empty_listing(pail: Pail) -> None:
    pail.put("elsewhere/a.md", "text")
    listing = pail.source().list(NOW)
    assert (listing.items, listing.complete, listing.problems) == ([], True, ())
    assert pail.source().probe() == f"s3://{pail.name}/handbook, where there is nothing yet"
    pail.put("handbook/a.md", "text")
    assert pail.source().probe() == f"s3://{pail.name}/handbook"


def test_a_missing_bucket_is_named(endpoint: str) -> None:
    missing = source(name="docs", type="object_store", url="s3://nobody-made-it", endpoint=endpoint, allow_http=True)
    for ask in (missing.probe, lambda: missing.list(NOW)):
        with pytest.raises(SourceError, match="there is no bucket 'nobody-made-it'") as error:
            ask()
        assert not error.value.transient
        assert "nothing is taken for removed" in error.value.remedy


# End to end.


def refreshing(tmp_path: Path, pail: Pail) -> KnowledgeBase:
    base = KnowledgeBase(configure(tmp_path, sources=[pail.settings()]))
    base.create()
    return base


def test_three_states_of_a_bucket_are_the_releases_that_a_folder_would_give(
    tmp_path: Path, pail: Pail, monkeypatch: pytest.MonkeyPatch
) -> None:
    states: list[dict[str, str | bytes | None]] = [
        {**DOCUMENTS, "größe/日本.md": "# Size\n\nA page under a name that is not ASCII.\n"},
        {"vpn.md": "# VPN\n\nERR-4012 is no more.\n", "new.txt": "An addition.\n"},
        {"printers.txt": None},
    ]
    asked: list[str] = []
    fetch = ObjectStoreSource.fetch
    monkeypatch.setattr(
        ObjectStoreSource, "fetch", lambda self, item, at: (asked.append(item.uri), fetch(self, item, at))[1]
    )
    bucket = refreshing(tmp_path / "bucket", pail)
    folder = knowledge_base(tmp_path / "folder", {})
    for number, state in enumerate(states, 1):
        for name, content in state.items():
            if content is None:
                pail.delete(f"handbook/{name}")
            else:
                pail.put(f"handbook/{name}", content)
        write(tmp_path / "folder" / "docs", state)
        asked.clear()
        report = refreshed(bucket)
        refreshed(folder)
        assert sorted(asked) == sorted(name for name, content in state.items() if content is not None)
        assert report.failures == []
        release = f"r{number:06}"
        manifests = [base.repository.manifest(release) for base in (bucket, folder)]
        assert manifests[0].content_digest == manifests[1].content_digest
    asked.clear()
    assert refreshed(bucket).outcome == "unchanged"
    assert asked == []
    for name, data in tree(tmp_path / "bucket").items():
        assert CANARY.encode() not in data, name
        assert ACCESS.encode() not in data, name


def test_a_prefix_that_was_emptied_has_its_removals_withheld(tmp_path: Path, pail: Pail) -> None:
    for name, content in DOCUMENTS.items():
        pail.put(f"handbook/{name}", content)
    base = refreshing(tmp_path, pail)
    refreshed(base)
    for name in DOCUMENTS:
        pail.delete(f"handbook/{name}")
    report = refreshed(base)
    assert (report.changes["removed"], len(report.withheld_removals)) == (0, len(DOCUMENTS))


def test_a_bucket_with_a_key_that_cannot_be_named_loses_no_document(tmp_path: Path, pail: Pail) -> None:
    for name, content in DOCUMENTS.items():
        pail.put(f"handbook/sub/{name}", content)
    base = refreshing(tmp_path, pail)
    refreshed(base)
    pail.put("handbook/sub//double.md", "text")
    pail.put("handbook/new.md", "# New\n\nIt ships all the same.\n")
    report = refreshed(base)
    assert (report.changes["added"], report.changes["removed"], report.withheld_removals) == (1, 0, [])
    assert [failure["uri"] for failure in report.failures] == ["sub"]
