"""What tools answer, as Anthropic's API takes it."""

from __future__ import annotations

import mcp_types as types
import pytest
from inline_snapshot import snapshot

from plait.agents import ToolAnswer
from plait.agents.engines.claude_tool.messages import tool_result

PNG = types.ImageContent(data="aGVsbG8=", mime_type="image/png")
SVG = types.ImageContent(data="aGVsbG8=", mime_type="image/svg+xml")
SOUND = types.AudioContent(data="aGVsbG8=", mime_type="audio/wav")
LINK = types.ResourceLink(name="a", uri="file:///a.txt", mime_type="text/plain")


def answer(*blocks: types.ContentBlock, is_error: bool = False) -> ToolAnswer:
    return ToolAnswer(content=blocks, text="", is_error=is_error)


def test_images_stay_images_and_other_content_becomes_lines() -> None:
    result = tool_result("c1", answer(types.TextContent(text="Voilà"), PNG, SVG, SOUND, LINK))

    assert result == snapshot(
        {
            "type": "tool_result",
            "tool_use_id": "c1",
            "content": [
                {"type": "text", "text": "Voilà"},
                {
                    "type": "image",
                    "source": {"type": "base64", "media_type": "image/png", "data": "aGVsbG8="},
                },
                {"type": "text", "text": "[image: image/svg+xml, 5 B]"},
                {"type": "text", "text": "[audio: audio/wav, 5 B]"},
                {"type": "text", "text": "Resource: file:///a.txt (text/plain)"},
            ],
        }
    )


def test_an_error_says_so_and_holds_only_text() -> None:
    result = tool_result("c1", answer(PNG, is_error=True))

    assert result == {
        "type": "tool_result",
        "tool_use_id": "c1",
        "content": [{"type": "text", "text": "[image: image/png, 5 B]"}],
        "is_error": True,
    }


@pytest.mark.parametrize("kind", ["image/jpeg", "image/gif", "image/webp"])
def test_every_image_that_the_api_takes_is_sent(kind: str) -> None:
    (block,) = tool_result("c1", answer(PNG.model_copy(update={"mime_type": kind})))["content"]  # pyright: ignore[reportTypedDictNotRequiredAccess]

    assert isinstance(block, dict)
    assert block["type"] == "image"
