"""Paging through a REST API and signing in to it, by dlt's REST client on a session of our own.

Nothing else of dlt is used: no pipeline, no configuration files, no state, no telemetry. What dlt passes over in
silence is an error here: a list that is not where the recipe says (dlt: an empty page), a page that says there are more
without saying where (dlt: the end), a next link that was followed before (dlt: for ever).
"""

from __future__ import annotations

import os
import threading
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

os.environ.setdefault("RUNTIME__DLTHUB_TELEMETRY", "false")

from dlt.common.configuration.specs import RuntimeConfiguration
from dlt.common.jsonpath import compile_path
from dlt.sources.helpers.rest_client import paginators
from dlt.sources.helpers.rest_client.auth import (
    APIKeyAuth,
    BearerTokenAuth,
    HttpBasicAuth,
    OAuth2ClientCredentials,
)
from dlt.sources.helpers.rest_client.client import RESTClient
from requests import PreparedRequest, Request, RequestException, Response
from requests.auth import AuthBase

from kbcore.sources.rest.recipe import AuthPart, Pages
from kbcore.sources.rest.session import RECIPE_REMEDY, ApiError, Rules, Session, as_api_error

__all__ = ["ApiError", "Client", "Credentials", "Find", "Page", "finder"]

Find = Callable[[Any], list[Any]]


@dataclass(frozen=True, slots=True)
class Page:
    """One page of a list: the JSON of its answer, and its headers."""

    json: Any
    headers: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Credentials:
    """Who asks; ``names`` are the environment variables these came from, for messages."""

    user: str = ""
    token: str = ""
    names: str = ""

    def forms(self, suffix: str) -> set[str]:
        """Every way the secret may stand in a text."""
        if not self.token:
            return set()
        pair = f"{self.user}{suffix}:{self.token}".encode()
        return {self.token, quote(self.token, safe=""), b64encode(pair).decode()}


def finder(path: str) -> Find:
    """A function that gives all values at a JSON path. ValueError where the path is none."""
    try:
        compiled = compile_path(path)
    except Exception as error:  # jsonpath-ng raises bare Exception as well as its own
        raise ValueError(f"{path!r} is not a JSON path") from error
    return lambda value: [match.value for match in compiled.find(value)]


class Client:
    """Requests to one API. Usable from several threads; each has a session of its own."""

    def __init__(
        self,
        base_url: str,
        auth: AuthPart,
        credentials: Credentials,
        *,
        most_bytes: int,
        requests_per_minute: float = 0,
        error: Find | None = None,
    ) -> None:
        self._base_url = base_url
        self._local = threading.local()
        self._rules = Rules(
            most_bytes=most_bytes,
            requests_per_minute=requests_per_minute,
            error=error,
            secrets=list(credentials.forms(auth.user_suffix)),
            names=credentials.names,
        )
        self._auth = self._authenticator(auth, credentials)
        self.said = self._rules.said

    def pages(self, path: str, query: Mapping[str, str], paging: Pages, items: str, page_size: int) -> Iterator[Page]:
        """Every page of a list, in order. ApiError where one cannot be had or a link leads in circles."""
        seen: set[str] = set()
        answers: list[Response] = []
        more = finder(paging.more) if paging.more else None
        pages = self._client().paginate(
            path,
            params=dict(query),
            paginator=_paginator(paging, page_size),
            data_selector=items,
            # A hook in the place of dlt's own: statuses are looked at in the session, after it has tried again.
            hooks={"response": [lambda response, **_: answers.append(response)]},
        )
        while True:
            try:
                page = next(pages)
            except StopIteration:
                return
            except RequestException as error:
                raise as_api_error(path, error) from None
            except (ValueError, TypeError, AttributeError, RecursionError) as error:
                # dlt's own errors quote the whole answer: only the server's own words are said on.
                said = self.said(answers[-1].json()) if answers and not isinstance(error, RecursionError) else ""
                what = f"says: {said}" if said else "does not say how it goes on as the recipe says"
                raise ApiError(f"{path} {what}", remedy=RECIPE_REMEDY) from None
            answers.clear()
            address = str(page.response.url)
            if address in seen:
                raise ApiError(f"the paging of {path} goes in circles", remedy=RECIPE_REMEDY)
            seen.add(address)
            answer = page.response.json()
            if (
                not page.paginator.has_next_page
                and paging.kind == "cursor"
                and more
                and more(answer)[:1] not in ([], [False], [None])
            ):
                raise ApiError(f"{path} says that there are more pages, but not where", remedy=RECIPE_REMEDY)
            yield Page(answer, page.response.headers)

    def get(self, path: str, query: Mapping[str, str]) -> Any:
        """The JSON at a path. ApiError where it cannot be had."""
        try:
            return self._client().get(path, params=dict(query)).json()
        except RequestException as error:
            raise as_api_error(path, error) from None
        except RecursionError:
            raise ApiError(f"{path} answers with JSON that is nested too deeply", remedy=RECIPE_REMEDY) from None

    def _client(self) -> RESTClient:
        client: RESTClient | None = getattr(self._local, "client", None)
        if client is None:
            client = RESTClient(
                self._base_url,
                headers={"Accept": "application/json"},
                auth=self._auth,
                session=Session(self._base_url, self._rules),
                config=RuntimeConfiguration(),  # given, so that dlt looks for no files of its own
            )
            self._local.client = client
        return client

    def _authenticator(self, auth: AuthPart, credentials: Credentials) -> AuthBase:
        if not credentials.token:
            return _NoAuth()
        match auth.kind:
            case "bearer":
                return BearerTokenAuth(token=credentials.token)
            case "basic":
                return HttpBasicAuth(username=credentials.user + auth.user_suffix, password=credentials.token)
            case "header":
                return APIKeyAuth(name=auth.header, api_key=credentials.token)
            case "oauth":
                return _ClientCredentials(
                    access_token_url=self._base_url.rstrip("/") + "/" + auth.token_path.lstrip("/"),
                    client_id=credentials.user,
                    client_secret=credentials.token,
                    session=Session(self._base_url, self._rules),
                )
        return _NoAuth()


