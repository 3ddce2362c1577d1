"""The one HTTP module: where it connects to, and where it stops."""

from __future__ import annotations

import datetime
import ipaddress
import re
import ssl
import time
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from kbcore.errors import HttpError
from kbcore.sources.web.addresses import networks
from kbcore.sources.web.http import HttpClient, HttpSettings, system_addresses
from kbcore.sources.web.pace import Pace, pause
from kbcore.sources.web.urls import origin
from tests.unit.sources.site import Reply, Site, page, redirect, serving

LOOPBACK = networks(["127.0.0.0/8"])


@pytest.fixture
def site() -> Iterator[Site]:
    with serving() as found:
        yield found


def client(site: Site, resolve: Any = None, context: Any = None, **more: Any) -> HttpClient:
    settings = {"ports": (site.port,), "allow_private": LOOPBACK, "request_seconds": 5.0, **more}
    return HttpClient(HttpSettings("test/1", **settings), Pace(0.0), resolve=resolve, context=context)


def error_of(http: HttpClient, url: str, **more: Any) -> HttpError:
    with http, pytest.raises(HttpError) as caught:
        http.get(url, **more)
    return caught.value


FORBIDDEN = r"""
http://127.0.0.1:{p}/ http://127.1:{p}/ http://127.0.1:{p}/ http://2130706433:{p}/ http://0x7f000001:{p}/
http://0x7f.0.0.1:{p}/ http://0177.0.0.1:{p}/ http://0177.0.0.0x1:{p}/ http://017700000001:{p}/
http://127.0.0.1.:{p}/ http://127.0.0.01:{p}/ http://127.00.00.1:{p}/ http://0:{p}/ http://0.0.0.0:{p}/
http://0x0:{p}/ http://00000:{p}/ http://4294967295:{p}/ http://6425673729:{p}/ http://1.2.3.4.5:{p}/
http://256.0.0.1:{p}/ http://127.0.0.1%00:{p}/ http://%31%32%37.0.0.1:{p}/ http://①②⑦.⓪.⓪.①:{p}/
http://１２７.0.0.1:{p}/ http://127。0。0。1:{p}/ http://127｡0｡0｡1:{p}/ http://localhost:{p}/ http://LOCALHOST:{p}/
http://localhost.:{p}/ http://ⓛocalhost:{p}/ http://[::1]:{p}/ http://[::]:{p}/ http://[0:0:0:0:0:0:0:1]:{p}/
http://[::ffff:127.0.0.1]:{p}/ http://[::ffff:7f00:1]:{p}/ http://[::127.0.0.1]:{p}/
http://[::ffff:0:127.0.0.1]:{p}/ http://[64:ff9b::7f00:1]:{p}/ http://[2002:7f00:1::]:{p}/
http://[2001::7f00:1]:{p}/ http://[fe80::1%25lo]:{p}/ http://[fe80::1]:{p}/ http://[fec0::1]:{p}/
http://[fd00:ec2::254]:{p}/ http://[ff02::1]:{p}/ http://169.254.169.254:{p}/ http://0xa9fea9fe:{p}/
http://10.0.0.1:{p}/ http://192.168.0.1:{p}/ http://172.16.0.1:{p}/ http://100.64.0.1:{p}/
http://ada@127.0.0.1:{p}/ http://ada:pw@127.0.0.1:{p}/ http://docs.example.org@127.0.0.1:{p}/
http://docs.example.org\@127.0.0.1:{p}/ http://127.0.0.1\@docs.example.org:{p}/
http://docs.example.org#@127.0.0.1:{p}/ http://127.0.0.1:{p}@docs.example.org/ https://127.0.0.1:{p}/
ftp://127.0.0.1:{p}/ file://127.0.0.1/etc/passwd gopher://127.0.0.1:{p}/ //127.0.0.1:{p}/ http:127.0.0.1:{p}/
http:///127.0.0.1:{p}/ ws://127.0.0.1:{p}/
""".split()  # noqa: SIM905


