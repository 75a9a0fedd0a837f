"""What the suite of `@langchain/mcp-adapters` checks of tools and their schemas, in our words."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.messages import ToolMessage
from langchain_core.utils.function_calling import convert_to_openai_tool
from mcp import MCPError
from mcp.server import Server
from mcp.server.context import ServerRequestContext
from mcp.types import (
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    PaginatedRequestParams,
    TextContent,
    Tool,
)

from plait import MultiServerMCPClient, PlaitError
from plait.langchain.tools.tool import MCPTool
from tests.servers import raw_stdio_config

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]

Json = dict[str, Any]

OBJECT = {"type": "object"}
ITEM = {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]}

NESTED = {
    "type": "object",
    "properties": {"order": {"$ref": "#/$defs/Order"}},
    "required": ["order"],
    "$defs": {
        "Order": {"type": "object", "properties": {"lines": {"$ref": "#/$defs/Lines"}}},
        "Lines": {"type": "array", "items": {"$ref": "#/$defs/Item"}},
        "Item": ITEM,
    },
}
OLDER = {
    "type": "object",
    "properties": {"item": {"$ref": "#/definitions/Item"}},
    "definitions": {"Item": ITEM},
}
BRANCHES = [
    {"type": "object", "properties": {"card": {"type": "string"}}, "required": ["card"]},
    {"type": "object", "properties": {"iban": {"type": "string"}}, "required": ["iban"]},
]
CONDITIONAL = {
    "type": "object",
    "properties": {"kind": {"enum": ["day", "hour"]}, "title": {"type": "string"}},
    "required": ["title"],
    "allOf": [
        {
            "if": {"properties": {"kind": {"const": "day"}}},
            "then": {"properties": {"date": {"type": "string"}}},
            "else": {"properties": {"at": {"type": "string"}}},
        }
    ],
}
MERGED = {
    "type": "object",
    "allOf": [
        {"properties": {"name": {"type": "string"}}, "required": ["name"]},
        {"properties": {"email": {"type": "string"}}},
    ],
}
NOISY = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "properties": {"name": {"type": "string"}},
    "unevaluatedProperties": False,
}

CASES: dict[str, tuple[Json, Json, set[str]]] = {
    "no parameters": ({"type": "object", "properties": {}}, {}, set()),
    "$defs": (NESTED, {"order": {"lines": [{"id": 1}]}}, {"order"}),
    "definitions": (OLDER, {"item": {"id": 1}}, {"item"}),
    "allOf with if": (CONDITIONAL, {"kind": "day", "title": "x", "date": "d"}, {"kind", "title"}),
    "anyOf": ({**OBJECT, "anyOf": BRANCHES}, {"card": "1"}, {"card", "iban"}),
    "oneOf": ({**OBJECT, "oneOf": BRANCHES}, {"iban": "2"}, {"card", "iban"}),
    "allOf": (MERGED, {"name": "Ada", "email": "a@b"}, {"name", "email"}),
    "$schema": (NOISY, {"name": "Ada"}, {"name"}),
}
"""The schema, arguments that fit, and arguments that a model must see."""


def server_of(*tools: Tool, received: list[Any] | None = None) -> Server[Any]:
    """Make a server with these tools."""

    async def list_tools(
        context: ServerRequestContext[Any], params: PaginatedRequestParams | None
    ) -> ListToolsResult:
        if not tools:
            raise MCPError(code=-32603, message="Failed to list tools")
        return ListToolsResult(tools=list(tools))

    async def call_tool(
        context: ServerRequestContext[Any], params: CallToolRequestParams
    ) -> CallToolResult:
        if received is not None:
            received.append(params.arguments)
        return CallToolResult(content=[TextContent(text="called")])

    return Server("schemas", on_list_tools=list_tools, on_call_tool=call_tool)


@pytest.mark.parametrize("case", CASES)
async def test_a_schema_of_any_form_is_sent_and_shown(case: str) -> None:
    schema, arguments, shown = CASES[case]
    received: list[Any] = []
    server = server_of(Tool(name="it", input_schema=schema), received=received)
    async with MultiServerMCPClient({"a": server}) as client:
        (tool,) = await client.get_tools()
        assert await tool.ainvoke(arguments) == "called"
        (for_openai,) = await client.get_tools(profile="openai")

    assert received == [arguments]
    parameters = convert_to_openai_tool(for_openai)["function"]["parameters"]
    assert shown <= set(parameters["properties"])
    assert not {"anyOf", "oneOf", "allOf", "unevaluatedProperties"} & set(parameters)
    assert set(parameters.get("required", ())) <= set(parameters["properties"])


async def test_arguments_that_do_not_fit_are_not_sent() -> None:
    schema = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    received: list[Any] = []
    server = server_of(Tool(name="weather", input_schema=schema), received=received)
    async with MultiServerMCPClient({"a": server}) as client:
        (tool,) = await client.get_tools()
        call = {"type": "tool_call", "id": "1", "name": "weather", "args": {"location": "Rome"}}
        message = await tool.ainvoke(call)
        assert isinstance(message, ToolMessage)
        assert message.status == "error"
        assert "city" in message.content
        assert received == []
        assert await tool.ainvoke({"city": "Rome"}) == "called"

    assert received == [{"city": "Rome"}]


async def test_all_tools_are_loaded_and_one_without_a_name_is_left_out() -> None:
    async with MultiServerMCPClient({"odd": raw_stdio_config("tool-without-name")}) as client:
        tools = await client.get_tools()

    assert tools
    assert all(tool.name for tool in tools)
    assert all(isinstance(tool, MCPTool) for tool in tools)
    assert {tool.response_format for tool in tools} == {"content_and_artifact"}


async def test_a_server_that_does_not_list_its_tools_is_a_failure() -> None:
    async with MultiServerMCPClient({"a": server_of()}) as client:
        with pytest.raises(PlaitError) as failed:
            await client.initialize_connections()

    assert failed.value.server == "a"
    assert failed.value.code == -32603
