"""Agents ask a server for its tools once, and again only when there is a reason to."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import BaseMessage

from plait import MCPToolsMiddleware, MultiServerMCPClient
from plait.testing import eventually
from tests.integration.agents.counting import counting
from tests.integration.agents.helpers import (
    END,
    agent_of,
    answers_of,
    arun,
    one_by_one,
    question,
    run,
    tool_call,
)

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]

TURNS = 50


each_way = pytest.mark.parametrize(
    ("transport", "era"),
    [("stdio", "modern"), ("stdio", "legacy"), ("http", "modern"), ("http", "legacy")],
)


@each_way
async def test_fifty_turns_list_the_tools_once(tmp_path: Path, transport: str, era: str) -> None:
    with counting(tmp_path, transport, "--era", era) as server:
        client = MultiServerMCPClient({"server": server.config})
        script = one_by_one(*(tool_call("read_a") for _ in range(TURNS)))

        given_once = await arun(script, await client.get_tools())
        each_turn = await arun(script, MCPToolsMiddleware(client))
        blocking = await asyncio.to_thread(run, script, MCPToolsMiddleware(client))

        contents = [answer.content for answer in (*given_once, *each_turn, *blocking)]
        assert contents == ["read_a for -"] * (3 * TURNS)
        assert server.calls() == 3 * TURNS
        assert server.lists() == 1
        assert client.status()["server"].sessions == 1
        await client.aclose()


@each_way
async def test_a_tool_that_appears_in_a_run_is_offered_and_one_that_goes_is_an_error(
    tmp_path: Path, transport: str, era: str
) -> None:
    with counting(tmp_path, transport, "--era", era, "--announce") as server:
        client = MultiServerMCPClient({"server": server.config})

        def answer(messages: list[BaseMessage]) -> Any:
            last = messages[-1]
            if last.type == "human":
                return [tool_call("change", tools="b c")]
            if "c" not in model.bound[-1]:
                # The news may come on another connection than the answer.
                assert transport == "http"
                assert len(messages) < 500
                return [tool_call("change", tools="b c")]
            if last.text == "c for -":
                return [tool_call("read_a")]
            return END if getattr(last, "status", "") == "error" else [tool_call("c")]

        agent, model = agent_of(answer, MCPToolsMiddleware(client))
        answers = answers_of(await agent.ainvoke(question()))

        assert model.bound[0] == ["read_a", "b", "change"]
        assert model.bound[-1] == ["b", "c", "change"]
        assert [answer.content for answer in answers[-2:-1]] == ["c for -"]
        assert answers[-1].status == "error"
        assert "read_a" in str(answers[-1].content)
        assert "tools/call read_a" not in (tmp_path / "requests").read_text()
        await client.aclose()


async def test_a_tool_that_was_given_once_and_is_gone_is_an_error_that_the_model_can_read(
    tmp_path: Path,
) -> None:
    with counting(tmp_path, "stdio", "--announce") as server:
        async with MultiServerMCPClient({"server": server.config}) as client:
            calls = [tool_call("change", tools="b"), tool_call("read_a"), tool_call("b")]
            _, gone, still = await arun(one_by_one(*calls), await client.get_tools())

    assert gone.status == "error"
    assert "read_a" in str(gone.content)
    assert still.content == "b for -"


async def test_a_list_is_believed_for_as_long_as_the_server_says(tmp_path: Path) -> None:
    with counting(tmp_path, "stdio", "--ttl-ms", "1000") as server:
        async with MultiServerMCPClient({"server": server.config}) as client:
            await client.get_tools()
            await client.get_tools()
            assert server.lists() == 1

            async def is_listed_again() -> bool:
                await client.get_tools()
                return server.lists() == 2

            await eventually(is_listed_again)


async def test_without_a_cache_every_turn_lists_the_tools(tmp_path: Path) -> None:
    with counting(tmp_path, "stdio") as server:
        async with MultiServerMCPClient({"server": server.config}, cache=False) as client:
            for expected in (1, 2, 3):
                await client.get_tools()
                assert server.lists() == expected


async def test_credentials_never_share_a_private_list(tmp_path: Path) -> None:
    with counting(tmp_path, "http", "--scope", "private", "--ttl-ms", "60000") as server:
        async with MultiServerMCPClient({"server": server.config}) as client:
            lists: dict[str, list[str]] = {}
            for name in ("ann", "bob", "ann", "bob"):
                tools = await client.get_tools(headers={"X-User": name})
                lists[name] = [tool.name for tool in tools]
                answers = await arun(one_by_one(tool_call("read_a")), tools)
                assert answers[0].content == f"read_a for {name}"
            everyone = [tool.name for tool in await client.get_tools()]

            assert lists == {
                "ann": ["read_a", "b", "change", "of_ann"],
                "bob": ["read_a", "b", "change", "of_bob"],
            }
            assert everyone == ["read_a", "b", "change"]
            assert server.lists() == 3


@pytest.mark.parametrize("first", ["everyone", "one of them"])
async def test_credentials_share_a_public_list(tmp_path: Path, first: str) -> None:
    with counting(tmp_path, "http", "--scope", "public", "--ttl-ms", "60000") as server:
        async with MultiServerMCPClient({"server": server.config}) as client:
            if first == "everyone":
                await client.get_tools()
            for name in ("ann", "bob", "cleo"):
                tools = await client.get_tools(headers={"X-User": name})
                answers = await arun(one_by_one(tool_call("read_a")), tools)
                assert answers[0].content == f"read_a for {name}"

            assert server.lists() == 1


async def test_a_filter_by_hints_holds_for_credentials_with_a_shared_list(tmp_path: Path) -> None:
    with counting(tmp_path, "http", "--scope", "public", "--ttl-ms", "60000") as server:
        config = {"server": server.config}
        async with MultiServerMCPClient(config, include=["@read_only"]) as client:
            await client.get_tools()
            tools = await client.get_tools(headers={"X-User": "ann"})
            assert [tool.name for tool in tools] == ["read_a"]

            (answer,) = await arun(one_by_one(tool_call("read_a")), tools)

            assert answer.content == "read_a for ann"