def no_name_is_public(host: str, port: int) -> Sequence[str]:
    """Names of the table that are not for this machine get no answer; everything else is for the real resolver."""
    if host == "docs.example.org":
        raise OSError("not known")
    return system_addresses(host, port)


@pytest.mark.parametrize("text", FORBIDDEN)
def test_no_spelling_of_a_forbidden_address_is_connected_to(site: Site, text: str) -> None:
    with serving("::1", port=site.port) if _has_ipv6() else serving() as second:
        error = error_of(client(site, no_name_is_public, allow_private=()), text.format(p=site.port))
        assert (site.connections, second.connections) == (0, 0)
    assert error.kind in ("refused", "connection")
    assert "pw" not in str(error)


def test_the_table_of_forbidden_addresses_is_long_enough() -> None:
    assert len(set(FORBIDDEN)) >= 60


@pytest.mark.parametrize("text", [url for url in FORBIDDEN if re.search("://[^/]", url)])
def test_no_redirect_leads_to_a_forbidden_address(site: Site, text: str) -> None:
    with serving("127.0.0.2") as public:
        public.pages["/"] = redirect(text.format(p=site.port))
        settings = HttpSettings("test/1", 5.0, ports=(site.port, public.port), allow_private=networks(["127.0.0.2"]))
        error = error_of(HttpClient(settings, Pace(0.0), resolve=no_name_is_public), public.url())
    assert site.connections == 0
    assert error.kind in ("refused", "connection")


def test_a_name_that_is_private_the_second_time_is_refused(site: Site) -> None:
    """127.0.0.2 stands for a public address here, 127.0.0.1 for the address an attacker wants."""
    answers = [["127.0.0.2"], ["127.0.0.1"]]
    asked: list[str] = []

    def rebinding(host: str, port: int) -> Sequence[str]:
        asked.append(host)
        return answers.pop(0)

    with serving("127.0.0.2", port=site.port) as public:
        public.pages["/"] = page("first", headers={"Connection": "close"})
        settings = HttpSettings("test/1", 5.0, ports=(site.port,), allow_private=networks(["127.0.0.2"]))
        with HttpClient(settings, Pace(0.0), resolve=rebinding) as http:
            url = f"http://docs.example.org:{site.port}/"
            assert http.get(url).status == 200
            assert asked == ["docs.example.org"]  # looked up once for the check and the connection
            with pytest.raises(HttpError, match="not a public address"):
                http.get(url)
        assert public.connections == 1
        assert public.asked[0].headers["host"] == f"docs.example.org:{site.port}"
    assert site.connections == 0


def test_one_private_address_among_public_ones_refuses_the_name(site: Site) -> None:
    with serving("127.0.0.2", port=site.port) as public:
        settings = HttpSettings("test/1", 5.0, ports=(site.port,), allow_private=networks(["127.0.0.2"]))
        http = HttpClient(settings, Pace(0.0), resolve=lambda *_: ["127.0.0.2", "127.0.0.1"])
        assert error_of(http, f"http://docs.example.org:{site.port}/").kind == "refused"
        assert (public.connections, site.connections) == (0, 0)


def test_a_slow_resolver_ends_at_the_deadline(site: Site) -> None:
    def slow(host: str, port: int) -> Sequence[str]:
        time.sleep(3)
        return []

    started = time.monotonic()
    error = error_of(client(site, slow, request_seconds=0.3), f"http://docs.example.org:{site.port}/")
    assert error.kind == "timeout"
    assert time.monotonic() - started < 1


def test_other_ports_are_refused_unless_they_are_configured(site: Site) -> None:
    assert "ports" in error_of(client(site, ports=(80, 443)), site.url()).remedy
    assert site.connections == 0


