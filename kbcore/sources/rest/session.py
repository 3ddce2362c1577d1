"""HTTP to one origin and no other, with bounds on waiting and reading, and errors that hold no secret.

The session has a connection adapter for its origin alone, so that neither a next link, a redirect nor a token address
can carry credentials elsewhere. Busy answers (429 and 5xx) are tried again, after Retry-After where it is given.
"""

from __future__ import annotations

import email.utils
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any
from urllib.parse import urlsplit

import requests
from requests.adapters import HTTPAdapter

from kbcore.sources.rest.deadline import deadline, keep_to_deadline

ATTEMPTS = 4
BACKOFF_SECONDS = 0.5
LONGEST_WAIT_SECONDS = 120.0
TIMEOUT_SECONDS = (10.0, 60.0)
LONGEST_ANSWER_SECONDS = 300.0
BUSY = {429, 500, 502, 503, 504}
MOST_MESSAGE = 200
RECIPE_REMEDY = "check base_url and the recipe against what the API answers"


class ApiError(Exception):
    """What went wrong with a request, in words that hold no secret."""

    def __init__(self, message: str, *, remedy: str = "", transient: bool = False) -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy
        self.transient = transient


class Rules:
    """What the sessions of one source have in common: pace, bounds, and how an answer that is an error is said.

    ``error`` finds the server's own words in an answer, ``secrets`` are kept out of them, ``names`` are the environment
    variables that the credentials came from.
    """

    def __init__(
        self,
        *,
        most_bytes: int,
        requests_per_minute: float = 0,
        error: Callable[[Any], list[Any]] | None = None,
        secrets: Sequence[str] = (),
        names: str = "",
    ) -> None:
        self.most_bytes = most_bytes
        self._spacing = 60.0 / requests_per_minute if requests_per_minute else 0.0
        self._next_at = 0.0
        self._lock = threading.Lock()
        self._error = error
        self._secrets = sorted(secrets, key=len, reverse=True)
        self._names = names

    def pace(self) -> None:
        """Wait until the next request may go."""
        if self._spacing:
            with self._lock:
                now = time.monotonic()
                at = max(now, self._next_at)
                self._next_at = at + self._spacing
            time.sleep(max(0.0, at - now))

    def said(self, answer: Any) -> str:
        """What the server says went wrong, in a few words without any secret; "" where it says nothing."""
        found = self._error(answer) if self._error else []
        words = found[0] if found and isinstance(found[0], str) else ""
        for secret in self._secrets:
            words = words.replace(secret, "***")
        return "".join(c for c in " ".join(words.split()) if c.isprintable())[:MOST_MESSAGE]

    def hide(self, secret: str) -> None:
        """Keep another secret out of what is said."""
        self._secrets = sorted({*self._secrets, secret}, key=len, reverse=True)

    def check(self, response: requests.Response) -> None:
        """ApiError for an answer that is none."""
        status = response.status_code
        if status < 300:
            return
        try:
            said = self.said(response.json())
        except (ValueError, RecursionError):
            said = ""
        message = f"{urlsplit(response.url).path} answers {status}{': ' + said if said else ''}"
        if status < 400:
            where = urlsplit(response.headers.get("Location", "")).hostname
            raise ApiError(
                f"{message} and sends on to {where or 'another path'}",
                remedy="set base_url to where the API is; a sign-in page means that credentials are missing",
            )
        if status in (401, 403):
            names = self._names or "none are configured"
            raise ApiError(message, remedy=f"check that the credentials are valid and may read this ({names})")
        if status == 404:
            raise ApiError(message, remedy="check base_url and the parameters of the recipe")
        if status in BUSY:
            wait = _retry_after(response)
            if wait is not None and wait > LONGEST_WAIT_SECONDS:
                raise ApiError(f"{message} and asks to wait {wait:.0f} seconds", remedy="run the refresh later")
            raise ApiError(message, remedy="try again later", transient=True)
        raise ApiError(message, remedy=RECIPE_REMEDY)


