"""What deferring tools saves, and how well the search finds them, as ratios.

The tools are those that five servers of other people list, and their copies; the queries were
written before the search was.

Run: `.venv/bin/python benchmarks/deferred_tools.py [--tools 300]`
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from langchain_core.messages import HumanMessage
from langchain_core.tools import BaseTool

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from plait import MultiServerMCPClient, Toolbox  # noqa: E402
from plait.client.catalog.deferral import ToolIndex, tokens_of  # noqa: E402
from plait.langchain.tools.tool import MCPTool  # noqa: E402
from tests.integration.agents.many_tools import servers_with  # noqa: E402

QUERIES: dict[str, str] = json.loads((ROOT / "tests/data/tool_queries.json").read_text("utf-8"))


def tokens(tools: Sequence[BaseTool]) -> int:
    """Count what a model is sent."""
    return sum(tokens_of(tool.tool) for tool in tools if isinstance(tool, MCPTool))


async def print_savings(count: int) -> None:
    """Print what is left of the tokens, at the start and after a search."""
    async with MultiServerMCPClient(servers_with(count), defer=True) as client:
        every = tokens(await client.get_tools(defer=False))
        ways = {
            "all tools": every,
            "search_tools, in an agent": tokens(
                await client.get_tools(messages=[HumanMessage("go")])
            ),
            "search_tools and call_tool": tokens(await client.get_tools()),
        }
        (search, _) = await client.get_tools()
        message = await search.ainvoke(
            {
                "type": "tool_call",
                "id": "1",
                "name": search.name,
                "args": {"query": "rename a file"},
            }
        )
        ways["after one search, in an agent"] = tokens(await client.get_tools(messages=[message]))
    print(f"{count} tools")
    for way, taken in ways.items():
        print(f"  {way:<32} {taken:>8} tokens {taken / every:>8.2%}")


async def print_hits() -> None:
    """Print how often the right tool is found."""
    async with Toolbox(servers_with(50)) as box:
        tools = await box.tools()
    began = time.perf_counter()
    index = ToolIndex(tools)
    built = time.perf_counter() - began
    ranks: list[int] = []
    began = time.perf_counter()
    for query, wanted in QUERIES.items():
        found = [match.tool.full_name for match in index.search(query, len(tools))]
        ranks.append(found.index(wanted) + 1 if wanted in found else len(tools) + 1)
    each = (time.perf_counter() - began) / len(QUERIES)
    print(f"{len(QUERIES)} queries over {len(tools)} tools of real servers")
    for most in (1, 3, 5, 10):
        share = sum(rank <= most for rank in ranks) / len(ranks)
        print(f"  the right one among the first {most:<4} {share:>8.1%}")
    print(f"  index {built * 1000:.1f} ms, a search {each * 1000:.2f} ms")


async def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tools", type=int, default=300)
    count: int = parser.parse_args().tools
    await print_savings(50)
    await print_savings(count)
    await print_hits()


if __name__ == "__main__":
    asyncio.run(main())
