"""The tools of the fault server that talk to clients: logs, roots, questions, changes."""

from __future__ import annotations

import warnings
from typing import Annotated, Any, Literal, cast

from mcp.server import MCPServer, Server
from mcp.server.context import ServerRequestContext
from mcp.server.mcpserver import (
    AcceptedElicitation,
    Context,
    Elicit,
    ElicitationResult,
    ListRoots,
    Resolve,
)
from mcp.shared.exceptions import MCPDeprecationWarning
from mcp.types import (
    CancelledNotification,
    CancelledNotificationParams,
    EmptyResult,
    ListRootsResult,
    LoggingLevel,
    PromptListChangedNotification,
    ResourceListChangedNotification,
    RootsListChangedNotification,
    ServerNotification,
    SetLevelRequestParams,
    SubscribeRequestParams,
    ToolListChangedNotification,
    UnsubscribeRequestParams,
)
from mcp.types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import BaseModel

from plait.testing.faults.run import Run
from plait.testing.faults.tools import CHANGES, READ_ONLY


def add_client_features(server: MCPServer, inner: Server[Any], run: Run) -> None:
    """Register all of it; the legacy era needs request handlers beside the tools."""
    _add_log(server)
    _add_roots(server)
    _add_ask(server)
    _add_touch(server)
    _add_announce(server)
    _add_followed(server, run)
    _add_legacy_handlers(inner, run)


def _add_log(server: MCPServer) -> None:
    @server.tool(annotations=READ_ONLY, structured_output=False)
    async def log(level: LoggingLevel, text: str, ctx: Context) -> str:
        """Send a log message to the client."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", MCPDeprecationWarning)
            await ctx.log(level, text, logger_name="faults")  # pyright: ignore[reportDeprecated]
        return "logged"


def ask_for_roots() -> ListRoots:
    """Have the client list its roots before the tool runs."""
    return ListRoots()


def _add_roots(server: MCPServer) -> None:
    @server.tool(annotations=READ_ONLY, structured_output=False)
    async def roots(found: Annotated[ListRootsResult, Resolve(ask_for_roots)]) -> str:
        """Ask the client for its roots and return their URIs, a line each."""
        return "\n".join(str(root.uri) for root in found.roots)


class Answer(BaseModel):
    """What `ask` wants to know."""

    text: str


def ask_the_user(question: str) -> Elicit[Answer]:
    """Have the client ask its user before the tool runs."""
    return Elicit(question, Answer)


def _add_ask(server: MCPServer) -> None:
    @server.tool(annotations=CHANGES, structured_output=False)
    async def ask(
        question: str, answer: Annotated[ElicitationResult[Answer], Resolve(ask_the_user)]
    ) -> str:
        """Ask the user, and return the question with the answer."""
        if isinstance(answer, AcceptedElicitation):
            return f"{question} {answer.data.text}"
        return f"{question} ({answer.action})"


def _add_touch(server: MCPServer) -> None:
    @server.tool(annotations=CHANGES, structured_output=False)
    async def touch(uri: str, ctx: Context) -> str:
        """Tell the clients of both eras that a resource has changed."""
        await ctx.notify_resource_updated(uri)
        if ctx.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            await ctx.session.send_resource_updated(uri)
        return f"touched {uri}"


def _add_announce(server: MCPServer) -> None:
    @server.tool(annotations=CHANGES, structured_output=False)
    async def announce(
        what: Literal["tools", "prompts", "resources", "roots", "cancelled"], ctx: Context
    ) -> str:
        """Announce a change that did not happen; roots and cancelled only in the older era."""
        match what:
            case "tools":
                await ctx.notify_tools_changed()
            case "prompts":
                await ctx.notify_prompts_changed()
            case "resources":
                await ctx.notify_resources_changed()
            case _:
                pass
        if ctx.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            # Not every one of them is a server's to send, which is what the SDK's types say.
            await ctx.session.send_notification(cast("ServerNotification", _ANNOUNCED[what]))
        return f"announced {what}"


_ANNOUNCED = {
    "tools": ToolListChangedNotification(),
    "prompts": PromptListChangedNotification(),
    "resources": ResourceListChangedNotification(),
    "roots": RootsListChangedNotification(),
    "cancelled": CancelledNotification(
        params=CancelledNotificationParams(request_id=7, reason="no longer needed")
    ),
}


def _add_followed(server: MCPServer, run: Run) -> None:
    @server.tool(annotations=READ_ONLY, structured_output=False)
    async def followed() -> str:
        """Return the URIs that clients of the older era are subscribed to, a line each."""
        return "\n".join(run.followed)


def _add_legacy_handlers(inner: Server[Any], run: Run) -> None:
    async def accept(_: ServerRequestContext[Any, Any], params: object) -> EmptyResult:  # noqa: ARG001
        return EmptyResult()

    async def subscribe(
        _: ServerRequestContext[Any, Any], params: SubscribeRequestParams
    ) -> EmptyResult:
        run.followed.append(str(params.uri))
        return EmptyResult()

    async def unsubscribe(
        _: ServerRequestContext[Any, Any], params: UnsubscribeRequestParams
    ) -> EmptyResult:
        run.followed.remove(str(params.uri))
        return EmptyResult()

    inner.add_request_handler("logging/setLevel", SetLevelRequestParams, accept)
    inner.add_request_handler("resources/subscribe", SubscribeRequestParams, subscribe)
    inner.add_request_handler("resources/unsubscribe", UnsubscribeRequestParams, unsubscribe)
