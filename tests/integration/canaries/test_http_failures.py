"""A server that quotes what it was sent, in every way a call can fail, gives nothing away."""

from __future__ import annotations

import asyncio
import base64
import logging
from collections.abc import AsyncGenerator
from typing import Any

import httpx2
import pytest
from langchain.agents import create_agent

from plait import (
    AuthRequiredError,
    CallTimeoutError,
    ForbiddenError,
    MultiServerMCPClient,
    OutcomeUnknownError,
    PlaitError,
    ProtocolError,
    RateLimitedError,
    ServerError,
    Toolbox,
)
from plait.client import HttpServer
from plait.client.calls.result_cache import ResultCache, ResultCaching
from plait.client.calls.tool_call import ToolCall
from plait.client.connections.credentials import CallerCredentials
from plait.errors import HttpError
from plait.testing import ScriptedChatModel, free_port, tool_call
from tests.integration.canaries.mirror import Mirror, Mode
from tests.integration.canaries.search import canary, found_in, texts_of, texts_of_records

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]

Config = dict[str, Any]


class Signing(httpx2.Auth):
    """An auth object of somebody else's, which puts its key where it likes."""

    def __init__(self, key: str) -> None:
        self._key = key

    async def async_auth_flow(
        self, request: httpx2.Request
    ) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        request.headers["X-Signed-By"] = self._key
        yield request


def planted_in(url: str, secret: str, other: str) -> dict[str, Config]:
    """Return a server for each place where credentials may be configured."""
    pair = base64.b64encode(f"ann:{secret}".encode()).decode()
    bearer = {"Authorization": f"Bearer {secret}"}
    user, query = secret.replace("/+", "-"), secret.replace("/+", "%2F")
    with_user = url.replace("://", f"://{user}:{other.replace('/+', '-')}@")
    return {
        "in_a_header": {"url": url, "headers": {"X-Api-Key": secret, "X-Team": other}},
        "in_a_bearer_token": {"url": url, "headers": bearer},
        "in_basic_credentials": {"url": url, "headers": {"Authorization": f"Basic {pair}"}},
        "in_headers_of_a_function": {"url": url, "headers": lambda: {"X-Team": secret}},
        "in_headers_of_the_run": {"url": url, "headers": lambda run: bearer if run == {} else {}},
        "in_an_auth_function": {"url": url, "auth": lambda run: "" if run is None else secret},
        "in_an_auth_object": {"url": url, "auth": Signing(secret)},
        "in_a_basic_auth_object": {"url": url, "auth": httpx2.BasicAuth("ann", secret)},
        "in_the_user_of_the_url": {"url": with_user},
        "in_the_query": {"url": f"{url}?token={query}"},
    }


def spellings(secret: str) -> list[str]:
    """Return a text as it is planted: not every place takes all of its signs."""
    return [secret, *(secret.replace("/+", sign) for sign in ("-", "%2F", "/"))]


FAILURES: list[tuple[Mode, int]] = [
    ("status", 401),
    ("status", 403),
    ("status", 429),
    ("status", 500),
    ("garbage", 0),
    ("protocol error", 0),
    ("redirect", 302),
    ("cut", 0),
    ("hang", 0),
]

SERVERS = [*planted_in("http://x", "", "")]


def planted_everywhere(url: str) -> tuple[dict[str, Config], list[str]]:
    """Return a server for each place, and all that was planted there."""
    options = {
        "protocol": "legacy",
        "reconnect": {"max_attempts": 1},
        "automatic_sse_fallback": False,
        "default_tool_timeout": 1.0,
    }
    servers: dict[str, Config] = {}
    secrets: list[str] = []
    for name in SERVERS:
        secret, other = canary(), canary()
        servers[name] = planted_in(url, secret, other)[name] | options
        secrets += [*spellings(secret), *spellings(other)]
    return servers, secrets


def seen_of(box: Toolbox | MultiServerMCPClient) -> list[str]:
    status = box.status()
    return [
        *(repr(status), str(status), str(status.to_dict()), status.summary),
        *(repr(box), str(box), repr(vars(box))),
        *map(repr, status.events),
    ]


async def failure_of(box: Toolbox, server: str) -> PlaitError:
    with pytest.raises(PlaitError) as caught:
        await box.call(server, "count", {"count": 1}, run={})
    return caught.value


@pytest.mark.parametrize(
    ("mode", "status"),
    [("status", 401), ("garbage", 0), ("protocol error", 0), ("redirect", 302)],
)
async def test_a_handshake_that_fails_gives_no_credentials_away(
    mode: Mode, status: int, mirror: Mirror, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, logger="plait")
    servers, secrets = planted_everywhere(mirror.url)
    mirror.mode, mirror.status, mirror.moment = mode, status, "initialize"
    mirror.location = f"http://127.0.0.1:{free_port()}/{secrets[0]}"
    async with Toolbox(servers) as box:
        seen = [*seen_of(box), repr(box.config)]
        errors = await asyncio.gather(*(failure_of(box, server) for server in SERVERS))
        seen += [text for error in errors for text in texts_of(error)]
        seen += [*seen_of(box), *texts_of_records(caplog.records)]

    assert found_in(mirror.heard, secrets)
    assert max(len(str(error)) for error in errors) < 500
    assert found_in(seen, secrets) == []


