"""Agents and tools work without a loop, in any thread, and beside loops of others."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from blockbuster import blockbuster_ctx
from langchain_core.tools import BaseTool

from plait import BlockingCallError, ClientClosedError, MCPToolsMiddleware, MultiServerMCPClient
from tests.integration.agents.helpers import (
    END,
    agent_of,
    answers_of,
    arun,
    at_once,
    named,
    one_by_one,
    question,
    run,
    tool_call,
)
from tests.nursery import stdio_config

pytestmark = pytest.mark.timeout(60)


@pytest.fixture(scope="module")
def client() -> Generator[MultiServerMCPClient]:
    with MultiServerMCPClient({"server": stdio_config()}) as client:
        yield client


@pytest.fixture(scope="module")
def tools(client: MultiServerMCPClient) -> list[BaseTool]:
    return client.get_tools_blocking()


ARGUMENTS: dict[str, dict[str, Any]] = {
    "echo": {"text": "hi"},
    "add": {"a": 1, "b": 2},
    "structured": {},
    "image": {},
    "links": {},
    "fail": {"text": "no"},
    "protocol_error": {"code": -32603},
    "pid": {},
}


def facts(answers: list[Any]) -> list[Any]:
    """Return what is the same in each run: all but the duration."""
    return [
        (one.name, one.content, one.status, {**one.artifact, "seconds": 0.0}) for one in answers
    ]


@pytest.mark.parametrize("each_turn", [False, True], ids=["tools once", "tools each turn"])
def test_an_agent_answers_the_same_with_and_without_a_loop(
    client: MultiServerMCPClient, tools: list[BaseTool], each_turn: bool
) -> None:
    given = MCPToolsMiddleware(client) if each_turn else tools
    calls = [tool_call(name, **arguments) for name, arguments in ARGUMENTS.items()]

    blocking = run(at_once(*calls), given)
    awaited = asyncio.run(arun(at_once(*calls), given))

    assert len(blocking) == len(ARGUMENTS)
    assert facts(blocking) == facts(awaited)


def test_threads_share_one_client(client: MultiServerMCPClient, tools: list[BaseTool]) -> None:
    def one(n: int) -> Any:
        (answer,) = run(one_by_one(tool_call("echo", text=str(n))), tools)
        return answer.content

    with ThreadPoolExecutor(32) as threads:
        assert list(threads.map(one, range(64))) == [str(n) for n in range(64)]
    assert client.status()["server"].sessions == 1


def test_one_client_serves_one_loop_after_the_other(tools: list[BaseTool]) -> None:
    script = one_by_one(tool_call("pid"))

    first = asyncio.run(arun(script, tools))
    second = asyncio.run(arun(script, tools))

    assert first[0].content == second[0].content


def test_an_agent_without_a_loop_runs_inside_of_someone_elses(
    client: MultiServerMCPClient, tools: list[BaseTool]
) -> None:
    async def main() -> list[Any]:
        script = one_by_one(tool_call("echo", text="nested"))
        return [*run(script, tools), *run(script, MCPToolsMiddleware(client))]

    assert [answer.content for answer in asyncio.run(main())] == ["nested", "nested"]


def test_a_blocking_call_where_the_connections_live_fails_at_once_and_a_thread_is_the_way_out() -> (
    None
):
    async def main() -> None:
        async with MultiServerMCPClient({"server": stdio_config()}) as client:
            tools = await client.get_tools()
            echo = named(tools, "echo")
            began = time.monotonic()
            with pytest.raises(BlockingCallError, match="to_thread"):
                echo.invoke({"text": "x"})
            with pytest.raises(BlockingCallError):
                run(one_by_one(tool_call("echo", text="x")), MCPToolsMiddleware(client))
            with pytest.raises(BlockingCallError):
                client.get_tools_blocking()
            assert time.monotonic() - began < 5

            assert await asyncio.to_thread(echo.invoke, {"text": "x"}) == "x"
            for given in (tools, MCPToolsMiddleware(client)):
                script = one_by_one(tool_call("echo", text="from a thread"))
                (answer,) = await asyncio.to_thread(run, script, given)
                assert answer.content == "from a thread"

    asyncio.run(main())


def test_a_graph_made_by_a_factory_works_later_and_elsewhere() -> None:
    clients: list[MultiServerMCPClient] = []

    async def make_graph() -> Any:
        client = MultiServerMCPClient({"server": stdio_config()})
        clients.append(client)
        script = one_by_one(tool_call("echo", text="later"))
        return agent_of([*script, *script], await client.get_tools())[0]

    graph = asyncio.run(make_graph())

    assert answers_of(asyncio.run(graph.ainvoke(question())))[0].content == "later"
    assert answers_of(graph.invoke(question()))[0].content == "later"
    clients[0].close()


def test_tools_of_a_closed_client_say_so() -> None:
    with MultiServerMCPClient({"server": stdio_config()}) as client:
        echo = named(client.get_tools_blocking(), "echo")

    with pytest.raises(ClientClosedError):
        echo.invoke({"text": "x"})
    with pytest.raises(ClientClosedError):
        asyncio.run(echo.ainvoke({"text": "x"}))


def test_opening_after_lazy_use_moves_the_connections_and_the_tools_go_on() -> None:
    async def main() -> None:
        client = MultiServerMCPClient({"server": stdio_config()})
        tools = await client.get_tools()
        echo = named(tools, "echo")
        assert await echo.ainvoke({"text": "own loop"}) == "own loop"
        async with client:
            assert await echo.ainvoke({"text": "this loop"}) == "this loop"

    asyncio.run(main())


@pytest.mark.parametrize("own_loop", [True, False], ids=["own loop", "caller's loop"])
def test_an_agent_never_blocks_the_loop_it_runs_in(own_loop: bool) -> None:
    async def main() -> list[Any]:
        client = MultiServerMCPClient({"server": stdio_config(), "bad": {"command": "no-such"}})
        if not own_loop:
            await client.__aenter__()
        calls = [tool_call("echo", text="x"), tool_call("links"), tool_call("fail", text="no")]
        script = [calls, [tool_call("add", a="1", b=2)], END]
        answers = await arun(script, MCPToolsMiddleware(client))
        answers += await arun(script, await client.get_tools())
        await client.aclose()
        return answers

    async def guarded() -> list[Any]:
        with blockbuster_ctx():
            return await main()

    # What LangChain imports and compiles on the first run is not what is looked at here.
    asyncio.run(main())
    statuses = [answer.status for answer in asyncio.run(guarded())]

    assert statuses == ["success", "success", "error", "success"] * 2
