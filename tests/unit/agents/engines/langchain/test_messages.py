"""Messages go to LangChain and back as they are, and are found in what a stopped graph leaves."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.errors import GraphRecursionError

from plait import Message
from plait.agents import (
    extract_partial_agent_state,
    harmonize_agent_response,
    messages_from_langchain,
    messages_to_langchain,
)
from plait.agents.engines.langchain.messages import usage_from_langchain
from plait.testing import ScriptedChatModel, tool_call
from plait.traces import (
    TextContent,
    ThinkingContent,
    ToolUseContent,
    TraceFormatConfig,
    UsageMetadata,
)
from plait.traces.messages.message import Role


def test_every_kind_of_message_has_its_counterpart() -> None:
    call = ToolUseContent("c1", "add", {"a": 1})
    messages = [
        Message.system("Be brief."),
        Message.user("Hi"),
        Message(Role.ASSISTANT, [ThinkingContent("hm", "seal"), TextContent("I add."), call]),
        Message.tool_result("c1", "no", is_error=True),
        Message.assistant("Done."),
    ]
    thought = {"type": "thinking", "thinking": "hm", "signature": "seal"}

    made = messages_to_langchain(messages)

    assert made == [
        SystemMessage("Be brief."),
        HumanMessage("Hi"),
        AIMessage(
            [thought, {"type": "text", "text": "I add."}],
            tool_calls=[{"id": "c1", "name": "add", "args": {"a": 1}, "type": "tool_call"}],
        ),
        ToolMessage("no", tool_call_id="c1", name="add", status="error"),
        AIMessage("Done."),
    ]
    assert messages_from_langchain(made) == messages
    without_seal = Message(Role.ASSISTANT, [ThinkingContent("hm")])
    assert messages_to_langchain([without_seal]) == [AIMessage("")]


texts = st.text(min_size=1)
calls = st.builds(
    ToolUseContent, texts, texts, st.dictionaries(st.text(), st.integers() | st.text())
)
said = st.lists(st.builds(TextContent, texts) | st.builds(ThinkingContent, texts, texts))
assistants = st.builds(
    lambda blocks, wished: Message(Role.ASSISTANT, [*blocks, *wished]), said, st.lists(calls)
)
results = st.builds(Message.tool_result, texts, texts, st.booleans())


@given(st.lists(assistants | results | st.builds(Message.user, texts)))
def test_what_goes_to_langchain_comes_back(messages: list[Message]) -> None:
    assert messages_from_langchain(messages_to_langchain(messages)) == messages


LIFETIMES = {"ephemeral_5m_input_tokens": 4, "ephemeral_1h_input_tokens": 6}


@pytest.mark.parametrize(
    ("provider", "details", "input_tokens", "cache"),
    [
        ("openai", {"cache_read": 30}, 100, (30, None)),
        (None, {}, 100, (None, None)),
        ("anthropic", {}, 100, (None, None)),
        ("anthropic", {"cache_read": 30, "cache_creation": 20}, 50, (30, 20)),
        ("anthropic", {"cache_read": 30, "cache_creation": 0, **LIFETIMES}, 60, (30, 10)),
    ],
)
def test_usage_is_as_the_provider_counts(
    provider: str | None,
    details: Any,
    input_tokens: int,
    cache: tuple[int | None, int | None],
) -> None:
    message = AIMessage(
        "Hi",
        response_metadata={"model_name": "m-1", "model_provider": provider},
        usage_metadata={
            "input_tokens": 100,
            "output_tokens": 5,
            "total_tokens": 105,
            "input_token_details": details,
        },
    )

    usage = usage_from_langchain(message)

    assert usage == UsageMetadata(input_tokens, 5, input_tokens + 5, None, *cache, model="m-1")


def test_an_answer_without_usage_has_none() -> None:
    assert usage_from_langchain(AIMessage("Hi")) is None
    back = messages_from_langchain([AIMessage("Hi")])
    assert back == [replace(Message.assistant("Hi"), usage_metadata=None)]


MESSAGES = [HumanMessage("Go on.")]
CONFIG: Any = {"configurable": {"thread_id": "1"}, "recursion_limit": 3}
LAST = [AIMessage("last")]
IN_ERROR = {"messages": [AIMessage("in the error")]}


@tool
def add(a: int) -> int:
    """Add one."""
    return a + 1


class HeldError(Exception):
    def __init__(self, **attributes: Any) -> None:
        super().__init__("stopped")
        vars(self).update(attributes)


def test_the_messages_of_a_stopped_graph_are_found_wherever_they_are(
    caplog: pytest.LogCaptureFixture,
) -> None:
    model = ScriptedChatModel(lambda _: [tool_call("add", a=1)])
    agent: Any = create_agent(model, [add], checkpointer=InMemorySaver())
    forgetful = create_agent(ScriptedChatModel([]), [])
    with pytest.raises(GraphRecursionError) as stopped:
        agent.invoke({"messages": MESSAGES}, CONFIG)

    def state(error: BaseException, graph: Any) -> dict[str, Any]:
        return extract_partial_agent_state(error, graph, CONFIG if graph else None, MESSAGES)

    assert state(HeldError(state=IN_ERROR, messages=LAST), agent) == IN_ERROR
    checkpointed = state(stopped.value, agent)["messages"]
    assert [message.type for message in checkpointed] == ["human", "ai", "tool", "ai"]
    assert state(HeldError(messages=LAST), forgetful) == {"messages": LAST}
    assert state(HeldError(), None) == {"messages": MESSAGES}
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
    whole = harmonize_agent_response(messages, TraceFormatConfig(include_user_messages=True))
    assert whole.startswith("--- Human Message ---\nGo on.")
    with pytest.raises(ValueError, match="not a message type"):
        harmonize_agent_response({"output": 1})