class _NoAuth(AuthBase):
    """Sends nothing; as an authenticator it also keeps a .netrc file from being read."""

    def __call__(self, request: PreparedRequest) -> PreparedRequest:
        return request


class _ClientCredentials(OAuth2ClientCredentials):
    """dlt would send ``Bearer None`` where the answer holds no token."""

    def parse_access_token(self, response_json: Any) -> str:
        token = response_json.get("access_token") if isinstance(response_json, dict) else None
        if not isinstance(token, str) or not token:
            raise ApiError("the token address gives no access_token", remedy="check the client id and its secret")
        if isinstance(self.session, Session):
            self.session.rules.hide(token)
        return token


class _ContinuePaginator(paginators.BasePaginator):
    """MediaWiki's way: the members of one object of the answer are added to the first query."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self._find = finder(path)
        self._query: dict[str, Any] = {}
        self._more: dict[str, Any] = {}

    def init_request(self, request: Request) -> None:
        query: Any = request.params
        self._query = dict(query or {})

    def update_state(self, response: Response, data: Sequence[Any] | None = None) -> None:
        found = self._find(response.json())
        if found and not isinstance(found[0], dict):
            raise ValueError("what leads on is not an object")
        self._more = found[0] if found else {}
        self._has_next_page = bool(self._more)

    def update_request(self, request: Request) -> None:
        request.params = {**self._query, **self._more}


def _paginator(paging: Pages, page_size: int) -> paginators.BasePaginator:
    more = paging.more or None
    match paging.kind:
        case "continue":
            return _ContinuePaginator(paging.path)
        case "cursor":
            return paginators.JSONResponseCursorPaginator(paging.path, paging.parameter, has_more_path=more)
        case "link":
            return paginators.JSONLinkPaginator(paging.path)
        case "header_link":
            return paginators.HeaderLinkPaginator()
        case "offset":
            return paginators.OffsetPaginator(
                page_size,
                offset_param=paging.parameter,
                limit_param=paging.size_parameter,
                total_path=None,
                has_more_path=more,
            )
        case "page":
            return paginators.PageNumberPaginator(
                base_page=paging.first, page_param=paging.parameter, total_path=None, has_more_path=more
            )
    return paginators.SinglePagePaginator()
