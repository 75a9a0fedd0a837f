import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from mcp.server import MCPServer
from mcp.types import CallToolResult, TextContent

from plait import MCPToolCallRequest, MCPToolCallResult, MultiServerMCPClient
from plait.langchain import ToolCallEnd

bank = MCPServer("bank", log_level="ERROR")


@bank.tool()
def transfer(amount: int, account: str) -> str:
    """Transfer money."""
    return f"{amount} to {account}"


Handler = Callable[[MCPToolCallRequest], Awaitable[MCPToolCallResult]]


async def log(request: MCPToolCallRequest, handler: Handler) -> MCPToolCallResult:
    print(f"-> {request.server_name}/{request.name} {request.args}")
    result = await handler(request)
    print(f"<- {request.server_name}/{request.name}")
    return result


async def limit(request: MCPToolCallRequest, handler: Handler) -> MCPToolCallResult:
    if request.args["amount"] > 1000:
        text = "More than 1000 needs a signature."
        return CallToolResult(content=[TextContent(text=text)], is_error=True)
    return await handler(request.override(args={**request.args, "account": "savings"}))


def before(request: MCPToolCallRequest) -> dict[str, Any]:
    return {"args": {**request.args, "amount": abs(request.args["amount"])}}


def after(end: ToolCallEnd) -> str | None:
    if isinstance(end.result, CallToolResult) and end.result.is_error:
        return None
    return f"Done: {end.args['amount']}."


async def main() -> None:
    async with MultiServerMCPClient({"bank": bank}, tool_interceptors=[log, limit]) as client:
        (tool,) = await client.get_tools()
        print(await tool.ainvoke({"amount": 20, "account": "holiday"}))
        print(await tool.ainvoke({"amount": 5000, "account": "holiday"}))

    hooked = MultiServerMCPClient({"bank": bank}, before_tool_call=before, after_tool_call=after)
    async with hooked as client:
        (tool,) = await client.get_tools()
        print(await tool.ainvoke({"amount": -30, "account": "holiday"}))


asyncio.run(main())
