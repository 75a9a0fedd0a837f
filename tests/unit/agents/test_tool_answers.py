"""Answers of tools as each engine on Claude sends them."""

from __future__ import annotations

from typing import Any

import mcp_types as types
import pytest

from plait.agents import ToolAnswer
from plait.agents.engines.claude_agent_sdk.agent import result_from_answer
from plait.agents.engines.claude_agent_sdk.messages import text_from_result
from plait.agents.engines.claude_tool.messages import tool_result

TEXT = types.TextContent(text="Voilà")
PNG = types.ImageContent(data="aGVsbG8=", mime_type="image/png")
LINK = types.ResourceLink(name="a", uri="file:///a.txt", mime_type="text/plain")
KINDS = ("image/png", "image/jpeg", "image/gif", "image/webp")


def image(kind: str) -> types.ImageContent:
    return PNG.model_copy(update={"mime_type": kind})


SVG, SOUND = image("image/svg+xml"), types.AudioContent(data="aGVsbG8=", mime_type="audio/wav")
LINES = {
    SVG.mime_type: "[image: image/svg+xml, 5 B]",
    SOUND.mime_type: "[audio: audio/wav, 5 B]",
    "link": "Resource: file:///a.txt (text/plain)",
}


@pytest.mark.parametrize(
    ("blocks", "is_error", "expected"),
    [
        ([TEXT, PNG, SVG, SOUND, LINK], False, [TEXT, PNG, *LINES.values()]),
        ([image(kind) for kind in KINDS], False, [image(kind) for kind in KINDS]),
        ([TEXT, PNG], True, [TEXT, "[image: image/png, 5 B]"]),
    ],
    ids=["lines for what Claude cannot see", "every image that it can", "an error is text alone"],
)
def test_images_stay_images_where_the_model_can_see_them(
    blocks: list[Any], is_error: bool, expected: list[Any]
) -> None:
    answer = ToolAnswer(
        content=tuple(blocks), text="…", is_error=is_error, structured_content={"a": 1}
    )
    content = [types.TextContent(text=one) if isinstance(one, str) else one for one in expected]

    by_sdk, by_api = result_from_answer(answer), tool_result("c1", answer)

    assert (by_sdk.content, by_sdk.is_error) == (content, is_error)
    assert by_sdk.structured_content is None
    assert by_api == {
        "type": "tool_result",
        "tool_use_id": "c1",
        "content": [
            {"type": "text", "text": block.text}
            if isinstance(block, types.TextContent)
            else {
                "type": "image",
                "source": {"type": "base64", "media_type": block.mime_type, "data": block.data},
            }
            for block in content
        ],
        **({"is_error": True} if is_error else {}),
    }


def test_one_text_is_sent_as_a_string() -> None:
    assert tool_result("c1", ToolAnswer(content=(TEXT,), text="…")).get("content") == "Voilà"


SOURCE = {"type": "base64", "media_type": "image/png", "data": "AAAA"}


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (
            [{"type": "text", "text": "a"}, {"type": "image", "source": SOURCE}, {"type": "odd"}],
            "a\n[image: image/png, 3 B]\n[odd]",
        ),
        ("<tool_use_error>Error: no</tool_use_error>", "Error: no"),
        ("plain", "plain"),
        (None, ""),
    ],
)
def test_a_result_of_the_command_line_is_read_as_the_model_read_it(
    content: object, text: str
) -> None:
    assert text_from_result(content) == text
