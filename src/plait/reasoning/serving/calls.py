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
from typing import Any, Self, cast

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import BaseModel, ValidationError
from sqlalchemy.exc import SQLAlchemyError

from plait._support.redact import Redactor
from plait.errors import BackendError, PlaitError, RefusedError
from plait.reasoning.backends.choose import choose
from plait.reasoning.backends.port import Completer, Completion, Prompt, SamplingCompleter
from plait.reasoning.backends.settings import Profile
from plait.reasoning.compact.results import compact_data, compact_json
from plait.reasoning.compact.tools import COMPACT_TOOLS, CompactTool, compact_text, routed
from plait.reasoning.registry import TOOLS
from plait.reasoning.results import result_data, result_text
from plait.reasoning.serving.mcp_app import with_app
from plait.reasoning.serving.service import Service
from plait.reasoning.storage.port import Storage
from plait.reasoning.values import new_id

logger = logging.getLogger(__name__)


@cache
def listed_tools(profile: Profile) -> tuple[types.Tool, ...]:
    """Return the MCP description of every tool of a profile."""
    if profile == "compact":
        return tuple(map(_compact_tool, COMPACT_TOOLS.values()))
    return tuple(
        types.Tool(
            name=tool.name,
            title=tool.title,
            description=tool.description,
            input_schema=input_schema(tool.params),
            output_schema=output_schema(tool.result),
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


def _compact_tool(tool: CompactTool) -> types.Tool:
    return types.Tool(
        name=tool.name,
        description=tool.description,
        input_schema=tool.schema,
        annotations=types.ToolAnnotations(destructive_hint=tool.is_destructive),
    )


async def list_tools(
    service: Service,
    ctx: ServerRequestContext[Any, Any],
    _params: types.PaginatedRequestParams | None,
) -> types.ListToolsResult:
    """List the tools."""
    return types.ListToolsResult(tools=with_app(listed_tools(service.settings.profile), ctx))


async def call_tool(
    service: Service, ctx: ServerRequestContext[Any, Any], params: types.CallToolRequestParams
) -> types.CallToolResult | types.InputRequiredResult:
    """Run a tool; a failure becomes an error result with a text that a model can act on."""
    if service.settings.profile == "full":
        return await _call_full(service, ctx, params)
    name = params.name
    try:
        tool = COMPACT_TOOLS.get(name)
        if tool is None:
            raise RefusedError(f"Unknown tool: {name}")
        call = routed(tool, params.arguments)
    except RefusedError as error:
        return _failed(str(error))
    update = {"name": call.name, "arguments": call.arguments}
    result = await _call_full(service, ctx, params.model_copy(update=update))
    if isinstance(result, types.CallToolResult) and result.is_error:
        (block,) = result.content
        return _failed(compact_text(cast("types.TextContent", block).text))
    return result


async def _call_full(
    service: Service, ctx: ServerRequestContext[Any, Any], params: types.CallToolRequestParams
) -> types.CallToolResult | types.InputRequiredResult:
    is_compact = service.settings.profile == "compact"
    counter = itertools.count(1)

    async def report(message: str) -> None:
        await ctx.session.report_progress(next(counter), None, message)

    sampler = await ClientSampler.start(ctx, params, service.store)
    try:
        result = await service.reasoner.call(
            params.name,
            params.arguments,
            completer=_completer(service, sampler, params.name),
            report=report,
            is_compact=is_compact,
        )
    except SamplingNeededError as needed:
        return needed.result
    except RefusedError as error:
        return _failed(str(error))
    except PlaitError as error:
        logger.warning("%s failed: %s", params.name, error)
        return _failed(str(error))
    except SQLAlchemyError as error:
        reason = Redactor().excerpt(str(error.args[0]))
        logger.error("the database failed during %s: %s", params.name, reason)
        logger.debug("the database failed", exc_info=error)
        return _failed(f"The database failed: {reason}")
    await sampler.finish(service.store)
    if is_compact:
        data = await compact_data(params.name, result, service.store)
        brief = types.TextContent(text=compact_json(data))
        return types.CallToolResult(content=[brief], structured_content=data)
    text = types.TextContent(text=result_text(result))
    return types.CallToolResult(content=[text], structured_content=result_data(result))


def _completer(service: Service, sampler: ClientSampler, name: str) -> Completer | None:
    """Return the completer for this request; `None` is the one that was chosen at the start."""
    tool = TOOLS.get(name)
    if not service.may_sample or tool is None or not tool.uses_model:
        return None
    choice = choose(service.settings, service.available, sampling=offers_sampling(sampler.ctx))
    if choice.backend != "sampling":
        return None
    return SamplingCompleter(sampler.sample)


def _failed(message: str) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(text=message)], is_error=True)


