"""One agent, many users: each run acts for its own, and nothing is ever mixed up."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any, Literal

import psutil
import pytest
from langchain.agents import create_agent

from plait import ConfigError, MCPToolsMiddleware, MultiServerMCPClient, Toolbox
from plait.testing import ScriptedChatModel, eventually, tool_call
from tests.nursery import fault_server, stdio_config

pytestmark = pytest.mark.anyio

Era = Literal["legacy", "modern"]


def user_of(run: Mapping[str, Any]) -> dict[str, str]:
    user = run["configurable"]["user"]
    return {"Authorization": f"Bearer token-of-{user}", "X-User": user}


def run_of(user: str, thread: str = "1") -> Any:
    return {"configurable": {"user": user, "thread_id": thread}}


async def headers_seen(box: Toolbox, user: str = "ann") -> dict[str, str]:
    seen = (await box.call("server", "headers", run=run_of(user))).structured_content
    assert isinstance(seen, dict)
    return seen


async def call(tool: Any, user: str, **args: Any) -> Any:
    asked = {"type": "tool_call", "id": "1", "name": tool.name, "args": args}
    message = await tool.ainvoke(asked, run_of(user))
    assert message.status == "success", message.content
    return message


@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_two_users_are_never_mixed_up_over_a_thousand_calls(era: Era) -> None:
    with fault_server(legacy_only=era == "legacy") as server:
        config = {"url": server.url, "headers": user_of, "max_concurrency": 16}
        async with MultiServerMCPClient({"server": config}, result_cache=True) as client:
            tools = await client.get_tools(config=run_of("ann"), include="headers")
            (headers,) = tools

            async def ask(number: int) -> None:
                user = ("ann", "bob")[number % 2]
                message = await call(headers, user)
                seen = json.loads(message.content)
                assert seen["x-user"] == user
                assert seen["authorization"] == f"Bearer token-of-{user}"

            for start in range(0, 1000, 50):
                await asyncio.gather(*(ask(number) for number in range(start, start + 50)))


async def test_users_have_sessions_of_their_own() -> None:
    with fault_server(legacy_only=True) as server:
        async with Toolbox({"server": {"url": server.url, "headers": user_of}}) as box:
            seen = {
                user: [await headers_seen(box, user) for _ in range(3)] for user in ("ann", "bob")
            }
    sessions = {
        user: {answer["mcp-session-id"] for answer in answers} for user, answers in seen.items()
    }

    assert all(len(ids) == 1 for ids in sessions.values())
    assert sessions["ann"].isdisjoint(sessions["bob"])


async def test_a_process_gets_the_environment_of_its_user() -> None:
    config = {**stdio_config(), "env": lambda run: {"USER_KEY": run["configurable"]["user"]}}
    async with Toolbox({"server": config}) as box:
        answers = [
            (await box.call("server", "env", {"name": "USER_KEY"}, run=run_of(user))).text
            for user in ("ann", "bob", "ann")
        ]
        pids = [
            (await box.call("server", "pid", run=run_of(user))).text
            for user in ("ann", "bob", "ann")
        ]

    assert answers == ["ann", "bob", "ann"]
    assert pids[0] == pids[2] != pids[1]


async def test_a_token_that_changes_is_sent_at_once_in_the_same_session() -> None:
    tokens = iter(f"token-{number}" for number in range(1000))
    with fault_server(legacy_only=True) as server:
        config = {"url": server.url, "headers": lambda: {"Authorization": next(tokens)}}
        async with Toolbox({"server": config}) as box:
            answers = [await headers_seen(box) for _ in range(3)]

    assert len({answer["authorization"] for answer in answers}) == 3
    assert len({answer["mcp-session-id"] for answer in answers}) == 1


async def test_the_token_of_a_run_may_change_in_its_course() -> None:
    current = {"token": "first"}
    with fault_server() as server:
        config = {"url": server.url, "auth": lambda run: current["token"]}
        async with MultiServerMCPClient({"server": config}) as client:
            (headers,) = await client.get_tools(include="headers")
            before = json.loads((await call(headers, "ann")).content)
            current["token"] = "second"
            after = json.loads((await call(headers, "ann")).content)

    assert before["authorization"] == "Bearer first"
    assert after["authorization"] == "Bearer second"


async def test_a_conversation_may_have_a_session_to_itself() -> None:
    config = {**stdio_config(), "scope": "thread"}
    async with MultiServerMCPClient({"server": config}) as client:
        (pid,) = await client.get_tools(include="pid")

        async def pid_in(thread: str) -> str:
            return await pid.ainvoke({}, run_of("ann", thread))

        first, second, again = [await pid_in(thread) for thread in ("1", "2", "1")]
        await client.forget("1")
        after = await pid_in("1")
        still = await pid_in("2")

    assert first == again != second
    assert after != first
    assert still == second


async def test_a_function_that_needs_a_run_says_so_when_there_is_none() -> None:
    with fault_server() as server:
        client = MultiServerMCPClient({"server": {"url": server.url, "headers": user_of}})
        with pytest.raises(ConfigError, match=r"server: the function for `headers` failed.*config"):
            await client.get_tools()
        await client.aclose()


async def test_a_function_that_returns_nonsense_is_told_what_to_return() -> None:
    with fault_server() as server:
        async with Toolbox({"server": {"url": server.url, "headers": lambda run: "x"}}) as box:
            with pytest.raises(ConfigError, match="returned a str"):
                await box.call("server", "echo", {"text": "a"})


async def test_the_run_includes_the_context_of_the_graph() -> None:
    seen: list[Any] = []

    def headers(run: Mapping[str, Any]) -> dict[str, str]:
        seen.append(run.get("context"))
        return {"X-User": "ann"}

    with fault_server() as server:
        async with MultiServerMCPClient(
            {"server": {"url": server.url, "headers": headers}}
        ) as client:
            (echo,) = await client.get_tools(include="echo")
            await echo.ainvoke({"text": "a"})

    assert seen == [None, None]


async def test_sessions_of_users_are_closed_with_the_client() -> None:
    client = MultiServerMCPClient({"server": {**stdio_config(), "scope": "thread"}})
    (pid,) = await client.get_tools(include="pid")
    pids = [int(await pid.ainvoke({}, run_of("ann", str(n)))) for n in range(3)]
    await client.aclose()

    await eventually(lambda: not any(psutil.pid_exists(one) for one in pids))


async def test_middleware_lists_and_calls_for_the_run_it_is_in() -> None:
    seen: list[str] = []

    def headers(run: Mapping[str, Any]) -> dict[str, str]:
        seen.append(run["configurable"]["user"])
        return {"X-User": run["configurable"]["user"]}

    with fault_server() as server:
        async with MultiServerMCPClient(
            {"server": {"url": server.url, "headers": headers}}
        ) as client:
            model = ScriptedChatModel([[tool_call("headers")], "done"] * 2)
            agent = create_agent(model, [], middleware=[MCPToolsMiddleware(client)])
            for user in ("ann", "bob"):
                said: Any = {"messages": [{"role": "user", "content": "who am I?"}]}
                state = await agent.ainvoke(said, run_of(user))
                assert json.loads(state["messages"][2].content)["x-user"] == user

    assert set(seen) == {"ann", "bob"}
