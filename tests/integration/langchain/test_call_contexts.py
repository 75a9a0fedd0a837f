"""Requests of several callers at once are each sent in the context of their own caller."""

from __future__ import annotations

import asyncio
from contextvars import ContextVar
from typing import Any

import pytest

from plait import MultiServerMCPClient
from plait.client.transports.http import HttpSender
from plait.testing.fixtures import StartFaultServer

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]

USER: ContextVar[str] = ContextVar("user", default="nobody")


async def test_requests_for_another_loop_keep_the_context_of_their_caller(
    fault_server: StartFaultServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[tuple[str, bool, bool]] = []
    send = HttpSender.send

    def noting(sender: HttpSender, body: bytes, request: Any) -> None:
        if request.method == "tools/call":
            user = USER.get()
            sent.append((user, f'"{user}"'.encode() in body, request.direct))
        send(sender, body, request)

    client = MultiServerMCPClient({"server": {"url": fault_server("http").url}})
    echo = {tool.name: tool for tool in await client.get_tools()}["echo"]
    for _ in range(2):
        await echo.ainvoke({"text": "warm"})
    monkeypatch.setattr(HttpSender, "send", noting)

    async def call_as(user: str) -> str:
        USER.set(user)
        return await echo.ainvoke({"text": user})

    users = [f"user {number}" for number in range(20)]
    assert await asyncio.gather(*(call_as(user) for user in users)) == users
    await client.aclose()

    assert sorted(sent) == sorted((user, True, True) for user in users)
