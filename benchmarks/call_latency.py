"""How much a call through plait costs, as a ratio to the MCP SDK's own client, in one run.

Run: `.venv/bin/python benchmarks/call_latency.py [--calls 500]`
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import time
from collections.abc import Awaitable, Callable

from mcp import Client, StdioServerParameters

from plait import Toolbox
from plait.testing import fault_server, stdio_config

ARGUMENTS = {"text": "hello"}


async def median_ms(call: Callable[[], Awaitable[object]], calls: int) -> float:
    """Time one call after the other."""
    for _ in range(20):
        await call()
    times: list[float] = []
    for _ in range(calls):
        began = time.perf_counter()
        await call()
        times.append(time.perf_counter() - began)
    return statistics.median(times) * 1000


async def burst_ms(call: Callable[[], Awaitable[object]], calls: int) -> float:
    """Time many calls at once, per call."""
    began = time.perf_counter()
    await asyncio.gather(*(call() for _ in range(calls)))
    return (time.perf_counter() - began) / calls * 1000


async def compare(name: str, sdk_target: object, config: dict[str, object], calls: int) -> None:
    """Print the table of one transport."""
    async with Client(sdk_target, cache=None) as client:  # pyright: ignore[reportArgumentType]
        await client.list_tools()

        async def bare() -> object:
            return await client.call_tool("echo", ARGUMENTS)

        base, base_burst = await median_ms(bare, calls), await burst_ms(bare, calls)
    print(line(name, "mcp.Client, session held", (base, base), (base_burst, base_burst)))

    async with Toolbox({"server": config}) as box:
        await report("plait, caller's loop", name, box, calls, base, base_burst)
    lazy = Toolbox({"server": config})
    await report("plait, loop of its own", name, lazy, calls, base, base_burst)
    await lazy.aclose()


async def report(
    way: str, name: str, box: Toolbox, calls: int, base: float, base_burst: float
) -> None:
    """Print one line."""

    async def through() -> object:
        return await box.call("server", "echo", ARGUMENTS)

    one, many = await median_ms(through, calls), await burst_ms(through, calls)
    print(line(name, way, (one, base), (many, base_burst)))


def line(name: str, way: str, one: tuple[float, float], many: tuple[float, float]) -> str:
    """Lay out a line; each pair is the time and what it is compared with."""
    times = "   ".join(f"{took:7.3f} ms {took / base:5.2f}x" for took, base in (one, many))
    return f"{name:<6} {way:<26} {times}"


async def main() -> None:
    """Compare on both transports."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--calls", type=int, default=500)
    calls = parser.parse_args().calls
    print(f"{'':<34}one after the other  all at once, per call")
    config = stdio_config()
    parameters = StdioServerParameters(command=sys.executable, args=config["args"])  # pyright: ignore[reportArgumentType]
    await compare("stdio", parameters, config, calls)
    with fault_server("http", json_response=True) as server:
        await compare("http", server.url, {"url": server.url}, calls)


if __name__ == "__main__":
    asyncio.run(main())
