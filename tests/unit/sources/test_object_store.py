"""Documents from a bucket, over the real protocol: moto's S3 server on loopback, and small servers for what goes wrong."""

from __future__ import annotations

import itertools
import sys
import threading
import time
import traceback
import unicodedata
import urllib.parse
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from kbcore.config import load
from kbcore.config.sources import ObjectStoreSection
from kbcore.errors import ConfigError, DocumentError, SourceError
from kbcore.knowledge_base import KnowledgeBase
from kbcore.sources import make_source
from kbcore.sources.object_store import ObjectStoreSource, validator
from kbcore.types import Fetched, Listed, Listing
from tests.support import DOCUMENTS, configure, knowledge_base, refreshed, tree, write

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


# What goes wrong, from servers that do nothing else.

Answer = Callable[[BaseHTTPRequestHandler], tuple[int, bytes, dict[str, str]]]


class Server(ThreadingHTTPServer):
    """Answers each GET and HEAD as ``answer`` says and counts them; a Content-Length that is given may be a lie."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.answer: Answer = lambda _: (404, b"", {})
        self.paths: list[str] = []
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    def source(self, **settings: Any) -> ObjectStoreSource:
        more = {"url": "s3://bucket/handbook", "endpoint": f"http://127.0.0.1:{self.server_port}"}
        return source(name="docs", type="object_store", allow_http=True, include=["**/*"], **{**more, **settings})


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        self.server.paths.append(self.path)
        status, body, headers = self.server.answer(self)
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    do_HEAD = do_GET

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    yield server
    server.shutdown()
    server.server_close()


def shown_of(error: BaseException) -> str:
    """All that a log shows of an error, the errors behind it too."""
    return "".join(traceback.format_exception(error))


def refusal(status: int, code: str, more: str = "") -> Answer:
    # What AWS echoes: the key id, and for a wrong signature the string that was signed.
    body = f"<Error><Code>{code}</Code><AWSAccessKeyId>{ACCESS}</AWSAccessKeyId><Echo>{CANARY}</Echo>{more}</Error>"
    return lambda _: (status, body.encode(), {})


def page(*keys: str, token: str = "", etag: str = '"1"') -> bytes:
    contents = "".join(
        f"<Contents><Key>{key}</Key><LastModified>2026-01-01T00:00:00.000Z</LastModified>"
        f"<ETag>{etag}</ETag><Size>3</Size></Contents>"
        for key in keys
    )
    following = f"<NextContinuationToken>{token}</NextContinuationToken>" if token else ""
    truncated = f"<IsTruncated>{'true' if token else 'false'}</IsTruncated>"
    return f"<ListBucketResult>{truncated}{following}{contents}</ListBucketResult>".encode()


@pytest.mark.parametrize(
    ("status", "code", "more", "message", "remedy", "transient"),
    [
        (403, "AccessDenied", "", r"access denied to 'bucket'.*403 AccessDenied", "s3:ListBucket", False),
        (403, "SignatureDoesNotMatch", "", "credentials were not accepted.*403 Sig", "AWS_SECRET_ACCESS_KEY", False),
        (403, "InvalidAccessKeyId", "", "credentials were not accepted", "AWS_ACCESS_KEY_ID", False),
        (400, "ExpiredToken", "", "credentials were not accepted.*400 ExpiredToken", "AWS_SESSION_TOKEN", False),
        (401, "", "", "credentials were not accepted", "renew", False),
        (301, "PermanentRedirect", "", "'bucket' is not in region 'eu-north-1'", "region", False),
        (400, "AuthorizationHeaderMalformed", "<Region>eu-west-1</Region>", "not in region", "'eu-west-1'", False),
        (404, "NoSuchBucket", "", "there is no bucket 'bucket'", "mend", False),
        (503, "SlowDown", "", "busy or limits requests .503 SlowDown", "later", True),
        (429, "TooManyRequests", "", "busy or limits requests", "later", True),
        (500, "InternalError", "", "the store failed .500 InternalError", "later", True),
        (418, "Teapot", "", "request was refused .418 Teapot", "endpoint", False),
    ],
)
def test_each_refusal_has_a_message_and_a_remedy_of_its_own_and_echoes_nothing(
    server: Server, status: int, code: str, more: str, message: str, remedy: str, transient: bool
) -> None:
    server.answer = refusal(status, code, more)
    refused = server.source(region="eu-north-1")
    for ask in (refused.probe, lambda: refused.list(NOW)):
        with pytest.raises(SourceError, match=message) as error:
            ask()
        assert remedy in error.value.remedy
        assert error.value.transient is transient
        shown = shown_of(error.value)
        assert CANARY not in shown
        assert ACCESS not in shown
    if status not in (404,):
        with pytest.raises(DocumentError) as failed:
            refused.fetch(Listed("a.md", '"1"'), NOW)
        assert failed.value.transient is transient


def test_an_endpoint_that_cannot_be_reached_is_transient() -> None:
    with pytest.raises(SourceError, match=r"cannot be reached at http://127\.0\.0\.1:1\b") as error:
        source(
            name="docs", type="object_store", url="s3://bucket", endpoint="http://127.0.0.1:1", allow_http=True
        ).list(NOW)
    assert error.value.transient


@pytest.mark.parametrize(
    "second",
    [
        (200, b"<ListBucketResult><Contents>", {"Content-Length": "5000"}),
        (200, b"<ListBucketResult><Contents>", {}),
        (200, b"", {}),
        (503, b"<Error><Code>SlowDown</Code></Error>", {}),
    ],
    ids=["connection cut", "cut XML", "nothing", "503"],
)
def test_a_listing_that_breaks_off_after_a_page_is_an_error_and_no_listing(
    server: Server, second: tuple[int, bytes, dict[str, str]]
) -> None:
    def answer(request: BaseHTTPRequestHandler) -> tuple[int, bytes, dict[str, str]]:
        if "continuation-token" not in request.path:
            return 200, page("handbook/a.md", token="next"), {}
        request.close_connection = True
        return second

    server.answer = answer
    with pytest.raises(SourceError) as error:
        server.source().list(NOW)
    assert error.value.transient
    assert any("continuation-token" in path for path in server.paths)


@pytest.mark.parametrize(
    "first", [b"<html>log in first</html>", page(*(f"handbook/{n}.md" for n in range(1000)), token="t")]
)
def test_a_page_of_a_gateway_is_never_taken_for_the_end_of_a_listing(server: Server, first: bytes) -> None:
    def answer(request: BaseHTTPRequestHandler) -> tuple[int, bytes, dict[str, str]]:
        is_first = "list-type" in request.path and "continuation-token" not in request.path
        return 200, first if is_first else b"<html>log in first</html>", {}

    server.answer = answer
    with pytest.raises(SourceError, match="is no object store") as error:
        server.source().list(NOW)
    assert error.value.transient


def test_the_etag_of_the_listing_is_asked_for_and_held_against_the_answer(server: Server) -> None:
    asked: list[str | None] = []

    def answer(request: BaseHTTPRequestHandler) -> tuple[int, bytes, dict[str, str]]:
        asked.append(request.headers["If-Match"])
        return 200, b"abc", {"ETag": '"2"', "Last-Modified": "Thu, 01 Jan 2026 00:00:00 GMT"}

    server.answer = answer  # a store that does not know If-Match
    with pytest.raises(DocumentError, match="changed since it was listed"):
        server.source().fetch(Listed("a.md", '"1"', None, 3), NOW)
    assert server.source().fetch(Listed("a.md", '"2"', None, 3), NOW).data == b"abc"
    assert asked == ['"1"', '"2"']


def test_a_body_that_is_cut_is_transient(server: Server) -> None:
    headers = {"ETag": '"1"', "Last-Modified": "Thu, 01 Jan 2026 00:00:00 GMT", "Content-Length": "900"}

    def answer(request: BaseHTTPRequestHandler) -> tuple[int, bytes, dict[str, str]]:
        request.close_connection = True
        return 200, b"abc", headers

    server.answer = answer
    with pytest.raises(DocumentError) as error:
        server.source().fetch(Listed("a.md", '"1"', None, 900), NOW)
    assert error.value.transient


def test_a_server_is_asked_no_more_than_twice_before_the_refresh_decides(server: Server) -> None:
    server.answer = refusal(503, "SlowDown")
    with pytest.raises(SourceError):
        server.source().list(NOW)
    assert len(server.paths) == 2


# Credentials and the other clouds.


def test_named_variables_are_used_whole_and_must_be_set(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []

    def answer(request: BaseHTTPRequestHandler) -> tuple[int, bytes, dict[str, str]]:
        seen.append(f"{request.headers['Authorization']} {request.headers['x-amz-security-token']}")
        return 200, page("handbook/a.md"), {}

    server.answer = answer
    named = {"access_key_env": "KB_KEY", "secret_key_env": "KB_SECRET"}
    monkeypatch.setenv("KB_KEY", "AKIANAMED")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "a token of somebody else")
    with pytest.raises(SourceError, match="the environment variable KB_SECRET is not set"):
        server.source(**named).probe()
    monkeypatch.setenv("KB_SECRET", "x")
    assert uris(server.source(**named).list(NOW)) == ["a.md"]
    assert "Credential=AKIANAMED/" in seen[-1]
    assert seen[-1].endswith(" None")
    server.source(anonymous=True).probe()
    assert seen[-1] == "None None"
    server.source().probe()
    assert f"Credential={ACCESS}/" in seen[-1]


def test_no_credentials_at_all_say_which_variables_to_set(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    with pytest.raises(SourceError, match="no usable credentials") as error:
        server.source().list(NOW)
    assert "AWS_SECRET_ACCESS_KEY" in error.value.remedy
    assert "anonymous = true" in error.value.remedy
    assert server.paths == []


def test_google_cloud_storage_is_listed_and_read(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    account = (
        '{"gcs_base_url": "%s", "disable_oauth": true, "client_email": "", "private_key": "", "private_key_id": ""}'
    )
    monkeypatch.setenv("KB_ACCOUNT", account % f"http://127.0.0.1:{server.server_port}")
    headers = {"ETag": '"1"', "Last-Modified": "Thu, 01 Jan 2026 00:00:00 GMT"}
    server.answer = lambda r: (200, page("handbook/a.md"), {}) if "list-type" in r.path else (200, b"abc", headers)
    google = server.source(url="gs://bucket/handbook", endpoint=None, secret_key_env="KB_ACCOUNT")
    assert fetched(google, "a.md").data == b"abc"
    server.answer = refusal(403, "AccessDenied")
    with pytest.raises(SourceError, match="access denied to 'bucket'") as error:
        google.list(NOW)
    assert "Storage Object Viewer" in error.value.remedy


def test_azure_is_listed_and_read_and_its_signature_is_never_shown(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KB_SAS", "sv=2024-11-04&sp=rl&sig=canarySignature")
    listing = (
        b'<?xml version="1.0"?><EnumerationResults><Prefix>handbook/</Prefix><Blobs><Blob><Name>handbook/a.md</Name>'
        b"<Properties><Last-Modified>Thu, 01 Jan 2026 00:00:00 GMT</Last-Modified><Etag>0x1</Etag>"
        b"<Content-Length>3</Content-Length><Content-Type>text/plain</Content-Type></Properties></Blob></Blobs>"
        b"<NextMarker/></EnumerationResults>"
    )
    headers = {"ETag": "0x1", "Last-Modified": "Thu, 01 Jan 2026 00:00:00 GMT"}
    server.answer = lambda r: (200, listing, {}) if "comp=list" in r.path else (200, b"abc", headers)
    azure = server.source(url="az://bucket/handbook", account="somebody", session_token_env="KB_SAS")
    assert fetched(azure, "a.md").data == b"abc"
    assert all("sig=canarySignature" in urllib.parse.unquote(path) for path in server.paths)
    for answer in (refusal(403, "AuthenticationFailed"), refusal(404, "ContainerNotFound"), refusal(503, "ServerBusy")):
        server.answer = answer
        with pytest.raises(SourceError) as error:
            azure.list(NOW)
        assert "canarySignature" not in shown_of(error.value)


# The configuration.


def configured(tmp_path: Path, text: str) -> Any:
    (tmp_path / "kb.toml").write_text(f'[kb]\nname = "k"\n[[sources]]\nname = "b"\ntype = "object_store"\n{text}\n')
    return load(tmp_path / "kb.toml", {}).sources[0]


def test_a_bucket_and_a_folder_are_read_from_the_url(tmp_path: Path) -> None:
    section = configured(tmp_path, 'url = "s3://bucket/team/hand book/"\nregion = "eu-west-1"')
    assert (section.scheme, section.bucket, section.prefix) == ("s3", "bucket", "team/hand book")
    assert configured(tmp_path, 'url = "gs://bucket"').prefix == ""


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('url = "ftp://bucket/x"', "looks like s3://"),
        ('url = "file:///tmp"', "looks like s3://"),
        ('url = "s3://bucket//x"', "prefix is a folder"),
        ('url = "s3://bucket/a/../x"', "prefix is a folder"),
        ('url = "s3://bucket"\nendpoint = "http://store.example.org"', "allow_http = true"),
        ('url = "s3://bucket"\nendpoint = "store.example.org"', "is a server such as https://"),
        ('url = "s3://bucket"\naccess_key_env = "A"', "go together"),
        ('url = "s3://bucket"\nanonymous = true\naccess_key_env = "A"\nsecret_key_env = "B"', "exclude each other"),
        ('url = "gs://bucket"\nregion = "x"', "s3:// only"),
        ('url = "gs://bucket"\nendpoint = "https://x.example.org"', "no endpoint"),
        ('url = "s3://bucket"\naccount = "somebody"', "az:// only"),
        ('url = "az://box"\nsecret_key_env = "A"\nsession_token_env = "B"', "one of"),
        ('url = "s3://bucket"\nbuckets = 1', "unknown key"),
    ],
)
def test_settings_that_cannot_be_meant_are_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        configured(tmp_path, text)


@pytest.mark.parametrize(
    "text",
    [
        f'url = "s3://{ACCESS}:{CANARY}@bucket/x"',
        f'url = "s3://bucket"\nendpoint = "https://me:{CANARY}@store.example.org"',
        f'url = "s3://bucket"\nendpoint = "https://store.example.org?sig={CANARY}"',
        f'url = "s3://bucket"\naccess_key_env = "A"\nsecret_key_env = "{CANARY}"',
        f'url = "s3://bucket"\nendpoint = "http://x.example.org"\naccess_key_env = "{CANARY}"',
    ],
)
def test_a_secret_written_into_the_configuration_is_not_shown(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigError) as error:
        configured(tmp_path, text)
    assert CANARY not in str(error.value)


def test_without_obstore_such_a_source_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    section = ObjectStoreSection.model_validate({"name": "docs", "type": "object_store", "url": "s3://bucket"})
    monkeypatch.setitem(sys.modules, "obstore", None)
    with pytest.raises(ConfigError, match="obstore is not installed") as error:
        make_source(section, cache=Path("unused"))
    assert error.value.remedy == "pip install 'kbcore[objects]'"


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
