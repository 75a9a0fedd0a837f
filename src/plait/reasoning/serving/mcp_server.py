"""The MCP server: handlers for tools, resources, prompts, completion and subscriptions.

A tool may sample the model of the connected client. In the older era the server sends a request
during the call. In the newer era the call ends with an input-required result, and the client
repeats it with its model's answer. Answers are kept in the store, so that any server of it can
continue.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import logging
import os
import re
import signal
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache, partial
from typing import Any, Final, NamedTuple, Self, cast
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
from mcp.shared.message import ServerMessageMetadata
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import BaseModel, ValidationError
from sqlalchemy.exc import SQLAlchemyError

from plait._support.redact import Redactor
from plait._version import __version__
from plait.errors import BackendError, PlaitError, RefusedError
from plait.html.elements import h
from plait.html.page import Site, asset, page
from plait.reasoning import compact
from plait.reasoning.backends.choose import choose
from plait.reasoning.backends.port import Completion, Prompt, SamplingCompleter
from plait.reasoning.backends.settings import Profile
from plait.reasoning.compact import compact_text
from plait.reasoning.diagram import read_document
from plait.reasoning.export import EXPORTERS, Exported
from plait.reasoning.html import SCRIPT, STYLE, thinking_page
from plait.reasoning.modes.solve import SCHEMA_URI
from plait.reasoning.results import result_data, result_text
from plait.reasoning.serving.changes import session_uri
from plait.reasoning.serving.service import Service
from plait.reasoning.serving.stdio_server import stdio_streams
from plait.reasoning.solving.problem import EXAMPLES, problem_schema
from plait.reasoning.storage.port import Storage
from plait.reasoning.tool_registry import TOOLS
from plait.reasoning.values import new_id

logger = logging.getLogger(__name__)


APP_URI: Final = "ui://plait-reasoning/session.html"
"""The graph of a session, as an MCP App for hosts that show `ui://` resources in a conversation.

Tools name it in `_meta.ui` for hosts that declare the extension; all others get the same bytes as
before. See https://modelcontextprotocol.io/specification/draft/extensions/apps.
"""

_WITH_APP: Final = frozenset(
    {"reasoning_session_get", "reasoning_session_conclude", "reasoning_session"}
    | {"reasoning_got_state", "reasoning_got_finalize"}
)
"""Tools whose results are about a whole session."""

MAX_ANSWER_AGE_DAYS = 1
"""Answers of calls that a client never finished are deleted when they are older."""


@cache
def listed_tools(profile: Profile, *, output_schemas: bool = True) -> tuple[types.Tool, ...]:
    """Return the MCP description of every tool of a profile."""
    if profile == "compact":
        return tuple(
            types.Tool(
                name=tool.name,
                description=tool.description,
                input_schema=tool.schema,
                annotations=types.ToolAnnotations(destructive_hint=tool.is_destructive),
            )
            for tool in compact.COMPACT_TOOLS.values()
        )
    return tuple(
        types.Tool(
            name=tool.name,
            title=tool.title,
            description=tool.description,
            input_schema=input_schema(tool.params),
            output_schema=output_schema(tool.result) if output_schemas else None,
            annotations=types.ToolAnnotations(
                title=tool.title,
                read_only_hint=tool.read_only,
                destructive_hint=tool.destructive,
                idempotent_hint=tool.read_only or tool.idempotent,
                open_world_hint=tool.uses_model,
            ),
        )
        for tool in TOOLS.values()
    )


async def list_tools(
    service: Service,
    ctx: ServerRequestContext[Any, Any],
    _params: types.PaginatedRequestParams | None,
) -> types.ListToolsResult:
    """List the tools; a host of apps learns which of them the graph of a session belongs to."""
    settings = service.settings
    tools = [*listed_tools(settings.profile, output_schemas=settings.output_schemas)]
    if client_supports_apps(ctx):
        meta = {"ui": {"resourceUri": APP_URI}}
        tools = [
            tool.model_copy(update={"meta": meta}) if tool.name in _WITH_APP else tool
            for tool in tools
        ]
    return types.ListToolsResult(tools=tools)


async def call_tool(
    service: Service, ctx: ServerRequestContext[Any, Any], params: types.CallToolRequestParams
) -> types.CallToolResult | types.InputRequiredResult:
    """Run a tool; a failure becomes an error result with a text that a model can act on."""
    name, arguments = params.name, params.arguments
    is_compact = service.settings.profile == "compact"
    counter = itertools.count(1)

    def failed(message: str) -> types.CallToolResult:
        # A tool that is not in this profile is refused under the name that the caller used.
        text = compact.compact_text(message) if params.name in compact.COMPACT_TOOLS else message
        return types.CallToolResult(content=[types.TextContent(text=text)], is_error=True)

    async def report(message: str) -> None:
        await ctx.session.report_progress(next(counter), None, message)

    try:
        if is_compact:
            if name not in compact.COMPACT_TOOLS:
                raise RefusedError(f"Unknown tool: {name}")
            name, arguments = compact.full_call(compact.COMPACT_TOOLS[name], arguments)
        sampler = await ClientSampler.start(ctx, params, service.store)
        completer = None  # the one that was chosen at the start
        tool = TOOLS.get(name)
        if service.may_sample and tool is not None and tool.uses_model:
            choice = choose(service.settings, service.available, sampling=offers_sampling(ctx))
            if choice.backend == "sampling":
                completer = SamplingCompleter(sampler.sample)
        result = await service.reasoner.call(
            name, arguments, completer=completer, report=report, is_compact=is_compact
        )
    except SamplingNeededError as needed:
        return needed.result
    except RefusedError as error:
        return failed(str(error))
    except PlaitError as error:
        logger.warning("%s failed: %s", name, error)
        return failed(str(error))
    except SQLAlchemyError as error:
        reason = Redactor().excerpt(str(error.args[0]))
        logger.error("the database failed during %s: %s", name, reason)
        logger.debug("the database failed", exc_info=error)
        return failed(f"The database failed: {reason}")
    await sampler.finish(service.store)
    if is_compact:
        data = await compact.compact_data(name, result, service.store)
        text = compact.compact_json(data)
    else:
        data, text = result_data(result), result_text(result)
    return types.CallToolResult(content=[types.TextContent(text=text)], structured_content=data)


Schema = dict[str, Any]


def input_schema(model: type[BaseModel]) -> Schema:
    """Return the schema of a tool's arguments."""
    return _tidy(model.model_json_schema(), keep_nulls=False)


