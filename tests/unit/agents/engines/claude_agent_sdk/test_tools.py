"""Where the command line finds the tools of a run."""

from __future__ import annotations

from typing import Any

import mcp_types as types
import pytest
from mcp.client import Client

from plait import StaticTool
from plait.agents.agent_run import RunTool, tools_of_run
from plait.agents.engines.claude_agent_sdk.tools import CliTool, cli_tools, sdk_servers, server_keys
from plait.client import Tool, ToolOverride
from plait.client.calls.result_budget import OWN_SERVER


def tool(server: str, wire_name: str, name: str | None = None, **facts: Any) -> Tool:
    return Tool(server=server, wire_name=wire_name, name=name or wire_name, **facts)


def run_tools(*listed: Tool, static: tuple[StaticTool, ...] = ()) -> list[RunTool]:
    return list(tools_of_run(static, listed).values())


def test_tools_keep_the_names_of_server_and_tool() -> None:
    tools = run_tools(
        tool("files", "read"),
        tool("web", "read", "web__read"),
        tool("web", "get", "fetch", override=ToolOverride(name="fetch")),
        tool(OWN_SERVER, "read_more"),
        static=(StaticTool("twice"),),
    )

    placed = cli_tools(tools, ["files", "web"])

    assert {name: one.run_tool.name for name, one in placed.items()} == {
        "mcp__plait__twice": "twice",
        "mcp__files__read": "read",
        "mcp__web__read": "web__read",
        "mcp__web__fetch": "fetch",
        "mcp__plait__read_more": "read_more",
    }


def test_names_are_legal_short_and_given_once() -> None:
    long = "s" * 80
    tools = run_tools(
        tool("a b", "x.y"), tool("a b", "x_y", "x_y2"), tool("a_b", "x"), tool(long, "t" * 90, "t")
    )

    placed = list(cli_tools(tools, ["a b", "a_b", long]))

    assert placed[:3] == ["mcp__a_b__x_y", "mcp__a_b__x_y_2", "mcp__a_b_2__x"]
    assert len(placed[3]) <= 128


def test_a_server_may_have_the_name_of_our_own() -> None:
    tools = run_tools(tool("plait", "a"), static=(StaticTool("b"),))

    assert list(cli_tools(tools, ["plait"])) == ["mcp__plait_2__b", "mcp__plait__a"]


def test_where_the_command_line_makes_the_names_they_are_predicted() -> None:
    tools = run_tools(tool("a b", "x.y", "z", override=ToolOverride(name="z")))

    assert list(cli_tools(tools, ["a b"], bridged=False)) == ["mcp__a_b__x_y"]
    assert server_keys(["a b"]) == {"a b": "a_b"}


@pytest.mark.anyio
async def test_a_server_lists_the_tools_of_the_run_and_hands_on_calls() -> None:
    heard: list[tuple[str, Any]] = []

    async def answer(called: CliTool, params: types.CallToolRequestParams) -> types.CallToolResult:
        heard.append((called.run_tool.name, params.arguments))
        return types.CallToolResult(content=[types.TextContent(text="1")])

    schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "oneOf": [{}]}
    hints = {"read_only_hint": True, "title": "T"}
    listed = tool("calc", "add", description="Adds.", input_schema=schema, annotations=hints)
    servers = sdk_servers(cli_tools(run_tools(listed), ["calc"]).values(), answer)

    assert list(servers) == ["calc"]
    async with Client(servers["calc"]["instance"]) as client:
        (found,) = (await client.list_tools()).tools
        result = await client.call_tool("add", {"a": 1})

    assert (found.name, found.description) == ("add", "Adds.")
    assert "oneOf" not in found.input_schema
    assert found.annotations == types.ToolAnnotations(read_only_hint=True)
    assert heard == [("add", {"a": 1})]
    assert isinstance(result, types.CallToolResult)
