"""What servers send becomes text, and nothing disappears."""

from __future__ import annotations

import mcp_types as types

from plait.traces.messages.content import TextContent
from plait.traces.messages.from_mcp import message_from_mcp, text_from_mcp, tool_message_from_mcp
from plait.traces.messages.message import Message, Role

_EVERYTHING: list[types.ContentBlock] = [
    types.TextContent(text="é\n"),
    types.ImageContent(data="aGVsbG8=", mime_type="image/png"),
    types.AudioContent(data="aGVsbG8=", mime_type="audio/wav"),
    types.ResourceLink(name="a", uri="file:///a", size=1500),
    types.EmbeddedResource(
        resource=types.TextResourceContents(uri="file:///b", text="ab", mime_type="text/plain")
    ),
    types.EmbeddedResource(resource=types.BlobResourceContents(uri="file:///c", blob="aGVsbG8=")),
]


def test_every_block_leaves_a_line() -> None:
    assert text_from_mcp(_EVERYTHING).splitlines() == [
        "é",
        "",
        "[image: image/png, 5 B]",
        "[audio: audio/wav, 5 B]",
        "Resource: file:///a (1.5 kB)",
        "Resource: file:///b (text/plain, 2 B)",
        "Resource: file:///c (5 B)",
    ]


def test_structured_content_stands_in_only_where_there_is_no_text() -> None:
    text = types.TextContent(text="two")

    assert text_from_mcp([], {"n": 2}) == '{"n": 2}'
    assert text_from_mcp([_EVERYTHING[1]], {"n": 2}) == '{"n": 2}\n[image: image/png, 5 B]'
    assert text_from_mcp([text], {"n": 2}) == "two"


def test_an_answer_of_a_tool_keeps_its_id_and_its_failure() -> None:
    result = types.CallToolResult(content=[types.TextContent(text="no")], is_error=True)

    assert tool_message_from_mcp("c1", result) == Message.tool_result("c1", "no", is_error=True)


def test_a_message_of_a_prompt_keeps_its_speaker() -> None:
    prompt = types.PromptMessage(role="assistant", content=types.TextContent(text="hi"))

    assert message_from_mcp(prompt) == Message(Role.ASSISTANT, [TextContent("hi")])
