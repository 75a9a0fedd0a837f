"""Graphs with our tools: a call that the model did not write completely is not made."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypedDict

import pytest
from langchain.agents import create_agent  # pyright: ignore[reportUnknownVariableType]
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, ToolMessage
from langchain_core.messages.tool import invalid_tool_call
from langchain_core.tools import BaseTool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition

from plait import MCPToolsMiddleware, MultiServerMCPClient
from plait.agents.engines.langchain.chat_models import ChatModels
from plait.testing import (
    AnthropicServer,
    Call,
    OpenAIServer,
    Say,
    ScriptedChatModel,
    StateDir,
    tool_call,
)
from tests import nursery
from tests.integration.agents.langchain_models import model_of

pytestmark = pytest.mark.anyio

CUT = Call("pay", encoded='{"amount": 30', id="cut")
"""The first half of a call that pays 300."""

WHOLE = Call("pay", {"amount": 1}, id="whole")

QUESTION: Any = {"messages": [{"role": "user", "content": "Pay."}]}


@asynccontextmanager
async def streaming(
    api: AnthropicServer | OpenAIServer, play: Say, **settings: Any
) -> AsyncGenerator[BaseChatModel]:
    """Yield a chat model that streams an answer of a stand-in."""
    api.play([play, "I see."])
    config = model_of(api, extra_kwargs={"streaming": True, **settings})
    async with aclosing(ChatModels(config)) as models:
        yield models.make()


@asynccontextmanager
async def paying(folder: Path) -> AsyncGenerator[tuple[MultiServerMCPClient, BaseTool, StateDir]]:
    """Yield a client, its tool `pay`, whose next call may be direct, and what was paid."""
    servers: Any = {"bank": nursery.stdio_config(state_dir=str(folder))}
    async with MultiServerMCPClient(servers) as client:
        (pay,) = await client.get_tools(include="pay")
        await pay.ainvoke({"amount": 7})
        yield client, pay, StateDir(folder)


def graph_of(model: Any, pay: BaseTool) -> Any:
    """Build the graph of our page: a model, and a node for its tools."""
    bound = model.bind_tools([pay])

    async def answer(state: MessagesState) -> dict[str, Any]:
        return {"messages": [await bound.ainvoke(state["messages"])]}

    builder: Any = StateGraph(MessagesState)
    builder.add_node("answer", answer)
    builder.add_node("tools", ToolNode([pay]))
    builder.add_edge(START, "answer")
    builder.add_conditional_edges("answer", tools_condition)
    builder.add_edge("tools", "answer")
    return builder.compile()


def replies(messages: list[BaseMessage]) -> dict[str, tuple[str, str]]:
    found = [message for message in messages if isinstance(message, ToolMessage)]
    return {message.tool_call_id: (message.status, message.text) for message in found}


def assert_only_the_whole_call_was_made(messages: list[BaseMessage], state: StateDir) -> None:
    assert state.ledger() == ["7", "1"]
    status, text = replies(messages)["cut"]
    assert (status, 'not one complete JSON object: {"amount": 30' in text) == ("error", True), text
    assert replies(messages)["whole"] == ("success", "paid 1")


class _Plain(TypedDict):
    """A state without `add_messages`, which makes chunks messages without the texts of calls."""

    messages: list[Any]


OBSERVERS = pytest.mark.parametrize("callbacks", [[], [BaseCallbackHandler()]], ids=["", "seen"])


@OBSERVERS
async def test_a_cut_call_of_a_claude_model_is_not_made(
    anthropic: AnthropicServer, callbacks: list[Any], tmp_path: Path
) -> None:
    play = Say("I pay.", calls=(CUT, WHOLE))
    async with paying(tmp_path) as (_, pay, state), streaming(anthropic, play) as model:
        done = await graph_of(model, pay).ainvoke(QUESTION, {"callbacks": callbacks})

        assert_only_the_whole_call_was_made(done["messages"], state)
        assert done["messages"][-1].text == "I see."


async def test_a_cut_call_of_the_responses_api_is_not_made(
    openai: OpenAIServer, tmp_path: Path
) -> None:
    play = Say("I pay.", calls=(CUT, WHOLE))
    answering = streaming(openai, play, use_responses_api=True)
    async with paying(tmp_path) as (_, pay, state), answering as model:
        done = await graph_of(model, pay).ainvoke(QUESTION)

        assert_only_the_whole_call_was_made(done["messages"], state)


@OBSERVERS
async def test_a_cut_call_of_a_chunk_is_not_made(
    openai: OpenAIServer, callbacks: list[Any], tmp_path: Path
) -> None:
    play = Say("I pay.", calls=(CUT, WHOLE))
    async with paying(tmp_path) as (_, pay, state), streaming(openai, play) as model:
        joined = AIMessageChunk(content="")
        async for chunk in model.bind_tools([pay]).astream("Pay."):
            joined += chunk  # pyright: ignore[reportAssignmentType]

        nodes: Any = StateGraph(_Plain)
        nodes.add_node("tools", ToolNode([pay]))
        nodes.add_edge(START, "tools")
        done = await nodes.compile().ainvoke({"messages": [joined]}, {"callbacks": callbacks})

        assert_only_the_whole_call_was_made(done["messages"], state)


async def test_no_call_of_an_answer_that_was_cut_is_made(
    openai: OpenAIServer, tmp_path: Path
) -> None:
    play = Say("I pay.", calls=(WHOLE, CUT), stop="length")
    async with paying(tmp_path) as (_, pay, state), streaming(openai, play) as model:
        done = await graph_of(model, pay).ainvoke(QUESTION)

        assert state.ledger() == ["7"]
        assert {call_id: status for call_id, (status, _) in replies(done["messages"]).items()} == {
            "whole": "error",
            "cut": "error",
        }


async def test_the_middleware_sees_cut_calls_of_every_model(
    openai: OpenAIServer, tmp_path: Path
) -> None:
    """Also for other tools of the agent; and the model gets its own calls back, as JSON."""
    noted: list[str] = []

    def note(text: str = "nothing") -> str:
        """Note a text."""
        noted.append(text)
        return "noted"

    calls = (CUT, WHOLE, Call("note", encoded='{"text": "half', id="half"))
    play = Say("I pay.", calls=calls)
    async with paying(tmp_path) as (client, _, state), streaming(openai, play) as model:
        agent: Any = create_agent(model, [note], middleware=[MCPToolsMiddleware(client)])
        done = await agent.ainvoke(QUESTION)

        assert_only_the_whole_call_was_made(done["messages"], state)
        assert noted == []
        assert replies(done["messages"])["half"][0] == "error"
        assert done["messages"][-1].text == "I see."


def test_the_middleware_sees_cut_calls_in_blocking_code(tmp_path: Path) -> None:
    broken = invalid_tool_call(name="pay", args=CUT.encoded, id="cut")
    whole = tool_call("pay", amount=1)
    answer = AIMessage("", tool_calls=[{**whole, "id": "whole"}], invalid_tool_calls=[broken])
    model = ScriptedChatModel([answer, "I see."])
    servers: Any = {"bank": nursery.stdio_config(state_dir=str(tmp_path))}
    with MultiServerMCPClient(servers) as client:
        (pay,) = client.get_tools_blocking(include="pay")
        pay.invoke({"amount": 7})
        agent: Any = create_agent(model, middleware=[MCPToolsMiddleware(client)])
        parts = list(agent.stream(QUESTION, stream_mode=["messages", "values"]))

    (done,) = [part for mode, part in parts if mode == "values"][-1:]
    assert_only_the_whole_call_was_made(done["messages"], StateDir(tmp_path))


@pytest.mark.parametrize("blocking", [False, True])
async def test_what_stands_for_broken_arguments_is_refused(tmp_path: Path, blocking: bool) -> None:
    """The conversation of a run that goes on in a graph has it."""
    broken = {"plait/invalid_arguments": '{"amount": 30', "amount": 30}
    call: Any = {**tool_call("pay"), "args": broken}
    async with paying(tmp_path) as (_, pay, state):
        pay_blocking = partial(asyncio.to_thread, pay.invoke)
        message = await (pay_blocking(call) if blocking else pay.ainvoke(call))

        assert state.ledger() == ["7"]
        assert message.status == "error"
