import asyncio
import logging
import tempfile
from pathlib import Path
from typing import Any

from plait import MultiServerMCPClient, PlaitError
from plait.langchain import MCPTool
from plait.testing import StateDir, fault_server, running

logging.basicConfig(level=logging.ERROR)  # a fallback is also a warning in the log


def before_fallback(error: PlaitError, call: Any) -> None:
    print(f"  asking another server for {call.tool} after {type(error).__name__}")


async def main(folder: Path) -> None:
    east, west = folder / "east", folder / "west"
    east.mkdir()
    west.mkdir()
    primary = fault_server("http", state_dir=east, die_by="drop")
    backup = fault_server("http", state_dir=west)
    with running(primary, backup):
        client = MultiServerMCPClient(
            {
                "east": {"url": primary.url, "reconnect": {"max_attempts": 1}},
                "west": {"url": backup.url},
            },
            fallbacks={"east": "west"},
            before_fallback=before_fallback,
        )
        async with client:
            tools = {tool.name: tool for tool in await client.get_tools()}
            print(
                "tools of:",
                *{tool.tool.server for tool in tools.values() if isinstance(tool, MCPTool)},
            )

            print("a read whose answer is lost:")
            print(await tools["get_and_die"].ainvoke({"key": "price"}))

            print("a payment whose answer is lost:")
            print(await tools["pay_and_die"].ainvoke({"amount": 5}))

            await asyncio.to_thread(primary.kill)
            print("a payment that cannot be sent:")
            print(await tools["pay"].ainvoke({"amount": 7}))

        print("east:", *StateDir(east).ledger())
        print("west:", *StateDir(west).ledger())


with tempfile.TemporaryDirectory() as name:
    asyncio.run(main(Path(name)))
