"""Messages: what they hold, and their way through JSON."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plait.traces.messages.content import (
    Content,
    ContentType,
    TextContent,
    ThinkingContent,
    ToolResultContent,
    ToolUseContent,
)
from plait.traces.messages.message import (
    Message,
    Role,
    extract_system_prompt,
    messages_from_json,
    messages_to_dicts,
    messages_to_json,
    to_prompt_string,
    without_prompts,
)

_JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)
_BLOCKS: st.SearchStrategy[Content] = st.one_of(
    st.builds(TextContent, st.text()),
    st.builds(ToolUseContent, st.text(), st.text(), st.dictionaries(st.text(), _JSON, max_size=3)),
    st.builds(ToolResultContent, st.text(), st.text(), st.booleans()),
    st.builds(ThinkingContent, st.text(), st.none() | st.text()),
)
_MESSAGES = st.builds(
    Message,
    st.sampled_from(Role),
    st.lists(_BLOCKS, max_size=4),
    st.none() | st.dictionaries(st.text(), st.integers(), max_size=2),
)


@given(message=_MESSAGES)
def test_a_message_comes_back_whole_from_its_dict(message: Message) -> None:
    assert Message.from_dict(message.to_dict()) == message


@given(messages=st.lists(_MESSAGES, max_size=3))
def test_messages_come_back_whole_from_json(messages: list[Message]) -> None:
    assert messages_from_json(messages_to_json(messages)) == messages


def test_a_message_of_the_model_is_described_by_text_calls_and_thought() -> None:
    call = ToolUseContent("c1", "search", {"q": "plait"})
    message = Message(Role.ASSISTANT, [ThinkingContent("hm", "sig"), TextContent("I look."), call])

    assert message.to_dict() == {
        "role": "assistant",
        "content": "I look.",
        "block_index": 0,
        "tool_calls": [{"id": "c1", "name": "search", "input": {"q": "plait"}}],
        "thinking": {"thinking": "hm", "signature": "sig"},
    }


def test_a_message_of_a_tool_has_the_text_of_its_result() -> None:
    told = Message.tool_result("c1", "42", is_error=True).to_dict()

    assert told == {
        "role": "tool",
        "content": "42",
        "block_index": 0,
        "tool_result": {"tool_use_id": "c1", "is_error": True},
    }
    assert Message.from_dict(told).content == [ToolResultContent("c1", "42", is_error=True)]


def test_a_simple_message_has_no_more_keys_than_it_needs() -> None:
    assert Message.user("hi").to_dict() == {"role": "user", "content": "hi", "block_index": 0}


def test_blocks_that_do_not_fit_the_simple_form_are_listed() -> None:
    told = Message(Role.ASSISTANT, [TextContent("a"), TextContent("b")]).to_dict()

    assert told["content"] == "a\nb"
    assert told["blocks"] == [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]


def test_the_usage_of_a_message_is_written_where_it_is_known() -> None:
    message = Message(Role.ASSISTANT, [TextContent("a")], {"input_tokens": 3})

    assert message.to_dict()["usage_metadata"] == {"input_tokens": 3}
    assert "usage_metadata" not in Message.assistant("a").to_dict()


def test_messages_know_their_place_in_a_list() -> None:
    told = messages_to_dicts([Message.user("a"), Message.assistant("b")])

    assert [one["block_index"] for one in told] == [0, 1]


def test_the_parts_of_a_message_can_be_asked_for() -> None:
    call = ToolUseContent("c1", "search")
    message = Message(
        Role.ASSISTANT,
        [TextContent("a"), call, TextContent("b"), ThinkingContent("t")],
    )

    assert message.text == "a\nb"
    assert message.tool_calls == [call]
    assert message.thinking == "t"
    assert Message.tool_result("c1", "x").tool_results == [ToolResultContent("c1", "x")]
    assert [block.type for block in message.content] == [
        ContentType.TEXT,
        ContentType.TOOL_USE,
        ContentType.TEXT,
        ContentType.THINKING,
    ]


def test_an_empty_text_of_the_model_leaves_no_block() -> None:
    call = ToolUseContent("c1", "search")

    assert Message.assistant("", [call]).content == [call]
    assert Message.assistant().content == []


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"role": "nobody", "content": ""},
        {"role": "user", "content": 3},
        {"role": "user", "content": "", "tool_calls": [{"name": "x"}]},
        {"role": "user", "content": "", "tool_calls": 3},
        {"role": "user", "content": "", "blocks": [{"type": "picture"}]},
    ],
)
def test_what_is_not_a_message_is_a_value_error(data: dict[str, Any]) -> None:
    with pytest.raises(ValueError):  # noqa: PT011  # the text is Python's own for some of them
        Message.from_dict(data)


def test_json_that_is_no_list_is_a_value_error() -> None:
    with pytest.raises(ValueError, match="JSON list"):
        messages_from_json(json.dumps({"role": "user"}))


def test_prompts_are_the_texts_of_user_and_system() -> None:
    messages = [
        Message.system("Be brief."),
        Message.user("One?"),
        Message.assistant("1"),
        Message.system("Be kind."),
        Message.user("Two?"),
    ]

    assert to_prompt_string(messages) == "One?\n\nTwo?"
    assert extract_system_prompt(messages) == "Be brief.\n\nBe kind."
    assert extract_system_prompt(messages[1:3]) is None
    assert without_prompts(messages) == [Message.assistant("1")]
