"""A scripted chat model does what its script says, and remembers what it was asked."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain.agents import create_agent
from langchain_core.callbacks import get_usage_metadata_callback
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, HumanMessage
from langchain_core.tools import tool

from plait.agents.engines.langchain.scripted_model import scripted_model
from plait.errors import ConfigError
from plait.langchain.tools.model_support import profile_of
from plait.testing import ScriptedChatModel, tool_call


@tool
def add(a: int, b: int) -> int:
    """Add two integers."""
    return a + b


def joined(chunks: list[AIMessageChunk]) -> AIMessageChunk:
    first, *rest = chunks
    return first.__add__(rest) if rest else first  # pyright: ignore[reportArgumentType, reportReturnType]


def asked(text: str = "hi") -> Any:
    return {"messages": [HumanMessage(text)]}


@pytest.mark.parametrize("asynchronous", [False, True])
def test_an_agent_follows_the_script(asynchronous: bool) -> None:
    model = ScriptedChatModel([[tool_call("add", a=1, b=2)], "three"])
    agent: Any = create_agent(model, [add])

    result = asyncio.run(agent.ainvoke(asked())) if asynchronous else agent.invoke(asked())

    assert [message.text for message in result["messages"]] == ["hi", "", "3", "three"]
    assert [len(messages) for messages in model.seen] == [1, 3]
    assert model.seen[1][-1].content == "3"


def test_binding_tools_is_noted_with_names_descriptions_and_schemas() -> None:
    model = ScriptedChatModel(["hello"])

    bound = model.bind_tools([add, {"title": "look", "description": "Look.", "type": "object"}])

    assert model.bound == [["add", "look"]]
    assert model.bound_tools[0]["add"] == {
        "name": "add",
        "description": "Add two integers.",
        "parameters": {
            "type": "object",
            "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
            "required": ["a", "b"],
        },
    }
    assert bound.invoke("x").text == "hello"
    assert len(model.seen) == 1


def test_a_message_is_said_as_it_is_and_the_script_keeps_its_own() -> None:
    usage = {"input_tokens": 7, "output_tokens": 2, "total_tokens": 9}
    scripted = AIMessage("so", usage_metadata=usage, response_metadata={"model_name": "mine"})  # pyright: ignore[reportArgumentType]
    model = ScriptedChatModel([scripted])

    said = model.invoke("x")

    assert said.usage_metadata == usage
    assert said.response_metadata["model_name"] == "mine"
    assert said.id is not None
    assert scripted.id is None


def _sum(messages: list[BaseMessage]) -> Any:
    done = len(messages) > 6
    return "done" if done else [tool_call("add", a=len(messages), b=0)]


def test_turns_may_be_functions_and_exceptions_and_come_to_an_end() -> None:
    model = ScriptedChatModel([lambda messages: f"you said {messages[-1].text}", "then"])
    assert [model.invoke(text).text for text in ("this", "that")] == ["you said this", "then"]
    with pytest.raises(RuntimeError, match="the script has 2 turns, and turn 3 was requested"):
        model.invoke("y")
    result = create_agent(ScriptedChatModel(_sum), [add]).invoke(asked())
    assert [m.text for m in result["messages"] if m.type == "tool"] == ["1", "3", "5"]
    assert result["messages"][-1].text == "done"
    failures: list[Any] = [ValueError("no"), ValueError]
    for failure in failures:
        with pytest.raises(ValueError):  # noqa: PT011
            ScriptedChatModel([failure]).invoke("x")
        with pytest.raises(ValueError):  # noqa: PT011
            list(ScriptedChatModel([failure]).stream("x"))


def test_every_call_has_its_own_id() -> None:
    calls = [tool_call("add", a=n) for n in range(10)]

    assert len({call["id"] for call in calls}) == 10
    assert tool_call("f", name="n", id=3)["args"] == {"name": "n", "id": 3}


def test_usage_is_counted_by_whoever_counts() -> None:
    model = ScriptedChatModel([[tool_call("add", a=1, b=2)], "three"], model_name="tiny")

    with get_usage_metadata_callback() as counted:
        create_agent(model, [add]).invoke(asked("x" * 400))

    usage = counted.usage_metadata["tiny"]
    assert usage["input_tokens"] >= 200
    assert usage["output_tokens"] >= 2
    assert usage["total_tokens"] == usage["input_tokens"] + usage["output_tokens"]


def test_a_model_poses_as_one_of_a_provider() -> None:
    assert profile_of(ScriptedChatModel([])) is None
    assert profile_of(ScriptedChatModel([], provider="anthropic")) == "anthropic"
    assert profile_of(ScriptedChatModel([], provider="openai").bind_tools([add])) == "openai"


texts = st.text(alphabet=st.characters(exclude_categories=["Cs"]))
arguments = st.dictionaries(st.text(min_size=1), st.none() | st.integers() | texts | st.booleans())
calls = st.lists(arguments.map(lambda args: tool_call("add") | {"args": args}), max_size=3)


@given(texts, calls)
def test_a_streamed_message_is_the_same_as_one_that_is_not(text: str, wanted: Any) -> None:
    message = AIMessage(text, tool_calls=wanted)

    whole = ScriptedChatModel([message]).invoke("x")
    streamed = joined(list(ScriptedChatModel([message]).stream("x")))  # pyright: ignore[reportArgumentType]

    assert streamed.content == whole.content
    assert streamed.tool_calls == whole.tool_calls == wanted
    assert streamed.usage_metadata == whole.usage_metadata
    assert streamed.response_metadata["model_name"] == "scripted"


@pytest.mark.anyio
async def test_messages_are_streamed_by_agents_word_by_word() -> None:
    model = ScriptedChatModel([[tool_call("add", a=1, b=2)], "it is  three"])
    stream: Any = create_agent(model, [add]).astream(asked(), stream_mode="messages")

    parts = [chunk async for chunk, _ in stream]

    texts = [part.text for part in parts if part.type == "AIMessageChunk" and part.text]
    assert texts == ["it", " is", "  three"]


def test_the_helpers_can_be_imported_without_langchain() -> None:
    program = """
import sys
from pathlib import Path
sys.modules["langchain_core"] = None
import plait.testing
assert plait.testing.fault_server
try:
    plait.testing.ScriptedChatModel
except ImportError:
    print("only this one needs it")
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False
    )

    assert done.stdout == "only this one needs it\n", done.stderr


SCRIPT = """[
    {"text": "I look.", "thinking": "Which?", "calls": [{"name": "add", "arguments": {"a": 1}}],
     "usage": {"input_tokens": 7, "cache_read_tokens": 3}, "delay": 0.001},
    "Done."
]"""


@pytest.mark.anyio
async def test_a_file_can_be_the_script(tmp_path: Path) -> None:
    file = tmp_path / "script.json"
    file.write_text(SCRIPT)
    model = scripted_model(file)

    first = await model.ainvoke("hi")
    second = model.invoke("go on")

    assert first.content == [
        {"type": "reasoning", "reasoning": "Which?"},
        {"type": "text", "text": "I look."},
    ]
    assert [(call["name"], call["args"]) for call in first.tool_calls] == [("add", {"a": 1})]
    assert first.usage_metadata is not None
    assert first.usage_metadata["input_tokens"] == 7
    assert first.usage_metadata.get("input_token_details") == {"cache_read": 3}
    assert second.content == "Done."
    file.write_text('[{"txt": "hi"}]')
    with pytest.raises(ConfigError, match="txt"):
        scripted_model(file)
