"""Spans of graphs that a `GraphTracer` records."""

from __future__ import annotations

import asyncio
import logging
from typing import Any, cast

import pytest
from langchain.agents import create_agent
from langchain_core.messages import HumanMessage
from langgraph.graph import START, MessagesState, StateGraph
from opentelemetry import trace

from plait import MultiServerMCPClient
from plait.agents import GraphLimitError, GraphTracer
from plait.testing import ScriptedChatModel, tool_call
from tests.integration.telemetry.recorded import Recorded
from tests.servers.langchain_servers import math_server

pytestmark = pytest.mark.timeout(60)

ASK: Any = {"messages": [HumanMessage("Add.")]}
CALL = [tool_call("add", a=1, b=2)]


def graph_of(tools: Any, script: Any) -> Any:
    """A graph with an agent in it."""
    builder: Any = StateGraph(MessagesState)
    builder.add_node("agent", create_agent(ScriptedChatModel(script), tools))
    builder.add_edge(START, "agent")
    return builder.compile(name="sums")


@pytest.mark.parametrize("blocking", [False, True])
def test_the_run_of_a_graph_its_requests_and_its_calls_are_one_trace(
    recorded: Recorded, caplog: pytest.LogCaptureFixture, blocking: bool
) -> None:
    outside: list[bool] = []

    def note_outside() -> None:
        outside.append(trace.get_current_span().get_span_context().is_valid)

    async def run_there() -> None:
        async with MultiServerMCPClient({"math": math_server()}) as client:
            graph = graph_of(await client.get_tools(), [CALL, "Three."])
            await graph.ainvoke(ASK, {"callbacks": [GraphTracer()]})
            note_outside()

    with caplog.at_level(logging.WARNING):
        if blocking:
            with MultiServerMCPClient({"math": math_server()}) as client:
                graph = graph_of(client.get_tools_blocking(), [CALL, "Three."])
                graph.invoke(ASK, {"callbacks": [GraphTracer()]})
                note_outside()
        else:
            asyncio.run(run_there())

    spans = recorded.spans()
    (agent,) = recorded.ours("invoke_agent")
    assert agent.name == "invoke_agent sums"
    assert agent.status.is_ok
    assert dict(agent.attributes or {})["gen_ai.operation.name"] == "invoke_agent"
    chats = recorded.ours("chat")
    assert [span.kind.name for span in chats] == ["CLIENT", "CLIENT"]
    run: Any = agent.context
    for span in (*chats, spans["execute_tool add"]):
        assert (span.parent and span.parent.span_id) == run.span_id
    called: Any = spans["tools/call add"].context
    assert called.trace_id == run.trace_id
    assert outside == [False]  # it is not current any more
    assert "detach" not in caplog.text


def test_a_graph_that_fails_is_a_span_that_failed(recorded: Recorded) -> None:
    def boom(state: Any) -> Any:
        raise LookupError("the model is gone")

    builder: Any = StateGraph(MessagesState)
    builder.add_node("node", boom)
    builder.add_edge(START, "node")
    with pytest.raises(LookupError):
        builder.compile(name="broken").invoke(ASK, {"callbacks": [GraphTracer()]})
    graph = graph_of([], ["one"])
    with pytest.raises(GraphLimitError):
        graph.invoke(ASK, {"callbacks": [GraphTracer(max_turns=0)]})

    errors = [dict(span.attributes or {}).get("error.type") for span in recorded.ours("invoke")]
    assert errors == ["LookupError", "GraphLimitError"]
    assert not recorded.spans()["invoke_agent broken"].status.is_ok


def test_a_request_that_fails_is_a_span_that_failed(recorded: Recorded) -> None:
    class Broken(ScriptedChatModel):
        def _generate(self, *args: Any, **kwargs: Any) -> Any:
            raise ConnectionError("no answer")

    builder: Any = StateGraph(MessagesState)
    model: Any = cast("Any", Broken)(["one"])
    builder.add_node("model", lambda state: {"messages": [model.invoke(state["messages"])]})
    builder.add_edge(START, "model")
    with pytest.raises(ConnectionError):
        builder.compile().invoke(ASK, {"callbacks": [GraphTracer()]})

    (chat,) = recorded.ours("chat")
    assert dict(chat.attributes or {})["error.type"] == "ConnectionError"
