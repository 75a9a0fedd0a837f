"""`tools/list` and `tools/call`, with sampling by the model of the connected client.

In the older era the server sends a sampling request during the call. In the newer era the call ends
with an input-required result, and the client repeats it with its model's answer. Answers are kept
in the store, so that any server of the same store can continue.
"""

from __future__ import annotations

import hashlib
import itertools
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any, Final, Self, cast

import mcp_types as types
from mcp.server.apps import client_supports_apps
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import BaseModel, ValidationError
from sqlalchemy.exc import SQLAlchemyError

from plait._support.redact import Redactor
from plait.errors import BackendError, PlaitError, RefusedError
from plait.reasoning import compact
from plait.reasoning.backends.choose import choose
from plait.reasoning.backends.port import Completion, Prompt, SamplingCompleter
from plait.reasoning.backends.settings import Profile
from plait.reasoning.registry import TOOLS
from plait.reasoning.results import result_data, result_text
from plait.reasoning.serving.service import Service
from plait.reasoning.storage.port import Storage
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

MAX_ANSWER_AGE = timedelta(days=1)
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
            before = (datetime.now(UTC) - MAX_ANSWER_AGE).isoformat(timespec="microseconds")
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
