import asyncio
from collections.abc import Mapping
from typing import Any

from langchain.agents import create_agent

from plait import MultiServerMCPClient
from plait.testing import ScriptedChatModel, fault_server, stdio_config, tool_call


def token_of(run: Mapping[str, Any]) -> dict[str, str]:
    return {"X-User": run["configurable"]["user"]}


def run_of(user: str, thread: str = "1") -> Any:
    return {"configurable": {"user": user, "thread_id": thread}}


async def main() -> None:
    with fault_server("http") as server:
        servers = {"api": {"url": server.url, "headers": token_of}}
        async with MultiServerMCPClient(servers) as client:
            tools = await client.get_tools(include="headers", config=run_of("nobody"))
            model = ScriptedChatModel([[tool_call("headers")], "done"] * 2)
            agent = create_agent(model, tools)
            for user in ("ada", "bob"):
                question: Any = {"messages": [{"role": "user", "content": "Who am I?"}]}
                answer = await agent.ainvoke(question, run_of(user))
                headers = answer["messages"][2].artifact["structured_content"]
                print(f"{user} is {headers['x-user']}")

    servers = {"shell": {**stdio_config(), "scope": "thread"}}
    async with MultiServerMCPClient(servers) as client:
        (counter,) = await client.get_tools(include="counter")
        for thread in ("monday", "tuesday", "monday"):
            print(f"{thread}:", await counter.ainvoke({}, run_of("ada", thread)))
        await client.forget("monday")
        print("monday again:", await counter.ainvoke({}, run_of("ada", "monday")))


asyncio.run(main())
