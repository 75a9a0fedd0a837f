"""HTTP faults: refuse with a status, cut an answer, reject a protocol era."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, cast

from mcp.types import INVALID_REQUEST, METHOD_NOT_FOUND
from mcp.types.version import HANDSHAKE_PROTOCOL_VERSIONS
from starlette.responses import JSONResponse, PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from plait._support.local_server import buffer_body
from plait.testing.faults.options import Moment
from plait.testing.faults.run import Run

_MOMENTS: dict[str, Moment] = {
    "initialize": "initialize",
    "server/discover": "initialize",
    "tools/list": "list",
    "tools/call": "call",
}


class HttpFaults:
    """ASGI middleware around the MCP server."""

    def __init__(self, app: ASGIApp, run: Run) -> None:
        self._app = app
        self._run = run
        self._settings = run.settings
        self.cut: Callable[[tuple[str, int]], None] = lambda client: None  # noqa: ARG005
        """Cuts the TCP connection of a client address; set by the HTTP server."""
        self._cut_stream = False
        """Whether to cut the next message on an SSE stream (old transport)."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        body, receive = await buffer_body(receive)
        request = _json_object(body)
        opens_sse = self._settings.transport == "sse" and scope["method"] == "GET"
        moment = _MOMENTS.get("initialize" if opens_sse else str(request.get("method")))
        if status_due(self._run, moment):
            await self._refuse(scope, receive, send)
        elif self._settings.legacy_only and _is_modern(scope):
            await _refuse_modern(request, scope, receive, send)
        elif moment == "call" and self._cut_due():
            await self._answer_in_half(scope, receive, send)
        else:
            await self._app(scope, receive, self._watch(scope, send))

    async def _refuse(self, scope: Scope, receive: Receive, send: Send) -> None:
        response = PlainTextResponse(
            self._settings.http_body,
            status_code=self._settings.status_code or 500,
            headers=refusal_headers(self._run),
        )
        await response(scope, receive, send)

    def _cut_due(self) -> bool:
        times = self._settings.cut_sse_times
        if times is not None and self._run.cuts >= times:
            return False
        self._run.cuts += 1
        return True

    async def _answer_in_half(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run the tool, then cut the connection inside its answer."""
        if self._settings.transport == "sse":
            self._cut_stream = True
            await self._app(scope, receive, send)
            return
        answer = bytearray()

        async def collect(message: Message) -> None:
            answer.extend(message.get("body", b""))

        start = {"status": 200, "headers": [(b"content-type", b"text/event-stream")]}
        await send({"type": "http.response.start", **start})
        await send({"type": "http.response.body", "body": b": soon\r\n\r\n", "more_body": True})
        await self._app(scope, receive, collect)
        half = b"event: message\r\ndata: " + bytes(answer[: len(answer) // 2])
        await send({"type": "http.response.body", "body": half, "more_body": True})
        self.cut(scope["client"])

    def _watch(self, scope: Scope, send: Send) -> Send:
        async def watched(message: Message) -> None:
            body: bytes = message.get("body", b"")
            if self._cut_stream and scope["method"] == "GET" and b"event: message" in body:
                self._cut_stream = False
                await send({**message, "body": body[: len(body) // 2]})
                self.cut(scope["client"])
                return
            await send(message)
            if body:
                self._run.wrote()

        return watched


def status_due(run: Run, moment: Moment | None) -> bool:
    """Return whether to answer with the configured HTTP status, and count it."""
    settings = run.settings
    if settings.status_code is None or settings.http_status_on not in {moment, "all"}:
        return False
    if settings.status_times is not None and run.statuses >= settings.status_times:
        return False
    run.statuses += 1
    return True


def refusal_headers(run: Run) -> dict[str, str]:
    """Return the headers of the configured HTTP status."""
    headers = {
        "Retry-After": run.settings.retry_after,
        "WWW-Authenticate": run.settings.www_authenticate,
    }
    return {name: value for name, value in headers.items() if value is not None}


def _is_modern(scope: Scope) -> bool:
    headers: list[tuple[bytes, bytes]] = scope["headers"]
    version = dict(headers).get(b"mcp-protocol-version")
    return version is not None and version.decode("latin-1") not in HANDSHAKE_PROTOCOL_VERSIONS


async def _refuse_modern(
    request: dict[str, Any], scope: Scope, receive: Receive, send: Send
) -> None:
    """Answer as a server that supports only the legacy era."""
    if request.get("method") == "server/discover":
        error = {"code": METHOD_NOT_FOUND, "message": "Method not found"}
    else:
        error = {"code": INVALID_REQUEST, "message": "Bad Request: Unsupported protocol version"}
    answer = {"jsonrpc": "2.0", "id": request.get("id"), "error": error}
    await JSONResponse(answer, status_code=400)(scope, receive, send)


def _json_object(body: bytes) -> dict[str, Any]:
    try:
        value = json.loads(body)
    except ValueError:
        return {}
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}
