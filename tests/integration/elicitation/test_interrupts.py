"""A question of a server pauses the graph, and its answer lets the call go on."""

from __future__ import annotations

import asyncio
import json
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from plait import ConfigError, MultiServerMCPClient
from plait.testing import ScriptedChatModel, tool_call
from tests.nursery import fault_server, stdio_config

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(90)]

THREAD: Any = {"configurable": {"thread_id": "1"}}
SAID: Any = {"messages": [{"role": "user", "content": "go"}]}


def agent_of(tools: Any, turns: list[Any], saver: Any = None) -> Any:
    return create_agent(ScriptedChatModel(turns), tools, checkpointer=saver)


def answer(state: Any, **texts: str) -> Any:
    """Answer every question of every interrupt by its message."""
    resume = {
        one.id: {
            "responses": {
                request["key"]: {
                    "action": "accept",
                    "content": {"text": texts[request["message"]]},
                }
                for request in one.value["requests"]
            }
        }
        for one in state["__interrupt__"]
    }
    return Command(resume=resume)


def tool_texts(state: Any) -> list[str]:
    return [message.content for message in state["messages"] if message.type == "tool"]


@pytest.mark.parametrize("blocking", [False, True])
async def test_a_question_pauses_the_graph_and_the_answer_reaches_the_tool(blocking: bool) -> None:
    client = MultiServerMCPClient({"server": stdio_config()})
    tools = await client.get_tools(include="ask")
    agent = agent_of(tools, [[tool_call("ask", question="why?")], "ok"], InMemorySaver())

    paused = agent.invoke(SAID, THREAD) if blocking else await agent.ainvoke(SAID, THREAD)
    (interrupt,) = paused["__interrupt__"]
    go_on = answer(paused, **{"why?": "because"})
    done = agent.invoke(go_on, THREAD) if blocking else await agent.ainvoke(go_on, THREAD)
    await client.aclose()

    assert interrupt.value["type"] == "mcp_elicitation"
    assert (interrupt.value["server_name"], interrupt.value["tool_name"]) == ("server", "ask")
    (request,) = interrupt.value["requests"]
    assert (request["message"], request["mode"]) == ("why?", "form")
    assert "text" in request["requested_schema"]["properties"]
    assert tool_texts(done) == ["why? because"]
    assert done["messages"][-1].content == "ok"


async def test_two_calls_that_ask_at_once_get_their_own_answers() -> None:
    async with MultiServerMCPClient({"server": stdio_config()}) as client:
        tools = await client.get_tools(include="ask")
        both = [tool_call("ask", question="one?"), tool_call("ask", question="two?")]
        agent = agent_of(tools, [both, "ok"], InMemorySaver())

        paused = await agent.ainvoke(SAID, THREAD)
        assert len(paused["__interrupt__"]) == 2
        done = await agent.ainvoke(answer(paused, **{"one?": "1", "two?": "2"}), THREAD)

    assert tool_texts(done) == ["one? 1", "two? 2"]


@pytest.mark.parametrize("action", ["decline", "cancel"])
async def test_a_question_may_be_refused(action: str) -> None:
    async with MultiServerMCPClient({"server": stdio_config()}) as client:
        tools = await client.get_tools(include="ask")
        agent = agent_of(tools, [[tool_call("ask", question="?")], "ok"], InMemorySaver())

        paused = await agent.ainvoke(SAID, THREAD)
        key = paused["__interrupt__"][0].value["requests"][0]["key"]
        resume = {"responses": {key: {"action": action}}}
        done = await agent.ainvoke(Command(resume=resume), THREAD)

    assert tool_texts(done) == [f"? ({action})"]


async def test_where_the_graph_keeps_no_state_questions_are_declined() -> None:
    async with MultiServerMCPClient({"server": stdio_config()}) as client:
        tools = await client.get_tools(include="ask")
        state = await agent_of(tools, [[tool_call("ask", question="?")], "ok"]).ainvoke(SAID)
        outside = await tools[0].ainvoke({"question": "?"})

    assert tool_texts(state) == ["? (decline)"]
    assert outside == "? (decline)"


@pytest.mark.parametrize("resume", ["yes", {"responses": {}}, {"responses": {"*": 1}}])
async def test_a_resume_that_answers_nothing_says_what_is_missing(resume: Any) -> None:
    async with MultiServerMCPClient({"server": stdio_config()}) as client:
        tools = await client.get_tools(include="ask")
        agent = agent_of(tools, [[tool_call("ask", question="?")], "ok"], InMemorySaver())

        paused = await agent.ainvoke(SAID, THREAD)
        key = paused["__interrupt__"][0].value["requests"][0]["key"]
        given = json.loads(json.dumps(resume).replace("*", key))
        with pytest.raises(ConfigError, match="server/ask: cannot go on"):
            await agent.ainvoke(Command(resume=given), THREAD)


PROGRAM = """
import asyncio, pickle, sys
from collections import defaultdict
from pathlib import Path

from langchain.agents import create_agent
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from plait import MultiServerMCPClient
from plait.testing import ScriptedChatModel


def saver_from(path):
    saver = InMemorySaver()
    storage, writes, blobs = pickle.loads(Path(path).read_bytes())
    for thread, spaces in storage.items():
        saver.storage[thread].update(spaces)
    saver.writes.update(writes)
    saver.blobs.update(blobs)
    return saver


async def main(url, path):
    async with MultiServerMCPClient({"server": {"url": url}}) as client:
        tools = await client.get_tools(include="ask")
        agent = create_agent(ScriptedChatModel(["ok"]), tools, checkpointer=saver_from(path))
        config = {"configurable": {"thread_id": "1"}}
        (paused,) = (await agent.aget_state(config)).interrupts
        key = paused.value["requests"][0]["key"]
        answer = {"action": "accept", "content": {"text": "from elsewhere"}}
        state = await agent.ainvoke(Command(resume={"responses": {key: answer}}), config)
        print(state["messages"][2].content)


asyncio.run(main(*sys.argv[1:]))
"""


async def test_another_process_goes_on_with_the_answer(tmp_path: Path) -> None:
    saver = InMemorySaver()
    kept = tmp_path / "state"
    with fault_server() as server:
        async with MultiServerMCPClient({"server": {"url": server.url}}) as client:
            tools = await client.get_tools(include="ask")
            agent = agent_of(tools, [[tool_call("ask", question="why?")]], saver)
            await agent.ainvoke(SAID, THREAD)
        parts = [_plain(part) for part in (saver.storage, saver.writes, saver.blobs)]
        kept.write_bytes(pickle.dumps(parts))

        said = await asyncio.to_thread(
            subprocess.run,
            [sys.executable, "-c", PROGRAM, server.url, str(kept)],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    assert said.stdout.strip() == "why? from elsewhere", said.stderr


def _plain(part: Any) -> Any:
    return {key: _plain(value) for key, value in part.items()} if isinstance(part, dict) else part
