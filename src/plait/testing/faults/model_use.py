"""The tools of the fault server that ask for the model of the client."""

from __future__ import annotations

from typing import Annotated

from mcp.server import MCPServer
from mcp.server.mcpserver import Resolve, Sample
from mcp.types import (
    CreateMessageResult,
    CreateMessageResultWithTools,
    ImageContent,
    ModelHint,
    ModelPreferences,
    SamplingMessage,
    TextContent,
    Tool,
)

from plait.testing.faults.tools import READ_ONLY

_PICTURE = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="  # noqa: E501
"""A PNG of one pixel."""

_CLOCK = Tool(name="clock", description="Tell the time.", input_schema={"type": "object"})


def think(prompt: str, max_tokens: int) -> Sample:
    """Have the model of the client answer a prompt before the tool runs."""
    return Sample(
        [_said(prompt)],
        max_tokens=max_tokens,
        system_prompt="You are terse.",
        include_context="thisServer",
        temperature=0.5,
        stop_sequences=["END"],
        model_preferences=ModelPreferences(hints=[ModelHint(name="any")]),
    )


def think_again(
    prompt: str, first: Annotated[CreateMessageResult, Resolve(think)], max_tokens: int
) -> Sample:
    """Have it answer once more, after the first answer."""
    del first
    return Sample([_said(f"{prompt} again")], max_tokens=max_tokens)


def look(prompt: str) -> Sample:
    """Have it look at a picture."""
    picture = ImageContent(data=_PICTURE, mime_type="image/png")
    message = SamplingMessage(role="user", content=[TextContent(text=prompt), picture])
    return Sample([message], max_tokens=50)


def think_with_tools(prompt: str) -> Sample:
    """Have it answer with a tool at hand."""
    return Sample([_said(prompt)], max_tokens=50, tools=[_CLOCK])


def add_model_use(server: MCPServer) -> None:
    """Register all of them; each returns what the client answered, as JSON."""

    @server.tool(annotations=READ_ONLY, structured_output=False)
    async def sample(
        prompt: str, answer: Annotated[CreateMessageResult, Resolve(think)], max_tokens: int = 100
    ) -> str:
        """Ask the model of the client."""
        del prompt, max_tokens
        return _json(answer)

    @server.tool(annotations=READ_ONLY, structured_output=False)
    async def sample_twice(
        prompt: str,
        answer: Annotated[CreateMessageResult, Resolve(think_again)],
        max_tokens: int = 100,
    ) -> str:
        """Ask the model of the client, and then once more."""
        del prompt, max_tokens
        return _json(answer)

    @server.tool(annotations=READ_ONLY, structured_output=False)
    async def sample_picture(
        prompt: str, answer: Annotated[CreateMessageResult, Resolve(look)]
    ) -> str:
        """Ask the model of the client about a picture."""
        del prompt
        return _json(answer)

    @server.tool(annotations=READ_ONLY, structured_output=False)
    async def sample_with_tools(
        prompt: str, answer: Annotated[CreateMessageResultWithTools, Resolve(think_with_tools)]
    ) -> str:
        """Ask the model of the client, and give it a tool."""
        del prompt
        return _json(answer)


def _said(prompt: str) -> SamplingMessage:
    return SamplingMessage(role="user", content=TextContent(text=prompt))


def _json(answer: CreateMessageResult | CreateMessageResultWithTools) -> str:
    return answer.model_dump_json(by_alias=True, exclude_none=True)
