"""LangChain tools as tools of an `MCPServer`."""

from __future__ import annotations

from typing import Any, cast

from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool, ToolException
from langchain_core.tools.base import TOOL_MESSAGE_BLOCK_TYPES, get_all_basemodel_annotations
from mcp.server.mcpserver.tools import Tool as ServerTool
from mcp.server.mcpserver.utilities.func_metadata import ArgModelBase, FuncMetadata
from pydantic import BaseModel, create_model

from plait._support import mcp_types as types
from plait._support.mappings import entries_of
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
    shown = cast("type[BaseModel]", tool.tool_call_schema)  # as the schema it is made of
    injected = get_all_basemodel_annotations(schema).keys() - shown.model_fields.keys()
    if injected:
        names = ", ".join(sorted(injected))
        raise NotImplementedError(f"{tool.name}: injected arguments cannot be served: {names}")
    fields: dict[str, Any] = {
        name: (field.annotation, field) for name, field in shown.model_fields.items()
    }
    arguments_model = create_model(f"{tool.name}Arguments", __base__=ArgModelBase, **fields)

    async def run(**arguments: Any) -> Any:
        handler = tool.handle_tool_error
        raising = tool.model_copy(update={"handle_tool_error": False})  # else a failure looks well
        try:
            output = await raising.ainvoke(arguments)
        except ToolException as error:  # only this text is meant for the model
            text = handler if isinstance(handler, str) else str(error)
            shown = handler(error) if callable(handler) else text
            return types.CallToolResult(content=mcp_content_from(shown), is_error=True)
        if isinstance(output, ToolMessage):
            failed = output.status == "error"
            return types.CallToolResult(content=mcp_content_from(output.content), is_error=failed)
        blocks: list[Any] = cast("list[Any]", output) if isinstance(output, list) else [None]
        if all(entries_of(block).get("type") in TOOL_MESSAGE_BLOCK_TYPES for block in blocks):
            return types.CallToolResult(content=mcp_content_from(blocks))
        return cast("Any", output)  # the SDK writes it as JSON

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
