"""URLs in one spelling, so that a page has one identity, and without what may not be stored: userinfo, secrets,
fragments. Text only; nothing is resolved or fetched."""

from __future__ import annotations

import re
from ipaddress import IPv4Address, IPv6Address
from urllib.parse import quote, urljoin, urlsplit

Origin = tuple[str, str, int]
"""Scheme, host, port."""

LONGEST = 2048
PORTS = {"http": 80, "https": 443}
_LABEL = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
_ESCAPE = re.compile(r"%([0-9A-Fa-f]{2})?")
_SESSION = re.compile(r";jsessionid=[^/;]*", re.IGNORECASE)
_UNRESERVED = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
_TRACKING = frozenset({"gclid", "fbclid", "msclkid"})
_SECRET = {"sig", "signature", "token", "access_token", "id_token", "auth", "key", "api_key", "apikey", "api-key"}
_SECRET |= {"password", "passwd", "secret", "sid", "session", "sessionid", "session_id", "phpsessid", "jsessionid"}


def normal(url: str, base: str | None = None, *, as_asked: bool = False) -> str:
    """The one spelling of ``url`` (relative to ``base``). ValueError, with the reason, for what is not fetched.

    Scheme and host in lower case, the host in ASCII, no default port, no dot segments, percent-encoding in one form,
    no fragment, and no query parameter that tracks or that is a secret. ``as_asked`` keeps those parameters, for a
    redirect that needs them and is not stored.
    """
    url = url.strip(" \t\r\n\f")
    if "\\" in url or any(ord(char) < 0x20 or ord(char) == 0x7F for char in url):
        raise ValueError("it holds a backslash or a control character")
    try:
        parts = urlsplit(urljoin(base, url) if base else url)
        port = parts.port
    except ValueError:
        raise ValueError("it is not a URL") from None
    if parts.scheme not in PORTS:
        raise ValueError("only http and https are fetched")
    if "@" in parts.netloc:
        raise ValueError("it holds a user name or password")
    if port == 0 or parts.netloc.endswith(":") or not parts.hostname:
        raise ValueError("it names no host or no port")
    host = _host(parts.hostname)
    netloc = host if port in (None, PORTS[parts.scheme]) else f"{host}:{port}"
    path = _without_dots(_escaped(_SESSION.sub("", parts.path), "/:@!$&'()*+,;=")) or "/"
    query = "&".join(
        _escaped(pair, "/:@!$'()*+,;=?") for pair in parts.query.split("&") if pair and (as_asked or not _dropped(pair))
    )
    found = f"{parts.scheme}://{netloc}{path}" + (f"?{query}" if query else "")
    if len(found) > LONGEST:
        raise ValueError(f"it is longer than {LONGEST} characters")
    return found


def origin(url: str) -> Origin:
    """Scheme, host and port of a URL in its one spelling."""
    parts = urlsplit(url)
    return parts.scheme, parts.hostname or "", parts.port or PORTS[parts.scheme]


def folder(url: str) -> str:
    """A URL up to the last ``/`` of its path."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}{parts.path[: parts.path.rindex('/') + 1]}"


def within(url: str, prefix: str) -> bool:
    """Whether ``url`` is ``prefix`` or lies below it; ``/docs`` is no prefix of ``/docs-old``."""
    stem = prefix.rstrip("/")
    return url == stem or url.startswith((f"{stem}/", f"{stem}?"))


def shown(url: str) -> str:
    """A URL as messages may say it: without userinfo, query and fragment."""
    cut = re.split(r"[?#]", url, maxsplit=1)[0][:300]
    return re.sub(r"//[^/]*@", "//", cut)


def _host(host: str) -> str:
    """A name or address in ASCII. Addresses in any other than the plain form are refused: libraries differ in what
    they take them for."""
    if ":" in host:
        if "%" in host:
            raise ValueError("it names a network interface")
        return f"[{IPv6Address(host).compressed}]"
    if not host.isascii():
        import idna

        try:
            host = idna.encode(host, uts46=True).decode()
        except idna.IDNAError:
            raise ValueError("its host is not a name") from None
    host = host.lower().removesuffix(".")
    labels = host.split(".")
    if _NUMBER.fullmatch(labels[-1]):
        try:
            return str(IPv4Address(host))
        except ValueError:
            raise ValueError("its host is an address in an unusual form") from None
    if len(host) > 253 or not all(_LABEL.fullmatch(label) for label in labels):
        raise ValueError("its host is not a name")
    return host


def _escaped(text: str, safe: str) -> str:
    def one(match: re.Match[str]) -> str:
        if match[1] is None:
            return "%25"
        char = chr(int(match[1], 16))
        return char if char in _UNRESERVED else f"%{match[1].upper()}"

    return quote(_ESCAPE.sub(one, text), safe=safe + "%", errors="replace")


def _without_dots(path: str) -> str:
    """Remove ``.`` and ``..`` as RFC 3986 5.2.4 does."""
    kept: list[str] = []
    parts = path.split("/")[1:]
    for index, part in enumerate(parts):
        last = index == len(parts) - 1
        if part in (".", ".."):
            if part == ".." and kept:
                kept.pop()
            if last:
                kept.append("")
        else:
            kept.append(part)
    return "/" + "/".join(kept) if parts else ""


def _dropped(pair: str) -> bool:
    name = pair.split("=", 1)[0].lower()
    return name.startswith(("utm_", "x-amz-", "x-goog-")) or name in _TRACKING or name in _SECRET
