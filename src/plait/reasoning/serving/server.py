"""The MCP server: handlers for tools, resources, prompts, completion and subscriptions."""

from __future__ import annotations

import os
import signal
from typing import Any

import anyio
import mcp_types as types
from mcp.server.caching import CacheHint
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import Server
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.server.stdio import stdio_server
from mcp.server.subscriptions import ListenHandler

from plait._version import __version__
from plait.reasoning.serving import calls, prompts, resources
from plait.reasoning.serving.service import Service

NAME = "plait-reasoning"

Context = ServerRequestContext[Any, Any]

_HOUR_MS = 3_600_000


def build_server(service: Service, *, one_client: bool = False) -> Server[Any]:
    """Make a server over an open service; it may serve many connections at once.

    With `one_client` there is but one, which stays connected: only then can one of the older era
    subscribe to resources.
    """

    async def list_tools(
        _ctx: Context, _params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[*calls.listed_tools()])

    async def call_tool(
        ctx: Context, params: types.CallToolRequestParams
    ) -> types.CallToolResult | types.InputRequiredResult:
        return await calls.call_tool(service, ctx, params)

    async def list_resources(
        _ctx: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        return await resources.list_resources(service, params)

    async def list_templates(
        _ctx: Context, _params: types.PaginatedRequestParams | None
    ) -> types.ListResourceTemplatesResult:
        return types.ListResourceTemplatesResult(resource_templates=[*resources.TEMPLATES])

    async def read_resource(
        ctx: Context, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        return await resources.read_resource(service, ctx, params)

    async def list_prompts(
        _ctx: Context, _params: types.PaginatedRequestParams | None
    ) -> types.ListPromptsResult:
        return prompts.list_prompts()

    async def get_prompt(
        _ctx: Context, params: types.GetPromptRequestParams
    ) -> types.GetPromptResult:
        return prompts.get_prompt(params)

    async def complete(_ctx: Context, params: types.CompleteRequestParams) -> types.CompleteResult:
        return await _complete(service, params)

    async def subscribe(ctx: Context, params: types.SubscribeRequestParams) -> types.EmptyResult:
        service.changes.push(params.uri, ctx.session)
        return types.EmptyResult()

    async def unsubscribe(
        _ctx: Context, params: types.UnsubscribeRequestParams
    ) -> types.EmptyResult:
        service.changes.stop_pushing(params.uri)
        return types.EmptyResult()

    schemas = {tool.name: tool.input_schema for tool in calls.listed_tools()}
    server = Server[Any](
        NAME,
        version=__version__,
        title="Reasoning",
        instructions=_instructions(service),
        cache_hints={"tools/list": CacheHint(ttl_ms=_HOUR_MS, scope="public")},
        get_tool_input_schema=schemas.get,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_list_resources=list_resources,
        on_list_resource_templates=list_templates,
        on_read_resource=read_resource,
        on_subscribe_resource=subscribe if one_client else None,
        on_unsubscribe_resource=unsubscribe if one_client else None,
        on_subscriptions_listen=ListenHandler(service.changes),
        on_list_prompts=list_prompts,
        on_get_prompt=get_prompt,
        on_completion=complete,
    )
    # Kept in the store, so that every server of it can go on with a call another one began.
    security = RequestStateSecurity(keys=[service.state_key])
    server.middleware.append(RequestStateBoundary(security, default_audience=NAME))
    return server


def _instructions(service: Service) -> str:
    is_host = service.choice.backend == "host"
    who = (
        "No model is connected, so you write the thoughts yourself: a tool that needs more than "
        "you gave says exactly what to supply."
        if is_host
        else "A model of the server writes the thoughts."
    )
    return (
        f"Structured reasoning that is kept (backend: {service.choice.backend}). {who} "
        "Keep to one session_id for one problem, and follow `next` in the results. "
        "Use it for problems that need several steps; plain questions do not need it. "
        "End with reasoning_session_conclude."
    )


async def _complete(service: Service, params: types.CompleteRequestParams) -> types.CompleteResult:
    """Complete ids of sessions and names of formats."""
    begun = params.argument.value
    match params.argument.name:
        case "session_id":
            lines = await service.store.list_sessions(limit=200)
            known = [line.session.id for line in lines]
        case "format":
            known = [*resources.EXPORTERS]
        case _:
            known = []
    found = [one for one in known if one.startswith(begun)]
    completion = types.Completion(values=found[:100], total=len(found), has_more=len(found) > 100)
    return types.CompleteResult(completion=completion)


async def serve_stdio(service: Service) -> None:
    """Serve until the client closes its end, or a signal ends the process."""
    server = build_server(service, one_client=True)
    async with anyio.create_task_group() as group:
        group.start_soon(_end_on_signal, service)
        async with service.changes.watching(), stdio_server() as (read, write):
            await server.run(read, write, server.create_initialization_options())
        group.cancel_scope.cancel()


async def _end_on_signal(service: Service) -> None:
    """Close the store and leave.

    The thread that waits for standard input cannot be woken, so there is no other way out.
    """
    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async for number in signals:
            with anyio.CancelScope(shield=True):
                await service.reasoner.completer.aclose()
                await service.store.aclose()
            os._exit(128 + number)