async def test_a_call_that_fails_gives_no_credentials_away(
    mirror: Mirror, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, logger="plait")
    servers, secrets = planted_everywhere(mirror.url)
    errors: list[PlaitError] = []
    seen: list[str] = []
    async with Toolbox(servers) as box:
        for mirror.mode, mirror.status in FAILURES:
            mirror.location = f"http://127.0.0.1:{free_port()}/{secrets[0]}"
            errors += await asyncio.gather(*(failure_of(box, server) for server in SERVERS))
            seen += seen_of(box)
    seen += [text for error in errors for text in texts_of(error)]
    seen += texts_of_records(caplog.records)

    assert {type(error) for error in errors} == {
        *(AuthRequiredError, ForbiddenError, RateLimitedError, ServerError, HttpError),
        *(ProtocolError, CallTimeoutError, OutcomeUnknownError),
    }
    assert max(len(str(error)) for error in errors) < 500
    assert found_in(seen, secrets) == []


async def test_nothing_of_the_credentials_is_seen_of_an_agent(
    mirror: Mirror, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, logger="plait")
    servers, secrets = planted_everywhere(mirror.url)
    async with MultiServerMCPClient(servers, tool_name_prefix=True) as client:
        tools = await client.get_tools(config={"configurable": {}}, include="count")
        turn = [tool_call(tool.name, count=1) for tool in tools]
        agent = create_agent(ScriptedChatModel([turn, "done"] * len(FAILURES)), tools)
        messages: list[Any] = []
        for mirror.mode, mirror.status in FAILURES:
            mirror.location = f"http://127.0.0.1:{free_port()}/{secrets[0]}"
            said: Any = {"messages": [{"role": "user", "content": "count"}]}
            state = await agent.ainvoke(said)
            messages += [one for one in state["messages"] if one.type == "tool"]
        seen = [*map(repr, messages), *seen_of(client)]
        seen += [text for tool in tools for text in (repr(tool), repr(vars(tool)))]
    seen += texts_of_records(caplog.records)

    assert len(messages) == len(SERVERS) * len(FAILURES)
    assert {message.status for message in messages} == {"error"}
    assert found_in(seen, secrets) == []


async def test_the_logs_of_libraries_give_no_credentials_away(
    mirror: Mirror, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    servers, secrets = planted_everywhere(mirror.url)
    async with Toolbox(servers) as box:
        for mirror.mode in ("well", "status"):
            calls = (box.call(server, "count", {"count": 1}, run={}) for server in SERVERS)
            await asyncio.gather(*calls, return_exceptions=True)
    said = [*texts_of_records(caplog.records, "httpx2", "httpcore2", "mcp.client.streamable_http")]

    assert any("HTTP Request: POST http://***@127.0.0.1" in text for text in said)
    assert found_in(said, secrets) == []


async def test_a_refused_connection_tells_nothing(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, logger="plait")
    servers, secrets = planted_everywhere(f"http://127.0.0.1:{free_port()}/mcp")
    async with Toolbox(servers) as box:
        errors = await asyncio.gather(*(failure_of(box, server) for server in SERVERS))
        seen = [*seen_of(box), *(text for error in errors for text in texts_of(error))]

    assert found_in([*seen, *texts_of_records(caplog.records)], secrets) == []


async def test_a_header_that_cannot_be_sent_is_not_quoted(mirror: Mirror) -> None:
    secret = canary()
    headers = {"X-Key": f"{secret}\n"}
    server = {"url": mirror.url, "headers": lambda: headers, "reconnect": {"max_attempts": 1}}
    async with Toolbox({"shop": server}) as box:
        with pytest.raises(PlaitError) as caught:
            await box.tools()
        seen = [*texts_of(caught.value), *seen_of(box)]

    assert "Illegal header value" in "".join(seen)
    assert found_in(seen, [secret]) == []


async def test_arguments_are_in_no_error_and_no_log(
    mirror: Mirror, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, logger="plait")
    secret = canary()
    async with Toolbox({"shop": {"url": mirror.url}}) as box:
        seen: list[str] = []
        for arguments in (
            {"count": secret},
            {"count": None, "note": secret},
            {"count": "7", "note": [secret]},
            {"count": 1, "note": {"deep": secret}},
        ):
            with pytest.raises(PlaitError) as caught:
                await box.call("shop", "count", arguments)
            seen += texts_of(caught.value)
        await box.call("shop", "count", {"count": "7", "note": secret})
        seen += seen_of(box)

    assert found_in([*seen, *texts_of_records(caplog.records)], [secret]) == []


def test_what_a_call_brings_along_is_not_shown() -> None:
    secret = canary()
    access = CallerCredentials.of({"X-Key": secret}, secret, env={"KEY": secret}, thread="1")

    assert access is not None
    assert found_in([repr(access), str(access), access.key], [secret]) == []


async def test_the_result_cache_knows_users_only_by_a_digest(mirror: Mirror) -> None:
    secret = canary()
    access = CallerCredentials.of({"X-Key": secret}, env={"KEY": secret})
    cache = ResultCache(ResultCaching())
    async with Toolbox({"shop": {"url": mirror.url}}) as box:
        tool = next(one for one in await box.tools() if one.wire_name == "look")
        call = ToolCall(server="shop", tool="look", arguments={}, access=access)
        slot = await cache.slot_of(call, tool, HttpServer(url=mirror.url))
        assert slot is not None
        cache.put(slot, await box.call("shop", "look"))

    assert cache.get(slot) is not None
    assert found_in([repr(vars(cache)), repr(call)], [secret]) == []