def output_schema(model: type[BaseModel]) -> Schema:
    """Return the schema of a tool's result."""
    return _tidy(model.model_json_schema(mode="serialization"), keep_nulls=True)


def _tidy(schema: Schema, *, keep_nulls: bool) -> Schema:
    definitions = schema.pop("$defs", {})

    def inlined(part: Any) -> Any:
        if isinstance(part, list):
            return [inlined(item) for item in cast("list[object]", part)]
        if not isinstance(part, dict):
            return part
        # Copied: a definition may be inlined more than once.
        schema: Schema = {**part}
        if (reference := schema.pop("$ref", None)) is not None:
            schema = {**definitions[reference.rpartition("/")[2]], **schema}
        tidy: Schema = {}
        for key, value in schema.items():
            if key == "properties":
                tidy[key] = {name: inlined(field) for name, field in value.items()}
            elif key != "title" and not (key == "default" and value is None):
                tidy[key] = inlined(value)
        choices: list[Schema] = tidy.get("anyOf", [])
        kept = [choice for choice in choices if keep_nulls or choice != {"type": "null"}]
        if not keep_nulls and len(kept) == 1:
            del tidy["anyOf"]
            return {**kept[0], **tidy}
        return {**tidy, "anyOf": kept} if kept else tidy

    return {key: value for key, value in inlined(schema).items() if key != "description"}


class SamplingNeededError(Exception):
    """The call can continue after the client has answered a sampling request."""

    def __init__(self, result: types.InputRequiredResult) -> None:
        super().__init__(result.request_state)
        self.result = result
        """Asks the client for the answer."""


def is_modern(ctx: ServerRequestContext[Any, Any]) -> bool:
    """Return whether a request is of the newer era of the protocol."""
    return ctx.protocol_version in MODERN_PROTOCOL_VERSIONS


