import asyncio
import os
import signal
import sys

from plait import Toolbox

SERVERS = {
    "clock": {
        "command": sys.executable,
        "args": ["-m", "plait.testing.server", "--transport=stdio"],
    },
}


async def main() -> None:
    async with Toolbox(SERVERS) as box:
        for tool in await box.tools():
            print(f"{tool.server}: {tool.wire_name}")
        result = await box.call("clock", "add_numbers", {"a": 20, "b": 22})
        print(result.text)

        if pid := box.status()["clock"].pid:
            os.kill(pid, signal.SIGKILL)  # the server crashes

        result = await box.call("clock", "add_numbers", {"a": 40, "b": 3})
        print(result.text)


asyncio.run(main())
