"""Prompts as messages."""

from __future__ import annotations

from typing import Any

import mcp_types as types
import pytest
from langchain_core.messages import AIMessage, HumanMessage
from mcp import Client
from mcp.server.mcpserver import MCPServer

from plait.langchain.client.resources import (
    convert_mcp_prompt_message_to_langchain_message,
    load_mcp_prompt,
)


def _message(role: Any, content: types.ContentBlock) -> types.PromptMessage:
    return types.PromptMessage(role=role, content=content)


def test_the_role_decides_the_kind_of_message() -> None:
    text = types.TextContent(text="hello")

    asked = convert_mcp_prompt_message_to_langchain_message(_message("user", text))
    answered = convert_mcp_prompt_message_to_langchain_message(_message("assistant", text))

    assert asked == HumanMessage("hello")
    assert answered == AIMessage("hello")


@pytest.mark.parametrize(
    ("content", "block"),
    [
        (
            types.ImageContent(data="AAAA", mime_type="image/png"),
            {"type": "image", "base64": "AAAA", "mime_type": "image/png"},
        ),
        (
            types.AudioContent(data="AAAA", mime_type="audio/wav"),
            {"type": "audio", "base64": "AAAA", "mime_type": "audio/wav"},
        ),
        (
            types.EmbeddedResource(resource=types.TextResourceContents(uri="a://b", text="inside")),
            {"type": "text", "text": "inside", "extras": {"uri": "a://b"}},
        ),
        (
            types.ResourceLink(uri="a://b", name="b"),
            {"type": "text", "text": "Resource: a://b - b"},
        ),
    ],
)
def test_content_that_is_no_text_becomes_a_standard_block(
    content: types.ContentBlock, block: dict[str, Any]
) -> None:
    for role in ("user", "assistant"):
        message = convert_mcp_prompt_message_to_langchain_message(_message(role, content))

        assert message.content == [block]
        assert message.content_blocks == [block]


def _server() -> MCPServer:
    server = MCPServer("prompts")

    @server.prompt()
    def review(code: str, options: str = "none") -> str:
        return f"Review {code} with {options}"

    return server


@pytest.mark.anyio
async def test_a_prompt_is_loaded_from_a_client_and_from_its_session() -> None:
    async with Client(_server()) as client:
        for session in (client, client.session):
            messages = await load_mcp_prompt(session, "review", arguments={"code": "x = 1"})

            assert messages == [HumanMessage("Review x = 1 with none")]


@pytest.mark.anyio
async def test_arguments_that_are_no_text_are_sent_as_json() -> None:
    async with Client(_server()) as client:
        messages = await load_mcp_prompt(
            client, "review", arguments={"code": 7, "options": {"strict": True}}
        )

    assert messages == [HumanMessage('Review 7 with {"strict": true}')]


@pytest.mark.anyio
async def test_a_prompt_without_arguments_is_asked_for_without_any() -> None:
    asked: list[tuple[str, dict[str, str] | None]] = []

    class Source:
        async def get_prompt(
            self, name: str, arguments: dict[str, str] | None = None
        ) -> types.GetPromptResult:
            asked.append((name, arguments))
            return types.GetPromptResult(messages=[])

    source: Any = Source()

    assert await load_mcp_prompt(source, "plain") == []
    assert await load_mcp_prompt(source, "plain", arguments={}) == []
    assert asked == [("plain", None), ("plain", {})]
