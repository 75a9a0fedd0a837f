"""Auth objects made for `httpx`, used with httpx2, which has the same shape and other classes."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

import httpx2

_BODY = frozenset({b"content-encoding", b"content-length", b"transfer-encoding"})
"""Headers that describe a body which has been decoded, or is not there."""


class HttpxAuth(httpx2.Auth):
    """Runs the flow of an `httpx.Auth`, translating each request and response on the way."""

    def __init__(self, auth: Any) -> None:
        self._auth = auth
        self.requires_request_body = bool(auth.requires_request_body)
        # Reading every body would hold up event streams until they end.
        self.requires_response_body = bool(auth.requires_response_body)

    async def async_auth_flow(
        self, request: httpx2.Request
    ) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """Drive the other library's flow."""
        import httpx  # noqa: PLC0415  # only who hands in an httpx.Auth has it

        theirs = httpx.Request(
            request.method, str(request.url), headers=request.headers.raw, content=request.content
        )
        flow = self._auth.async_auth_flow(theirs)
        try:
            asked = await anext(flow)
            while True:
                response = yield _ours(request, asked, is_original=asked is theirs)
                body = await response.aread() if self.requires_response_body else b""
                headers = [pair for pair in response.headers.raw if pair[0].lower() not in _BODY]
                asked = await flow.asend(
                    httpx.Response(
                        response.status_code, headers=headers, content=body, request=asked
                    )
                )
        except StopAsyncIteration:
            return
        finally:
            await flow.aclose()


def _ours(request: httpx2.Request, theirs: Any, *, is_original: bool) -> httpx2.Request:
    """Take over what the flow changed: the original keeps its body, timeout and stream."""
    if not is_original:
        return httpx2.Request(
            theirs.method, str(theirs.url), headers=theirs.headers.raw, content=theirs.content
        )
    request.headers = httpx2.Headers(theirs.headers.raw)
    return request
