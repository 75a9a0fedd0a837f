import asyncio
import os
import signal

from langchain.agents import create_agent

from plait import MultiServerMCPClient
from plait.testing import ScriptedChatModel, server_stdio_config, tool_call

SERVERS = {"clock": server_stdio_config()}  # or {"command": …}, {"url": …}, or "mcp.json"

MODEL = ScriptedChatModel(  # or any chat model of LangChain: "anthropic:…", "openai:…"
    [
        [tool_call("add_numbers", a=20, b=22)],
        "It is 42.",
        [tool_call("add_numbers", a=40, b=3)],
        "It is 43.",
    ]
)


async def main() -> None:
    async with MultiServerMCPClient(SERVERS) as client:
        agent = create_agent(MODEL, await client.get_tools())
        for question in ("What is 20 + 22?", "And 40 + 3?"):
            state = await agent.ainvoke({"messages": [{"role": "user", "content": question}]})
            print(*(message.text for message in state["messages"] if message.text), sep=" | ")

            if pid := client.status()["clock"].pid:
                os.kill(pid, signal.SIGKILL)  # the server crashes


asyncio.run(main())
