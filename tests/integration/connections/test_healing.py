"""Servers are killed and come back; whoever calls them does not notice."""

from __future__ import annotations

import asyncio

import pytest

from plait import Toolbox
from tests.integration.connections.targets import TARGETS, Target

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(90)]


@pytest.fixture(params=list(TARGETS))
def target(request: pytest.FixtureRequest):
    with TARGETS[request.param]() as one:
        yield one


async def call(box: Toolbox, target: Target) -> str:
    return (await box.call("server", target.tool, dict(target.arguments))).text


async def test_the_calls_after_a_kill_succeed_over_exactly_one_new_session(target: Target) -> None:
    async with Toolbox({"server": target.config}) as box:
        assert await call(box, target) == target.answer
        before = target.sessions() if target.sessions else 0

        await asyncio.to_thread(target.restart, box)
        answers = await asyncio.gather(*(call(box, target) for _ in range(20)))

        assert answers == [target.answer] * 20
        # A modern HTTP server has no sessions, so there is nothing to open again.
        assert box.status()["server"].sessions <= 2
        if target.sessions:
            assert target.sessions() == before + 1

        await asyncio.to_thread(target.restart, box)
        assert await call(box, target) == target.answer
