"""Models on stand-ins of providers, and a server in this process, for tests of engines."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Sequence
from typing import Any

import mcp_types as types
from mcp.server import MCPServer

from plait import Message, ModelConfig, get_agent
from plait.agents import BaseAgent
from plait.testing import AnthropicServer, OpenAIServer
from tests.servers import KEY

PNG = base64.b64encode(b"not really a picture").decode()

ASK = [Message.user("Go on.")]

Provider = AnthropicServer | OpenAIServer


def model_of(api: Provider, **settings: Any) -> ModelConfig:
    """Describe a model of a stand-in."""
    if isinstance(api, OpenAIServer):
        defaults: dict[str, Any] = {
            "interface": "openai_endpoint",
            "model_name": "test-model",
            "endpoint_base_url": api.url,
            "endpoint_api_key": KEY,
        }
    else:
        defaults = {
            "model_provider": "anthropic",
            "model_name": "claude-test",
            "anthropic_base_url": api.url,
            "anthropic_api_key": KEY,
        }
    return ModelConfig.model_validate({"id": "test", "max_retries": 0, **defaults, **settings})


def agent_of(api: Provider, interface: str, **settings: Any) -> BaseAgent:
    """Make an agent whose model is at a stand-in."""
    if interface.startswith("claude"):  # whose provider is clear
        settings["model_provider"] = None
    agent = get_agent(model_of(api, interface=interface, **settings), auto_fallback=False)
    assert isinstance(agent, BaseAgent)
    return agent


def toys() -> dict[str, Any]:
    """Make a server in this process with tools of all sorts."""
    made = MCPServer("toys")

    @made.tool()
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    @made.tool()
    def fail() -> types.CallToolResult:
        content = [types.TextContent(text="nothing found – ничего")]
        return types.CallToolResult(content=list(content), is_error=True)

    @made.tool()
    def picture() -> types.CallToolResult:
        content = [
            types.TextContent(text="a picture"),
            types.ImageContent(data=PNG, mime_type="image/png"),
            types.AudioContent(data=PNG, mime_type="audio/wav"),
        ]
        return types.CallToolResult(content=list(content))

    here: list[asyncio.Event] = []

    @made.tool()
    async def meet() -> str:
        """Wait for another call."""
        if not here:
            here.append(asyncio.Event())
            await here[0].wait()
        here[0].set()
        return "met"

    @made.tool()
    async def hang() -> str:
        await asyncio.sleep(60)
        return "late"

    return {"toys": {"type": "sdk", "instance": made}}


def results(messages: Sequence[Message]) -> list[str]:
    """Return what tools answered, `! ` before errors."""
    answers = [result for message in messages for result in message.tool_results]
    return [("! " if one.is_error else "") + one.content for one in answers]
