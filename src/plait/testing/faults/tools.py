"""Tools of the fault server that run, wait, fail and die, and content of every type."""

from __future__ import annotations

import base64
import os

import anyio
import mcp_types as types
from mcp import MCPError
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ResourceNotFoundError, ToolError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import BaseModel

from plait.testing.faults.run import Run
from plait.testing.state import StateDir

READ_ONLY = types.ToolAnnotations(read_only_hint=True, open_world_hint=False)
REPEATABLE = types.ToolAnnotations(read_only_hint=True, idempotent_hint=True, open_world_hint=False)
CHANGES = types.ToolAnnotations(read_only_hint=False, destructive_hint=False, idempotent_hint=False)
DESTRUCTIVE = types.ToolAnnotations(
    read_only_hint=False, destructive_hint=True, idempotent_hint=False
)

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGP4z8DwHwAFAAH/iZk9HQAAAABJRU5ErkJggg=="
)
"""One red pixel."""

WAV = (
    b"RIFF\x28\x00\x00\x00WAVEfmt \x10\x00\x00\x00\x01\x00\x01\x00\x40\x1f\x00\x00"
    b"\x80\x3e\x00\x00\x02\x00\x10\x00data\x04\x00\x00\x00\x00\x00\x00\x00"
)
"""Two samples of silence."""

NAMES = ("Ada", "Alan", "Grace")


class Weather(BaseModel):
    """The result of `structured`, and the output schema of `bad_structured`."""

    city: str
    degrees: float


def add_tools(server: MCPServer, run: Run) -> None:
    """Register the tools, resources and prompts."""
    _add_plain_tools(server, run)
    _add_waiting_tools(server, run)
    _add_durable_tools(server, run)
    _add_failing_tools(server)
    _add_content_tools(server)
    _add_resources(server)
    _add_prompts(server)


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


def _add_failing_tools(server: MCPServer) -> None:
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


def _add_content_tools(server: MCPServer) -> None:
    @server.tool(annotations=READ_ONLY)
    async def structured() -> Weather:
        """Return structured content that keeps its output schema."""
        return Weather(city="Oslo", degrees=-3.5)

    @server.tool(annotations=READ_ONLY)
    async def bad_structured() -> Weather:
        """Return structured content that breaks its output schema."""
        return Weather(city="Oslo", degrees=-3.5)

    @server.tool(annotations=READ_ONLY, structured_output=False)
    async def image() -> list[types.ContentBlock]:
        """Return a text and an image."""
        return [
            types.TextContent(text="one pixel"),
            types.ImageContent(data=_text(PNG), mime_type="image/png"),
        ]

    @server.tool(annotations=READ_ONLY, structured_output=False)
    async def audio() -> list[types.ContentBlock]:
        """Return a text and a sound."""
        return [
            types.TextContent(text="silence"),
            types.AudioContent(data=_text(WAV), mime_type="audio/wav"),
        ]

    @server.tool(annotations=READ_ONLY, structured_output=False)
    async def links() -> list[types.ContentBlock]:
        """Return a resource link, an embedded text and an embedded blob."""
        return [
            types.ResourceLink(
                uri="test://static",
                name="static",
                description="The static resource",
                mime_type="text/plain",
                size=6,
            ),
            types.EmbeddedResource(
                resource=types.TextResourceContents(
                    uri="test://item/1", text="item 1", mime_type="text/plain"
                )
            ),
            types.EmbeddedResource(
                resource=types.BlobResourceContents(
                    uri="test://pixel", blob=_text(PNG), mime_type="image/png"
                )
            ),
        ]


def _add_resources(server: MCPServer) -> None:
    @server.resource("test://static", name="static", mime_type="text/plain")
    async def static() -> str:
        """A text that never changes."""
        return "static"

    @server.resource("test://item/{id}", name="item", mime_type="text/plain")
    async def item(id: str) -> str:  # noqa: A002  the name in the template
        """One of many items; there is no item `missing`."""
        if id == "missing":
            raise ResourceNotFoundError(f"there is no item {id}")
        return f"item {id}"


def _add_prompts(server: MCPServer) -> None:
    @server.prompt()
    async def greet(name: str) -> str:
        """Ask for a greeting."""
        return f"Say hello to {name}."

    @server.completion()
    async def complete(
        ref: types.PromptReference | types.ResourceTemplateReference,
        argument: types.CompletionArgument,
        context: types.CompletionContext | None,  # noqa: ARG001  part of the SDK's signature
    ) -> types.Completion | None:
        if not isinstance(ref, types.PromptReference) or argument.name != "name":
            return None
        values = [name for name in NAMES if name.lower().startswith(argument.value.lower())]
        return types.Completion(values=values, total=len(values), has_more=False)


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _state(run: Run) -> StateDir:
    if run.state is None:
        raise ToolError("this tool needs a server started with --state-dir")
    return run.state


async def _no_answer() -> str:
    """Wait forever, so that no answer is written to a later connection."""
    await anyio.sleep_forever()
    return "never"
