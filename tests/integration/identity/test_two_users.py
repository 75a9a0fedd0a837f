"""Two users of one agent, a thousand calls: the server's own log shows nothing mixed up."""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import BaseMessage

from plait import MultiServerMCPClient
from plait.testing import ScriptedChatModel, tool_call
from tests.integration.canaries.mirror import Mirror
from tests.nursery import stdio_config

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]

USERS = ("ann", "bob")
RUNS = 20
NEW, AGAIN = 20, 5
"""Calls of one run that only the server can answer, and calls that the cache may answer."""


def run_of(user: str, number: int) -> Any:
    return {"configurable": {"user": user, "thread_id": f"{user}-{number}"}}


def asked(number: int) -> Any:
    return {"messages": [{"role": "user", "content": str(number)}]}


async def test_no_token_session_cookie_or_kept_answer_is_crossed(mirror: Mirror) -> None:
    version = dict.fromkeys(USERS, 1)

    def headers(run: Mapping[str, Any]) -> dict[str, str]:
        user = run["configurable"]["user"]
        return {"Authorization": f"Bearer {user}-{version[user]}", "X-User": user}

    def model(messages: list[BaseMessage]) -> Any:
        if messages[-1].type != "human":
            return "done"
        first = int(str(messages[-1].content)) * NEW
        new = [tool_call("fetch", count=number) for number in range(first, first + NEW)]
        return [*new, *(tool_call("look") for _ in range(AGAIN))]

    server = {"url": mirror.url, "headers": headers, "protocol": "legacy"}
    async with MultiServerMCPClient({"shop": server}, result_cache=True) as client:
        tools = await client.get_tools(config=run_of("ann", 0))
        agent = create_agent(ScriptedChatModel(model), tools)

        async def act(user: str, number: int) -> list[dict[str, str]]:
            state = await agent.ainvoke(asked(number), run_of(user, number))
            found = [one for one in state["messages"] if one.type == "tool"]
            assert [one.status for one in found] == ["success"] * (NEW + AGAIN)
            return [json.loads(one.content)["headers"] for one in found]

        answers: dict[str, list[dict[str, str]]] = defaultdict(list)
        for start in range(0, RUNS, 10):
            if start >= RUNS / 2:
                version["ann"] = 2  # a new token in the middle, and the same agent goes on
            users = [USERS[number % 2] for number in range(start, start + 10)]
            runs = (act(user, number) for number, user in enumerate(users, start))
            for user, seen in zip(users, await asyncio.gather(*runs), strict=True):
                answers[user] += seen
    calls = [one for one in mirror.heard if one.rpc.get("method") == "tools/call"]
    by_user: dict[str, dict[str, set[str]]] = {user: defaultdict(set) for user in USERS}
    for one in mirror.heard:
        for name in ("authorization", "mcp-session-id", "cookie"):
            if name in one.headers:
                by_user[one.headers["x-user"]][name].add(one.headers[name])

    assert {user: len(seen) for user, seen in answers.items()} == dict.fromkeys(
        USERS, RUNS // 2 * (NEW + AGAIN)
    )
    assert all(seen["x-user"] == user for user in USERS for seen in answers[user])
    assert by_user["ann"]["authorization"] == {"Bearer ann-1", "Bearer ann-2"}
    assert by_user["bob"]["authorization"] == {"Bearer bob-1"}
    for name in ("mcp-session-id", "cookie"):
        assert by_user["ann"][name]
        assert by_user["ann"][name].isdisjoint(by_user["bob"][name])
    assert {answer["authorization"] for answer in answers["ann"][-NEW:]} == {"Bearer ann-2"}
    assert RUNS * NEW <= len(calls) < RUNS * (NEW + AGAIN)


async def test_no_process_of_one_user_ever_answers_another() -> None:
    server = {**stdio_config(), "env": lambda run: {"USER_KEY": run["configurable"]["user"]}}

    def model(messages: list[BaseMessage]) -> Any:
        if messages[-1].type != "human":
            return "done"
        return [
            call for _ in range(5) for call in (tool_call("env", name="USER_KEY"), tool_call("pid"))
        ]

    async with MultiServerMCPClient({"shop": server}) as client:
        tools = await client.get_tools(config=run_of("ann", 0), include=["env", "pid"])
        agent = create_agent(ScriptedChatModel(model), tools)

        async def act(user: str, number: int) -> tuple[str, set[str]]:
            state = await agent.ainvoke(asked(number), run_of(user, number))
            found = [one.content for one in state["messages"] if one.type == "tool"]
            assert set(found[::2]) == {user}
            return user, set(found[1::2])

        users = [USERS[number % 2] for number in range(20)]
        seen = await asyncio.gather(*(act(user, number) for number, user in enumerate(users)))

    pids = {user: {pid for who, found in seen if who == user for pid in found} for user in USERS}
    assert [len(pids[user]) for user in USERS] == [1, 1]
    assert pids["ann"].isdisjoint(pids["bob"])
