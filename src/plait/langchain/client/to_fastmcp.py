"""LangChain tools as tools of an `MCPServer`."""

from __future__ import annotations

from typing import Any

import mcp_types as types
from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool, ToolException
from langchain_core.tools.base import get_all_basemodel_annotations
from mcp.server.mcpserver.tools import Tool as ServerTool
from mcp.server.mcpserver.utilities.func_metadata import ArgModelBase, FuncMetadata
from pydantic import BaseModel, create_model

from plait.langchain.tools.blocks import mcp_content_from


def to_fastmcp(tool: BaseTool) -> ServerTool:
    """Convert a LangChain tool for `MCPServer(tools=[…])`.

    Raises:
        TypeError: The schema of the arguments is not a pydantic model.
        NotImplementedError: Arguments are injected, which a server cannot do.
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
    arguments_model = create_model(f"{tool.name}Arguments", __base__=ArgModelBase, **fields)

    async def run(**arguments: Any) -> types.CallToolResult:
        call = {"type": "tool_call", "id": "mcp", "name": tool.name, "args": arguments}
        try:
            output = await tool.ainvoke(call)
        except ToolException as error:  # only this text is meant for the model
            return types.CallToolResult(content=mcp_content_from(str(error)), is_error=True)
        if not isinstance(output, ToolMessage):
            return types.CallToolResult(content=mcp_content_from(str(output)))
        failed = output.status == "error"
        return types.CallToolResult(content=mcp_content_from(output.content), is_error=failed)

    return ServerTool(
        fn=run,
        name=tool.name,
        title=None,
        description=tool.description,
        parameters=shown.model_json_schema(),
        fn_metadata=FuncMetadata(arg_model=arguments_model),
        is_async=True,
        context_kwarg=None,
        annotations=None,
    )
