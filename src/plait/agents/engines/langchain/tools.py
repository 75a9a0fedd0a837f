"""The tools of a run as a LangChain agent has them, and what it reads of their answers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NoReturn

import mcp_types as types
from langchain_core.messages import ToolCall, ToolMessage
from langchain_core.tools import BaseTool
from typing_extensions import override

from plait.agents.run_tools import RunTool, ToolAnswer
from plait.langchain.tools.blocks import Block, standard_block, text_block
from plait.langchain.tools.model_support import profile_of
from plait.langchain.tools.tool import shaped_schema
from plait.traces.messages.from_mcp import text_from_mcp


class AgentTool(BaseTool):
    """A tool as the model is told of it; its calls are answered by the `Turns` of the run."""

    @override
    def _run(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise NotImplementedError(f"{self.name} can be called in its run only")


def tools_for(tools: Iterable[RunTool], model: object) -> list[AgentTool]:
    """Describe tools in the way that a chat model takes."""
    profile = profile_of(model)
    return [
        AgentTool(
            name=tool.name,
            description=tool.description,
            args_schema=shaped_schema(tool.input_schema, profile),
        )
        for tool in tools
    ]


def takes_images(model: object) -> bool:
    """Say whether a chat model can be shown an image by a tool.

    OpenAI's protocol for chats has only texts in the answers of tools.
    """
    if any(kind.__name__ == "BaseChatOpenAI" for kind in type(model).__mro__):
        return False
    able: dict[str, Any] = getattr(model, "profile", None) or {}
    return able.get("image_inputs") is not False and able.get("image_tool_message") is not False


def message_from_answer(call: ToolCall, answer: ToolAnswer, *, images: bool) -> ToolMessage:
    """Make the message that a model reads; without `images`, a line of text says what one is."""
    content: Any = answer.text
    if images and any(isinstance(block, types.ImageContent) for block in answer.content):
        content = [_block(block) for block in answer.content]
    return ToolMessage(
        content=content,
        tool_call_id=call["id"] or "",
        name=call["name"],
        status="error" if answer.is_error else "success",
    )


def _block(block: types.ContentBlock) -> Block:
    if isinstance(block, types.TextContent | types.ImageContent):
        return standard_block(block)
    return text_block(text_from_mcp([block]))
