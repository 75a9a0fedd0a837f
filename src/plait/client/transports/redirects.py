"""Redirects of an MCP endpoint, which are followed only within its origin.

Headers, cookies, session id and body of a request are meant for one origin.
"""

from __future__ import annotations

from typing import Final

import httpx2

from plait.client.transports.auth.challenge import ADVICE
from plait.client.transports.wire import Advice

Origin = tuple[str, str, int | None]

MOST_REDIRECTS: Final = 5

_SAME_METHOD = frozenset({301, 302, 307, 308})
"""Statuses after which the same method is repeated. Browsers turn a POST into a GET after the first
two, which would lose the message; 303 requires that, so it is not followed."""


def origin_of(url: httpx2.URL) -> Origin:
    """Return scheme, host and port, which identify a server."""
    return url.scheme, url.host, url.port


def shown_origin(url: httpx2.URL) -> str:
    """Format an origin for error messages."""
    host = f"[{url.host}]" if ":" in url.host else url.host
    return f"{url.scheme}://{host}" + ("" if url.port is None else f":{url.port}")


def redirected(
    request: httpx2.Request, response: httpx2.Response, client: httpx2.AsyncClient
) -> httpx2.Request | None:
    """Return the request that follows a redirect, or `None` if it must not be followed."""
    url = _location(response)
    if url is None or origin_of(url) != origin_of(request.url):
        return None
    if response.status_code not in _SAME_METHOD and request.method not in {"GET", "HEAD"}:
        return None
    headers = request.headers.copy()
    if "cookie" not in client.headers:
        headers.pop("cookie", None)  # the redirect may have set another
    following = httpx2.Request(
        request.method,
        # Keep the configured credentials, never those in a `Location`.
        url.copy_with(userinfo=request.url.userinfo),
        headers=headers,
        stream=request.stream,
        extensions=request.extensions,
    )
    client.cookies.set_cookie_header(following)
    return following


def refused_redirect(request: httpx2.Request, response: httpx2.Response) -> httpx2.Response:
    """Return the response without its `Location`, so that it is not followed, with the reason."""
    url = _location(response)
    here = shown_origin(request.url)
    if url is None:
        advice = "the server redirects to what is no address"
    elif origin_of(url) == origin_of(request.url):
        advice = f"the server at {here} redirects in a way that cannot be followed"
    else:
        advice = (
            f"{here} redirects to {shown_origin(url)}, another origin, which gets none of the "
            "headers and credentials meant for this one; if it is the right server, put its "
            "address into the configuration"
        )
    extensions = {ADVICE: Advice(text=advice)}
    return httpx2.Response(response.status_code, request=request, extensions=extensions)


def _location(response: httpx2.Response) -> httpx2.URL | None:
    try:
        return response.request.url.join(response.headers["location"])
    except (httpx2.InvalidURL, ValueError):
        return None
