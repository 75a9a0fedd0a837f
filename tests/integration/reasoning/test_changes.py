"""Whoever subscribes to a session hears of its changes, on both databases."""

from __future__ import annotations

import anyio
import pytest
from mcp import Client
from mcp.client.subscriptions import ResourceUpdated

from plait.reasoning.backends.settings import BackendPreference, ReasoningSettings
from plait.reasoning.serving.mcp_server import build_server
from plait.reasoning.serving.service import Service, open_service
from plait.reasoning.storage.database import Database

pytestmark = pytest.mark.anyio


async def test_whoever_listens_hears_of_changes_by_other_processes(
    database: Database,
) -> None:
    settings = ReasoningSettings(preference=BackendPreference(backend="host"))
    async with open_service(settings, database=database) as service:
        await _listen(settings, service)


async def _listen(settings: ReasoningSettings, service: Service) -> None:
    await service.reasoner.call("reasoning_linear", {"content": "x", "session_id": "s"})
    uri = "reasoning://sessions/s"

    with anyio.fail_after(30):
        async with (
            service.changes.watching(),
            Client(build_server(service)) as client,
            client.listen(resource_subscriptions=[uri]) as changes,
        ):
            await service.reasoner.call("reasoning_linear", {"content": "y", "session_id": "s"})
            assert await anext(aiter(changes)) == ResourceUpdated(uri=uri)
            async with open_service(settings, database=service.database) as other:
                arguments = {"content": "z", "session_id": "s"}
                await other.reasoner.call("reasoning_linear", arguments)
                assert await anext(aiter(changes)) == ResourceUpdated(uri=uri)
