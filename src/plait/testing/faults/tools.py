"""Tools of the fault server: they run, wait, fail and die, and use the features of clients."""

from __future__ import annotations

import base64
import os
import warnings
from typing import Annotated, Any, Literal, cast

import anyio
import mcp_types as types
from mcp import MCPError
from mcp.server import MCPServer, Server
from mcp.server.context import ServerRequestContext
from mcp.server.mcpserver import (
    AcceptedElicitation,
    Context,
    Elicit,
    ElicitationResult,
    ListRoots,
    Resolve,
    Sample,
)
from mcp.server.mcpserver.exceptions import ResourceNotFoundError, ToolError
from mcp.shared.exceptions import MCPDeprecationWarning
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import BaseModel

from plait.testing.faults.options import Run
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


def add_tools(server: MCPServer, inner: Server[Any], run: Run) -> None:
    """Register the tools, resources and prompts, and the request handlers for the legacy era."""
    _add_plain_tools(server, run)
    _add_waiting_tools(server, run)
    _add_durable_tools(server, run)
    _add_content(server)
    _add_client_features(server, inner, run)


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


def _add_content(server: MCPServer) -> None:
    """Register tools with content of every kind, resources, a prompt and completions."""

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


_ANNOUNCED = {
    "tools": types.ToolListChangedNotification(),
    "prompts": types.PromptListChangedNotification(),
    "resources": types.ResourceListChangedNotification(),
    "roots": types.RootsListChangedNotification(),
    "cancelled": types.CancelledNotification(
        params=types.CancelledNotificationParams(request_id=7, reason="no longer needed")
    ),
}


class Answer(BaseModel):
    """The form of `ask`."""

    text: str


def list_roots() -> ListRoots:
    """List the roots of the client before the tool runs."""
    return ListRoots()


def elicit_answer(question: str) -> Elicit[Answer]:
    """Elicit an answer before the tool runs."""
    return Elicit(question, Answer)


_CLOCK = types.Tool(name="clock", description="Tell the time.", input_schema={"type": "object"})


def sample_model(prompt: str, max_tokens: int) -> Sample:
    """Sample the model of the client before the tool runs."""
    return Sample(
        [_user_message(prompt)],
        max_tokens=max_tokens,
        system_prompt="You are terse.",
        include_context="thisServer",
        temperature=0.5,
        stop_sequences=["END"],
        model_preferences=types.ModelPreferences(hints=[types.ModelHint(name="any")]),
    )


_Sampled = Annotated[types.CreateMessageResult, Resolve(sample_model)]


def sample_again(prompt: str, first: _Sampled, max_tokens: int) -> Sample:  # noqa: ARG001
    """Sample again, after the first answer."""
    return Sample([_user_message(f"{prompt} again")], max_tokens=max_tokens)


def sample_image(prompt: str) -> Sample:
    """Sample with an image."""
    picture = types.ImageContent(data=_text(PNG), mime_type="image/png")
    message = types.SamplingMessage(role="user", content=[types.TextContent(text=prompt), picture])
    return Sample([message], max_tokens=50)


def sample_with_clock(prompt: str) -> Sample:
    """Sample with a tool."""
    return Sample([_user_message(prompt)], max_tokens=50, tools=[_CLOCK])


_SampledAgain = Annotated[types.CreateMessageResult, Resolve(sample_again)]
_SampledImage = Annotated[types.CreateMessageResult, Resolve(sample_image)]
_SampledWithClock = Annotated[types.CreateMessageResultWithTools, Resolve(sample_with_clock)]


