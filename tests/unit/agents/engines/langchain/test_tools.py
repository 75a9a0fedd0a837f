"""Deferred tools, interceptors and interrupts on the langchain engine."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from mcp.server.mcpserver import Context, MCPServer
from pydantic import BaseModel

from plait import AgentConfig, AgentResult, Message, ModelConfig
from plait.agents.engines.langchain.agent import LangChainAgent
from plait.client.config.budgets import Deferral
from plait.client.config.servers import InProcessServer
from plait.langchain import MCPToolCallRequest
from plait.testing import ScriptedChatModel, tool_call
from plait.traces.events import Elicited, ToolCalled, ToolReturned, TraceEvent

pytestmark = pytest.mark.anyio

QUESTION = [Message.user("Go on.")]
MODEL = ModelConfig(id="m", model_provider="mine", model_name="m")
ASK = {"default": "allow", "rules": [{"tool": "pay", "do": "ask"}]}


class Amount(BaseModel):
    """The form of an elicitation."""

    euros: int


def bank(payments: list[int] | None = None) -> MCPServer:
    server = MCPServer("bank")

    @server.tool()
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    @server.tool()
    def pay(euros: int) -> str:
        """Pay an amount."""
        if payments is not None:
            payments.append(euros)
        return f"paid {euros}"

    @server.tool()
    async def donate(ctx: Context) -> str:
        """Ask for an amount, and donate it."""
        answer = await ctx.elicit("How much?", Amount)
        return f"donated {answer.data.euros}" if answer.action == "accept" else answer.action

    return server


async def run(
    turns: Any, config: AgentConfig, server: InProcessServer | None = None, **settings: Any
) -> tuple[AgentResult, ScriptedChatModel]:
    model = ScriptedChatModel(turns)
    model_config = MODEL.model_copy(update=settings)
    servers = {"bank": server or InProcessServer(server=bank())}
    return await LangChainAgent(model_config, model).arun(QUESTION, None, servers, config), model


def results(result: AgentResult) -> list[str]:
    found = [part for message in result.trace_messages for part in message.tool_results]
    return [("! " if part.is_error else "") + part.content for part in found]


async def test_the_agent_searches_for_a_deferred_tool_and_calls_it() -> None:
    server = InProcessServer(server=bank(), defer=Deferral(tools=("add", "donate")))
    events: list[TraceEvent] = []
    turns = [[tool_call("search_tools", query="add numbers")], [tool_call("add", a=1, b=2)], "3."]

    result, model = await run(turns, AgentConfig(on_event=events.append), server)

    assert model.bound[0] == ["pay", "search_tools"]
    assert model.bound[1][:2] == ["pay", "search_tools"]
    assert "add" in model.bound[1]
    found, total = results(result)
    assert found.startswith("add: Add two numbers.")
    assert total == "3"
    calls = [(event.server, event.tool) for event in events if isinstance(event, ToolCalled)]
    assert calls == [("plait/tools", "search_tools"), ("bank", "add")]


async def test_interceptors_and_hooks_wrap_each_call() -> None:
    seen: list[tuple[str, str, dict[str, Any]]] = []

    async def double(
        request: MCPToolCallRequest, handler: Callable[[MCPToolCallRequest], Awaitable[Any]]
    ) -> Any:
        seen.append((request.server_name, request.name, dict(request.args)))
        return await handler(request.override(args={**request.args, "b": 2 * request.args["b"]}))

    def count(request: Any, *_: Any) -> None:
        seen.append(("hook", request.name, {}))

    options = {"tool_interceptors": [double], "before_tool_call": count}

    result, _ = await run([[tool_call("add", a=1, b=2)], "5."], AgentConfig(tool_options=options))

    assert results(result) == ["5"]
    assert seen == [("hook", "add", {}), ("bank", "add", {"a": 1, "b": 2})]


async def test_an_answer_of_an_interceptor_is_recorded() -> None:
    async def block(request: Any, handler: Any) -> Any:
        return await handler(request.override(args={"a": "x"}))

    events: list[TraceEvent] = []
    options = {"tool_interceptors": [block]}

    result, _ = await run(
        [[tool_call("add", a=1, b=2)], "No."],
        AgentConfig(tool_options=options, on_event=events.append),
    )

    (error,) = results(result)
    assert error.startswith("! ")
    (returned,) = [event for event in events if isinstance(event, ToolReturned)]
    assert (returned.is_error, returned.attempts) == (True, 1)


@pytest.mark.parametrize("middleware", [None, {}])
async def test_approval_is_an_interrupt_and_other_calls_are_made_once(middleware: Any) -> None:
    payments: list[int] = []
    interrupts: list[Any] = []
    events: list[TraceEvent] = []

    async def approve(value: Any) -> Any:
        interrupts.append(value)
        return {"decision": "approve" if value["arguments"]["euros"] < 10 else "reject"}

    calls = [tool_call("pay", euros=5), tool_call("add", a=1, b=2), tool_call("pay", euros=50)]
    config = AgentConfig(tool_options={"policy": ASK}, on_interrupt=approve, on_event=events.append)
    if middleware is not None:
        middleware = ModelConfig.model_validate(
            {"id": "m", "model_name": "m", "agent_middleware": middleware}
        ).agent_middleware

    result, _ = await run(
        [calls, "Done."],
        config,
        InProcessServer(server=bank(payments)),
        agent_middleware=middleware,
    )

    assert [value["type"] for value in interrupts] == ["mcp_approval", "mcp_approval"]
    paid, total, rejected = sorted(
        results(result), key=lambda text: ("paid", "3", "!").index(text.split()[0])
    )
    assert (paid, total) == ("paid 5", "3")
    assert rejected.startswith("! ")
    assert payments == [5]
    assert len([event for event in events if isinstance(event, ToolCalled)]) == 3
    assert len([event for event in events if isinstance(event, ToolReturned)]) == 3
    assert result.turns == 2


async def test_an_elicitation_is_an_interrupt_and_is_recorded() -> None:
    events: list[TraceEvent] = []

    def answer(value: Any) -> Any:
        accepted = {"action": "accept", "content": {"euros": 7}}
        return {"responses": {request["key"]: accepted for request in value["requests"]}}

    config = AgentConfig(on_interrupt=answer, on_event=events.append)

    legacy = InProcessServer(server=bank(), protocol="legacy")

    result, _ = await run([[tool_call("donate")], "Done."], config, legacy)

    assert results(result) == ["donated 7"]
    (elicited,) = [event for event in events if isinstance(event, Elicited)]
    assert (elicited.server, elicited.question) == ("bank", "How much?")
    assert (elicited.action, elicited.tool) == ("accept", "donate")


async def test_without_a_callback_nothing_is_interrupted() -> None:
    calls = [tool_call("pay", euros=5), tool_call("donate")]

    result, _ = await run([calls, "Done."], AgentConfig(tool_options={"policy": ASK}))

    assert all(text.startswith("! ") or text == "decline" for text in results(result))
    assert result.final_response == "Done."
