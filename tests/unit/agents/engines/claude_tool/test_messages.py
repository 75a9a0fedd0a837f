"""Messages to and from Anthropic's API."""

from __future__ import annotations

from typing import Any

import pytest
from anthropic.types.beta import BetaMessage
from inline_snapshot import snapshot

from plait import Message
from plait.agents import claude_tool_messages_to_raw_trace
from plait.agents.anthropic_api import usage_from_anthropic
from plait.agents.engines.claude_tool.messages import (
    convert_from_anthropic_message,
    convert_to_anthropic,
    messages_from_anthropic,
)
from plait.traces import (
    Role,
    TextContent,
    ThinkingContent,
    ToolResultContent,
    ToolUseContent,
    TraceFormatConfig,
    UsageMetadata,
    messages_to_raw_trace,
)

CALL = ToolUseContent("toolu_1", "add", {"a": 1, "b": 2})
OTHER = ToolUseContent("toolu_2", "fail", {})

ANSWER: dict[str, Any] = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "claude-x",
    "content": [
        {"type": "thinking", "thinking": "hm", "signature": "seal"},
        {"type": "redacted_thinking", "data": "…"},
        {"type": "text", "text": ""},
        {"type": "text", "text": "I add. ✓"},
        {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}},
        {"type": "tool_use", "id": "toolu_1", "name": "add", "input": {"a": 1, "b": 2}},
    ],
    "stop_reason": "tool_use",
    "stop_sequence": None,
    "usage": {"input_tokens": 7, "output_tokens": 3, "cache_read_input_tokens": 5},
}


def test_a_conversation_is_written_as_the_api_takes_it() -> None:
    written = convert_to_anthropic(
        [
            Message.system("Be brief."),
            Message.user("Add."),
            Message(
                Role.ASSISTANT,
                [ThinkingContent("hm", "seal"), TextContent("I add."), CALL, OTHER],
            ),
            Message.tool_result("toolu_1", "3"),
            Message.tool_result("toolu_2", "it failed", is_error=True),
            Message.assistant("It is 3."),
            Message.user("Thanks."),
        ]
    )

    assert written == snapshot(
        [
            {"role": "user", "content": [{"type": "text", "text": "Add."}]},
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "hm", "signature": "seal"},
                    {"type": "text", "text": "I add."},
                    {
                        "type": "tool_use",
                        "id": "toolu_1",
                        "name": "add",
                        "input": {"a": 1, "b": 2},
                    },
                    {"type": "tool_use", "id": "toolu_2", "name": "fail", "input": {}},
                ],
            },
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "toolu_1", "content": "3"},
                    {
                        "type": "tool_result",
                        "tool_use_id": "toolu_2",
                        "content": "it failed",
                        "is_error": True,
                    },
                ],
            },
            {"role": "assistant", "content": [{"type": "text", "text": "It is 3."}]},
            {"role": "user", "content": [{"type": "text", "text": "Thanks."}]},
        ]
    )


def test_results_stand_at_the_head_of_what_the_user_says_next() -> None:
    asked = Message.assistant("", [CALL])
    mixed = Message(Role.USER, [TextContent("And?"), ToolResultContent("toolu_2", "4")])

    (_, next_one) = convert_to_anthropic([asked, Message.tool_result("toolu_1", "3"), mixed])
    (_, trailing) = convert_to_anthropic([asked, Message.tool_result("toolu_1", "")])

    kinds = [block["type"] for block in next_one["content"]]
    assert kinds == ["tool_result", "tool_result", "text"]
    assert trailing == {
        "role": "user",
        "content": [{"type": "tool_result", "tool_use_id": "toolu_1"}],
    }


def test_what_the_api_refuses_is_not_sent() -> None:
    thought = Message(Role.ASSISTANT, [ThinkingContent("of another provider"), TextContent(" \n")])
    foreign = ToolUseContent("functions.add:0", "add", {})

    written = convert_to_anthropic(
        [
            Message.user("Go."),
            thought,
            Message.assistant(),
            Message.assistant("", [foreign]),
            Message.tool_result("functions.add:0", "3"),
        ]
    )

    assert [message["role"] for message in written] == ["user", "assistant", "user"]
    assert written[1]["content"][0]["id"] == "functions_add_0"
    assert written[2]["content"][0]["tool_use_id"] == "functions_add_0"


@pytest.mark.parametrize("answer", [ANSWER, BetaMessage.model_validate(ANSWER)])
def test_an_answer_is_read_with_its_thoughts_and_calls(answer: object) -> None:
    assert convert_from_anthropic_message(answer) == Message(
        Role.ASSISTANT, [ThinkingContent("hm", "seal"), TextContent("I add. ✓"), CALL]
    )


def test_what_was_written_is_read_again() -> None:
    messages = [
        Message.user("Add."),
        Message(Role.ASSISTANT, [ThinkingContent("hm", "seal"), TextContent("I add."), CALL]),
        Message.tool_result("toolu_1", "none", is_error=True),
        Message.assistant("No."),
    ]

    assert messages_from_anthropic(convert_to_anthropic(messages)) == messages


def test_the_raw_trace_is_the_same_from_both_kinds_of_messages() -> None:
    picture = {
        "type": "image",
        "source": {"type": "base64", "media_type": "image/png", "data": "aGVsbG8="},
    }
    content = [{"type": "text", "text": "3"}, picture]
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": content}
    theirs = [
        {"role": "user", "content": "Add."},
        BetaMessage.model_validate(ANSWER),
        {"role": "user", "content": [result, {"type": "text", "text": "And now?"}]},
    ]
    ours = [
        Message.user("Add."),
        convert_from_anthropic_message(ANSWER),
        Message.tool_result("toolu_1", "3\n[image: image/png, 5 B]"),
        Message.user("And now?"),
    ]

    assert claude_tool_messages_to_raw_trace(theirs) == snapshot("""\
--- Thinking ---
hm

--- AI Message ---
I add. ✓

Tool Calls:
  add (call_toolu_1)
   Call ID: toolu_1
   Args: {'a': 1, 'b': 2}

--- Tool Message (call_id: toolu_1) ---
3
[image: image/png, 5 B]\
""")
    whole = TraceFormatConfig(include_user_messages=True)
    assert claude_tool_messages_to_raw_trace(theirs, whole) == messages_to_raw_trace(ours, whole)
    assert claude_tool_messages_to_raw_trace(ours) == messages_to_raw_trace(ours)


def test_what_is_no_message_is_refused() -> None:
    with pytest.raises(ValueError, match="robot"):
        messages_from_anthropic([{"role": "robot", "content": "hi"}])


def test_usage_is_what_the_api_counted() -> None:
    told = BetaMessage.model_validate(ANSWER).usage

    assert usage_from_anthropic(told) == UsageMetadata(7, 3, 10, cache_read_tokens=5)
