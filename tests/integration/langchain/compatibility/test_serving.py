"""LangChain tools served by an MCP server, and called from there."""

from __future__ import annotations

from typing import Annotated, Any, cast

import pytest
from langchain_core.callbacks import CallbackManagerForToolRun
from langchain_core.tools import BaseTool, InjectedToolArg, ToolException, tool
from mcp import Client
from mcp.server import MCPServer
from mcp.types import ImageContent, TextContent
from pydantic import BaseModel, Field

from plait import MultiServerMCPClient, to_fastmcp
from tests.integration.langchain.compatibility.common import differs, message_of, tools_of
from tests.servers.langchain_servers import PIXEL

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

    def _run(self, a: int, b: int, run_manager: CallbackManagerForToolRun | None = None) -> int:
        return a + b


@tool
async def divide(a: int, b: int) -> float:
    """Divide two numbers."""
    if b == 0:
        raise ToolException("b must not be 0")
    return a / b


def serving(*served: BaseTool) -> MCPServer:
    return MCPServer("Own", tools=[to_fastmcp(one) for one in served], log_level="CRITICAL")


async def served_as(given: BaseTool) -> BaseTool:
    """Return the tool as a client of its server has it."""
    (served,) = (await tools_of(MultiServerMCPClient({"own": serving(given)}))).values()
    return served


PLAIN = {"a": {"title": "A", "type": "integer"}, "b": {"title": "B", "type": "integer"}}
DESCRIBED = {"a": {**PLAIN["a"], "description": "The first."}, "b": {**PLAIN["b"], "default": 5}}


@pytest.mark.parametrize(
    ("given", "properties", "required"),
    [(add, PLAIN, ["a", "b"]), (add_pair, DESCRIBED, ["a"]), (AddTool(), DESCRIBED, ["a"])],
    ids=["function", "schema", "class"],
)
async def test_a_tool_is_described_as_it_was_and_called(
    given: BaseTool, properties: Any, required: list[str]
) -> None:
    made = to_fastmcp(given)
    schema = {"properties": properties, "required": required, "type": "object"}
    assert (made.name, made.description) == ("add", "Add two numbers.")
    assert made.parameters == {**schema, "title": "add", "description": "Add two numbers."}
    model = made.fn_metadata.arg_model.model_json_schema()
    assert model == {**schema, "title": "addArguments"}
    assert await made.run({"a": 1, "b": 2}, cast("Any", None)) == 3

    served = await served_as(given)
    assert served.description == "Add two numbers."
    assert served.args == properties
    assert await served.ainvoke({"a": 1, "b": 2}) == "3"
    if given is not add:
        assert await served.ainvoke({"a": 1}) == "6"


@pytest.mark.parametrize(
    ("returned", "texts"),
    [
        (3, ["3"]),
        (None, []),
        ({"a": [1]}, ['{\n  "a": [\n    1\n  ]\n}']),
        ([1, "two"], ["1", "two"]),
        (Pair(a=1), ['{\n  "a": 1,\n  "b": 5\n}']),
        ([{"type": "text", "text": "a block"}], ["a block"]),
        ([{"type": "image", "base64": PIXEL, "mime_type": "image/png"}], None),
    ],
    ids=["number", "nothing", "object", "list", "model", "blocks", "picture"],
)
@differs("Content blocks served by `to_fastmcp`")
async def test_results_are_written_as_a_server_writes_its_own(
    returned: Any, texts: list[str] | None
) -> None:
    @tool
    def give() -> Any:
        """Give it."""
        return returned

    async with Client(serving(give)) as client:
        content = (await client.call_tool("give", {})).content
    if texts is None:
        assert content == [ImageContent(data=PIXEL, mime_type="image/png")]
    else:
        assert [cast("TextContent", block).text for block in content] == texts


@pytest.mark.parametrize(
    ("handler", "text"),
    [
        (None, "b must not be 0"),
        (True, "b must not be 0"),
        ("no", "no"),
        (lambda error: f"it says: {error}", "it says: b must not be 0"),
    ],
)
@differs("Failures served by `to_fastmcp`")
async def test_a_failure_stays_a_failure_even_one_that_the_tool_handles(
    handler: Any, text: str
) -> None:
    given = divide
    if handler is not None:
        given = divide.model_copy(update={"handle_tool_error": handler})
    async with Client(serving(given)) as client:
        result = await client.call_tool("divide", {"a": 1, "b": 0})
    assert result.is_error
    assert cast("TextContent", result.content[0]).text == text
    served = await served_as(given)
    message = await message_of(served, a=1, b=0)
    assert message.status == "error"
    assert text in message.content
    assert await served.ainvoke({"a": 1, "b": 2}) == "0.5"


async def test_a_tool_of_a_server_can_not_be_served_again_without_a_model() -> None:
    served = await served_as(add)
    with pytest.raises(TypeError, match="add"):
        to_fastmcp(served)


def test_injected_arguments_cannot_be_served() -> None:
    @tool("secret")
    def with_injected(
        a: int, key: Annotated[str, InjectedToolArg], door: Annotated[str, InjectedToolArg()]
    ) -> str:
        """Use what the program gives."""
        return (key + door) * a

    with pytest.raises(NotImplementedError, match=r"door.*key|key.*door"):
        to_fastmcp(with_injected)
