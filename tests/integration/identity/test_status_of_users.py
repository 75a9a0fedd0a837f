"""The status of servers whose users have connections of their own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest

from plait import AuthRequiredError, ConnectError, Toolbox
from plait.testing.fixtures import StartFaultServer
from tests.integration.canaries.mirror import Mirror

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]


def headers_of(run: Mapping[str, Any]) -> dict[str, str]:
    return {"Authorization": run["configurable"]["user"]}


def run_of(user: str) -> dict[str, Any]:
    return {"configurable": {"user": user}}


@asynccontextmanager
async def opened(url: str) -> AsyncGenerator[Toolbox]:
    server = {"url": url, "headers": headers_of, "protocol": "legacy", "connect_timeout": 5}
    reconnect = {"delay": 0.05, "max_attempts": 1}
    async with Toolbox({"server": {**server, "reconnect": reconnect}}) as box:
        yield box


async def test_an_outage_that_users_meet_is_a_failure_of_the_server(
    fault_server: StartFaultServer,
) -> None:
    server = fault_server("http", legacy_only=True)
    async with opened(server.url) as box:
        for user in ("ann", "bob"):
            await box.call("server", "echo", {"text": "hello"}, run=run_of(user))
        before = box.status()
        await asyncio.to_thread(server.kill)
        with pytest.raises(ConnectError):
            await box.call("server", "echo", {"text": "hello"}, run=run_of("ann"))
        during = box.status()
        await asyncio.to_thread(server.start)
        await box.call("server", "echo", {"text": "hello"}, run=run_of("cid"))
        after = box.status()

    assert (before["server"].state, before["server"].sessions) == ("ready", 2)
    assert before["server"].tool_count
    assert list(during.failures) == ["server"]
    assert isinstance(during["server"].error, ConnectError)
    # The server has answered one user since another one failed.
    assert (after["server"].state, dict(after.failures)) == ("ready", {})


async def test_a_user_with_a_wrong_token_does_not_make_a_server_fail(mirror: Mirror) -> None:
    mirror.refused_token = "wrong"
    async with opened(mirror.url) as box:
        with pytest.raises(AuthRequiredError):
            await box.call("server", "look", run=run_of("wrong"))
        alone = box.status()
        await box.call("server", "look", run=run_of("right"))
        with pytest.raises(AuthRequiredError):
            await box.call("server", "look", run=run_of("wrong"))
        together = box.status()

    assert (dict(alone.failures), dict(together.failures)) == ({}, {})
    assert (alone["server"].state, together["server"].state) == ("idle", "ready")
    assert (alone["server"].refused_users, together["server"].refused_users) == (1, 1)
    assert (alone["server"].needs_auth, together["server"].needs_auth) == (True, False)
    assert isinstance(together["server"].error, AuthRequiredError)


async def test_a_wrong_token_of_the_program_itself_is_a_failure(mirror: Mirror) -> None:
    mirror.refused_token = "wrong"
    server = {"url": mirror.url, "headers": {"Authorization": "wrong"}, "scope": "thread"}
    async with Toolbox({"server": server}) as box:
        with pytest.raises(AuthRequiredError):
            await box.call("server", "look", run={"configurable": {"thread_id": "1"}})
        status = box.status()

    assert list(status.failures) == ["server"]
    assert status["server"].needs_auth
