"""Limits on servers in this process, of whose wire nothing is seen."""

from __future__ import annotations

import asyncio

import anyio
import pytest
from mcp.server import MCPServer

from plait import CallTimeoutError, Toolbox
from plait.testing import eventually

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]


def bank(ledger: list[int], *, seconds: float) -> MCPServer:
    server = MCPServer("bank")

    @server.tool(structured_output=False)
    async def pay(amount: int) -> str:
        ledger.append(amount)
        await anyio.sleep(seconds)
        return "paid"

    return server


@pytest.mark.parametrize("protocol", ["legacy", "auto"])
async def test_a_call_that_was_begun_may_have_run_and_is_not_made_elsewhere(protocol: str) -> None:
    ledger: list[int] = []
    backup: list[int] = []
    servers = {
        "bank": {"server": bank(ledger, seconds=60), "protocol": protocol},
        "backup": bank(backup, seconds=0),
    }
    async with Toolbox(servers, fallbacks={"bank": "backup"}) as box:
        with pytest.raises(CallTimeoutError) as caught:
            await box.call("bank", "pay", {"amount": 5}, timeout_seconds=0.2)

    assert caught.value.retry == "if_idempotent"
    assert ledger == [5]
    assert backup == []


async def test_a_call_that_only_waited_for_its_turn_may_be_made_elsewhere() -> None:
    ledger: list[int] = []
    backup: list[int] = []
    servers = {
        "bank": {"server": bank(ledger, seconds=60), "max_concurrency": 1},
        "backup": bank(backup, seconds=0),
    }
    async with Toolbox(servers, fallbacks={"bank": "backup"}) as box:
        first = asyncio.create_task(box.call("bank", "pay", {"amount": 1}))
        await eventually(lambda: bool(ledger))
        result = await box.call("bank", "pay", {"amount": 5}, timeout_seconds=0.2)
        first.cancel()

    assert result.server == "backup"
    assert (ledger, backup) == ([1], [5])
