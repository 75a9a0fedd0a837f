"""The tools of the fault server that use what clients offer: logs, roots, answers."""

from __future__ import annotations

import warnings
from typing import Annotated, Any

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
    EmptyResult,
    ListRootsResult,
    LoggingLevel,
    SetLevelRequestParams,
    SubscribeRequestParams,
    UnsubscribeRequestParams,
)
from mcp.types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import BaseModel

from plait.testing.faults.tools import CHANGES, READ_ONLY


def add_client_features(server: MCPServer, inner: Server[Any]) -> None:
    """Register all of it; the legacy era needs request handlers beside the tools."""
    _add_log(server)
    _add_roots(server)
    _add_ask(server)
    _add_touch(server)
    _add_legacy_handlers(inner)


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


def _add_legacy_handlers(inner: Server[Any]) -> None:
    async def accept(_: ServerRequestContext[Any, Any], params: object) -> EmptyResult:  # noqa: ARG001
        return EmptyResult()

    inner.add_request_handler("logging/setLevel", SetLevelRequestParams, accept)
    inner.add_request_handler("resources/subscribe", SubscribeRequestParams, accept)
    inner.add_request_handler("resources/unsubscribe", UnsubscribeRequestParams, accept)
