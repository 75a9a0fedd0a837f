"""What tools answer, for the command line and from it."""

from __future__ import annotations

import mcp_types as types

from plait.agents import ToolAnswer
from plait.agents.engines.claude_agent_sdk.messages import text_from_result
from plait.agents.engines.claude_agent_sdk.turns import result_from_answer

TEXT = types.TextContent(text="seen")
IMAGE = types.ImageContent(data="AAAA", mime_type="image/png")
DRAWING = types.ImageContent(data="AAAA", mime_type="image/svg+xml")
LINK = types.ResourceLink(name="a", uri="file:///a.txt")


def test_images_stay_images_where_the_model_can_look_at_them() -> None:
    answer = ToolAnswer(content=(TEXT, IMAGE, DRAWING, LINK), text="…", structured_content={"a": 1})

    result = result_from_answer(answer)

    assert result.content == [
        TEXT,
        IMAGE,
        types.TextContent(text="[image: image/svg+xml, 3 B]"),
        types.TextContent(text="Resource: file:///a.txt"),
    ]
    assert (result.is_error, result.structured_content) == (False, None)


def test_an_error_is_text_alone() -> None:
    result = result_from_answer(ToolAnswer(content=(TEXT, IMAGE), text="…", is_error=True))

    assert result.content == [TEXT, types.TextContent(text="[image: image/png, 3 B]")]
    assert result.is_error is True


def test_a_result_is_read_as_the_model_read_it() -> None:
    source = {"type": "base64", "media_type": "image/png", "data": "AAAA"}
    blocks = [{"type": "text", "text": "a"}, {"type": "image", "source": source}, {"type": "odd"}]

    assert text_from_result(blocks) == "a\n[image: image/png, 3 B]\n[odd]"
    assert text_from_result("<tool_use_error>Error: no</tool_use_error>") == "Error: no"
    assert text_from_result("plain") == "plain"
    assert text_from_result(None) == ""
