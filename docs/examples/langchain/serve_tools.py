import asyncio
import sys
from pathlib import Path

from plait import MultiServerMCPClient

SERVER = Path(__file__).with_name("calculator_server.py")


async def main() -> None:
    servers = {"calculator": {"command": sys.executable, "args": [str(SERVER)]}}
    async with MultiServerMCPClient(servers) as client:
        (tool,) = await client.get_tools()
        print(f"{tool.name}: {tool.description}")
        print(await tool.ainvoke({"numbers": [1, 2, 6]}))
        print(await tool.ainvoke({"numbers": []}))


asyncio.run(main())
