import asyncio

from langchain.agents import create_agent

from plait import MCPToolsMiddleware, MultiServerMCPClient
from plait.testing import ScriptedChatModel, stdio_config, tool_call


async def main() -> None:
    model = ScriptedChatModel(
        [
            [tool_call("grow")],  # the server gets a tool that it did not have
            [tool_call("grown_1")],
            [tool_call("shrink")],
            "I used a tool that was not there when I began.",
        ]
    )
    async with MultiServerMCPClient({"lab": stdio_config()}) as client:
        middleware = MCPToolsMiddleware(client, include=["gro*"])
        agent = create_agent(model, tools=[], middleware=[middleware])
        state = await agent.ainvoke({"messages": [{"role": "user", "content": "Grow."}]})
    for names in model.bound:
        print("offered:", *names)
    for message in state["messages"]:
        print(f"{message.type}: {message.text}")


asyncio.run(main())
