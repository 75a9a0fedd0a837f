import asyncio
import logging

from plait import ConnectError, Toolbox
from plait.testing import free_port, server_stdio_config

logging.basicConfig(level=logging.ERROR)  # the status below says what the log would

NOBODY = f"http://127.0.0.1:{free_port()}/mcp"


async def main() -> None:
    servers = {
        "clock": {**server_stdio_config(), "required": True},
        "weather": {"url": NOBODY, "connect_timeout": 2},
    }
    async with Toolbox(servers) as box:
        status = await box.ready()
        for server in status.servers.values():
            print(server.name, "is ready" if server.state == "ready" else "is not ready")
        print("tools:", *(tool.wire_name for tool in await box.tools()))
        print("missing:", *status.failures)

    servers["weather"]["required"] = True
    async with Toolbox(servers) as box:
        try:
            await box.ready()
        except ConnectError as error:
            print(f"cannot go on without {error.server}")


asyncio.run(main())
