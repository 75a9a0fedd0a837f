import asyncio
from collections.abc import Awaitable, Callable

from plait import MCPToolCallRequest, MCPToolCallResult, MultiServerMCPClient
from plait.testing import fault_server, tool_call

Handler = Callable[[MCPToolCallRequest], Awaitable[MCPToolCallResult]]


def fresh() -> dict[str, str]:
    return {"X-Tenant": "from a function"}


async def as_bob(request: MCPToolCallRequest, handler: Handler) -> MCPToolCallResult:
    return await handler(request.override(headers={"X-Tenant": "bob"}))


async def tenant(client: MultiServerMCPClient, **headers: str) -> str:
    (tool,) = await client.get_tools(include="headers", headers=headers or None)
    message = await tool.ainvoke(tool_call("headers"))
    return message.artifact["structured_content"].get("x-tenant")


async def main() -> None:
    with fault_server("http") as server:
        fixed = {"api": {"url": server.url, "headers": {"X-Tenant": "fixed"}}}
        async with MultiServerMCPClient(fixed) as client:
            print("of the server:", await tenant(client))
            print("of these tools:", await tenant(client, **{"X-Tenant": "ada"}))

        async with MultiServerMCPClient({"api": {"url": server.url, "headers": fresh}}) as client:
            print("of a function:", await tenant(client))

        async with MultiServerMCPClient(fixed, tool_interceptors=[as_bob]) as client:
            print("of one call:", await tenant(client))


asyncio.run(main())
