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
    print(
        f"{name:<6} {'mcp.Client, session held':<34} {base:7.3f} ms   1.00x   {base_burst:7.3f} ms   1.00x"
    )

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
    ratio, burst_ratio = one / base, many / base_burst
    print(f"{name:<6} {way:<34} {one:7.3f} ms  {ratio:5.2f}x   {many:7.3f} ms  {burst_ratio:5.2f}x")


async def main() -> None:
    """Compare on both transports."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--calls", type=int, default=500)
    calls = parser.parse_args().calls
    print(f"{'':<6} {'':<34} one after the other   all at once, per call")
    config = stdio_config()
    parameters = StdioServerParameters(command=sys.executable, args=config["args"])  # pyright: ignore[reportArgumentType]
    await compare("stdio", parameters, config, calls)
    with fault_server("http", json_response=True) as server:
        await compare("http", server.url, {"url": server.url}, calls)


if __name__ == "__main__":
    asyncio.run(main())
