import asyncio
import os
import sys
from pathlib import Path
from typing import Any

from langchain.agents import create_agent

from plait import MCPToolsMiddleware, MultiServerMCPClient
from plait.testing import ScriptedChatModel, stdio_config, tool_call

os.environ["PLAIT_CACHE_DIR"] = "cache"  # here, and not in ~/.cache/plait
CALCULATOR = str(Path(__file__).with_name("calculator_server.py"))
SERVERS = {
    "lab": stdio_config(),
    "calculator": {"command": sys.executable, "args": [CALCULATOR]},
}


def running(client: MultiServerMCPClient) -> str:
    status = client.status()
    return ", ".join(name for name in SERVERS if status[name].pid is not None) or "nothing"


async def main() -> None:
    async with MultiServerMCPClient(SERVERS, defer=True) as client:
        await client.get_tools()
        print("running after the very first list:", running(client))

    async with MultiServerMCPClient(SERVERS, defer=True) as client:

        def call_what_was_found(_: Any) -> Any:
            print("running after the search:", running(client))
            return [tool_call("average", numbers=[1, 2, 6])]

        model = ScriptedChatModel(
            [
                [tool_call("search_tools", query="mean of a list of numbers")],
                call_what_was_found,
                "It is 3.",
            ]
        )
        agent = create_agent(model, tools=[], middleware=[MCPToolsMiddleware(client)])
        state = await agent.ainvoke({"messages": [{"role": "user", "content": "The mean?"}]})
        print("running after the call:", running(client))
    for names in model.bound:
        print("offered:", *names)
    for message in state["messages"]:
        print(f"{message.type}: {message.text}")


asyncio.run(main())
