"""What is meant for one origin never reaches another, whoever points there."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

import anyio
import httpx2
import pytest
from websockets.datastructures import Headers
from websockets.http11 import Request, Response
from websockets.sync.server import ServerConnection, serve

from plait import ConnectError, MultiServerMCPClient, OAuth, PlaitError, Toolbox
from plait.errors import HttpError
from tests.integration.canaries.mirror import Mirror
from tests.integration.canaries.search import canary

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]

STATUSES = [301, 302, 307, 308]


@pytest.fixture
def here(mirror: Mirror) -> Mirror:
    return mirror


def following_client(**given: Any) -> httpx2.AsyncClient:
    """Make a client that, left alone, goes wherever it is sent."""
    return httpx2.AsyncClient(follow_redirects=True, **given)


def config(url: str, secret: str, **more: Any) -> dict[str, Any]:
    headers = {"Authorization": f"Bearer {secret}", "Cookie": f"id={secret}", "X-Team": secret}
    return {"url": url, "headers": headers, "reconnect": {"max_attempts": 1}, **more}


@pytest.mark.parametrize("factory", [None, following_client])
@pytest.mark.parametrize("transport", ["http", "sse"])
@pytest.mark.parametrize("status", STATUSES)
async def test_another_origin_hears_nothing_when_a_session_is_opened(
    status: int, transport: str, factory: Any, here: Mirror, elsewhere: Mirror
) -> None:
    here.mode, here.status, here.location = "redirect", status, elsewhere.url
    more: dict[str, Any] = {"transport": transport}
    if factory is not None:
        more["httpx_client_factory"] = factory
    async with Toolbox({"shop": config(here.url, canary(), **more)}) as box:
        with pytest.raises(HttpError) as caught:
            await box.tools()

    assert elsewhere.heard == []
    assert caught.value.status == status
    assert here.origin in str(caught.value)
    assert elsewhere.origin in str(caught.value)


async def test_another_origin_hears_nothing_in_the_middle_of_a_session(
    here: Mirror, elsewhere: Mirror
) -> None:
    servers = {"shop": config(here.url, canary(), httpx_client_factory=following_client)}
    async with Toolbox(servers) as box:
        await box.tools()
        here.mode, here.status, here.location = "redirect", 307, elsewhere.url
        with pytest.raises(HttpError, match="another origin"):
            await box.call("shop", "count", {"count": 1})
    # The goodbye of the session was redirected too.

    assert any("mcp-session-id" in one.headers for one in here.heard)
    assert elsewhere.heard == []


@pytest.mark.parametrize(
    ("status", "target", "reason"),
    [
        (308, "https://{host}/mcp", "another origin"),
        (308, "http://127.0.0.1:9/mcp", "another origin"),
        (303, "/moved", "HTTP 303"),
        (307, "/mcp", "HTTP 307"),
    ],
    ids=["another scheme", "another port", "it would lose the message", "a circle"],
)
async def test_a_redirect_that_may_not_be_followed_is_named(
    status: int, target: str, reason: str, here: Mirror
) -> None:
    location = target.format(host=here.origin.removeprefix("http://"))
    here.mode, here.status, here.location = "redirect", status, location
    async with Toolbox({"shop": config(here.url, canary())}) as box:
        with pytest.raises(HttpError, match=reason) as caught:
            await box.tools()

    assert location.startswith("/") or location.removesuffix("/mcp") in str(caught.value)
    assert "/moved" not in {one.path for one in here.heard}


@pytest.mark.parametrize("status", STATUSES)
async def test_a_redirect_within_the_origin_is_followed_with_everything(
    status: int, here: Mirror
) -> None:
    secret = canary()
    here.mode, here.status, here.location = "redirect", status, "/moved"
    async with Toolbox({"shop": config(here.url, secret)}) as box:
        await box.call("shop", "count", {"count": 1})
    moved = [one for one in here.heard if one.path == "/moved" and one.method == "POST"]

    assert {"initialize", "tools/call"} <= {one.rpc.get("method") for one in moved}
    assert {one.headers["authorization"] for one in moved} == {f"Bearer {secret}"}
    assert {one.headers["x-team"] for one in moved} == {secret}


async def test_credentials_in_a_redirect_are_not_used(here: Mirror) -> None:
    foreign = here.origin.replace("://", "://mallory:guess@") + "/moved"
    here.mode, here.status, here.location = "redirect", 307, foreign
    async with Toolbox({"shop": {"url": here.url}}) as box:
        await box.tools()

    assert all("authorization" not in one.headers for one in here.heard)


async def test_a_posting_address_on_another_origin_is_refused(
    here: Mirror, elsewhere: Mirror
) -> None:
    here.as_sse, here.endpoint = True, f"{elsewhere.origin}/messages"
    servers = {"shop": config(here.url, canary(), transport="sse")}
    async with Toolbox(servers) as box:
        with pytest.raises(ConnectError, match="another origin") as caught:
            await box.tools()

    assert elsewhere.heard == []
    assert here.origin in str(caught.value)
    assert elsewhere.origin in str(caught.value)


async def test_a_posting_address_written_in_full_gets_the_user_of_the_url(here: Mirror) -> None:
    here.as_sse, here.endpoint, here.endless = True, f"{here.origin}/messages", True
    here.mode, here.moment, here.status = "status", "initialize", 403
    url = here.url.replace("://", "://ann:password@")
    servers = {"shop": {"url": url, "transport": "sse", "reconnect": {"max_attempts": 1}}}
    async with Toolbox(servers) as box:
        with pytest.raises(PlaitError, match="403"):
            await box.tools()
    here.released.set()
    posts = [one for one in here.heard if one.method == "POST"]

    assert posts
    assert all(one.headers["authorization"].startswith("Basic ") for one in posts)


async def test_a_stream_that_ends_after_its_endpoint_is_not_waited_for(
    here: Mirror,
) -> None:
    here.as_sse = True
    servers = {"shop": {"url": here.url, "transport": "sse", "reconnect": {"max_attempts": 1}}}
    with anyio.fail_after(10):
        async with Toolbox(servers) as box:
            with pytest.raises(ConnectError, match="the event stream ended"):
                await box.tools()


@contextmanager
def websocket(
    handle: Callable[[ServerConnection], None], process_request: Any = None
) -> Generator[str]:
    """Run a WebSocket server in a thread, and yield its address."""
    with serve(handle, "127.0.0.1", 0, process_request=process_request) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"ws://127.0.0.1:{server.socket.getsockname()[1]}/mcp"
        server.shutdown()
        thread.join()


async def test_a_websocket_is_not_opened_elsewhere(elsewhere: Mirror) -> None:
    location = elsewhere.url.replace("http", "ws", 1)

    def redirect(connection: ServerConnection, request: Request) -> Response:
        del connection, request
        return Response(307, "Elsewhere", Headers({"Location": location, "Content-Length": "0"}))

    with websocket(lambda connection: connection.close(), redirect) as url:
        async with Toolbox({"shop": config(url, canary())}) as box:
            with pytest.raises(ConnectError, match="another origin") as caught:
                await box.tools()

    assert elsewhere.heard == []
    assert location.removesuffix("/mcp") in str(caught.value)


async def test_the_headers_of_a_websocket_are_not_in_the_logs_of_its_library(
    caplog: pytest.LogCaptureFixture,
) -> None:
    secret = canary()
    with (
        websocket(lambda connection: connection.close()) as url,
        caplog.at_level(logging.DEBUG, "websockets.client"),
    ):
        async with Toolbox({"shop": config(url, secret)}) as box:
            with pytest.raises(ConnectError):
                await box.tools()

    logged = [one.getMessage() for one in caplog.records if one.name == "websockets.client"]
    assert any("HTTP/1.1" in text for text in logged)
    assert not any(secret in text for text in logged)


async def test_credentials_of_a_client_go_nowhere_but_to_its_own_authorization_server(
    here: Mirror, elsewhere: Mirror
) -> None:
    secret = canary()
    here.authority = here.origin
    here.token_status, here.location = 307, f"{elsewhere.origin}/token"
    auth = OAuth(
        grant="client_credentials", client_id="robot", client_secret=secret, store="memory"
    )
    async with Toolbox({"shop": {"url": here.url, "auth": auth}}) as box:
        with pytest.raises(PlaitError):
            await box.tools()

    assert any(one.path == "/token" for one in here.heard)
    assert elsewhere.heard == []


async def test_cookies_stay_with_the_connection_that_got_them(here: Mirror) -> None:
    user = {"url": here.url, "protocol": "legacy", "headers": lambda run: {"X-User": run["user"]}}
    other = {"url": here.url, "protocol": "legacy", "headers": {"X-User": "cleo"}}
    async with Toolbox({"shop": user, "other": other}) as box:
        for _ in range(2):
            for name in ("ann", "bob"):
                await box.call("shop", "look", run={"user": name})
            await box.call("other", "look")
    pairs = {
        (one.headers["x-user"], one.headers["cookie"])
        for one in here.heard
        if "cookie" in one.headers
    }

    assert len({who for who, _ in pairs}) == 3
    assert len(pairs) == 3
    assert len({cookie for _, cookie in pairs}) == 3


SECRET = canary()
HIDDEN = {"arguments": {"note": {"value": SECRET}}}


@pytest.mark.parametrize(
    ("headers", "overrides", "reaches_backup"),
    [
        (lambda run: {"X-Key": run["key"]}, {}, False),
        ({}, {"shop/fetch": HIDDEN}, False),
        ({}, {"*/fetch": HIDDEN}, True),
    ],
    ids=["credentials of the run", "a hidden value of one", "a hidden value of both"],
)
async def test_a_backup_gets_only_what_it_would_get_by_itself(
    here: Mirror,
    elsewhere: Mirror,
    headers: Any,
    overrides: dict[str, Any],
    reaches_backup: bool,
) -> None:
    servers = {"shop": {"url": here.url, "headers": headers}, "spare": {"url": elsewhere.url}}
    fallbacks = {"shop": "spare"}
    async with Toolbox(servers, fallbacks=fallbacks, tool_overrides=overrides) as box:
        await box.call("shop", "fetch", {"count": 1}, run={"key": SECRET})
        here.mode = "status"
        result = await box.call("shop", "fetch", {"count": 1}, run={"key": SECRET})

    assert result.server == "spare"
    assert any(SECRET in one for one in here.heard)
    assert any(SECRET in one for one in elsewhere.heard) is reaches_backup


@pytest.mark.parametrize("primary", [{}, {"shop/fetch": {"arguments": {"note": {"value": "a"}}}}])
async def test_the_hidden_values_of_a_backup_are_its_own_whoever_sets_them_for_the_primary(
    here: Mirror, elsewhere: Mirror, primary: dict[str, Any]
) -> None:
    shown: list[Any] = []
    contexts: list[Any] = []

    def pinned(context: Any) -> str:
        contexts.append(context)
        return "pinned"

    def on_approval(request: Any) -> bool:
        shown.append((request.server, dict(request.arguments)))
        return True

    overrides = {**primary, "spare/fetch": {"arguments": {"note": {"value": pinned}}}}
    servers = {"shop": {"url": here.url}, "spare": {"url": elsewhere.url}}
    async with MultiServerMCPClient(
        servers,
        fallbacks={"shop": "spare"},
        tool_overrides=overrides,
        policy={"default": "ask"},
        on_approval=on_approval,
    ) as client:
        (tool,) = [one for one in await client.get_tools() if one.name == "fetch"]
        here.mode = "status"
        await tool.ainvoke({"count": 1, **({} if primary else {"note": "forged"})})

    assert shown[-1] == ("spare", {"count": 1})
    assert any("pinned" in one for one in elsewhere.heard)
    assert not any("forged" in one or '"note":"a"' in one for one in elsewhere.heard)
    assert [context.args["count"] for context in contexts] == [1]
