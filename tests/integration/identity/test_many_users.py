"""A thousand users of one client, whose functions and auth objects come and go."""

from __future__ import annotations

import asyncio
import gc
import json
import os
from collections import defaultdict
from collections.abc import Generator, Mapping
from contextvars import ContextVar
from typing import Any

import httpx2
import pytest

from plait import Toolbox
from tests.integration.canaries.mirror import Mirror

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]

USERS = int(os.environ.get("PLAIT_TEST_USERS", "20"))
"""With 1000 there are more users than sessions, lists and kept results; that takes a minute."""

MOST_OPEN = 128
"""Sessions of users that are open with one server at a time."""


class UserAuth(httpx2.Auth):
    def __init__(self, user: str) -> None:
        self._user = user

    def auth_flow(self, request: httpx2.Request) -> Generator[httpx2.Request, httpx2.Response]:
        request.headers["Authorization"] = f"Bearer {self._user}"
        yield request


def tenant_of_run(run: Mapping[str, Any]) -> dict[str, str]:
    return {"X-Tenant": "all"}


def auth_of_run(run: Mapping[str, Any]) -> UserAuth:
    return UserAuth(str(run.get("configurable", {}).get("user")))


async def seen_by(box: Toolbox, user: str) -> str:
    result = await box.call("mail", "look", run={"configurable": {"user": user}})
    (block,) = result.content
    return json.loads(block.text)["headers"]["authorization"]  # pyright: ignore[reportAttributeAccessIssue]


async def test_no_user_reads_the_kept_mailbox_of_one_who_is_gone(mirror: Mirror) -> None:
    config = {"url": mirror.url, "headers": tenant_of_run, "auth": auth_of_run}
    async with Toolbox({"mail": {**config, "protocol": "legacy"}}, result_cache=True) as box:
        for number in range(USERS):
            assert await seen_by(box, f"user-{number}") == f"Bearer user-{number}"
            if number % 20 == 0:
                gc.collect()


@pytest.mark.timeout(400)
@pytest.mark.parametrize("users", [140, 1000])
async def test_users_beyond_the_bound_wait_for_their_turn_and_are_not_mixed_up(
    mirror: Mirror, users: int
) -> None:
    config = {"url": mirror.url, "auth": lambda run: run["configurable"]["user"]}
    async with Toolbox({"mail": {**config, "protocol": "legacy"}}) as box:
        names = [f"user-{number}" for number in range(users)]
        seen = await asyncio.gather(*(seen_by(box, user) for user in names))

    assert seen == [f"Bearer {user}" for user in names]
    users_of: dict[str, set[str]] = defaultdict(set)
    open_sessions = most_open = 0
    for one in mirror.heard:
        open_sessions += (one.rpc.get("method") == "initialize") - (one.method == "DELETE")
        most_open = max(most_open, open_sessions)
        if session := one.headers.get("mcp-session-id"):
            users_of[session].add(one.headers["authorization"])
    assert most_open <= MOST_OPEN
    assert all(len(owners) == 1 for owners in users_of.values())


current_user: ContextVar[str] = ContextVar("current_user", default="nobody")


class ContextAuth(httpx2.Auth):
    def auth_flow(self, request: httpx2.Request) -> Generator[httpx2.Request, httpx2.Response]:
        request.headers["Authorization"] = f"Bearer {current_user.get()}"
        yield request


def headers_of_context() -> dict[str, str]:
    return {"Authorization": f"Bearer {current_user.get()}"}


@pytest.mark.parametrize(
    "settings", [{"headers": headers_of_context}, {"auth": ContextAuth()}], ids=["headers", "auth"]
)
async def test_a_function_or_object_that_looks_at_the_context_gets_no_kept_answer_of_another(
    mirror: Mirror, settings: dict[str, Any]
) -> None:
    async with Toolbox({"mail": {"url": mirror.url, **settings}}, result_cache=True) as box:

        async def ask(user: str) -> str:
            current_user.set(user)
            return await seen_by(box, user)

        seen = [await asyncio.create_task(ask(user)) for user in ("ann", "bob", "ann")]

    assert seen == ["Bearer ann", "Bearer bob", "Bearer ann"]
