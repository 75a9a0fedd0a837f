"""Prompts of MCP servers as LangChain messages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import mcp_types as types
from langchain_core.messages import AIMessage, HumanMessage

from plait.client.calls.content import json_text
from plait.langchain.tools.blocks import standard_block


class PromptSource(Protocol):
    """Anything that fills in prompts: the SDK's `Client` or `ClientSession`."""

    async def get_prompt(
        self, name: str, arguments: dict[str, str] | None = None
    ) -> types.GetPromptResult:
        """Fill in a prompt."""
        ...


def convert_mcp_prompt_message_to_langchain_message(
    message: types.PromptMessage,
) -> HumanMessage | AIMessage:
    """Translate one message; text becomes a plain string, anything else a standard block."""
    content = message.content
    if isinstance(content, types.TextContent):
        said: str | list[str | dict[Any, Any]] = content.text
    else:
        said = [standard_block(content)]
    return HumanMessage(said) if message.role == "user" else AIMessage(said)


async def load_mcp_prompt(
    session: PromptSource, name: str, *, arguments: Mapping[str, Any] | None = None
) -> list[HumanMessage | AIMessage]:
    """Fill in a prompt and translate its messages; arguments that are not text are sent as JSON."""
    result = await session.get_prompt(name, _as_texts(arguments))
    return [convert_mcp_prompt_message_to_langchain_message(one) for one in result.messages]


def _as_texts(arguments: Mapping[str, Any] | None) -> dict[str, str] | None:
    if arguments is None:
        return None
    return {
        key: value if isinstance(value, str) else json_text(value)
        for key, value in arguments.items()
    }
