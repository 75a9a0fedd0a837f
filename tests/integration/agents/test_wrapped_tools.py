"""Tools of servers and of the program, used by hand with Anthropic's own tool runner."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import Any

import anthropic as sdk
import pytest
from anthropic.lib.tools import ToolError

from plait import Message
from plait.agents import (
    ToolResultCollector,
    apply_cache_control_to_tool,
    cleanup_mcp_client,
    connect_mcp_session,
    convert_from_anthropic_message,
    convert_to_anthropic,
    wrap_mcp_tool,
    wrap_static_tool,
)
from plait.testing import AnthropicServer, Call, Say
from tests.integration.agents.langchain_models import toys

pytestmark = pytest.mark.anyio


def twice(n: int) -> dict[str, int]:
    """Double a number."""
    return {"twice": 2 * n}


async def test_tools_work_in_the_runner_of_anthropics_sdk(anthropic: AnthropicServer) -> None:
    calls = (Call("add", {"a": 1, "b": 2}), Call("fail"), Call("twice", {"n": 4}))
    anthropic.play([Say(calls=calls), "done"])
    collector = ToolResultCollector()
    stack = AsyncExitStack()
    handle = await connect_mcp_session(stack, toys()["toys"])
    listed = {tool.name: tool for tool in (await handle.list_tools()).tools}
    tools = [wrap_mcp_tool(handle, listed[name], collector) for name in ("add", "fail")]
    tools.append(wrap_static_tool(twice, collector))
    messages: Any = convert_to_anthropic([Message.user("Go.")])

    async with sdk.AsyncAnthropic(base_url=anthropic.url, api_key=_KEY) as client:
        runner = client.beta.messages.tool_runner(
            model="claude-test", max_tokens=99, tools=tools, messages=messages, thread=False
        )
        last = await runner.until_done()
    await cleanup_mcp_client(stack)

    assert convert_from_anthropic_message(last).text == "done"
    assert [(name, failed) for name, _, failed in collector.drain()] == [
        ("add", False),
        ("fail", True),
        ("twice", False),
    ]
    marked = apply_cache_control_to_tool(tools[-1])
    assert marked.get("cache_control") == {"type": "ephemeral"}


async def test_arguments_that_are_no_object_are_refused() -> None:
    ran: list[int] = []

    def wipe(count: int = 1) -> str:
        """Wipe some folders."""
        ran.append(count)
        return "wiped"

    tool = wrap_static_tool(wipe)
    for broken in ('{"count": 3', [1], {"count": float("nan")}):
        with pytest.raises(ToolError):
            await tool.call(broken)
    for whole in ('{"count": 2}', None):
        await tool.call(whole)

    assert ran == [2, 1]


_KEY = "sk-canary-0123456789abcdef"
