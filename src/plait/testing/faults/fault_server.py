"""Build the fault server from its settings, and serve it with the faults of its transport."""

from __future__ import annotations

import base64
import io
import json
import os
import socket
import sys
import warnings
from collections.abc import Callable, Collection, Mapping
from functools import partial
from http import HTTPStatus
from typing import Annotated, Any, BinaryIO, Literal, cast

import anyio
import mcp_types as types
from mcp import MCPError
from mcp.server import MCPServer, Server
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
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
from mcp.server.runner import serve_loop
from mcp.server.stdio import stdio_server
from mcp.shared.exceptions import MCPDeprecationWarning
from mcp.types import INVALID_REQUEST, METHOD_NOT_FOUND, UNSUPPORTED_PROTOCOL_VERSION
from mcp.types.version import HANDSHAKE_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS
from pydantic import BaseModel
from starlette.datastructures import Headers
from starlette.responses import JSONResponse, PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from websockets.asyncio.server import Server as WebSocketServer
from websockets.asyncio.server import ServerConnection
from websockets.http11 import Request, Response

from plait._support.http_servers import buffer_body
from plait._support.mappings import entries_of
from plait.testing.faults.fault_options import Moment, NoiseKind, Run
from plait.testing.ports import bind
from plait.testing.serve_transports import (
    ServeStreams,
    exit_when_stdin_closes,
    http_app,
    http_server,
    lowlevel_server,
    serve_websocket,
)
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


_MOMENTS: dict[str, Moment] = {
    "initialize": "initialize",
    "server/discover": "initialize",
    "tools/list": "list",
    "tools/call": "call",
}