def test_no_proxy_is_taken_from_the_environment(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    site.pages["/"] = page("here")
    with client(site) as http:
        assert http.get(site.url()).status == 200


def test_a_redirect_is_followed_five_times_and_no_more(site: Site) -> None:
    site.pages |= {f"/{n}": redirect(f"/{n + 1}") for n in range(9)} | {"/5": page("the end")}
    with client(site) as http:
        assert http.get(site.url("/0")).url == site.url("/5")
    del site.pages["/5"]
    site.pages["/5"] = redirect("/6")
    assert error_of(client(site), site.url("/0")).kind == "redirect"


def test_a_circle_of_redirects_is_told(site: Site) -> None:
    site.pages |= {"/a": redirect("/b"), "/b": redirect("/a")}
    assert "circle" in error_of(client(site), site.url("/a")).message


def test_the_token_goes_to_its_origin_only(site: Site) -> None:
    with serving("127.0.0.2") as other:
        other.pages["/"] = page("other")
        site.pages |= {"/": redirect(other.url()), "/own": redirect("/there"), "/there": page("own")}
        settings = {"ports": (site.port, other.port), "token": "s3cret", "origins": frozenset({origin(site.url())})}
        with client(site, **settings) as http:
            http.get(site.url())
            http.get(site.url("/own"))
        assert [entry.headers.get("authorization") for entry in site.asked] == ["Bearer s3cret"] * 3
        assert "authorization" not in other.asked[0].headers
        assert "s3cret" not in repr(http.settings)


def test_no_cookie_is_kept(site: Site) -> None:
    site.pages["/"] = page("cookie", headers={"Set-Cookie": "session=1; Path=/"})
    with client(site) as http:
        http.get(site.url())
        http.get(site.url())
    assert all("cookie" not in entry.headers for entry in site.asked)


HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n"


def drip(start: bytes, piece: bytes) -> Reply:
    def write(out: Any) -> None:
        out.write(start)
        for _ in range(200):
            out.write(piece)
            out.flush()
            time.sleep(0.05)

    return Reply(write=write)


@pytest.mark.parametrize(
    "reply",
    [
        drip(HEAD + b"\r\n", b"x"),
        drip(HEAD + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\nx\r\n"),
        drip(HEAD + b"X-Long: ", b"x"),
        drip(b"", b"HTTP/1.1 103 Early Hints\r\n\r\n"),
        drip(b"", b""),
    ],
    ids=["body", "chunks", "header", "early hints", "silence"],
)
def test_a_dripping_answer_ends_at_the_deadline(site: Site, reply: Reply) -> None:
    site.pages["/"] = reply
    started = time.monotonic()
    error = error_of(client(site, request_seconds=0.8), site.url())
    assert (error.kind, error.transient) == ("timeout", True)
    assert 0.7 < time.monotonic() - started < 1.8


def test_an_endless_body_stops_at_the_bound(site: Site) -> None:
    sent = 0

    def write(out: Any) -> None:
        nonlocal sent
        out.write(HEAD + b"\r\n")
        while True:
            out.write(b"x" * 65536)
            sent += 65536

    site.pages["/"] = Reply(write=write)
    error = error_of(client(site, max_bytes=1_000_000), site.url())
    assert (error.kind, error.transient) == ("too_large", False)
    assert sent < 20_000_000


def test_a_declared_length_beyond_the_bound_is_not_read(site: Site) -> None:
    site.pages["/"] = Reply(write=lambda out: out.write(HEAD + b"Content-Length: " + b"9" * 30 + b"\r\n\r\n"))
    assert error_of(client(site), site.url()).kind in ("too_large", "protocol")
    site.pages["/"] = Reply(write=lambda out: out.write(HEAD + b"Content-Length: 99999999999\r\n\r\n"))
    assert error_of(client(site), site.url()).kind == "too_large"


def test_a_gzip_bomb_stops_at_the_bound(site: Site) -> None:
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    bomb = (packer.compress(bytes(8_000_000)) + packer.flush()) * 64
    assert len(bomb) < 1_000_000
    site.pages["/"] = Reply(bomb, headers={"Content-Encoding": "gzip"})
    started = time.monotonic()
    assert error_of(client(site, max_bytes=50_000_000), site.url()).kind == "too_large"
    assert time.monotonic() - started < 5


def test_gzip_is_decoded_and_other_encodings_are_refused(site: Site) -> None:
    site.pages["/"] = page("zipped", zipped=True)
    with client(site) as http:
        assert b"zipped" in http.get(site.url()).body
    site.pages["/"] = page("zipped", headers={"Content-Encoding": "br"})
    assert error_of(client(site), site.url()).kind == "protocol"
    site.pages["/"] = Reply(b"\x1f\x8b\x08", headers={"Content-Encoding": "gzip"})
    assert error_of(client(site), site.url()).transient


@pytest.mark.parametrize("answer", [HEAD + b"Content-Length: 100\r\n\r\nhalf", b"garbage\r\n\r\n", b""])
def test_an_answer_that_breaks_off_may_be_asked_for_again(site: Site, answer: bytes) -> None:
    site.pages["/"] = Reply(write=lambda out: out.write(answer))
    assert error_of(client(site), site.url()).transient


def test_a_port_where_nobody_listens_is_a_failed_connection() -> None:
    with serving() as gone:
        pass
    error = error_of(client(gone), gone.url())
    assert (error.kind, error.transient) == ("connection", True)


def certificate(folder: Path, name: str) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """Contexts of a server called ``name``, and of a client that trusts it."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(7)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), False)
        .add_extension(x509.BasicConstraints(True, None), True)
        .sign(key, hashes.SHA256())
    )
    private = serialization.PrivateFormat.PKCS8
    (folder / "key.pem").write_bytes(
        key.private_bytes(serialization.Encoding.PEM, private, serialization.NoEncryption())
    )
    (folder / "cert.pem").write_bytes(made.public_bytes(serialization.Encoding.PEM))
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(folder / "cert.pem", folder / "key.pem")
    return server, ssl.create_default_context(cafile=str(folder / "cert.pem"))


def test_tls_is_made_with_the_name_at_the_address_that_was_vetted(tmp_path: Path) -> None:
    server, trusting = certificate(tmp_path, "docs.example.org")
    named: list[str | None] = []
    server.sni_callback = lambda _socket, name, _context: named.append(name)
    with serving("127.0.0.2", context=server) as site:
        site.pages["/"] = page("secure")
        url = f"https://docs.example.org:{site.port}/"
        with client(site, lambda *_: ["127.0.0.2"], trusting) as http:
            assert http.get(url).status == 200
        assert named == ["docs.example.org"]
        assert site.asked[0].headers["host"] == f"docs.example.org:{site.port}"
        error = error_of(client(site, lambda *_: ["127.0.0.2"]), url)
        assert (error.kind, error.transient) == ("tls", False)
        error = error_of(client(site, lambda *_: ["127.0.0.2"], trusting), f"https://other.example.org:{site.port}/")
        assert error.kind == "tls"
        assert len(site.asked) == 1


def test_requests_to_one_host_keep_their_distance() -> None:
    pace = Pace(0.1)
    started = time.monotonic()
    for host in ("a", "b", "a", "b", "a"):
        pace.wait(host)
    assert 0.2 <= time.monotonic() - started < 1
    pace.hold("a", "100")
    with pytest.raises(HttpError) as caught:
        pace.wait("a", time.monotonic() + 1)
    assert caught.value.kind == "budget"


def test_retry_after_is_a_number_or_a_date() -> None:
    assert pause("7") == 7
    assert pause("soon") == 0
    assert pause("Wed, 21 Oct 2015 07:28:00 GMT") == 0
    later = datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=60)
    assert 55 < pause(later.strftime("%a, %d %b %Y %H:%M:%S GMT")) <= 60


def _has_ipv6() -> bool:
    import socket

    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6):
            return ipaddress.ip_address("::1").is_loopback
    except OSError:
        return False
