import asyncio

from agents import Agent, Runner
from agents.mcp import MCPServerStdio


async def main() -> None:
    async with MCPServerStdio(
        {"command": "plait", "args": ["serve", "--config", "mcp.json"]},
        client_session_timeout_seconds=60,  # 5 seconds by default
    ) as plait:
        agent = Agent(name="clock", model="gpt-5-mini", mcp_servers=[plait])
        result = await Runner.run(agent, "What time is it in Berlin?")
        print(result.final_output)


asyncio.run(main())
