"""Adapts `httpx.Auth` objects to httpx2, which has the same interface with other classes."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

import httpx2

_BODY = frozenset({b"content-encoding", b"content-length", b"transfer-encoding"})
"""Headers that describe the encoded body, which is decoded or missing here."""


class HttpxAuth(httpx2.Auth):
    """Runs the flow of an `httpx.Auth`, translating each request and response on the way."""

    def __init__(self, auth: Any) -> None:
        self._auth = auth
        self.requires_request_body = bool(auth.requires_request_body)
        # Reading every body would block event streams until they end.
        self.requires_response_body = bool(auth.requires_response_body)

    async def async_auth_flow(
        self, request: httpx2.Request
    ) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """Run the `httpx` flow."""
        import httpx  # noqa: PLC0415  # installed where an httpx.Auth is used

        original = httpx.Request(
            request.method, str(request.url), headers=request.headers.raw, content=request.content
        )
        flow = self._auth.async_auth_flow(original)
        try:
            pending = await anext(flow)
            while True:
                response = yield _converted(request, pending, is_original=pending is original)
                body = await response.aread() if self.requires_response_body else b""
                headers = [pair for pair in response.headers.raw if pair[0].lower() not in _BODY]
                pending = await flow.asend(
                    httpx.Response(
                        response.status_code, headers=headers, content=body, request=pending
                    )
                )
        except StopAsyncIteration:
            return
        finally:
            await flow.aclose()


def _converted(request: httpx2.Request, changed: Any, *, is_original: bool) -> httpx2.Request:
    """Apply the flow's changes; the original request keeps its body, timeout and stream."""
    if not is_original:
        return httpx2.Request(
            changed.method, str(changed.url), headers=changed.headers.raw, content=changed.content
        )
    request.headers = httpx2.Headers(changed.headers.raw)
    return request
