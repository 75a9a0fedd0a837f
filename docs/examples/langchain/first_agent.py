import asyncio

from langchain.agents import create_agent

from plait import MultiServerMCPClient
from plait.testing import ScriptedChatModel, server_stdio_config, tool_call

SERVERS = {"clock": server_stdio_config()}  # or {"command": …}, {"url": …}, or "mcp.json"
MODEL = ScriptedChatModel([[tool_call("add_numbers", a=20, b=22)], "It is 42."])  # or "anthropic:…"


async def main() -> None:
    async with MultiServerMCPClient(SERVERS) as client:
        agent = create_agent(MODEL, await client.get_tools())
        state = await agent.ainvoke({"messages": [{"role": "user", "content": "What is 20 + 22?"}]})
        print(state["messages"][-1].text)


asyncio.run(main())