def offers_sampling(ctx: ServerRequestContext[Any, Any]) -> bool:
    """Return whether the client of this request offers sampling."""
    declared = ctx.session.client_capabilities
    if declared is None or declared.sampling is None:
        return False
    return is_modern(ctx) or ctx.session.can_send_request


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSampler:
    """Sends sampling requests to the client of one request, which is a round of a call."""

    ctx: ServerRequestContext[Any, Any]
    run_id: str = field(default_factory=new_id)
    answers: Mapping[str, Mapping[str, Any]] = field(default_factory=dict[str, Mapping[str, Any]])
    """The client's answers of this round and of earlier ones."""

    @classmethod
    async def start(
        cls,
        ctx: ServerRequestContext[Any, Any],
        params: types.CallToolRequestParams,
        store: Storage,
    ) -> Self:
        """Begin a call, or its next round."""
        run_id = params.request_state
        if run_id is None:
            return cls(ctx=ctx)
        for key, answer in (params.input_responses or {}).items():
            await store.save_answer(run_id, key, answer.model_dump(mode="json", by_alias=True))
        return cls(ctx=ctx, run_id=run_id, answers=await store.get_answers(run_id))

    async def finish(self, store: Storage) -> None:
        """Delete the answers of a finished call, and expired ones."""
        if self.answers:
            before = (datetime.now(UTC) - timedelta(days=MAX_ANSWER_AGE_DAYS)).isoformat(
                timespec="microseconds"
            )
            await store.delete_answers(self.run_id, before=before)

    async def sample(self, prompt: Prompt) -> Completion:
        """Return the client's answer to a prompt.

        Raises:
            SamplingNeededError: The call has to end with a request for the answer.
            BackendError: The client refused, or its answer is not text.
        """
        message = types.SamplingMessage(role="user", content=types.TextContent(text=prompt.user))
        request = types.CreateMessageRequest(
            params=types.CreateMessageRequestParams(
                messages=[message],
                system_prompt=prompt.system,
                temperature=prompt.temperature,
                max_tokens=prompt.max_tokens,
            )
        )
        if is_modern(self.ctx):
            # The answer to a prompt is found again by this key.
            text = "\0".join((prompt.pipe, prompt.system, prompt.user))
            key = hashlib.sha256(text.encode()).hexdigest()[:32]
            answer = self.answers.get(key)
            if answer is None:
                requests: Any = {key: request}
                raise SamplingNeededError(
                    types.InputRequiredResult(input_requests=requests, request_state=self.run_id)
                )
            try:
                result = types.CreateMessageResult.model_validate(answer)
            except ValidationError:
                problem = "the client answered with no message"
                raise BackendError(problem, backend="sampling") from None
        else:
            related = ServerMessageMetadata(related_request_id=self.ctx.request_id)
            try:
                result = await self.ctx.session.send_request(
                    request, types.CreateMessageResult, metadata=related
                )
            except (MCPError, ValidationError) as error:
                problem = f"the client did not answer: {type(error).__name__}"
                raise BackendError(problem, backend="sampling") from error
        if not isinstance(result.content, types.TextContent):
            problem = "the client answered with something else than text"
            raise BackendError(problem, backend="sampling")
        return Completion(text=result.content.text, model=result.model)


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
    listed = listed_tools(service.settings.profile)
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
        on_list_tools=partial(list_tools, service),
        on_call_tool=partial(call_tool, service),
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
            uri=APP_URI,
            name="session-graph",
            title="The graph of a reasoning session",
            description="Shows the thoughts of a session as a graph, a tree, and step by step.",
            mime_type=APP_MIME_TYPE,
        )
        sessions.insert(0, app)
    has_more = len(lines) > MAX_PAGE_SESSIONS
    # The full profile lists what the original server lists.
    if not has_more and service.settings.profile == "compact":
        sessions.append(_SCHEMA)
    next_cursor = str(offset + MAX_PAGE_SESSIONS) if has_more else None
    return types.ListResourcesResult(resources=sessions, next_cursor=next_cursor)


_SCHEMA: Final = types.Resource(
    uri=SCHEMA_URI,
    name="solve-schema",
    title="Problems for the solver",
    description="The schema of the problems of reasoning_solve, and an example of each form.",
    mime_type="application/json",
)


_URI: Final = re.compile(r"reasoning://sessions/(?P<key>[^/]+)(?:/(?P<format>[a-z]+))?")


async def read_resource(
    service: Service, ctx: Context, params: types.ReadResourceRequestParams
) -> types.ReadResourceResult:
    """Read a session as a document, or the app; without a format, a session is JSON."""
    if params.uri == APP_URI:
        app = types.TextResourceContents(uri=APP_URI, mime_type=APP_MIME_TYPE, text=_app_page())
        return types.ReadResourceResult(contents=[app])
    if params.uri == SCHEMA_URI:
        text = json.dumps({"schema": problem_schema(), "examples": EXAMPLES}, ensure_ascii=False)
        schema = types.TextResourceContents(uri=SCHEMA_URI, mime_type=_SCHEMA.mime_type, text=text)
        return types.ReadResourceResult(contents=[schema])
    match = _URI.fullmatch(params.uri)
    session = await service.store.get_session(unquote(match["key"])) if match else None
    form = (match["format"] or "json") if match else ""
    # `html` is for people and the app, and no format of a tool.
    if session is None or form not in {*EXPORTERS, "html"}:
        code = types.INVALID_PARAMS if is_modern(ctx) else _OLD_NOT_FOUND
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
