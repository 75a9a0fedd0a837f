"""Decides which requests reach the pages: this host, this origin, this launch.

The pages show what agents read, and may call tools. So a request needs the token of this launch,
which a browser gets from the fragment of the printed address and keeps as a cookie; its host must
be ours, against DNS rebinding; and what changes something needs a header that other sites cannot
send.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Iterable
from http.cookies import CookieError, SimpleCookie
from typing import Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from plait.viewer.pages import sign_in_page

HEADER: Final = "X-Plait-View"
"""A header of every request that changes something; a page of another site cannot send it."""

SIGN_IN: Final = "/sign-in"
ASSETS: Final = "/assets/"

MAX_BODY_BYTES = 1_000_000
"""The forms of tools; anything larger is no form."""

_HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
        "connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class Guard:
    """Lets requests pass that belong to this launch of the viewer."""

    def __init__(self, app: ASGIApp, *, hosts: Iterable[str], port: int) -> None:
        self._app = app
        self._hosts = frozenset(f"{host}:{port}".lower() for host in hosts)
        self.token = secrets.token_urlsafe(24)
        """Opens the pages, as the fragment `#token=…` of an address."""
        self._tickets: set[str] = set()
        self._cookie = f"plait-view-{port}"

    def take_ticket(self) -> str:
        """Return a token that works once, for the command line of a browser, which others see."""
        ticket = secrets.token_urlsafe(24)
        self._tickets.add(ticket)
        return ticket

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or pass it to the pages."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
        else:
            answer = await self._answer_to(scope, receive)

            async def send_guarded(message: Message) -> None:
                if message["type"] == "http.response.start":
                    MutableHeaders(scope=message).update(_HEADERS)
                await send(message)

            await answer(scope, receive, send_guarded)

    async def _answer_to(self, scope: Scope, receive: Receive) -> ASGIApp:
        headers, method, path = Headers(scope=scope), scope["method"], scope["path"]
        if refusal := self._refusal(headers, method):
            return refusal
        if path == SIGN_IN and method == "POST":
            return await self._sign_in(Request(scope, receive))
        if path.startswith(ASSETS):
            return self._app
        try:
            cookie = SimpleCookie(headers.get("cookie", "")).get(self._cookie)
        except CookieError:
            cookie = None
        if cookie is not None and _is_same(cookie.value, self.token):
            return self._app
        return Response(sign_in_page(), 401, media_type="text/html")

    def _refusal(self, headers: Headers, method: str) -> Response | None:
        hosts = {one.lower() for one in headers.getlist("host")}
        if len(hosts) != 1 or not hosts <= self._hosts:
            return PlainTextResponse("This host name is not served here.", 421)
        own = {f"http://{host}" for host in hosts}
        if not {one.lower() for one in headers.getlist("origin")} <= own:
            return PlainTextResponse("Requests of other sites are refused.", 403)
        if method in {"GET", "HEAD"}:
            return None
        if method != "POST":
            return PlainTextResponse("Method not allowed.", 405)
        if headers.get(HEADER) is None:
            return PlainTextResponse(f"The header {HEADER} is missing.", 403)
        length = headers.get("content-length", "")
        if not length.isdecimal() or int(length) > MAX_BODY_BYTES:
            return PlainTextResponse("The request is too large.", 413)
        return None

    async def _sign_in(self, request: Request) -> Response:
        offered = (await request.body()).decode("utf-8", "replace")
        ticket = next((one for one in self._tickets if _is_same(offered, one)), None)
        if ticket is None and not _is_same(offered, self.token):
            return PlainTextResponse("This token is not valid.", 403)
        self._tickets.discard(ticket or "")
        response = Response(status_code=204)
        response.set_cookie(self._cookie, self.token, httponly=True, samesite="strict", path="/")
        return response


def _is_same(one: str, other: str) -> bool:
    return hmac.compare_digest(one.encode(), other.encode())
