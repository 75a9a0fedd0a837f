"""Headers, auth objects and HTTP clients that users bring along."""

from __future__ import annotations

from typing import Any

import httpx
import httpx2
import pytest

from plait import ConfigError, Toolbox
from plait.errors import SendError
from plait.testing.fixtures import StartFaultServer

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]


async def headers_seen(config: dict[str, Any]) -> dict[str, str]:
    async with Toolbox({"server": config}) as box:
        seen = (await box.call("server", "headers")).structured_content
        assert isinstance(seen, dict)
        return seen.get("result", seen)


async def test_fixed_headers_and_headers_from_a_function_reach_the_server(
    fault_server: StartFaultServer,
) -> None:
    url = fault_server("http").url

    async def tenant() -> dict[str, str]:
        return {"X-Tenant": "acme"}

    assert (await headers_seen({"url": url, "headers": {"X-Tenant": "fixed"}}))[
        "x-tenant"
    ] == "fixed"
    assert (await headers_seen({"url": url, "headers": tenant}))["x-tenant"] == "acme"


async def test_a_function_for_headers_that_raises_fails_its_request_as_not_sent(
    fault_server: StartFaultServer,
) -> None:
    broken = False

    def headers() -> dict[str, str]:
        if broken:
            raise LookupError("no tenant")
        return {"X-Tenant": "acme"}

    config = {"url": fault_server("http").url, "headers": headers}
    async with Toolbox({"server": {**config, "reconnect": {"enabled": False}}}) as box:
        await box.tools()
        broken = True
        with pytest.raises(SendError, match="LookupError: no tenant"):
            await box.call("server", "counter")


@pytest.mark.parametrize("auth", [httpx2.BasicAuth("ada", "pw"), httpx.BasicAuth("ada", "pw")])
async def test_auth_objects_of_both_libraries_work(
    auth: object, fault_server: StartFaultServer
) -> None:
    seen = await headers_seen({"url": fault_server("http").url, "auth": auth})
    assert seen["authorization"] == "Basic YWRhOnB3"


async def test_an_httpx_flow_that_waits_for_the_answer_works(
    fault_server: StartFaultServer,
) -> None:
    class Refreshing(httpx.Auth):
        def auth_flow(self, request: httpx.Request):
            request.headers["Authorization"] = "Bearer old"
            response = yield request
            if response.status_code == 401:
                request.headers["Authorization"] = "Bearer new"
                yield request

    server = fault_server("http", http_status="401:1", http_status_on="all")
    seen = await headers_seen({"url": server.url, "auth": Refreshing()})
    assert seen["authorization"] == "Bearer old"


async def test_an_auth_that_is_none_is_named(fault_server: StartFaultServer) -> None:
    async with Toolbox({"server": {"url": fault_server("http").url, "auth": object()}}) as box:
        with pytest.raises(ConfigError, match=r"builtins\.object"):
            await box.tools()
