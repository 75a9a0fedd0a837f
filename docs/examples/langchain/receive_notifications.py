import asyncio
import os
import signal
from typing import Any

from plait import CallbackContext, MultiServerMCPClient
from plait.client import ServerInfo
from plait.testing import stdio_config


def opened(facts: ServerInfo, context: CallbackContext) -> None:
    print(f"{context.server_name} is there: {facts.name} {facts.version}")


def logged(params: Any, context: CallbackContext) -> None:
    print(f"{context.server_name}/{context.tool_name} says ({params.level}): {params.data}")


def progressed(
    progress: float, total: float | None, message: str | None, context: CallbackContext
) -> None:
    print(f"{context.server_name}/{context.tool_name}: {message}, {progress:g} of {total:g}")


async def tools_changed(params: object, context: CallbackContext) -> None:
    del params  # announcements of changed lists say no more than that
    print(f"{context.server_name} has other tools now")


async def main() -> None:
    client = MultiServerMCPClient(
        {"lab": stdio_config()},
        on_initialized=opened,
        on_message=logged,
        on_progress=progressed,
        on_tools_list_changed=tools_changed,
    )
    async with client:
        tools = {tool.name: tool for tool in await client.get_tools()}
        await tools["log"].ainvoke({"level": "warning", "text": "the kettle is hot"})
        await tools["sleep_progress"].ainvoke({"steps": 2, "delay": 0})
        await tools["grow"].ainvoke({})

        if pid := client.status()["lab"].pid:
            os.kill(pid, signal.SIGKILL)  # the server crashes
        await tools["echo"].ainvoke({"text": "are you there?"})  # and is started again


asyncio.run(main())
