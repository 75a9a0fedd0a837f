import asyncio
import json
from typing import Any

from langchain.agents import create_agent
from mcp.server import MCPServer

from plait import MultiServerMCPClient
from plait.testing import ScriptedChatModel, tool_call

shop = MCPServer("shop", log_level="ERROR")


@shop.tool()
def orders() -> dict[str, Any]:
    """List all orders."""
    return {"orders": [{"id": number, "item": f"item {number}"} for number in range(1000)]}


@shop.tool()
def refund(order: int) -> str:
    """Pay the price of an order back."""
    return f"order {order} is refunded"


async def main() -> None:
    client = MultiServerMCPClient(
        {"shop": shop},
        result_budget=500,  # tokens
        call_budget={"calls": 50, "tools": {"shop/refund": 1}},  # for each run
    )
    async with client:
        tools = await client.get_tools()
        named = {tool.name: tool for tool in tools}
        print(", ".join(named))

        message = await named["orders"].ainvoke(tool_call("orders"))
        shown = json.loads(message.text)
        print(f"{len(message.text)} bytes, {len(shown['orders'])} items, the last:")
        print(shown["orders"][-1])
        print(shown["plait/cut"])

        handle = message.artifact["plait/full_result"]
        more = await named["read_more"].ainvoke({"handle": handle, "path": "$.orders[998:].item"})
        print(*(block["text"] for block in more), sep="\n")
        whole: Any = client.read_full_result(handle).structured_content
        print(f"kept for the program: {len(whole['orders'])} orders")

        model = ScriptedChatModel(
            [[tool_call("refund", order=1)], [tool_call("refund", order=2)], "Done."]
        )
        state = await create_agent(model, tools).ainvoke({"messages": []})
        print(*(one.text for one in state["messages"] if one.type == "tool"), sep="\n")


asyncio.run(main())
