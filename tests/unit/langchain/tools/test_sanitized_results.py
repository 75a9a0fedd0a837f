"""Models read results without what is hidden in them; the artifact has them as they came."""

from __future__ import annotations

import json
from typing import Any

import mcp_types as types

from plait.client.calls.outcome import ToolResult
from plait.client.catalog.tool import Tool
from plait.errors import ProtocolError
from plait.langchain.tools.content import ToolOutput, convert_result, output_from_error

HIDDEN = "\u200b\U000e0041"


def converted(*blocks: types.ContentBlock, sanitize: bool = True, **result: Any) -> ToolOutput:
    answer = types.CallToolResult(content=list(blocks), **result)
    return convert_result(ToolResult.from_mcp("s", "t", answer), sanitize=sanitize)


def text(said: str) -> types.TextContent:
    return types.TextContent(text=said)


def test_a_text_is_cleaned_and_kept_whole_in_the_artifact() -> None:
    found = converted(text("plain"), text(f"a{HIDDEN}\x1b[31mb\u202e"))

    assert [block["text"] for block in found.content if isinstance(block, dict)] == [
        "plain",
        "ab\\u202e",
    ]
    assert found.artifact["content"] == [{"type": "text", "text": f"a{HIDDEN}\x1b[31mb\u202e"}]


def test_a_text_of_which_nothing_can_be_seen_is_set_aside() -> None:
    found = converted(text(HIDDEN))

    assert found.content == "1 block was set aside (text)"
    assert found.artifact["content"] == [{"type": "text", "text": HIDDEN}]


def test_structured_content_stays_json_and_is_whole_in_the_artifact() -> None:
    value = {"name": f"x{HIDDEN}", "turned": "\u202ey", "code": "\x9bz"}
    found = converted(structured_content=value)

    assert isinstance(found.content, str)
    assert json.loads(found.content) == {"name": "x", "turned": "\u202ey", "code": "\x9bz"}
    assert not {*HIDDEN, "\u202e", "\x9b"} & set(found.content)
    assert found.artifact["structured_content"] == value


def test_the_line_about_a_link_is_cleaned_and_the_artifact_has_what_was_sent() -> None:
    address = f"https://example.com/{HIDDEN}"
    link = types.ResourceLink(
        uri=address, name=f"n{HIDDEN}", description="d\x07", mime_type=f"text/plain{HIDDEN}"
    )
    found = converted(link, text("x"))

    assert isinstance(found.content, list)
    assert found.content[0]["text"] == "Resource: https://example.com/ (text/plain) - n: d\\u0007"
    assert found.artifact["content"][0]["uri"] == address
    assert found.artifact["content"][0]["name"] == f"n{HIDDEN}"


def test_an_error_of_a_server_is_cleaned_too() -> None:
    error = ProtocolError(f"no{HIDDEN}\x1b[2J")
    output = output_from_error(error, Tool(server="s", wire_name="t", name="t"))

    assert output.content == "no"
    assert output.artifact["error"]["message"] == f"no{HIDDEN}\x1b[2J"


def test_whoever_wants_texts_as_they_are_gets_them() -> None:
    found = converted(text(f"a{HIDDEN}"), sanitize=False)

    assert found.content == f"a{HIDDEN}"
    assert found.artifact["content"] == []
