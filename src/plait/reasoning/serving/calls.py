"""`tools/list` and `tools/call`."""

from __future__ import annotations

import itertools
import logging
from functools import cache
from typing import Any, cast

import mcp_types as types
from mcp.server.context import ServerRequestContext
from pydantic import BaseModel
from sqlalchemy.exc import SQLAlchemyError

from plait._support.redact import Redactor
from plait.errors import PlaitError, RefusedError
from plait.reasoning.backends.choose import choose
from plait.reasoning.backends.port import Completer, SamplingCompleter
from plait.reasoning.registry import TOOLS
from plait.reasoning.results import result_data, result_text
from plait.reasoning.serving.sampling import ClientSampler, SamplingNeededError, offers_sampling
from plait.reasoning.serving.service import Service

logger = logging.getLogger(__name__)


@cache
def listed_tools() -> tuple[types.Tool, ...]:
    """Return the MCP description of every tool."""
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


async def list_tools(
    _ctx: object, _params: types.PaginatedRequestParams | None
) -> types.ListToolsResult:
    """List the tools."""
    return types.ListToolsResult(tools=[*listed_tools()])


async def call_tool(
    service: Service, ctx: ServerRequestContext[Any, Any], params: types.CallToolRequestParams
) -> types.CallToolResult | types.InputRequiredResult:
    """Run a tool; a failure becomes an error result with a text that a model can act on."""
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
        )
    except SamplingNeededError as needed:
        return needed.result
    except RefusedError as error:
        return _failed(str(error))
    except PlaitError as error:
        logger.warning("%s failed: %s", params.name, error)
        return _failed(str(error))
    except SQLAlchemyError as error:
        logger.exception("the database failed during %s", params.name)
        return _failed(f"The database failed: {Redactor().excerpt(str(error.args[0]))}")
    await sampler.finish(service.store)
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