class HttpFaults:
    """ASGI middleware around the MCP server."""

    def __init__(self, app: ASGIApp, run: Run) -> None:
        self._app = app
        self._run = run
        self._settings = run.settings
        self.cut: Callable[[tuple[str, int]], None] = lambda client: None  # noqa: ARG005
        """Cuts the TCP connection of a client address; set by the HTTP server."""
        self._cut_stream = False
        """Whether to cut the next message on an SSE stream (old transport)."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        body, receive = await buffer_body(receive)
        try:
            request: Mapping[str, Any] = entries_of(json.loads(body))
        except ValueError:
            request = {}
        opens_sse = self._settings.transport == "sse" and scope["method"] == "GET"
        moment = _MOMENTS.get("initialize" if opens_sse else str(request.get("method")))
        version = Headers(scope=scope).get("mcp-protocol-version", HANDSHAKE_PROTOCOL_VERSIONS[0])
        if (status := status_due(self._run, moment)) is not None:
            headers = refusal_headers(self._run)
            refusal = PlainTextResponse(self._settings.http_body, status, headers)
            await refusal(scope, receive, send)
        elif self._settings.legacy_only and version not in HANDSHAKE_PROTOCOL_VERSIONS:
            error = {
                "code": INVALID_REQUEST,
                "message": "Bad Request: Unsupported protocol version",
            }
            if request.get("method") == "server/discover":
                error = {"code": METHOD_NOT_FOUND, "message": "Method not found"}
            answer = {"jsonrpc": "2.0", "id": request.get("id"), "error": error}
            await JSONResponse(answer, status_code=400)(scope, receive, send)
        elif moment == "call" and self._run.cuts < self._settings.cut_sse:
            self._run.cuts += 1
            await self._answer_in_half(scope, receive, send)
        else:
            await self._app(scope, receive, self._watch(scope, send))

    async def _answer_in_half(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run the tool, then cut the connection inside its answer."""
        if self._settings.transport == "sse":
            self._cut_stream = True
            await self._app(scope, receive, send)
            return
        answer = bytearray()

        async def collect(message: Message) -> None:
            answer.extend(message.get("body", b""))

        start = {"status": 200, "headers": [(b"content-type", b"text/event-stream")]}
        await send({"type": "http.response.start", **start})
        await send({"type": "http.response.body", "body": b": soon\r\n\r\n", "more_body": True})
        await self._app(scope, receive, collect)
        half = b"event: message\r\ndata: " + bytes(answer[: len(answer) // 2])
        await send({"type": "http.response.body", "body": half, "more_body": True})
        self.cut(scope["client"])

    def _watch(self, scope: Scope, send: Send) -> Send:
        async def watched(message: Message) -> None:
            body: bytes = message.get("body", b"")
            if self._cut_stream and scope["method"] == "GET" and b"event: message" in body:
                self._cut_stream = False
                await send({**message, "body": body[: len(body) // 2]})
                self.cut(scope["client"])
                return
            await send(message)
            if body:
                self._run.wrote()

        return watched


def status_due(run: Run, moment: Moment | None) -> int | None:
    """Return the HTTP status that a request gets, if any, and count it."""
    settings = run.settings
    if settings.http_status is None or settings.http_status_on not in {moment, "all"}:
        return None
    status, times = settings.http_status
    if run.statuses >= times:
        return None
    run.statuses += 1
    return status


def refusal_headers(run: Run) -> dict[str, str]:
    """Return the headers of the configured HTTP status."""
    headers = {
        "Retry-After": run.settings.retry_after,
        "WWW-Authenticate": run.settings.www_authenticate,
    }
    return {name: value for name, value in headers.items() if value is not None}


BANNER = b"*** fault server, starting ***\nLoading models...\n\n"
HALF = b"progress: 50% "
BAD_UTF8 = b"caf\xe9 \xff\xfe \xc3\x28\n"
BIG_LINE = b"#" * (1024 * 1024) + b"\n"
BOM = b"\xef\xbb\xbf"

_NOISE: dict[NoiseKind, bytes] = {
    "bom": BOM,
    "banner": BANNER,
    "utf8": BAD_UTF8,
    "biglines": BIG_LINE,
    "half": HALF,
}
"""What is written before a line, in this order."""


def noisy_chunks(line: str, kinds: Collection[NoiseKind], *, first: bool) -> list[bytes]:
    """Return the chunks to write to stdout for one line of JSON.

    `banner` and `bom` come once, before the first line; `crlf` ends each line; `utf8` and
    `biglines` are lines of their own before each; `half` is text without a line end, glued to
    the front; `split` writes the line in two pieces.
    """
    message = line.rstrip("\n").encode()
    end = b"\r\n" if "crlf" in kinds else b"\n"
    due = kinds if first else set(kinds) - {"bom", "banner"}
    chunks = [noise for kind, noise in _NOISE.items() if kind in due]
    middle = len(message) // 2 if "split" in kinds else 0
    return [*chunks, *([message[:middle]] if middle else []), message[middle:] + end]


class NoisyStdout(io.TextIOWrapper):
    """A text file that adds noise to every written line of JSON."""

    def __init__(
        self, wire: BinaryIO, kinds: Collection[NoiseKind], on_written: Callable[[], None]
    ) -> None:
        super().__init__(wire, encoding="utf-8", newline="")
        self._kinds = kinds
        self._on_written = on_written
        self._first = True

    def write(self, text: str, /) -> int:
        """Write a line with its noise, chunk by chunk."""
        for chunk in noisy_chunks(text, self._kinds, first=self._first):
            self.buffer.write(chunk)
            self.buffer.flush()
        self._first = False
        self._on_written()
        return len(text)


_HANDSHAKES = {"initialize": "initialize", "server/discover": "discover"}

BAD_STRUCTURE = {"city": 7, "degrees": "warm"}
"""The invalid result of `bad_structured`."""


class Interference:
    """Server middleware that delays, refuses, counts and corrupts."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._settings = run.settings

    async def __call__(
        self, ctx: ServerRequestContext[Any, Any], call_next: CallNext
    ) -> HandlerResult:
        """Handle one message."""
        if ctx.request_id is None:
            return await call_next(ctx)
        if self._settings.hang_handshake:
            await anyio.sleep_forever()
        if self._settings.delay:
            await anyio.sleep(self._settings.delay)
        modern = ctx.protocol_version in MODERN_PROTOCOL_VERSIONS
        if self._settings.modern_only and not modern:
            requested = str((ctx.params or {}).get("protocolVersion", ctx.protocol_version))
            raise MCPError(
                UNSUPPORTED_PROTOCOL_VERSION,
                "this server speaks only the 2026-07-28 protocol",
                {"supported": list(MODERN_PROTOCOL_VERSIONS), "requested": requested},
            )
        if self._settings.legacy_only and modern:
            raise MCPError(METHOD_NOT_FOUND, "Method not found", ctx.method)
        result = await call_next(ctx)
        if (kind := _HANDSHAKES.get(ctx.method)) is not None:
            self._run.log_session(kind)
        if ctx.method == "initialize":
            # The SDK has no option to advertise it in the legacy era.
            capabilities: dict[str, Any] = cast("dict[str, Any]", result)["capabilities"]
            capabilities["tools"] = {**capabilities.get("tools", {}), "listChanged": True}
        if ctx.method == "tools/call":
            self._run.count_call()
            if (ctx.params or {}).get("name") == "bad_structured":
                # After the SDK has validated the result.
                cast("dict[str, Any]", result)["structuredContent"] = BAD_STRUCTURE
        return result


async def serve_streams(server: Server[Any], run: Run, read: Any, write: Any) -> None:
    """Serve one stdio, SSE or WebSocket connection with the configured faults."""
    run.log_session("connect")
    if run.settings.hang_handshake:
        async with read, write:
            async for _ in read:
                pass
    elif run.settings.legacy_only:
        # The SDK's default loop selects the modern era at `server/discover`.
        async with server.lifespan(server) as lifespan:
            await serve_loop(server, read, write, lifespan_state=lifespan)
    else:
        await server.run(read, write, server.create_initialization_options())


def build_server(run: Run) -> MCPServer:
    """Make the server with all its tools; also for in-process clients."""
    server = MCPServer(
        "fault server",
        version="1.0.0",
        instructions="Ask for the failure you want to see.",
        log_level="CRITICAL",
        middleware=[Interference(run)],
    )
    add_tools(server, lowlevel_server(server), run)
    return server


def serve(run: Run) -> None:
    """Serve on the transport of the settings until the process ends."""
    settings = run.settings
    server = build_server(run)
    serve_one = partial(serve_streams, lowlevel_server(server), run)
    if settings.transport == "stdio":
        anyio.run(_serve_stdio, serve_one, run)
        return
    if settings.until_stdin_closes:
        exit_when_stdin_closes()
    with bind(settings.host, settings.port) as listener:
        if settings.transport == "websocket":
            anyio.run(_serve_websocket, serve_one, run, listener)
        else:
            anyio.run(_serve_http, server, serve_one, run, listener)


async def _serve_stdio(serve_one: ServeStreams, run: Run) -> None:
    stdout = NoisyStdout(sys.stdout.buffer, run.settings.noise, run.wrote)
    async with stdio_server(stdout=anyio.wrap_file(stdout)) as (read, write):
        await serve_one(read, write)


async def _serve_http(
    server: MCPServer, serve_one: ServeStreams, run: Run, listener: socket.socket
) -> None:
    settings = run.settings
    app, path = http_app(
        server,
        serve_one,
        settings.transport,
        settings.host,
        json_response=settings.json_response,
        stateless_http=settings.stateless,
    )
    faults = HttpFaults(app, run)
    http = http_server(faults, listener, path)
    faults.cut = http.cut
    run.cut = http.cut
    await http.serve([listener])


async def _serve_websocket(serve_one: ServeStreams, run: Run, listener: socket.socket) -> None:
    def check_request(connection: ServerConnection, _: Request) -> Response | None:
        status = status_due(run, "initialize")
        if status is None:
            return None
        response = connection.respond(HTTPStatus(status), run.settings.http_body)
        for name, value in refusal_headers(run).items():
            response.headers[name] = value
        return response

    def ready(server: WebSocketServer) -> None:
        def cut() -> None:
            for connection in list(server.connections):
                connection.transport.abort()

        run.cut = cut

    await serve_websocket(
        serve_one, listener, check_request=check_request, on_written=run.wrote, on_ready=ready
    )
