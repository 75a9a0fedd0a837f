"""LangChain tools served by an MCP server, and called from there."""

from __future__ import annotations

from typing import Annotated, Any, cast

import pytest
from langchain_core.tools import BaseTool, InjectedToolArg, ToolException, tool
from mcp import Client
from mcp.server import MCPServer
from mcp.types import TextContent
from pydantic import BaseModel, Field

from plait import MultiServerMCPClient, to_fastmcp

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


class Pair(BaseModel):
    """Add two numbers."""

    a: int = Field(description="The first.")
    b: int = 5


@tool("add", args_schema=Pair)
def add_pair(a: int, b: int) -> int:
    return a + b


class AddTool(BaseTool):
    name: str = "add"
    description: str = "Add two numbers."
    args_schema: Any = Pair

    def _run(self, a: int, b: int) -> int:
        return a + b


@tool
async def divide(a: int, b: int) -> float:
    """Divide two numbers."""
    if b == 0:
        raise ToolException("b must not be 0")
    return a / b


@tool("secret")
def with_injected(a: int, key: Annotated[str, InjectedToolArg]) -> str:
    """Use a key that the program gives."""
    return key * a


SERVED = [add, add_pair, AddTool()]
SERVED_IDS = ["function", "schema", "class"]


async def tools_of(*served: BaseTool, **options: Any) -> dict[str, BaseTool]:
    server = MCPServer("Own tools", tools=[to_fastmcp(one) for one in served], log_level="CRITICAL")
    client = MultiServerMCPClient({"own": server}, **options)
    return {one.name: one for one in await client.get_tools()}


@pytest.mark.parametrize("given", SERVED, ids=SERVED_IDS)
def test_a_tool_is_described_as_it_was(given: BaseTool) -> None:
    made = to_fastmcp(given)
    assert (made.name, made.description) == ("add", "Add two numbers.")
    assert set(made.parameters["properties"]) == {"a", "b"}
    assert made.parameters["properties"]["a"]["type"] == "integer"
    assert made.parameters["required"] == (["a", "b"] if given is add else ["a"])


@pytest.mark.parametrize("given", SERVED, ids=SERVED_IDS)
async def test_a_tool_is_served_and_called(given: BaseTool) -> None:
    served = (await tools_of(given))["add"]
    assert served.description == "Add two numbers."
    assert await served.ainvoke({"a": 1, "b": 2}) == "3"


async def test_defaults_and_descriptions_of_arguments_survive() -> None:
    served = (await tools_of(add_pair))["add"]
    assert served.args["a"]["description"] == "The first."
    assert served.args["b"]["default"] == 5
    assert await served.ainvoke({"a": 1}) == "6"


async def test_a_failure_of_a_served_tool_is_a_failure_for_its_caller() -> None:
    served = (await tools_of(divide))["divide"]
    call = {"type": "tool_call", "id": "c1", "name": "divide", "args": {"a": 1, "b": 0}}
    message = await served.ainvoke(call)

    assert message.status == "error"
    assert "b must not be 0" in message.content
    assert await served.ainvoke({"a": 1, "b": 2}) == "0.5"


@pytest.mark.parametrize(
    ("returned", "texts"),
    [
        (3, ["3"]),
        (None, []),
        ({"a": [1]}, ['{\n  "a": [\n    1\n  ]\n}']),
        ([1, "two"], ["1", "two"]),
        (Pair(a=1), ['{\n  "a": 1,\n  "b": 5\n}']),
        ([{"type": "text", "text": "a block"}], ["a block"]),
    ],
    ids=["number", "nothing", "object", "list", "model", "blocks"],
)
async def test_results_are_written_as_a_server_writes_its_own(
    returned: Any, texts: list[str]
) -> None:
    @tool
    def give() -> Any:
        """Give it."""
        return returned

    server = MCPServer("Own tools", tools=[to_fastmcp(give)], log_level="CRITICAL")
    async with Client(server) as client:
        result = await client.call_tool("give", {})
    assert [cast("TextContent", block).text for block in result.content] == texts


@pytest.mark.parametrize(
    ("handler", "text"),
    [(True, "b must not be 0"), ("no", "no"), (lambda error: f"it says: {error}", "it says: b")],
)
async def test_a_failure_that_a_tool_handles_stays_a_failure(handler: Any, text: str) -> None:
    handling = divide.model_copy(update={"handle_tool_error": handler})
    served = (await tools_of(handling))["divide"]
    call = {"type": "tool_call", "id": "c1", "name": "divide", "args": {"a": 1, "b": 0}}
    message = await served.ainvoke(call)
    assert message.status == "error"
    assert text in message.content


async def test_a_tool_of_a_server_can_not_be_served_again_without_a_model() -> None:
    served = (await tools_of(add))["add"]
    with pytest.raises(TypeError, match="add"):
        to_fastmcp(served)


def test_injected_arguments_cannot_be_served() -> None:
    with pytest.raises(NotImplementedError, match="key"):
        to_fastmcp(with_injected)
