"""Tools of the fault server that run, count, wait, keep state, fail and die."""

from __future__ import annotations

import os

import anyio
from mcp import MCPError
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import ToolAnnotations
from mcp.types.version import MODERN_PROTOCOL_VERSIONS

from plait.testing.faults.run import Run
from plait.testing.state import StateDir

READ_ONLY = ToolAnnotations(read_only_hint=True, open_world_hint=False)
REPEATABLE = ToolAnnotations(read_only_hint=True, idempotent_hint=True, open_world_hint=False)
CHANGES = ToolAnnotations(read_only_hint=False, destructive_hint=False, idempotent_hint=False)
DESTRUCTIVE = ToolAnnotations(read_only_hint=False, destructive_hint=True, idempotent_hint=False)


def add_tools(server: MCPServer, run: Run) -> None:
    """Register the tools."""
    _add_plain_tools(server, run)
    _add_waiting_tools(server, run)
    _add_durable_tools(server, run)
    _add_failing_tools(server, run)


def _add_plain_tools(server: MCPServer, run: Run) -> None:
    @server.tool(annotations=REPEATABLE, structured_output=False)
    async def echo(text: str) -> str:
        """Return the text."""
        return text

    @server.tool(annotations=READ_ONLY)
    async def add(a: int, b: int) -> int:
        """Add two integers."""
        return a + b

    @server.tool(annotations=READ_ONLY, structured_output=False)
    async def pid() -> str:
        """Return the process id of the server."""
        return str(os.getpid())

    @server.tool(annotations=CHANGES, structured_output=False)
    async def counter() -> str:
        """Count the calls of this tool in this process: 1, 2, 3 and so on."""
        run.counter += 1
        return str(run.counter)

    @server.tool(annotations=READ_ONLY, structured_output=False)
    async def big(size_bytes: int) -> str:
        """Return a text of so many bytes."""
        return "x" * size_bytes

    @server.tool(annotations=READ_ONLY, structured_output=False)
    async def env(name: str) -> str:
        """Return an environment variable of the server; an unset one is an error."""
        if name not in os.environ:
            raise ToolError(f"{name} is not set")
        return os.environ[name]

    @server.tool(annotations=READ_ONLY)
    async def headers(ctx: Context) -> dict[str, str]:
        """Return the HTTP headers of this request, in lower case; none on stdio."""
        return {name.lower(): value for name, value in (ctx.headers or {}).items()}

    @server.tool(annotations=CHANGES, structured_output=False)
    async def grow(ctx: Context) -> str:
        """Add a tool to the server and tell the clients of both eras that the list changed."""
        run.grown += 1
        name = f"grown_{run.grown}"

        async def grown() -> str:
            return name

        server.add_tool(grown, name=name, description="A tool that was not there before.")
        await ctx.notify_tools_changed()
        if ctx.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            await ctx.session.send_tool_list_changed()
        return name


def _add_waiting_tools(server: MCPServer, run: Run) -> None:
    @server.tool(annotations=READ_ONLY, structured_output=False)
    async def slow(seconds: float) -> str:
        """Wait so many seconds, then answer."""
        run.slow_now += 1
        run.slow_most = max(run.slow_most, run.slow_now)
        try:
            await anyio.sleep(seconds)
        finally:
            run.slow_now -= 1
        return f"slept {seconds:g} s"

    @server.tool(annotations=READ_ONLY, structured_output=False)
    async def max_parallel() -> str:
        """Return how many calls of `slow` ran at the same time at most."""
        return str(run.slow_most)

    @server.tool(annotations=READ_ONLY, structured_output=False)
    async def sleep_progress(steps: int, delay: float, ctx: Context) -> str:
        """Wait `delay` seconds so many times, and report progress after each."""
        for step in range(1, steps + 1):
            await anyio.sleep(delay)
            await ctx.report_progress(step, steps, f"step {step} of {steps}")
        return f"took {steps} steps"

    @server.tool(annotations=READ_ONLY, structured_output=False)
    async def hang() -> str:
        """Never answer; `cancelled_calls` counts the calls that were cancelled."""
        try:
            await anyio.sleep_forever()
        except anyio.get_cancelled_exc_class():
            run.cancelled += 1
            raise
        return "never"

    @server.tool(annotations=READ_ONLY, structured_output=False)
    async def cancelled_calls() -> str:
        """Return how many calls of `hang` were cancelled."""
        return str(run.cancelled)


def _add_durable_tools(server: MCPServer, run: Run) -> None:
    @server.tool(annotations=DESTRUCTIVE, structured_output=False)
    async def pay(amount: int) -> str:
        """Write the amount to the ledger, durably, and say so."""
        _state(run).append("ledger", str(amount))
        return f"paid {amount}"

    @server.tool(annotations=DESTRUCTIVE, structured_output=False)
    async def pay_and_die(amount: int) -> str:
        """Write the amount to the ledger, durably, and go away without an answer."""
        _state(run).append("ledger", str(amount))
        run.die()
        return await _no_answer()

    @server.tool(annotations=REPEATABLE, structured_output=False)
    async def get_and_die(key: str) -> str:
        """Go away without an answer at the first call with a key; answer later ones."""
        seen_before = key in _state(run).reads()
        _state(run).append("reads", key)
        if not seen_before:
            run.die()
            return await _no_answer()
        return f"value of {key}"

    @server.tool(annotations=CHANGES, structured_output=False)
    async def die() -> str:
        """Go away without an answer."""
        run.die()
        return await _no_answer()


def _add_failing_tools(server: MCPServer, run: Run) -> None:  # noqa: ARG001  same shape as the rest
    @server.tool(annotations=READ_ONLY, structured_output=False)
    async def fail(text: str) -> str:
        """Fail as a tool does: a result that is marked as an error and holds the text."""
        raise ToolError(text)

    @server.tool(annotations=READ_ONLY, structured_output=False)
    async def protocol_error(code: int) -> str:
        """Answer with a JSON-RPC error of this code."""
        raise MCPError(code, f"protocol error {code}", {"code": code})

    @server.tool(annotations=READ_ONLY, structured_output=False)
    async def crash() -> str:
        """Raise an exception that the tool did not expect."""
        raise RuntimeError("the tool crashed")


def _state(run: Run) -> StateDir:
    if run.state is None:
        raise ToolError("this tool needs a server started with --state-dir")
    return run.state


async def _no_answer() -> str:
    """Wait forever, so that no answer is written to a later connection."""
    await anyio.sleep_forever()
    return "never"
