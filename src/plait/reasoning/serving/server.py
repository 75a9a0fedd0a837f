"""The MCP server: handlers for tools, resources, prompts, completion and subscriptions."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final
from urllib.parse import unquote

import anyio
import mcp_types as types
from mcp.server.caching import CacheHint
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import Server
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.server.subscriptions import ListenHandler
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from plait._version import __version__
from plait.reasoning.compact.tools import compact_text
from plait.reasoning.export import EXPORTERS, Exported, SessionDocument, read_document
from plait.reasoning.html import thinking_page
from plait.reasoning.serving import calls
from plait.reasoning.serving.changes import session_uri
from plait.reasoning.serving.mcp_app import (
    APP_URI,
    EXTENSION_ID,
    app_contents,
    app_resource,
    client_supports_apps,
)
from plait.reasoning.serving.service import Service
from plait.reasoning.serving.stdio import stdio_streams

NAME = "plait-reasoning"
Context = ServerRequestContext[Any, Any]
_HOUR_MS = 3_600_000


def build_server(service: Service, *, one_client: bool = False) -> Server[Any]:
    """Return a server for an open service; it may serve many connections at once.

    With `one_client` there is a single lasting connection: only then can a client of the older
    protocol era subscribe to resources.
    """
    listed = calls.listed_tools(service.settings.profile)
    schemas = {tool.name: tool.input_schema for tool in listed}
    server = Server[Any](
        NAME,
        version=__version__,
        title="Reasoning",
        instructions=_instructions(service),
        cache_hints={"tools/list": CacheHint(ttl_ms=_HOUR_MS, scope="public")},
        get_tool_input_schema=schemas.get,
        on_list_tools=partial(calls.list_tools, service),
        on_call_tool=partial(calls.call_tool, service),
        on_list_resources=partial(list_resources, service),
        on_list_resource_templates=list_templates,
        on_read_resource=partial(read_resource, service),
        on_subscribe_resource=service.changes.push if one_client else None,
        on_unsubscribe_resource=service.changes.stop_pushing if one_client else None,
        on_subscriptions_listen=ListenHandler(service.changes),
        on_list_prompts=list_prompts,
        on_get_prompt=partial(get_prompt, service),
        on_completion=partial(_complete, service),
    )
    server.extensions[EXTENSION_ID] = {}
    # The key is in the store, so every server of it can continue a call that another one started.
    security = RequestStateSecurity(keys=[service.state_key])
    server.middleware.append(RequestStateBoundary(security, default_audience=NAME))
    return server


async def serve_stdio(service: Service) -> None:
    """Serve on stdio until the client closes its end, or a signal ends the process."""
    server = build_server(service, one_client=True)
    async with anyio.create_task_group() as group:
        group.start_soon(_exit_on_signal, service)
        async with service.changes.watching(), stdio_streams() as (read, write):
            await server.run(read, write, server.create_initialization_options())
        group.cancel_scope.cancel()


async def _exit_on_signal(service: Service) -> None:
    """Close the store and exit: the thread that reads standard input cannot be woken."""
    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async for number in signals:
            with anyio.CancelScope(shield=True):
                await service.reasoner.completer.aclose()
                await service.store.aclose()
            os._exit(128 + number)


def _instructions(service: Service) -> str:
    writer = (
        "No model is connected, so you write the thoughts yourself: a tool that needs more than "
        "you gave says exactly what to supply."
        if service.choice.backend == "host"
        else "A model of the server writes the thoughts."
    )
    text = (
        f"Structured reasoning that is kept (backend: {service.choice.backend}). {writer} "
        "Keep to one session_id for one problem, and follow `next` in the results. "
        "Use it for problems that need several steps; plain questions do not need it. "
        "End with reasoning_session_conclude."
    )
    return compact_text(text) if service.settings.profile == "compact" else text


async def _complete(
    service: Service, _ctx: Context, params: types.CompleteRequestParams
) -> types.CompleteResult:
    """Complete ids of sessions and names of formats."""
    match params.argument.name:
        case "session_id":
            values = [line.session.id for line in await service.store.list_sessions(limit=200)]
        case "format":
            values = [*EXPORTERS]
        case _:
            values = []
    values = [value for value in values if value.startswith(params.argument.value)]
    completion = types.Completion(
        values=values[:100], total=len(values), has_more=len(values) > 100
    )
    return types.CompleteResult(completion=completion)


def html_of(document: SessionDocument) -> Exported:
    """Return a session as one HTML file."""
    return Exported(content=thinking_page(document), mime_type="text/html")


_PAGE = 100
_URI = re.compile(r"reasoning://sessions/(?P<key>[^/]+)(?:/(?P<format>[a-z]+))?")
_READERS: Final = {**EXPORTERS, "html": html_of}
"""What a session can be read as; `html` is for people and the app, and no format of a tool."""
_OLD_NOT_FOUND = -32002
"""The error code of the older protocol era."""

TEMPLATES = (
    types.ResourceTemplate(
        name="session",
        title="A reasoning session",
        uri_template="reasoning://sessions/{session_id}",
        description="A session with its thoughts, branches, checkpoints and graphs.",
        mime_type="application/json",
    ),
    types.ResourceTemplate(
        name="session-document",
        title="A reasoning session as a document",
        uri_template="reasoning://sessions/{session_id}/{format}",
        description="A session as json, markdown, mermaid, dot or svg.",
    ),
)


async def list_templates(
    _ctx: object, _params: types.PaginatedRequestParams | None
) -> types.ListResourceTemplatesResult:
    """List the resource templates."""
    return types.ListResourceTemplatesResult(resource_templates=[*TEMPLATES])


async def list_resources(
    service: Service, ctx: Context, params: types.PaginatedRequestParams | None
) -> types.ListResourcesResult:
    """List sessions, the most recently changed first; hosts of apps get the app too."""
    cursor = params.cursor if params else None
    if cursor is not None and not cursor.isdecimal():
        raise MCPError(types.INVALID_PARAMS, "Invalid cursor")
    offset = int(cursor or 0)
    lines = await service.store.list_sessions(limit=_PAGE + 1, offset=offset)
    sessions = [
        types.Resource(
            uri=session_uri(line.session.id),
            name=line.session.id,
            title=line.title or line.session.id,
            description=f"{line.session.mode}, {line.session.status}, {line.thoughts} thoughts",
            mime_type="application/json",
        )
        for line in lines[:_PAGE]
    ]
    apps = [app_resource()] if cursor is None and client_supports_apps(ctx) else []
    return types.ListResourcesResult(
        resources=[*apps, *sessions],
        next_cursor=str(offset + _PAGE) if len(lines) > _PAGE else None,
    )


async def read_resource(
    service: Service, ctx: ServerRequestContext[Any, Any], params: types.ReadResourceRequestParams
) -> types.ReadResourceResult:
    """Read a session as a document; without a format, as JSON."""
    if params.uri == APP_URI:
        return app_contents()
    match = _URI.fullmatch(params.uri)
    session = await service.store.get_session(unquote(match["key"])) if match else None
    exporter = _READERS.get(match["format"] or "json") if match else None
    if session is None or exporter is None:
        modern = ctx.protocol_version in MODERN_PROTOCOL_VERSIONS
        code = types.INVALID_PARAMS if modern else _OLD_NOT_FOUND
        raise MCPError(code, f"Resource not found: {params.uri}", {"uri": params.uri})
    exported = exporter(await read_document(service.store, session))
    return types.ReadResourceResult(
        contents=[
            types.TextResourceContents(
                uri=params.uri, mime_type=exported.mime_type, text=exported.content
            )
        ]
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Guide:
    title: str
    description: str
    text: str


_GUIDES: Final[Mapping[str, _Guide]] = {
    "reason_linear": _Guide(
        title="Think step by step",
        description="Work on a problem one step after the other.",
        text="Work on this problem step by step with reasoning_linear, one thought a call, always "
        "with the same session_id. Follow `next` in the results. When the question is answered, "
        "call reasoning_session_conclude.",
    ),
    "reason_tree": _Guide(
        title="Weigh options",
        description="Branch out, follow the best way, and come back if it fails.",
        text="Open ways to go on with reasoning_tree, make a checkpoint with "
        "reasoning_checkpoint_create, follow the best with reasoning_tree_focus, and end each "
        "with reasoning_tree_complete. If a way fails, call reasoning_backtrack. Conclude with "
        "reasoning_session_conclude.",
    ),
    "reason_divergent": _Guide(
        title="Find new ideas",
        description="Look at a matter from points of view that differ in kind.",
        text="Call reasoning_divergent with challenge_assumptions=true, work out the most viable "
        "view with reasoning_tree, and examine the synthesis with reasoning_reflection.",
    ),
    "reason_reflection": _Guide(
        title="Examine reasoning",
        description="Find what is weak in a piece of reasoning, and improve it.",
        text="Examine this with reasoning_reflection, and examine the improved thought again until "
        "the quality is good. Then call reasoning_reflection_evaluate for the whole session.",
    ),
    "reason_graph": _Guide(
        title="Solve a problem of many parts",
        description="Grow a graph of thoughts, judge, join and prune it, and draw conclusions.",
        text="Begin with reasoning_got_init, grow with reasoning_got_generate, judge with "
        "reasoning_got_score, join what belongs together with reasoning_got_aggregate, mend with "
        "reasoning_got_refine, cut with reasoning_got_prune, and end with "
        "reasoning_got_finalize. Follow `next` in the results.",
    ),
    "reason_auto": _Guide(
        title="Choose a way of reasoning",
        description="Let the server recommend a mode, and follow it.",
        text="Call reasoning_auto with this task, then the tool it recommends. Do without "
        "reasoning tools if the answer is plain.",
    ),
}

_ARGUMENTS = [
    types.PromptArgument(name="problem", description="What to reason about.", required=True),
    types.PromptArgument(name="session_id", description="A session to go on with.", required=False),
]


async def list_prompts(
    _ctx: object, _params: types.PaginatedRequestParams | None
) -> types.ListPromptsResult:
    """List the prompts."""
    return types.ListPromptsResult(
        prompts=[
            types.Prompt(
                name=name, title=guide.title, description=guide.description, arguments=_ARGUMENTS
            )
            for name, guide in _GUIDES.items()
        ]
    )


async def get_prompt(
    service: Service, _ctx: object, params: types.GetPromptRequestParams
) -> types.GetPromptResult:
    """Return a prompt with its arguments filled in."""
    guide = _GUIDES.get(params.name)
    if guide is None:
        raise MCPError(types.INVALID_PARAMS, f"Unknown prompt: {params.name}")
    arguments = params.arguments or {}
    problem = arguments.get("problem", "").strip()
    if not problem:
        raise MCPError(types.INVALID_PARAMS, "The argument problem is required")
    session = arguments.get("session_id", "").strip()
    continuation = f"\n\nGo on with the session {session}." if session else ""
    is_compact = service.settings.profile == "compact"
    advice = compact_text(guide.text) if is_compact else guide.text
    content = types.TextContent(text=f"{advice}{continuation}\n\n{problem}")
    message = types.PromptMessage(role="user", content=content)
    return types.GetPromptResult(description=guide.description, messages=[message])
