"""Many users of one service, on a gateway that answers each of them differently."""

from __future__ import annotations

import asyncio
import hashlib
import json
import threading
import time
from collections.abc import Generator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, cast

import pytest

from plait.errors import DiscoveryError
from plait.gateway import McpToolRegistrationService, McpToolServerConfigurationService
from plait.gateway.manifest import GatewayServer
from plait.gateway.registration import ToolConnections
from plait.testing import MockGateway
from tests.integration.gateway.conftest import SEND
from tests.integration.gateway.hosting import AGENT, jwt, turn

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]

TOKENS = {name: jwt(oid=name, tid="tenant") for name in ("ann", "bob")}


class PersonalGateway(ThreadingHTTPServer):
    """Answers the tokens it knows with the servers of their user, and refuses all others."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.down = False
        super().__init__(("127.0.0.1", 0), _Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        gateway = cast("PersonalGateway", self.server)
        token = (self.headers.get("Authorization") or "").removeprefix("Bearer ")
        gateway.seen.append(token)
        time.sleep(0.005)
        user = next((name for name, known in TOKENS.items() if known == token), None)
        status = 503 if gateway.down else 200 if user else 401
        servers = [{"mcpServerName": "mail", "url": f"{gateway.url}/{user}"}]
        servers[0]["headers"] = {"X-Key": f"key of {user}"}  # pyright: ignore[reportArgumentType]
        answer = {"mcpServers": servers} if status == 200 else {"who": token}
        body = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  # as in the library
        """Write nothing."""


@pytest.fixture
def gateway() -> Generator[PersonalGateway]:
    with PersonalGateway() as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server
        server.shutdown()


def service(gateway: PersonalGateway, **options: Any) -> McpToolServerConfigurationService:
    environ = {"ENVIRONMENT": "Production"}
    return McpToolServerConfigurationService(endpoint=gateway.url, environ=environ, **options)


async def key_of(found: McpToolServerConfigurationService, token: str) -> str:
    (server,) = await found.list_tool_servers(AGENT, token)
    return server.headers["X-Key"]


async def test_two_hundred_interleaved_discoveries_give_each_user_their_own_list(
    gateway: PersonalGateway,
) -> None:
    async with service(gateway, ttl_seconds=0.05) as found:
        names = ["ann", "bob"] * 100
        keys = await asyncio.gather(
            *(_later(found, name, place) for place, name in enumerate(names))
        )

    assert keys == [f"key of {name}" for name in names]


async def _later(found: McpToolServerConfigurationService, name: str, place: int) -> str:
    await asyncio.sleep(place % 20 * 0.01)
    return await key_of(found, TOKENS[name])


async def test_those_who_come_while_a_list_is_fetched_wait_only_for_their_own(
    gateway: PersonalGateway,
) -> None:
    async with service(gateway) as found:
        keys = await asyncio.gather(*(key_of(found, TOKENS[name]) for name in ("ann", "bob") * 5))

    assert keys == ["key of ann", "key of bob"] * 5
    assert sorted(gateway.seen) == sorted(TOKENS.values())


async def test_a_forged_token_with_the_claims_of_another_gets_nothing(
    gateway: PersonalGateway,
) -> None:
    head, claims, _ = TOKENS["ann"].split(".")
    forged = f"{head}.{claims}.forged"
    async with service(gateway) as found:
        await key_of(found, TOKENS["ann"])

        with pytest.raises(DiscoveryError, match="401"):
            await found.list_tool_servers(AGENT, forged)
        gateway.down = True
        with pytest.raises(DiscoveryError):
            await found.list_tool_servers(AGENT, forged)
        assert await key_of(found, TOKENS["ann"]) == "key of ann"


async def test_a_gateway_that_repeats_a_token_does_not_bring_it_into_the_error(
    gateway: PersonalGateway,
) -> None:
    environ = {"ENVIRONMENT": "Development"}
    options: Any = {"endpoint": gateway.url, "environ": environ, "use_manifest": False}
    async with McpToolServerConfigurationService(**options) as found:
        with pytest.raises(DiscoveryError) as caught:
            await found.list_tool_servers(AGENT, "opaque-canary")

    assert gateway.seen == ["opaque-canary"]
    assert "who" in caught.value.message
    assert "opaque-canary" not in str(caught.value)


async def test_no_name_of_a_server_leads_the_token_of_a_user_to_another_server(
    tmp_path: Path,
) -> None:
    """A second server of one name gets another name, which somebody else may have taken."""
    folders = [tmp_path / name for name in ("ann", "eve")]
    for folder in folders:
        folder.mkdir()
    with MockGateway(folders[0]) as good, MockGateway(folders[1]) as evil:
        good.add_server("mail", [SEND])
        mail = server_at(good, "mail")
        name = f"mail_{hashlib.sha256(mail.url.encode()).hexdigest()[:8]}"
        theirs = [server_at(evil, each) for each in (name, "mail")]
        for server in theirs:
            evil.add_server(server.mcp_server_name, [SEND])
        connections = ToolConnections({})
        try:
            await connections.tools("eve", theirs)
            secret = {"Authorization": f"Bearer {TOKENS['ann']}"}
            found = await connections.tools("ann", [replace(mail, headers=secret)])
            await found.tools[0].ainvoke({"to": "bob"})
        finally:
            await connections.aclose()

        heard = [one.headers.get("authorization", "") for one in evil.requests()]
        assert not any(TOKENS["ann"] in one for one in heard)
        assert [one.rpc_method for one in good.requests("mail")][-1] == "tools/call"


def server_at(gateway: MockGateway, name: str) -> GatewayServer:
    url = f"{gateway.url}/agents/servers/{name}"
    return GatewayServer(mcp_server_name=name, mcp_server_unique_name=name, url=url)


async def test_a_token_that_no_gateway_has_seen_does_not_speak_for_its_owner(
    tmp_path: Path,
) -> None:
    """The servers of a manifest are listed without a gateway, so that claims may be forged."""
    head, claims, _ = TOKENS["ann"].split(".")
    forged = f"{head}.{claims}.forged"
    mocks = tmp_path / "mocks"
    mocks.mkdir()
    with MockGateway(mocks) as gateway:
        gateway.add_server("mail", [SEND])
        manifest = tmp_path / "ToolingManifest.json"
        entry = {"mcpServerName": "mail", "url": f"{gateway.url}/agents/servers/mail"}
        manifest.write_text(json.dumps({"mcpServers": [entry]}))
        options: dict[str, Any] = {"use_manifest": True, "manifest": manifest, "environ": {}}
        async with McpToolRegistrationService(endpoint=gateway.url, **options) as service:
            eve = await service.register(None, None, turn(), forged)
            ann = await service.register(None, None, turn(), TOKENS["ann"])
            gateway.clear()
            await eve.tools[0].ainvoke({"to": "eve"})
            await ann.tools[0].ainvoke({"to": "ann"})

        sent = [one.headers["authorization"] for one in gateway.requests("mail")]
        assert sent == [f"Bearer {forged}", f"Bearer {TOKENS['ann']}"]
