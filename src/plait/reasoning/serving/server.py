"""The MCP server: handlers for tools, resources, prompts, completion and subscriptions."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Mapping
from functools import cache, partial
from typing import Any, Final, NamedTuple
from urllib.parse import unquote

import anyio
import mcp_types as types
from mcp.server.apps import APP_MIME_TYPE, EXTENSION_ID, client_supports_apps
from mcp.server.caching import CacheHint
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import Server
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.server.subscriptions import ListenHandler
from mcp.shared.exceptions import MCPError

from plait._version import __version__
from plait.html.elements import h
from plait.html.page import Site, asset, page
from plait.reasoning.compact import compact_text
from plait.reasoning.diagram import read_document
from plait.reasoning.export import EXPORTERS, Exported
from plait.reasoning.html import SCRIPT, STYLE, thinking_page
from plait.reasoning.serving import calls
from plait.reasoning.serving.changes import session_uri
from plait.reasoning.serving.service import Service
from plait.reasoning.serving.stdio import stdio_streams

NAME = "plait-reasoning"
Context = ServerRequestContext[Any, Any]
_HOUR_MS = 3_600_000
_OLD_NOT_FOUND = -32002
"""The error code of the older protocol era."""
MAX_PAGE_SESSIONS = 100
"""A list of resources has a cursor to the next page."""
MAX_COMPLETIONS = 100
"""The most that the protocol allows."""


def build_server(service: Service, *, one_client: bool = False) -> Server[Any]:
    """Return a server for an open service; it may serve many connections at once.

    With `one_client` there is a single lasting connection: only then can a client of the older
    protocol era subscribe to resources.
    """
    listed = calls.listed_tools(service.settings.profile)
    schemas = {tool.name: tool.input_schema for tool in listed}
    is_compact = service.settings.profile == "compact"
    writer = (
        "No model is connected, so you write the thoughts yourself: a tool that needs more than "
        "you gave says exactly what to supply."
        if service.choice.backend == "host"
        else "A model of the server writes the thoughts."
    )
    instructions = (
        f"Structured reasoning that is kept (backend: {service.choice.backend}). {writer} "
        "Keep to one session_id for one problem, and follow `next` in the results. "
        "Use it for problems that need several steps; plain questions do not need it. "
        "End with reasoning_session_conclude."
    )
    server = Server[Any](
        NAME,
        version=__version__,
        title="Reasoning",
        instructions=compact_text(instructions) if is_compact else instructions,
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

    async def exit_on_signal() -> None:
        # The process is ended at once: the thread that reads standard input cannot be woken.
        with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
            async for number in signals:
                with anyio.CancelScope(shield=True):
                    await service.reasoner.completer.aclose()
                    await service.store.aclose()
                os._exit(128 + number)

    async with anyio.create_task_group() as group:
        group.start_soon(exit_on_signal)
        async with service.changes.watching(), stdio_streams() as (read, write):
            await server.run(read, write, server.create_initialization_options())
        group.cancel_scope.cancel()


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
        values=values[:MAX_COMPLETIONS],
        total=len(values),
        has_more=len(values) > MAX_COMPLETIONS,
    )
    return types.CompleteResult(completion=completion)


async def list_templates(
    _ctx: object, _params: types.PaginatedRequestParams | None
) -> types.ListResourceTemplatesResult:
    """List the resource templates."""
    session = types.ResourceTemplate(
        name="session",
        title="A reasoning session",
        uri_template="reasoning://sessions/{session_id}",
        description="A session with its thoughts, branches, checkpoints and graphs.",
        mime_type="application/json",
    )
    document = types.ResourceTemplate(
        name="session-document",
        title="A reasoning session as a document",
        uri_template="reasoning://sessions/{session_id}/{format}",
        description="A session as json, markdown, mermaid, dot or svg.",
    )
    return types.ListResourceTemplatesResult(resource_templates=[session, document])


async def list_resources(
    service: Service, ctx: Context, params: types.PaginatedRequestParams | None
) -> types.ListResourcesResult:
    """List sessions, the most recently changed first; hosts of apps get the app too."""
    cursor = params.cursor if params else None
    if cursor is not None and not cursor.isdecimal():
        raise MCPError(types.INVALID_PARAMS, "Invalid cursor")
    offset = int(cursor or 0)
    lines = await service.store.list_sessions(limit=MAX_PAGE_SESSIONS + 1, offset=offset)
    sessions = [
        types.Resource(
            uri=session_uri(line.session.id),
            name=line.session.id,
            title=line.title or line.session.id,
            description=f"{line.session.mode}, {line.session.status}, {line.thoughts} thoughts",
            mime_type="application/json",
        )
        for line in lines[:MAX_PAGE_SESSIONS]
    ]
    if cursor is None and client_supports_apps(ctx):
        app = types.Resource(
            uri=calls.APP_URI,
            name="session-graph",
            title="The graph of a reasoning session",
            description="Shows the thoughts of a session as a graph, a tree, and step by step.",
            mime_type=APP_MIME_TYPE,
        )
        sessions.insert(0, app)
    return types.ListResourcesResult(
        resources=sessions,
        next_cursor=str(offset + MAX_PAGE_SESSIONS) if len(lines) > MAX_PAGE_SESSIONS else None,
    )


_URI: Final = re.compile(r"reasoning://sessions/(?P<key>[^/]+)(?:/(?P<format>[a-z]+))?")


async def read_resource(
    service: Service, ctx: Context, params: types.ReadResourceRequestParams
) -> types.ReadResourceResult:
    """Read a session as a document, or the app; without a format, a session is JSON."""
    if params.uri == calls.APP_URI:
        app = types.TextResourceContents(
            uri=calls.APP_URI, mime_type=APP_MIME_TYPE, text=_app_page()
        )
        return types.ReadResourceResult(contents=[app])
    match = _URI.fullmatch(params.uri)
    session = await service.store.get_session(unquote(match["key"])) if match else None
    form = (match["format"] or "json") if match else ""
    # `html` is for people and the app, and no format of a tool.
    if session is None or form not in {*EXPORTERS, "html"}:
        code = types.INVALID_PARAMS if calls.is_modern(ctx) else _OLD_NOT_FOUND
        raise MCPError(code, f"Resource not found: {params.uri}", {"uri": params.uri})
    document = await read_document(service.store, session)
    if form == "html":
        exported = Exported(content=thinking_page(document), mime_type="text/html")
    else:
        exported = EXPORTERS[form](document)
    found = types.TextResourceContents(
        uri=params.uri, mime_type=exported.mime_type, text=exported.content
    )
    return types.ReadResourceResult(contents=[found])


@cache
def _app_page() -> str:
    """Build the app: one file that requests nothing but the session, and that of its host."""
    site = Site(inline_styles=(asset(STYLE),), inline_scripts=(asset(SCRIPT), asset("mcp-app.js")))
    waiting = h("p", "Waiting for a session …", class_="empty", id="waiting")
    return page("Reasoning session", waiting, site=site)


class _Guide(NamedTuple):
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
            types.Prompt(name=name, title=title, description=description, arguments=_ARGUMENTS)
            for name, (title, description, _text) in _GUIDES.items()
        ]
    )


async def get_prompt(
    service: Service, _ctx: object, params: types.GetPromptRequestParams
) -> types.GetPromptResult:
    """Return a prompt with its arguments filled in."""
    if params.name not in _GUIDES:
        raise MCPError(types.INVALID_PARAMS, f"Unknown prompt: {params.name}")
    _title, description, text = _GUIDES[params.name]
    arguments = params.arguments or {}
    problem = arguments.get("problem", "").strip()
    if not problem:
        raise MCPError(types.INVALID_PARAMS, "The argument problem is required")
    session = arguments.get("session_id", "").strip()
    continuation = f"\n\nGo on with the session {session}." if session else ""
    advice = compact_text(text) if service.settings.profile == "compact" else text
    content = types.TextContent(text=f"{advice}{continuation}\n\n{problem}")
    message = types.PromptMessage(role="user", content=content)
    return types.GetPromptResult(description=description, messages=[message])
