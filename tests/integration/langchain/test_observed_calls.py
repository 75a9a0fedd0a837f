"""Observers see each attempt of a call once, also of calls that go straight to the wire."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from plait import MultiServerMCPClient, PlaitError, Toolbox
from plait.client.transports.stdio import StdioSender
from plait.telemetry.observer import CallTool, Operation
from plait.testing import eventually
from tests.nursery import stdio_config

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]


class Log:
    """Notes the start and the end of each attempt."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    @contextmanager
    def around(self, operation: Operation) -> Generator[None]:
        if not isinstance(operation, CallTool):
            yield
            return
        self.lines.append(f"{operation.tool} {operation.attempt}")
        try:
            yield
        except BaseException as error:
            self.lines.append(type(error).__name__)
            raise
        else:
            self.lines.append("ok")


@pytest.fixture
def direct_sends(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether each request of a tool call was sent directly."""
    sent: list[bool] = []
    send = StdioSender.send

    def noting(sender: StdioSender, body: bytes, request: object) -> None:
        if getattr(request, "method", "") == "tools/call":
            sent.append(bool(getattr(request, "direct", False)))
        send(sender, body, request)  # pyright: ignore[reportArgumentType]

    monkeypatch.setattr(StdioSender, "send", noting)
    return sent


async def test_observers_see_direct_calls_of_a_toolbox(
    direct_sends: list[bool], tmp_path: Path
) -> None:
    log = Log()
    async with Toolbox({"bank": stdio_config(state_dir=tmp_path)}, observers=[log]) as box:
        await box.tools()
        for _ in range(3):
            await box.call("bank", "pay", {"amount": 1})
        assert direct_sends[-1]
        assert log.lines == ["pay 1", "ok"] * 3

        log.lines.clear()
        assert (await box.call("bank", "get_and_die", {"key": "a"})).attempts == 2
        assert log.lines[0] == "get_and_die 1"
        assert log.lines[2:] == ["get_and_die 2", "ok"]

        log.lines.clear()
        with pytest.raises(PlaitError):
            await box.call("bank", "pay_and_die", {"amount": 2})
        assert log.lines == ["pay_and_die 1", "OutcomeUnknownError"]


async def test_a_cancelled_direct_call_ends_its_observation(
    direct_sends: list[bool], tmp_path: Path
) -> None:
    log = Log()
    config = {"bank": stdio_config(state_dir=tmp_path)}
    async with MultiServerMCPClient(config, observers=[log]) as client:
        tools = {tool.name: tool for tool in await client.get_tools()}
        for _ in range(2):
            await tools["pay"].ainvoke({"amount": 1})
        calling = asyncio.create_task(tools["hang"].ainvoke({}))
        await eventually(lambda: "hang 1" in log.lines)
        calling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await calling

        assert direct_sends[1]
        assert log.lines == ["pay 1", "ok"] * 2 + ["hang 1", "CancelledError"]
