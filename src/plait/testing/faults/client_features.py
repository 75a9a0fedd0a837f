"""Tools of the fault server that use client features: logs, roots, elicitation, sampling."""

from __future__ import annotations

import warnings
from typing import Annotated, Any, Literal, cast

import mcp_types as types
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
from mcp.shared.exceptions import MCPDeprecationWarning
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import BaseModel

from plait.testing.faults.run import Run
from plait.testing.faults.tools import CHANGES, READ_ONLY


def add_client_features(server: MCPServer, inner: Server[Any], run: Run) -> None:
    """Register the tools, and the request handlers for the legacy era."""
    _add_notifications(server)
    _add_requests(server)
    _add_sampling(server)
    _add_subscriptions(server, inner, run)


def _add_notifications(server: MCPServer) -> None:
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


def _add_requests(server: MCPServer) -> None:
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


def _add_subscriptions(server: MCPServer, inner: Server[Any], run: Run) -> None:
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


_PICTURE = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="  # noqa: E501
"""A PNG of one pixel."""

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
    picture = types.ImageContent(data=_PICTURE, mime_type="image/png")
    message = types.SamplingMessage(role="user", content=[types.TextContent(text=prompt), picture])
    return Sample([message], max_tokens=50)


def sample_with_clock(prompt: str) -> Sample:
    """Sample with a tool."""
    return Sample([_user_message(prompt)], max_tokens=50, tools=[_CLOCK])


_SampledAgain = Annotated[types.CreateMessageResult, Resolve(sample_again)]
_SampledImage = Annotated[types.CreateMessageResult, Resolve(sample_image)]
_SampledWithClock = Annotated[types.CreateMessageResultWithTools, Resolve(sample_with_clock)]


def _add_sampling(server: MCPServer) -> None:
    """Register the sampling tools; each returns the result of the client as JSON."""

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


def _user_message(prompt: str) -> types.SamplingMessage:
    return types.SamplingMessage(role="user", content=types.TextContent(text=prompt))


def _json(answer: types.CreateMessageResult | types.CreateMessageResultWithTools) -> str:
    return answer.model_dump_json(by_alias=True, exclude_none=True)
