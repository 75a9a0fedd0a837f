import asyncio

from llama_index.core.agent.workflow import FunctionAgent
from llama_index.llms.openai import OpenAI
from llama_index.tools.mcp import BasicMCPClient, McpToolSpec


async def main() -> None:
    plait = BasicMCPClient("plait", args=["serve", "--config", "mcp.json"], timeout=60)
    tools = await McpToolSpec(plait).to_tool_list_async()
    agent = FunctionAgent(tools=tools, llm=OpenAI("gpt-5-mini"))
    print(await agent.run("What time is it in Berlin?"))


asyncio.run(main())
