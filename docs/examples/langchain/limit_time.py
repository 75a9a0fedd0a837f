import asyncio
import time
from datetime import timedelta

from plait import CallbackContext, Callbacks, MultiServerMCPClient
from plait.client import run_deadline
from plait.testing import stdio_config


async def tell(
    progress: float, total: float | None, message: str | None, context: CallbackContext
) -> None:
    print(f"{context.server_name}/{context.tool_name}: {message}, {progress:g} of {total:g}")


async def main() -> None:
    client = MultiServerMCPClient(
        {"jobs": stdio_config()},
        callbacks=Callbacks(on_progress=tell),
        default_tool_timeout=30,
        tool_timeouts={"sleep_*": timedelta(seconds=2)},
    )
    async with client:
        tools = {tool.name: tool for tool in await client.get_tools()}
        steps = {"steps": 5, "delay": 0.5}  # longer than 2 s, but with progress
        print(await tools["sleep_progress"].ainvoke(steps))

        print(await tools["hang"].ainvoke({}, {"configurable": {"timeout": 0.5}}))  # this call only

        with run_deadline(1):  # everything in the block
            print(await tools["hang"].ainvoke({}))
            print(await tools["echo"].ainvoke({"text": "too late"}))

        soon = time.time() + 0.5
        print(await tools["hang"].ainvoke({}, {"configurable": {"deadline": soon}}))

        print("calls cancelled on the server:", await tools["cancelled_calls"].ainvoke({}))


asyncio.run(main())
