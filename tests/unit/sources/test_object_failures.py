"""What a source in an object store makes of servers that refuse, break off or are none, and of the credentials it has."""

from __future__ import annotations

import threading
import traceback
import urllib.parse
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from kbcore.config.sources import ObjectStoreSection
from kbcore.errors import DocumentError, SourceError
from kbcore.sources.object_store.source import ObjectStoreSource
from kbcore.types import Fetched, Listed, Listing

pytest.importorskip("obstore")
NOW = "2026-11-30T00:00:00Z"
CANARY = "canary/Of+The40CharactersThatAreASecretKey"
ACCESS = "AKIACANARYCANARY0001"


@pytest.fixture(autouse=True)
def _credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL", "AWS_REGION", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", ACCESS)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", CANARY)


def source(**settings: Any) -> ObjectStoreSource:
    return ObjectStoreSource(ObjectStoreSection.model_validate(settings), cache=Path("unused"))


def uris(listing: Listing) -> list[str]:
    return [item.uri for item in listing.items]


def fetched(source: ObjectStoreSource, uri: str) -> Fetched:
    return source.fetch(next(item for item in source.list(NOW).items if item.uri == uri), NOW)


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
