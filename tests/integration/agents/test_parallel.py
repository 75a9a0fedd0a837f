"""Many calls in one turn: each gets its own answer, and all end with the run."""

from __future__ import annotations

import asyncio
from collections.abc import Generator

import pytest

from plait import MultiServerMCPClient
from plait.testing import ServerProcess, eventually
from tests.integration.agents.helpers import agent_of, arun, at_once, question, run, tool_call
from tests.nursery import fault_server, stdio_config

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]

MANY = 200


@pytest.fixture(scope="module")
def server() -> Generator[ServerProcess]:
    with fault_server() as server:
        yield server


async def test_of_three_calls_in_one_turn_one_fails(server: ServerProcess) -> None:
    calls = [
        tool_call("echo", text="one"),
        tool_call("fail", text="two"),
        tool_call("add", a=1, b=2),
    ]
    async with MultiServerMCPClient({"server": {"url": server.url}}) as client:
        answers = await arun(at_once(*calls), await client.get_tools())

    assert [answer.tool_call_id for answer in answers] == [call["id"] for call in calls]
    assert [answer.status for answer in answers] == ["success", "error", "success"]
    assert [answer.content for answer in answers] == ["one", "Error executing tool fail: two", "3"]


@pytest.mark.parametrize("transport", ["http", "stdio"])
async def test_many_calls_at_once_get_their_own_answers(
    server: ServerProcess, transport: str
) -> None:
    config = {"url": server.url} if transport == "http" else stdio_config()
    calls = [tool_call("echo", text=f"text {n}") for n in range(MANY)]
    async with MultiServerMCPClient({"server": config}) as client:
        tools = await client.get_tools()
        answers = await arun(at_once(*calls), tools)
        blocking = await asyncio.to_thread(run, at_once(*calls), tools)

    for found in (answers, blocking):
        by_id = {answer.tool_call_id: answer.content for answer in found}
        assert by_id == {call["id"]: call["args"]["text"] for call in calls}


async def test_a_server_that_takes_one_at_a_time_never_sees_two() -> None:
    config = {"limited": {**stdio_config(), "max_concurrency": 1}, "free": stdio_config()}
    async with MultiServerMCPClient(config, tool_name_prefix=True) as client:
        for name, most in (("limited", 1), ("free", 5)):
            calls = [tool_call(f"{name}_slow", seconds=0.2) for _ in range(5)]
            answers = await arun(at_once(*calls), await client.get_tools())

            assert [answer.content for answer in answers] == ["slept 0.2 s"] * 5
            assert (await client.toolbox.call(name, "max_parallel")).text == str(most)


async def test_a_cancelled_run_cancels_its_calls_on_the_server_and_others_go_on() -> None:
    async with MultiServerMCPClient({"server": stdio_config()}) as client:
        tools = await client.get_tools()
        agent, _ = agent_of(at_once(*(tool_call("hang") for _ in range(3))), tools)
        running = asyncio.create_task(agent.ainvoke(question()))
        other = asyncio.create_task(arun(at_once(tool_call("slow", seconds=1)), tools))
        await eventually(lambda: client.status()["server"].in_flight == 4)
        # One pipe keeps the order: what was written before this has arrived after it.
        await client.toolbox.call("server", "echo", {"text": "x"})

        running.cancel()

        with pytest.raises(asyncio.CancelledError):
            await running

        async def heard() -> bool:
            return (await client.toolbox.call("server", "cancelled_calls")).text == "3"

        await eventually(heard)
        assert (await other)[0].content == "slept 1 s"
