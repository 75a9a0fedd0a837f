"""Graphs of LangGraph that are not agents of plait, traced and limited by a callback."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import HumanMessage
from langchain_core.tools import tool
from langgraph.graph import START, MessagesState, StateGraph

from plait.agents import GraphLimitError, GraphTracer
from plait.testing import ScriptedChatModel, tool_call
from plait.traces import Turn, read_trace


@tool
def add(a: int, b: int) -> int:
    """Add."""
    return a + b


def graph_of(script: Any) -> Any:
    """Make a graph whose nodes are an agent with parallel tools, and a model alone."""
    inner = create_agent(ScriptedChatModel(script), [add])
    judge = ScriptedChatModel(["It is right."])
    graph: Any = StateGraph(MessagesState)
    graph.add_node("research", inner)
    graph.add_node("judge", lambda state: {"messages": [judge.invoke(state["messages"])]})
    graph.add_edge(START, "research")
    graph.add_edge("research", "judge")
    return graph.compile()


def test_a_graph_with_a_sub_graph_and_parallel_tools_leaves_a_trace(tmp_path: Path) -> None:
    path = tmp_path / "graph.jsonl"
    both = [tool_call("add", a=1, b=2), tool_call("add", a=3, b=4)]
    tracer = GraphTracer(path)

    graph_of([both, "Seven."]).invoke({"messages": [HumanMessage("Add.")]}, {"callbacks": [tracer]})

    trace = read_trace(path)
    assert (trace.status, trace.turns, trace.final_response) == ("completed", 3, "It is right.")
    assert [event.node for event in trace.events if isinstance(event, Turn)] == [
        "research/model",
        "research/model",
        "judge",
    ]
    assert sorted(result.content for _, result in trace.calls if result) == ["3", "7"]
    assert {call.parent for call, _ in trace.calls} == {1}
    assert {call.call_id for call, _ in trace.calls} == {call["id"] for call in both}


def test_a_graph_ends_at_its_limit(tmp_path: Path) -> None:
    path = tmp_path / "graph.jsonl"
    again = [[tool_call("add", a=1, b=2)] for _ in range(5)]

    with pytest.raises(GraphLimitError):
        graph_of(again).invoke(
            {"messages": [HumanMessage("Add.")]}, {"callbacks": [GraphTracer(path, max_turns=2)]}
        )

    assert (read_trace(path).status, read_trace(path).turns) == ("limit", 2)
