"""Messages: what they hold, their way through JSON, their usage, and content of servers."""

from __future__ import annotations

from typing import Any

import mcp_types as types
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plait.traces.messages.from_mcp import text_from_mcp
from plait.traces.messages.message import (
    Content,
    ContentType,
    Message,
    Role,
    TextContent,
    ThinkingContent,
    ToolResultContent,
    ToolUseContent,
    UsageMetadata,
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
_USAGES = st.none() | st.dictionaries(st.text(), st.integers(), max_size=2)
_MESSAGES = st.builds(Message, st.sampled_from(Role), st.lists(_BLOCKS, max_size=4), _USAGES)
CALL = ToolUseContent("c1", "search", {"q": "plait"})


@given(messages=st.lists(_MESSAGES, max_size=3))
def test_messages_come_back_whole_from_json(messages: list[Message]) -> None:
    read = messages_from_json(messages_to_json(messages))

    assert read == messages
    assert [one.usage_metadata for one in read] == [one.usage_metadata for one in messages]


@pytest.mark.parametrize(
    ("message", "data"),
    [
        (Message.user("hi"), {"role": "user", "content": "hi"}),
        (
            Message(Role.ASSISTANT, [ThinkingContent("hm", "sig"), TextContent("I look."), CALL]),
            {
                "role": "assistant",
                "content": "I look.",
                "tool_calls": [{"id": "c1", "name": "search", "input": {"q": "plait"}}],
                "thinking": {"thinking": "hm", "signature": "sig"},
            },
        ),
        (
            Message.tool_result("c1", "42", is_error=True),
            {
                "role": "tool",
                "content": "42",
                "tool_result": {"tool_use_id": "c1", "is_error": True},
            },
        ),
        (
            Message(Role.ASSISTANT, [TextContent("a"), TextContent("b")], {"input_tokens": 3}),
            {
                "role": "assistant",
                "content": "a\nb",
                "blocks": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}],
                "usage_metadata": {"input_tokens": 3},
            },
        ),
    ],
    ids=["no more keys than needed", "text, calls, thought", "result", "blocks that do not fit"],
)
def test_a_message_is_described_by_what_it_has(message: Message, data: dict[str, Any]) -> None:
    assert message.to_dict() == {**data, "block_index": 0}
    assert messages_to_dicts([message, message])[1]["block_index"] == 1
    assert Message.from_dict(data) == message


def test_the_parts_of_a_message_can_be_asked_for() -> None:
    content: list[Content] = [TextContent("a"), CALL, TextContent("b"), ThinkingContent("t")]
    message = Message(Role.ASSISTANT, content)

    assert (message.text, message.tool_calls, message.thinking) == ("a\nb", [CALL], "t")
    assert Message.tool_result("c1", "x").tool_results == [ToolResultContent("c1", "x")]
    kinds = [ContentType.TEXT, ContentType.TOOL_USE, ContentType.TEXT, ContentType.THINKING]
    assert [block.type for block in message.content] == kinds
    assert Message.assistant("", [CALL]).content == [CALL]
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
    with pytest.raises(ValueError, match="JSON list"):
        messages_from_json('{"role": "user"}')


def test_prompts_are_the_texts_of_user_and_system() -> None:
    messages = [
        *(Message.system("Be brief."), Message.user("One?"), Message.assistant("1")),
        *(Message.system("Be kind."), Message.user("Two?")),
    ]

    assert to_prompt_string(messages) == "One?\n\nTwo?"
    assert extract_system_prompt(messages) == "Be brief.\n\nBe kind."
    assert extract_system_prompt(messages[1:3]) is None
    assert without_prompts(messages) == [Message.assistant("1")]


def test_usages_add_up_and_what_nobody_knows_stays_unknown() -> None:
    counts = {"input_tokens": 1, "output_tokens": 2, "total_tokens": 3}
    rest = {"cost_usd": 0.5, "cache_read_tokens": 0, "cache_creation_tokens": 5, "model": "m"}
    full = UsageMetadata(1, 2, 3, 0.5, 0, 5, "m")
    assert UsageMetadata().to_dict() == dict.fromkeys(counts, 0)
    assert full.to_dict() == counts | rest
    assert UsageMetadata.from_dict(full.to_dict()) == full

    one = UsageMetadata(1, 2, 3, None, 4, None, "a")
    other = UsageMetadata(10, 20, 30, 0.5, 1, None, None)
    assert one + other == UsageMetadata(11, 22, 33, 0.5, 5, None, "a")


IMAGE = types.ImageContent(data="aGVsbG8=", mime_type="image/png")
FILE = types.TextResourceContents(uri="file:///b", text="ab", mime_type="text/plain")
BLOB = types.BlobResourceContents(uri="file:///c", blob="aGVsbG8=")


@pytest.mark.parametrize(
    ("content", "structured", "lines"),
    [
        ([types.TextContent(text="é\n"), IMAGE], None, ["é", "", "[image: image/png, 5 B]"]),
        (
            [types.AudioContent(data="aGVsbG8=", mime_type="audio/wav")],
            None,
            ["[audio: audio/wav, 5 B]"],
        ),
        (
            [types.ResourceLink(name="a", uri="file:///a", size=1500)],
            None,
            ["Resource: file:///a (1.5 kB)"],
        ),
        (
            [types.EmbeddedResource(resource=one) for one in (FILE, BLOB)],
            None,
            ["Resource: file:///b (text/plain, 2 B)", "Resource: file:///c (5 B)"],
        ),
        ([], {"n": 2}, ['{"n": 2}']),
        ([IMAGE], {"n": 2}, ['{"n": 2}', "[image: image/png, 5 B]"]),
        ([types.TextContent(text="two")], {"n": 2}, ["two"]),
    ],
)
def test_content_of_servers_leaves_a_line_for_each_block(
    content: list[types.ContentBlock], structured: Any, lines: list[str]
) -> None:
    assert text_from_mcp(content, structured).splitlines() == lines