def _add_client_features(server: MCPServer, inner: Server[Any], run: Run) -> None:
    """Register what notifies clients and asks them; sampling tools return its result as JSON."""

    @server.tool(annotations=READ_ONLY, structured_output=False)
    async def log(level: types.LoggingLevel, text: str, ctx: Context) -> str:
        """Send a log message to the client."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", MCPDeprecationWarning)
            await ctx.log(level, text, logger_name="faults")  # pyright: ignore[reportDeprecated]
        return "logged"

    @server.tool(annotations=CHANGES, structured_output=False)
    async def touch(uri: str, ctx: Context) -> str:
        """Tell the clients of both eras that a resource has changed."""
        await ctx.notify_resource_updated(uri)
        if ctx.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            await ctx.session.send_resource_updated(uri)
        return f"touched {uri}"

    @server.tool(annotations=CHANGES, structured_output=False)
    async def announce(
        what: Literal["tools", "prompts", "resources", "roots", "cancelled"], ctx: Context
    ) -> str:
        """Announce a change that did not happen; roots and cancelled only in the older era."""
        notifications = {
            "tools": ctx.notify_tools_changed,
            "prompts": ctx.notify_prompts_changed,
            "resources": ctx.notify_resources_changed,
        }
        if notify := notifications.get(what):
            await notify()
        if ctx.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            # Not all of them are server notifications, as the SDK's types say.
            await ctx.session.send_notification(cast("types.ServerNotification", _ANNOUNCED[what]))
        return f"announced {what}"

    @server.tool(annotations=READ_ONLY, structured_output=False)
    async def roots(result: Annotated[types.ListRootsResult, Resolve(list_roots)]) -> str:
        """Ask the client for its roots and return their URIs, a line each."""
        return "\n".join(str(root.uri) for root in result.roots)

    @server.tool(annotations=CHANGES, structured_output=False)
    async def ask(
        question: str, answer: Annotated[ElicitationResult[Answer], Resolve(elicit_answer)]
    ) -> str:
        """Ask the user, and return the question with the answer."""
        if isinstance(answer, AcceptedElicitation):
            return f"{question} {answer.data.text}"
        return f"{question} ({answer.action})"

    @server.tool(annotations=READ_ONLY, structured_output=False)
    async def sample(prompt: str, answer: _Sampled, max_tokens: int = 100) -> str:  # noqa: ARG001
        """Ask the model of the client."""
        return _json(answer)

    @server.tool(annotations=READ_ONLY, structured_output=False)
    async def sample_twice(prompt: str, answer: _SampledAgain, max_tokens: int = 100) -> str:  # noqa: ARG001
        """Ask the model of the client, and then once more."""
        return _json(answer)

    @server.tool(annotations=READ_ONLY, structured_output=False)
    async def sample_picture(prompt: str, answer: _SampledImage) -> str:  # noqa: ARG001
        """Ask the model of the client about a picture."""
        return _json(answer)

    @server.tool(annotations=READ_ONLY, structured_output=False)
    async def sample_with_tools(prompt: str, answer: _SampledWithClock) -> str:  # noqa: ARG001
        """Ask the model of the client, and give it a tool."""
        return _json(answer)

    @server.tool(annotations=READ_ONLY, structured_output=False)
    async def followed() -> str:
        """Return the URIs that clients of the older era are subscribed to, a line each."""
        return "\n".join(run.followed)

    async def accept(_: ServerRequestContext[Any, Any], params: object) -> types.EmptyResult:  # noqa: ARG001
        return types.EmptyResult()

    async def subscribe(
        _: ServerRequestContext[Any, Any], params: types.SubscribeRequestParams
    ) -> types.EmptyResult:
        run.followed.append(str(params.uri))
        return types.EmptyResult()

    async def unsubscribe(
        _: ServerRequestContext[Any, Any], params: types.UnsubscribeRequestParams
    ) -> types.EmptyResult:
        run.followed.remove(str(params.uri))
        return types.EmptyResult()

    inner.add_request_handler("logging/setLevel", types.SetLevelRequestParams, accept)
    inner.add_request_handler("resources/subscribe", types.SubscribeRequestParams, subscribe)
    inner.add_request_handler("resources/unsubscribe", types.UnsubscribeRequestParams, unsubscribe)


def _user_message(prompt: str) -> types.SamplingMessage:
    return types.SamplingMessage(role="user", content=types.TextContent(text=prompt))


def _json(answer: types.CreateMessageResult | types.CreateMessageResultWithTools) -> str:
    return answer.model_dump_json(by_alias=True, exclude_none=True)
