"""Hosts of MCP Apps get the graph of a session; all others get exactly what they got before."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp.client.extension import advertise
from mcp.server.apps import APP_MIME_TYPE, EXTENSION_ID
from mcp.server.lowlevel.server import Server

from plait.reasoning.backends.settings import BackendPreference, Profile, ReasoningSettings
from plait.reasoning.serving.mcp_server import APP_URI, build_server, listed_tools
from plait.reasoning.serving.service import open_service
from plait.reasoning.storage.database import database_from_text

pytestmark = pytest.mark.anyio

HOST_OF_APPS = [advertise(EXTENSION_ID, {"mimeTypes": [APP_MIME_TYPE]})]

in_both_profiles = pytest.mark.parametrize("profile", ["full", "compact"])
in_both_eras = pytest.mark.parametrize("era", ["auto", "legacy"])


@pytest.fixture
async def server(tmp_path: Path, profile: Profile) -> AsyncIterator[Server[Any]]:
    settings = ReasoningSettings(preference=BackendPreference(backend="host"), profile=profile)
    database = database_from_text(str(tmp_path / "reasoning.db"))
    async with open_service(settings, database=database) as service:
        yield build_server(service)


SOLVER_RESOURCES: dict[Profile, list[str]] = {"full": [], "compact": ["reasoning://solve/schema"]}


@in_both_profiles
@in_both_eras
async def test_a_client_without_apps_gets_the_tools_and_resources_unchanged(
    server: Server[Any], profile: Profile, era: Any
) -> None:
    async with Client(server, mode=era) as client:
        tools = (await client.list_tools()).tools
        resources = (await client.list_resources()).resources

    assert [one.model_dump(by_alias=True, exclude_none=True) for one in tools] == [
        one.model_dump(by_alias=True, exclude_none=True) for one in listed_tools(profile)
    ]
    assert all(tool.meta is None for tool in tools)
    assert [one.uri for one in resources] == SOLVER_RESOURCES[profile]


@in_both_profiles
async def test_a_host_of_apps_finds_the_graph_of_a_session(
    server: Server[Any], profile: Profile
) -> None:
    async with Client(server, extensions=HOST_OF_APPS) as client:
        tools = (await client.list_tools()).tools
        resources = (await client.list_resources()).resources
        (page,) = (await client.read_resource(APP_URI)).contents

    (app,) = (one for one in resources if one.uri not in SOLVER_RESOURCES[profile])
    bound = {tool.name: tool.meta for tool in tools if tool.meta}
    assert bound
    assert all(meta == {"ui": {"resourceUri": APP_URI}} for meta in bound.values())
    assert (app.uri, app.mime_type, page.mime_type) == (APP_URI, APP_MIME_TYPE, APP_MIME_TYPE)
    text = getattr(page, "text")  # noqa: B009
    assert "ui/initialize" in text
    assert "script-src &#x27;sha256-" in text
    assert len(text) < 300_000


@pytest.mark.parametrize("profile", ["full"])
async def test_the_app_reads_a_session_as_a_page(server: Server[Any], profile: Profile) -> None:
    async with Client(server, extensions=HOST_OF_APPS) as client:
        hostile = {"content": "<script>alert(1)</script>", "session_id": "s/1"}
        await client.call_tool("reasoning_linear", hostile)
        (page,) = (await client.read_resource("reasoning://sessions/s%2F1/html")).contents

    text = getattr(page, "text")  # noqa: B009
    assert page.mime_type == "text/html"
    assert "<script>alert" not in text
    assert "&lt;script&gt;alert(1)" in text
