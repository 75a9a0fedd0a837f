"""What a tool costs LangChain through plait, as ratios to a tool written by hand, in one run.

The tool by hand is a `StructuredTool` around a session of the MCP SDK that is held open: no
healing, no checks, no filters. A session for each call is what adapters without lasting
connections do.

Run: `.venv/bin/python benchmarks/langchain_tools.py [--calls 300]`
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import time
from collections.abc import Awaitable, Callable

from langchain_core.tools import BaseTool, StructuredTool
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

from plait import MultiServerMCPClient
from plait.testing import stdio_config

CALL = {"type": "tool_call", "id": "1", "name": "echo", "args": {"text": "hello"}}


async def median_ms(work: Callable[[], Awaitable[object]], times: int) -> float:
    """Time something again and again."""
    for _ in range(min(20, times)):
        await work()
    taken: list[float] = []
    for _ in range(times):
        began = time.perf_counter()
        await work()
        taken.append(time.perf_counter() - began)
    return statistics.median(taken) * 1000


async def by_hand(client: Client) -> BaseTool:
    """Make the least that works."""
    (listed,) = [tool for tool in (await client.list_tools()).tools if tool.name == "echo"]

    async def call(**arguments: object) -> str:
        result = await client.call_tool("echo", arguments)
        return "".join(getattr(block, "text", "") for block in result.content)

    return StructuredTool(
        name="echo", description="", args_schema=listed.input_schema, coroutine=call
    )


def line(way: str, took: float, base: float) -> str:
    """Lay out a line."""
    return f"{way:<46} {took:8.3f} ms {took / base:7.2f}x"


async def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--calls", type=int, default=300)
    calls: int = parser.parse_args().calls
    config = stdio_config()
    server = StdioServerParameters(
        command=str(config["command"]), args=list(config["args"]), env=config.get("env")
    )
    async with Client(stdio_client(server), cache=None) as client:
        tool = await by_hand(client)
        base = await median_ms(lambda: tool.ainvoke(CALL), calls)
    print(line("StructuredTool by hand, session held", base, base))

    async with MultiServerMCPClient({"server": config}) as plait:
        (tool,) = await plait.get_tools(include="echo")
        print(
            line("plait, caller's loop", await median_ms(lambda: tool.ainvoke(CALL), calls), base)
        )
    lazy = MultiServerMCPClient({"server": config})
    (tool,) = await lazy.get_tools(include="echo")
    print(line("plait, loop of its own", await median_ms(lambda: tool.ainvoke(CALL), calls), base))
    blocking = await asyncio.to_thread(lambda: asyncio.run(median_sync(tool, calls)))
    print(line("plait, blocking invoke", blocking, base))
    print(line("plait, get_tools again", await median_ms(lazy.get_tools, calls), base))
    await lazy.aclose()

    async def fresh() -> object:
        async with Client(stdio_client(server), cache=None) as client:
            return await client.call_tool("echo", CALL["args"])

    print(line("a session for each call", await median_ms(fresh, 3), base))


async def median_sync(tool: BaseTool, calls: int) -> float:
    """Time the blocking form."""

    async def work() -> object:
        return tool.invoke(CALL)

    return await median_ms(work, calls)


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
