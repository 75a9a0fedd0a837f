"""A tool makes its schema and metadata when they are read, and is a LangChain tool in every way."""

from __future__ import annotations

import copy
from typing import Any, cast

import pytest
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.load import dumpd
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool

from plait.client.catalog.tool import Tool
from plait.langchain.tools.runner import ToolRunner
from plait.langchain.tools.tool import MCPTool

SCHEMA = {
    "type": "object",
    "properties": {"q": {"type": "string", "description": "Words"}},
    "required": ["q"],
}
LAZY = {"args_schema", "metadata"}
RUNNER = cast("ToolRunner", object())


def _tool(**changes: Any) -> Tool:
    row = {
        "name": "search",
        "description": "Finds things.",
        "inputSchema": SCHEMA,
        "annotations": {"readOnlyHint": True},
        **changes,
    }
    return Tool.from_row("web", row)


def _mcp_tool(**changes: Any) -> MCPTool:
    return MCPTool(_tool(**changes), RUNNER)


class _Owned(MCPTool):
    """A tool of the user with a field of its own."""

    mark: str = "mine"


def _owned() -> _Owned:
    return cast("Any", _Owned)(_tool(), RUNNER)


def test_schema_and_metadata_are_made_when_they_are_read() -> None:
    listed = _tool()
    tool = MCPTool(listed, RUNNER)
    assert LAZY.isdisjoint(tool.__dict__)
    assert listed.schemas == {}

    assert tool.args_schema == SCHEMA
    assert "metadata" not in tool.__dict__
    assert tool.metadata is not None
    assert tool.metadata["server"] == "web"
    assert tool.__dict__.keys() >= LAZY
    assert tool.args_schema is tool.args_schema
    assert tool.args_schema is not SCHEMA
    renamed = MCPTool(listed.renamed("web_search"), RUNNER)
    assert renamed.args_schema is tool.args_schema
    assert renamed.name == "web_search"


def test_a_tool_is_bound_without_copies_of_its_schema() -> None:
    listed = _tool()
    tool = MCPTool(listed, RUNNER)

    bound = convert_to_openai_tool(tool)

    assert bound["function"] == {
        "name": "search",
        "description": "Finds things.",
        "parameters": SCHEMA,
    }
    bound["function"]["parameters"]["properties"]["q"]["type"] = "integer"
    assert listed.input_schema["properties"]["q"]["type"] == "string"
    assert LAZY.isdisjoint(tool.__dict__)


@pytest.mark.parametrize("profile", [None, "default", "openai", "openai_strict", "anthropic"])
@pytest.mark.parametrize("description", ["Finds things.", ""])
def test_the_schema_for_models_is_the_same_whether_it_was_read_before(
    profile: Any, description: str
) -> None:
    listed = _tool(description=description)
    lazy, read = (MCPTool(listed, RUNNER, profile=profile) for _ in range(2))
    assert read.args_schema

    assert lazy.tool_call_schema == read.tool_call_schema
    assert convert_to_openai_tool(lazy) == convert_to_openai_tool(read)
    assert lazy.args == read.args
    assert lazy.get_input_jsonschema() == read.get_input_jsonschema()


def test_a_changed_schema_is_what_models_get() -> None:
    tool = _mcp_tool()
    cast("dict[str, Any]", tool.args_schema)["properties"].pop("q")
    assert convert_to_openai_tool(tool)["function"]["parameters"]["properties"] == {}

    tool.args_schema = {"type": "object", "properties": {"other": {"type": "string"}}}
    tool.description = "Changed."
    assert list(tool.args) == ["other"]
    assert convert_to_openai_tool(tool)["function"]["description"] == "Changed."


@pytest.mark.parametrize("is_read", [False, True])
def test_copies_are_equal_and_separate(*, is_read: bool) -> None:
    tool = _mcp_tool()
    if is_read:
        repr(tool)

    shallow, copied = copy.copy(tool), tool.model_copy(update={"description": "Other."})

    assert shallow == tool
    assert copied != tool
    assert (copied.description, copied.args_schema) == ("Other.", SCHEMA)
    assert tool.description == "Finds things."
    assert copied.tool is tool.tool
    copied.tags = ["x"]
    assert tool.tags is None
    deep = copy.deepcopy(tool)
    assert deep == tool
    assert deep.args_schema is not tool.args_schema


def test_tools_are_equal_by_their_fields() -> None:
    read, unread = _mcp_tool(), _mcp_tool()
    repr(read)

    assert read == unread
    assert unread != _mcp_tool(description="Other.")
    assert unread != "search"
    with pytest.raises(TypeError):
        hash(unread)


def test_all_fields_are_shown_and_written_in_order() -> None:
    tool, validated = _mcp_tool(), _owned()

    assert repr(tool) == repr(validated).replace("_Owned", "MCPTool")
    assert list(dict(_mcp_tool()).items())[:4] == list(dict(validated).items())[:4]
    fields = _mcp_tool().model_dump()
    assert fields == validated.model_dump(exclude={"mark"})
    assert list(fields)[:3] == ["name", "description", "args_schema"]
    assert _mcp_tool().model_dump_json() == validated.model_dump_json(exclude={"mark"})
    assert dumpd(_mcp_tool())["id"][-1] == "MCPTool"
    assert tool.model_fields_set == validated.model_fields_set


def test_a_subclass_has_its_fields_validated() -> None:
    tool = _owned()

    assert isinstance(tool, BaseTool)
    assert (tool.mark, tool.args_schema, tool.tool.server) == ("mine", SCHEMA, "web")
    assert convert_to_openai_tool(tool) == convert_to_openai_tool(_mcp_tool())


def test_an_unknown_attribute_is_missing() -> None:
    tool = _mcp_tool()

    assert not hasattr(tool, "unknown")
    assert not hasattr(tool, "_unknown")
    assert not hasattr(MCPTool.__new__(MCPTool), "name")
    with pytest.raises(AttributeError, match="unknown"):
        _ = cast("Any", tool).unknown


def test_a_model_binds_tools() -> None:
    class Model(GenericFakeChatModel):
        def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
            return self.bind(tools=[convert_to_openai_tool(tool) for tool in tools], **kwargs)

    bound = Model(messages=iter([])).bind_tools([_mcp_tool()])

    assert bound.kwargs["tools"][0]["function"]["parameters"] == SCHEMA
