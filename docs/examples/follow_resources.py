import asyncio
import os
import signal

from mcp.server import MCPServer
from mcp.server.mcpserver import Context

from plait import Toolbox
from plait.testing import stdio_config

kitchen = MCPServer("kitchen", log_level="ERROR")
soup = {"degrees": 20}


@kitchen.resource("pot://soup")
def pot() -> str:
    """Say how hot the soup is."""
    return f"{soup['degrees']} degrees"


@kitchen.tool()
async def heat(degrees: int, ctx: Context) -> None:
    """Heat the soup."""
    soup["degrees"] = degrees
    await ctx.notify_resource_updated("pot://soup")


async def main() -> None:
    async with Toolbox({"kitchen": kitchen, "lab": stdio_config()}) as box:
        async for update in box.watch_resource("kitchen", "pot://soup", read=True):
            print(update.uri, update.text)
            if update.text == "80 degrees":
                break
            await box.call("kitchen", "heat", {"degrees": 80})

        async with box.watch_resource("lab", "test://static", "test://item/1") as updates:
            changes = aiter(updates)
            await box.call("lab", "touch", {"uri": "test://item/1"})
            print((await anext(changes)).uri, "has changed")

            if pid := box.status()["lab"].pid:
                os.kill(pid, signal.SIGKILL)  # the server crashes, and is started again
            uris = {(await anext(changes)).uri for _ in range(2)}
            print(*sorted(uris), "may have changed")


asyncio.run(main())