class Session(requests.Session):
    """A session for the origin of ``base_url``. Redirects are not followed; an answer of status 300 or more is an
    ApiError."""

    def __init__(self, base_url: str, rules: Rules) -> None:
        super().__init__()
        self.rules = rules
        self.headers["User-Agent"] = "kbcore"
        self.adapters.clear()
        for prefix in origins(base_url):
            self.mount(prefix, _Adapter())

    def send(self, request: requests.PreparedRequest, **kwargs: Any) -> requests.Response:
        kwargs |= {"allow_redirects": False, "stream": True}
        kwargs["timeout"] = kwargs.get("timeout") or TIMEOUT_SECONDS
        for attempt in range(1, ATTEMPTS + 1):
            self.rules.pace()
            wait = BACKOFF_SECONDS * 2 ** (attempt - 1)
            try:
                response = self._answer(request, kwargs)
            except requests.exceptions.SSLError:
                raise
            except (requests.ConnectionError, requests.Timeout, requests.exceptions.ChunkedEncodingError):
                if attempt == ATTEMPTS:
                    raise
            else:
                told = _retry_after(response)
                wait = wait if told is None else told
                if response.status_code not in BUSY or attempt == ATTEMPTS or wait > LONGEST_WAIT_SECONDS:
                    self.rules.check(response)
                    return response
            time.sleep(wait)
        raise AssertionError("unreachable")

    def get_redirect_target(self, resp: requests.Response) -> str | None:
        # Only to say where a redirect would lead, requests reads all of its body, which has no bound there.
        return None

    def _answer(self, request: requests.PreparedRequest, kwargs: dict[str, Any]) -> requests.Response:
        """One answer in full, from the first byte of its head to the last of its body within one time limit."""
        with deadline(LONGEST_ANSWER_SECONDS) as left:
            try:
                response = super().send(request, **kwargs)
                self._read(response)
            except (requests.ConnectionError, requests.Timeout, requests.exceptions.ChunkedEncodingError):
                if left() > 0:
                    raise
                raise ApiError(
                    f"{urlsplit(request.url or '').path} took more than {LONGEST_ANSWER_SECONDS:g} seconds to answer",
                    remedy="set a smaller page_size, or try again when the server is less busy",
                    transient=True,
                ) from None
        return response

    def _read(self, response: requests.Response) -> None:
        """Read an answer's body, up to the bound of bytes."""
        body = bytearray()
        for part in response.iter_content(1 << 16):
            body += part
            if len(body) > self.rules.most_bytes:
                response.close()
                raise ApiError(
                    f"an answer has more than {self.rules.most_bytes} bytes", remedy="set a smaller page_size"
                )
        response._content = bytes(body)


class _Adapter(HTTPAdapter):
    def get_connection_with_tls_context(self, *args: Any, **kwargs: Any) -> Any:
        return keep_to_deadline(super().get_connection_with_tls_context(*args, **kwargs))


def as_api_error(path: str, error: requests.RequestException) -> ApiError:
    """What went wrong on the way. The texts of these errors may quote URLs and headers: only their kind is said."""
    strange = (requests.exceptions.InvalidSchema, requests.exceptions.InvalidURL, requests.exceptions.MissingSchema)
    if isinstance(error, strange):
        return ApiError(
            f"{path} leads to another address than base_url",
            remedy="credentials go to base_url only; set base_url to the address that the API uses in its links",
        )
    if isinstance(error, requests.exceptions.JSONDecodeError):
        return ApiError(f"{path} answers with something that is not JSON", remedy=RECIPE_REMEDY)
    if isinstance(error, requests.exceptions.SSLError):
        return ApiError("the certificate of the server is not valid", remedy="check base_url and the CA bundle")
    if isinstance(error, requests.Timeout):
        return ApiError(f"{path} does not answer in time", remedy="try again later", transient=True)
    if isinstance(error, requests.ConnectionError | requests.exceptions.ChunkedEncodingError):
        return ApiError("the server cannot be reached", remedy="check base_url and the network", transient=True)
    return ApiError(f"{path} cannot be read ({type(error).__name__})", remedy=RECIPE_REMEDY)


def origins(base_url: str) -> list[str]:
    """The ways to write the origin of a URL, each ending in ``/``."""
    # As requests will write it: another alphabet in a host's name becomes punycode.
    parts = urlsplit(str(requests.Request("GET", base_url).prepare().url))
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    usual = {"https": 443, "http": 80}[parts.scheme]
    port = parts.port or usual
    return [f"{parts.scheme}://{host}:{port}/", *([f"{parts.scheme}://{host}/"] if port == usual else [])]


def _retry_after(response: requests.Response) -> float | None:
    """Seconds that the server asks to wait, or None."""
    said = response.headers.get("Retry-After", "").strip()
    if said.isdecimal():
        return float(said)
    try:
        return max(0.0, email.utils.parsedate_to_datetime(said).timestamp() - time.time())
    except (ValueError, OverflowError, TypeError):
        return None
