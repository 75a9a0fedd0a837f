"""Two users whose calls are open on one session of the handshake era: no question is crossed."""

from __future__ import annotations

import asyncio
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from mcp_types import ElicitResult

from plait import Callbacks, MultiServerMCPClient
from plait.testing import ScriptedChatModel, ServerProcess, tool_call
from tests.integration.elicitation.test_eras import MODERN, opened
from tests.integration.elicitation.test_interrupts import SAID, tool_texts
from tests.nursery import entry, python

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]

PROGRAM = str(Path(__file__).parents[2] / "servers" / "asking.py")

user: ContextVar[str] = ContextVar("user", default="nobody")


@pytest.mark.parametrize("over", ["stdio", "http"])
async def test_a_question_is_answered_by_the_user_whose_call_asked(
    tmp_path: Path, over: str
) -> None:
    async def answer(mcp_context: Any, params: Any, context: Any) -> ElicitResult:
        await asyncio.sleep(0)
        return ElicitResult(action="accept", content={"text": f"{user.get()} on {params.message}"})

    async def book(tool: Any, name: str) -> str:
        user.set(name)
        return await tool.ainvoke({"name": name})

    (tmp_path / "ledger").touch()
    arguments = (PROGRAM, str(tmp_path / "ledger"))
    with ServerProcess([*python(), *arguments, "http"]) as running:
        config = entry(*arguments, "stdio") if over == "stdio" else {"url": running.url}
        servers = {"desk": {**config, "protocol": "legacy"}}
        async with MultiServerMCPClient(
            servers, callbacks=Callbacks(on_elicitation=answer)
        ) as client:
            (tool,) = await client.get_tools(include="book")
            booked: list[str] = []
            names = [f"user-{number}" for number in range(3)]
            for _ in range(2):  # it is known only then that the tool asks
                booked = await asyncio.gather(
                    *(asyncio.create_task(book(tool, name)) for name in names)
                )

    expected = [f"{n}: {n} on seat for {n}?, {n} on meal for {n}?" for n in names]
    assert booked == expected


@pytest.mark.parametrize(
    ("protocol", "tool"), [("legacy", "book"), ("legacy", "reserve"), (MODERN, "reserve")]
)
async def test_a_result_that_depends_on_an_answer_is_not_kept_for_another_user(
    protocol: str, tool: str
) -> None:
    async def answer(mcp_context: Any, params: Any, context: Any) -> ElicitResult:
        return ElicitResult(action="accept", content={"seat": user.get()})

    async def call(one: Any, name: str) -> str:
        user.set(name)
        return await one.ainvoke({})

    async with opened(
        "stdio",
        protocol=protocol,
        callbacks=Callbacks(on_elicitation=answer),
        result_cache=True,
        tool_overrides={tool: {"annotations": {"read_only": True}}},
    ) as client:
        (one,) = await client.get_tools(include=tool)
        seats = [await asyncio.create_task(call(one, name)) for name in ("ann", "bob", "ann")]

    assert seats == ["seat ann", "seat bob", "seat ann"]


async def test_a_result_of_a_graph_that_was_answered_is_not_kept_for_another_user(
    tmp_path: Path,
) -> None:
    server = entry(PROGRAM, str(tmp_path / "ledger"), "stdio", protocol="legacy")
    async with MultiServerMCPClient({"desk": server}, result_cache=True) as client:
        tools = await client.get_tools(include="look")
        seen: list[str] = []
        for name in ("ann", "bob"):
            model = ScriptedChatModel([[tool_call("look", name="it")], "done"])
            agent: Any = create_agent(model, tools, checkpointer=InMemorySaver())
            thread: Any = {"configurable": {"thread_id": name}}
            state = await agent.ainvoke(SAID, thread)
            while "__interrupt__" in state:
                (request,) = state["__interrupt__"][0].value["requests"]
                reply = {"action": "accept", "content": {"text": name}}
                resume = {"responses": {request["key"]: reply}}
                state = await agent.ainvoke(Command(resume=resume), thread)
            seen += tool_texts(state)

    assert seen == ["it: ann, ann", "it: bob, bob"]
