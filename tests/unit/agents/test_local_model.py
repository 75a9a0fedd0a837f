"""A local model calls tools by turns that are held to a union of their schemas."""

from __future__ import annotations

from typing import Any

import jsonschema
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage

from plait.agents.engines.langchain.local_model import (
    message_from_turn,
    turn_format,
    wire_messages,
)

ADD = {
    "name": "add",
    "description": "Add numbers.",
    "parameters": {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
        "required": ["a", "b"],
    },
}


def test_a_turn_is_a_call_of_a_known_tool_or_the_answer() -> None:
    schema = turn_format([ADD])["json_schema"]["schema"]

    def fits(turn: Any) -> bool:
        return jsonschema.Draft202012Validator(schema).is_valid(turn)

    assert fits({"tool": "add", "arguments": {"a": 1, "b": 2}})
    assert fits({"tool": "none", "answer": "3"})
    assert not fits({"tool": "add", "arguments": {"a": 1}})
    assert not fits({"tool": "add", "arguments": {"a": 1, "b": 2, "c": 3}})
    assert not fits({"tool": "subtract", "arguments": {}})
    assert not fits({"tool": "add", "answer": "3"})


def test_turns_become_messages() -> None:
    call = message_from_turn('{"tool": "add", "arguments": {"a": 1, "b": 2}}', has_tools=True)
    answer = message_from_turn('{"tool": "none", "answer": "3"}', has_tools=True)
    cut = message_from_turn('{"tool": "none", "ans', has_tools=True)

    assert [(one["name"], one["args"]) for one in call.tool_calls] == [("add", {"a": 1, "b": 2})]
    assert (answer.text, cut.text) == ("3", '{"tool": "none", "ans')
    assert message_from_turn("plain", has_tools=False).text == "plain"


def test_a_conversation_shows_rules_calls_and_results() -> None:
    call = AIMessage("", tool_calls=[{"name": "add", "args": {"a": 1, "b": 2}, "id": "1"}])
    result = ToolMessage("3", tool_call_id="1", name="add")
    wire = wire_messages([SystemMessage("Be brief."), HumanMessage("1+2?"), call, result], [ADD])

    assert [one["role"] for one in wire] == ["system", "user", "assistant", "user"]
    assert "Never guess a value" in wire[0]["content"]
    assert "- add(a, b): Add numbers." in wire[0]["content"]
    assert wire[2]["content"] == '{"tool": "add", "arguments": {"a": 1, "b": 2}}'
    assert wire[3]["content"].startswith("Result of add: 3")
