"""What the agent layer costs, as ratios to the bare libraries, in one run.

An agent makes 19 calls of a tool in as many turns, and then answers. The bare libraries do the
same by hand: a tool that calls a session of the MCP SDK, with no healing, no checks, no trace. The
MCP server is in this process, the stand-in for the model's API in another one; only the CPU time
of this process counts, and rounds of all take turns.

Whoever makes an `AsyncAnthropic` for each run has it read all certificates anew; plait reads them
once. The line "certificates kept" is a run by hand that does so too: what is left is the layer.

Run: `.venv/bin/python benchmarks/agent_overhead.py [--rounds 10] [--engine claude_tool]`
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import functools
import gc
import logging
import ssl
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from importlib.util import find_spec
from typing import Any

import httpx2
from mcp import Client
from mcp.server import MCPServer

from plait import AgentConfig, Message, ModelConfig, get_agent

TURNS = 20
RUNS = 3
"""Of each way, in each round."""
QUESTION = "\n".join(f'THEN CALL add {{"a": {n}, "b": 1}}' for n in range(TURNS - 1))
ANSWER = "; ".join(str(n + 1) for n in range(TURNS - 1))
MODEL = "claude-test"
KEY = "key-of-nobody"

Work = Callable[[str], Awaitable[str]]
"""Runs an agent against the API at a URL, and returns its answer."""

server = MCPServer("calc", log_level="ERROR")


@server.tool()
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


async def call(client: Client, a: int, b: int) -> str:
    """Call the tool by hand."""
    result = await client.call_tool("add", {"a": a, "b": b})
    return "".join(getattr(block, "text", "") for block in result.content)


@functools.cache
def certificates() -> ssl.SSLContext:
    """Read certificates once for all runs."""
    return httpx2.create_ssl_context()


async def bare_claude_tool(url: str, http: Any = None) -> str:
    """Run the tool runner by hand."""
    from anthropic import AsyncAnthropic, beta_async_tool

    async with (
        Client(server, cache=None) as mcp,
        AsyncAnthropic(base_url=url, api_key=KEY, http_client=http) as client,
    ):
        (listed,) = (await mcp.list_tools()).tools

        async def function(a: int, b: int) -> str:
            return await call(mcp, a, b)

        tool = beta_async_tool(
            function,
            name=listed.name,
            description=listed.description,
            input_schema=listed.input_schema,
        )
        runner = client.beta.messages.tool_runner(
            model=MODEL,
            max_tokens=8192,
            messages=[{"role": "user", "content": QUESTION}],
            tools=[tool],
            thread=False,
        )
        message = await runner.until_done()
        return "".join(block.text for block in message.content if block.type == "text")


async def lean_claude_tool(url: str) -> str:
    """Run the tool runner by hand, with certificates that are read once."""
    from anthropic import DefaultAsyncHttpxClient

    return await bare_claude_tool(url, DefaultAsyncHttpxClient(verify=certificates()))


async def bare_langchain(url: str) -> str:
    """Run LangChain's agent by hand."""
    from langchain.agents import create_agent
    from langchain_anthropic import ChatAnthropic
    from langchain_core.tools import StructuredTool

    async with Client(server, cache=None) as mcp:
        (listed,) = (await mcp.list_tools()).tools

        async def function(a: int, b: int) -> str:
            return await call(mcp, a, b)

        tool = StructuredTool(
            name=listed.name,
            description=listed.description or "",
            args_schema=listed.input_schema,
            coroutine=function,
        )
        model: Any = ChatAnthropic(model=MODEL, base_url=url, api_key=KEY, max_tokens=8192)
        agent = create_agent(model, [tool])
        said: Any = {"messages": [{"role": "user", "content": QUESTION}]}
        state = await agent.ainvoke(said)
        return state["messages"][-1].text


def engine(**facts: Any) -> Work:
    """Run an engine of plait."""

    async def work(url: str) -> str:
        config = ModelConfig(
            id="benchmark",
            model_name=MODEL,
            anthropic_base_url=url,
            anthropic_api_key=KEY,  # pyright: ignore[reportArgumentType]
            **facts,
        )
        servers: Any = {"calc": {"type": "sdk", "instance": server}}
        limit = AgentConfig(max_turns=TURNS)
        result = await get_agent(config).arun([Message.user(QUESTION)], None, servers, limit)
        return result.final_response

    return work


ENGINES: dict[str, tuple[str, dict[str, Work]]] = {
    "claude_tool": (
        "plait.agents.engines.claude_tool.agent",
        {
            "by hand": bare_claude_tool,
            "by hand, certificates kept": lean_claude_tool,
            "plait": engine(interface="claude_tool"),
        },
    ),
    "langchain": (
        "plait.agents.engines.langchain.agent",
        {
            "by hand": bare_langchain,
            "plait": engine(interface="langchain", model_provider="anthropic"),
        },
    ),
}
"""Where each engine is, and the ways to run it."""


def cpu_ms(work: Work, url: str) -> float:
    """Run it once in a loop of its own, and say what that took."""
    began = time.process_time()
    answer = asyncio.run(work(url))
    took = time.process_time() - began
    if answer != ANSWER:
        sys.exit(f"the answer is wrong: {answer!r}")
    return took * 1000


def measured(ways: dict[str, Work], url: str, rounds: int) -> dict[str, float]:
    """Run all ways in turn, each time beginning with another, and take the median of the rounds.

    In a round each way has the least of its runs: what else the machine does only ever adds.
    """
    took: dict[str, list[float]] = {way: [] for way in ways}
    order = list(ways)
    for _ in range(rounds):
        runs: dict[str, list[float]] = {way: [] for way in ways}
        for _ in range(RUNS):
            for way in order:
                runs[way].append(cpu_ms(ways[way], url))
            order = [*order[1:], order[0]]
        for way, times in runs.items():
            took[way].append(min(times))
    return {way: statistics.median(times) for way, times in took.items()}


@contextlib.contextmanager
def stand_in() -> Iterator[str]:
    """Run the API of the model in a process of its own."""
    command = [sys.executable, "-m", "plait.testing.llm", "anthropic"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.terminate()


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--engine", choices=list(ENGINES))
    options = parser.parse_args()
    logging.disable(logging.INFO)
    chosen = [options.engine] if options.engine else list(ENGINES)
    with stand_in() as url:
        for name in chosen:
            module, ways = ENGINES[name]
            if find_spec(module) is None:
                print(f"{name:<12} is not there")
                continue
            for work in ways.values():
                cpu_ms(work, url)
            # What was imported is not looked through again, in a round of whichever is unlucky.
            gc.collect()
            gc.freeze()
            took = measured(ways, url, options.rounds)
            for way, ms in took.items():
                print(f"{name:<12} {way:<28} {ms:7.1f} ms   plait is {took['plait'] / ms:5.2f}x")


if __name__ == "__main__":
    main()
