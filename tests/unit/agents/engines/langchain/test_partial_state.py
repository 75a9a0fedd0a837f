"""What a stopped agent had said is found wherever it is."""

from __future__ import annotations

from typing import Any

import pytest
from inline_snapshot import snapshot
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.errors import GraphRecursionError

from plait.agents import extract_partial_agent_state, harmonize_agent_response
from plait.testing import ScriptedChatModel, tool_call
from plait.traces import TraceFormatConfig

ASKED = [HumanMessage("Go on.")]
CONFIG: Any = {"configurable": {"thread_id": "1"}, "recursion_limit": 3}


@tool
def add(a: int) -> int:
    """Add one."""
    return a + 1


def stopped() -> tuple[Any, GraphRecursionError]:
    model = ScriptedChatModel(lambda _: [tool_call("add", a=1)])
    agent: Any = create_agent(model, [add], checkpointer=InMemorySaver())
    with pytest.raises(GraphRecursionError) as caught:
        agent.invoke({"messages": ASKED}, CONFIG)
    return agent, caught.value


class HeldError(Exception):
    def __init__(self, **facts: Any) -> None:
        super().__init__("stopped")
        for name, value in facts.items():
            setattr(self, name, value)


def test_the_state_of_the_error_comes_first() -> None:
    agent, _ = stopped()
    error = HeldError(state={"messages": [AIMessage("in the error")]}, messages=[AIMessage("last")])

    state = extract_partial_agent_state(error, agent, CONFIG, ASKED)

    assert state == {"messages": [AIMessage("in the error")]}


def test_then_the_checkpointer_is_asked() -> None:
    agent, error = stopped()

    state = extract_partial_agent_state(error, agent, CONFIG, ASKED)

    kinds = [message.type for message in state["messages"]]
    assert kinds == ["human", "ai", "tool", "ai"]


def test_then_the_messages_of_the_error() -> None:
    agent = create_agent(ScriptedChatModel([]), [])
    error = HeldError(messages=[AIMessage("last")])

    assert extract_partial_agent_state(error, agent, CONFIG, ASKED) == {
        "messages": [AIMessage("last")]
    }


def test_at_last_it_is_what_was_asked(caplog: pytest.LogCaptureFixture) -> None:
    assert extract_partial_agent_state(HeldError(), None, None, ASKED) == {"messages": ASKED}
    assert "HeldError" in caplog.text


def test_a_response_becomes_a_raw_trace() -> None:
    messages = [
        HumanMessage("Go on."),
        AIMessage("I add.", tool_calls=[{"id": "c1", "name": "add", "args": {"a": 1}}]),
        ToolMessage("no", tool_call_id="c1", status="error"),
        AIMessage("Done."),
    ]

    text = harmonize_agent_response({"messages": messages})

    assert text == snapshot("""\
--- AI Message ---
I add.

Tool Calls:
  add (call_c1)
   Call ID: c1
   Args: {'a': 1}

--- Tool Message (call_id: c1) ---
[ERROR] no

--- AI Message ---
Done.\
""")
    assert harmonize_agent_response(messages) == text
    assert harmonize_agent_response(AIMessage("Done.")) == "--- AI Message ---\nDone."
    assert harmonize_agent_response(
        messages, TraceFormatConfig(include_user_messages=True)
    ).startswith("--- Human Message ---\nGo on.")
    with pytest.raises(ValueError, match="not a message type"):
        harmonize_agent_response({"output": 1})