Schema = dict[str, Any]


def input_schema(model: type[BaseModel]) -> Schema:
    """Return the schema of a tool's arguments."""
    return _tidy(model.model_json_schema(), keep_nulls=False)


def output_schema(model: type[BaseModel]) -> Schema:
    """Return the schema of a tool's result."""
    return _tidy(model.model_json_schema(mode="serialization"), keep_nulls=True)


def _tidy(schema: Schema, *, keep_nulls: bool) -> Schema:
    definitions = schema.pop("$defs", {})

    def inlined(schema: Schema) -> Schema:
        if "$ref" in schema:
            definition: Schema = definitions[schema["$ref"].rpartition("/")[2]]
            schema = {**definition, **{key: schema[key] for key in schema if key != "$ref"}}
        tidy: Schema = {}
        for key, value in schema.items():
            if key == "properties":
                tidy[key] = {name: inlined(part) for name, part in value.items()}
            elif key != "title" and not (key == "default" and value is None):
                tidy[key] = inlined_part(value)
        choices: list[Schema] = tidy.get("anyOf", [])
        kept = [choice for choice in choices if keep_nulls or choice != {"type": "null"}]
        if not keep_nulls and len(kept) == 1:
            return {**kept[0], **{key: value for key, value in tidy.items() if key != "anyOf"}}
        return {**tidy, "anyOf": kept} if kept else tidy

    def inlined_part(value: object) -> object:
        if isinstance(value, list):
            return [inlined_part(item) for item in cast("list[object]", value)]
        return inlined(cast("Schema", value)) if isinstance(value, dict) else value

    return {key: value for key, value in inlined(schema).items() if key != "description"}


_KEPT = timedelta(days=1)
"""How long answers of unfinished calls are kept."""


class SamplingNeededError(Exception):
    """The call can continue after the client has answered a sampling request."""

    def __init__(self, result: types.InputRequiredResult) -> None:
        super().__init__(result.request_state)
        self.result = result
        """Asks the client for the answer."""


def offers_sampling(ctx: ServerRequestContext[Any, Any]) -> bool:
    """Return whether the client of this request offers sampling."""
    declared = ctx.session.client_capabilities
    if declared is None or declared.sampling is None:
        return False
    return _is_modern(ctx) or ctx.session.can_send_request


def _is_modern(ctx: ServerRequestContext[Any, Any]) -> bool:
    return ctx.protocol_version in MODERN_PROTOCOL_VERSIONS


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
            before = (datetime.now(UTC) - _KEPT).isoformat(timespec="microseconds")
            await store.delete_answers(self.run_id, before=before)

    async def sample(self, prompt: Prompt) -> Completion:
        """Return the client's answer to a prompt.

        Raises:
            SamplingNeededError: The call has to end with a request for the answer.
            BackendError: The client refused, or its answer is not text.
        """
        if not _is_modern(self.ctx):
            return await self._request(prompt)
        # The answer to a prompt is found again by this key.
        text = "\0".join((prompt.pipe, prompt.system, prompt.user))
        key = hashlib.sha256(text.encode()).hexdigest()[:32]
        answer = self.answers.get(key)
        if answer is None:
            requests: Any = {key: request_for(prompt)}
            raise SamplingNeededError(
                types.InputRequiredResult(input_requests=requests, request_state=self.run_id)
            )
        try:
            return _completion(types.CreateMessageResult.model_validate(answer))
        except ValidationError:
            raise BackendError("the client answered with no message", backend="sampling") from None

    async def _request(self, prompt: Prompt) -> Completion:
        related = ServerMessageMetadata(related_request_id=self.ctx.request_id)
        try:
            result = await self.ctx.session.send_request(
                request_for(prompt), types.CreateMessageResult, metadata=related
            )
        except (MCPError, ValidationError) as error:
            raise BackendError(
                f"the client did not answer: {type(error).__name__}", backend="sampling"
            ) from error
        return _completion(result)


def request_for(prompt: Prompt) -> types.CreateMessageRequest:
    """Return the sampling request for a prompt."""
    message = types.SamplingMessage(role="user", content=types.TextContent(text=prompt.user))
    return types.CreateMessageRequest(
        params=types.CreateMessageRequestParams(
            messages=[message],
            system_prompt=prompt.system,
            temperature=prompt.temperature,
            max_tokens=prompt.max_tokens,
        )
    )


def _completion(result: types.CreateMessageResult) -> Completion:
    content = result.content
    if not isinstance(content, types.TextContent):
        raise BackendError("the client answered with something else than text", backend="sampling")
    return Completion(text=content.text, model=result.model)
