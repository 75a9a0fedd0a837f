"""LangChain tools as MCP tools, for servers of one's own."""

from __future__ import annotations

from typing import Any

import mcp_types as types
from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool, ToolException
from langchain_core.tools.base import get_all_basemodel_annotations
from mcp.server.mcpserver.tools import Tool as ServerTool
from mcp.server.mcpserver.utilities.func_metadata import ArgModelBase, FuncMetadata
from pydantic import BaseModel, create_model

from plait.langchain.tools.mcp_blocks import mcp_content_from


def to_fastmcp(tool: BaseTool) -> ServerTool:
    """Make a tool for an `MCPServer` of a LangChain tool; give it to `MCPServer(tools=[…])`.

    Raises:
        TypeError: The arguments of the tool are not a pydantic model.
        NotImplementedError: Some of them are injected, which a server cannot do.
    """
    schema = tool.args_schema
    if not (isinstance(schema, type) and issubclass(schema, BaseModel)):
        raise TypeError(f"{tool.name}: args_schema must be a pydantic model, not a JSON schema")
    shown = tool.tool_call_schema
    if not (isinstance(shown, type) and issubclass(shown, BaseModel)):
        raise TypeError(f"{tool.name}: tool_call_schema must be a pydantic model")
    injected = get_all_basemodel_annotations(schema).keys() - shown.model_fields.keys()
    if injected:
        names = ", ".join(sorted(injected))
        raise NotImplementedError(f"{tool.name}: injected arguments cannot be served: {names}")
    fields: dict[str, Any] = {
        name: (field.annotation, field) for name, field in shown.model_fields.items()
    }
    arguments = create_model(f"{tool.name}Arguments", __base__=ArgModelBase, **fields)

    async def run(**given: Any) -> types.CallToolResult:
        called = {"type": "tool_call", "id": "mcp", "name": tool.name, "args": given}
        try:
            return _result(await tool.ainvoke(called))
        except ToolException as error:  # its text is meant for the model; others are kept secret
            return types.CallToolResult(content=mcp_content_from(str(error)), is_error=True)

    return ServerTool(
        fn=run,
        name=tool.name,
        title=None,
        description=tool.description,
        parameters=shown.model_json_schema(),
        fn_metadata=FuncMetadata(arg_model=arguments),
        is_async=True,
        context_kwarg=None,
        annotations=None,
    )


def _result(answer: Any) -> types.CallToolResult:
    if not isinstance(answer, ToolMessage):
        return types.CallToolResult(content=mcp_content_from(str(answer)))
    return types.CallToolResult(
        content=mcp_content_from(answer.content),
        is_error=answer.status == "error",
    )
