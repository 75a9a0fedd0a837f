"""MCP prompts as LangChain messages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import mcp_types as types
from langchain_core.messages import AIMessage, HumanMessage

from plait.client.calls.content import json_text
from plait.langchain.tools.blocks import standard_block


class PromptSource(Protocol):
    """Gets prompts: the SDK's `Client` or `ClientSession`."""

    async def get_prompt(
        self, name: str, arguments: dict[str, str] | None = None
    ) -> types.GetPromptResult:
        """Get a prompt."""
        ...


def convert_mcp_prompt_message_to_langchain_message(
    message: types.PromptMessage,
) -> HumanMessage | AIMessage:
    """Translate one message; text becomes a string, other content a standard block."""
    content = message.content
    if isinstance(content, types.TextContent):
        translated: str | list[str | dict[Any, Any]] = content.text
    else:
        translated = [standard_block(content)]
    return HumanMessage(translated) if message.role == "user" else AIMessage(translated)


async def load_mcp_prompt(
    session: PromptSource, name: str, *, arguments: Mapping[str, Any] | None = None
) -> list[HumanMessage | AIMessage]:
    """Get a prompt as messages; arguments that are not strings are sent as JSON."""
    texts = None
    if arguments is not None:
        texts = {
            key: value if isinstance(value, str) else json_text(value)
            for key, value in arguments.items()
        }
    result = await session.get_prompt(name, texts)
    return [convert_mcp_prompt_message_to_langchain_message(message) for message in result.messages]
