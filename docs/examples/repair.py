import asyncio
import logging
import sys
from pathlib import Path

from plait import Toolbox

logging.basicConfig(level=logging.ERROR)  # the status below says what the log would

SLOPPY = str(Path(__file__).with_name("sloppy_server.py"))


async def main() -> None:
    async with Toolbox({"room": {"command": sys.executable, "args": [SLOPPY]}}) as box:
        print("tools:", *(tool.wire_name for tool in await box.tools()))

        result = await box.call("room", "look")
        for block in result.content:
            print(block.model_dump(by_alias=True, exclude_none=True, exclude={"meta"}))
        for note in result.notes:
            print("note:", note)

        status = box.status()["room"]
        print("repaired so far:", *status.repaired, sep="\n  ")
        print("lines that are not MCP:", status.noise_lines)


asyncio.run(main())
