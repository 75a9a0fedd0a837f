import asyncio

from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool, ToolException

from plait import MultiServerMCPClient, PlaitError, ToolFailedError
from plait.testing import stdio_config, tool_call


async def use(tool: BaseTool, **arguments: object) -> ToolMessage:
    return await tool.ainvoke(tool_call(tool.name, **arguments))


async def main() -> None:
    async with MultiServerMCPClient({"lab": stdio_config()}) as client:
        tools = {tool.name: tool for tool in await client.get_tools()}
        for message in (
            await use(tools["fail"], text="The shop is closed."),
            await use(tools["add"], a="many", b=1),
            await use(tools["die"]),
        ):
            error = message.artifact.get("error", {})
            print(f"{message.status}: {message.text}")
            print("  ", error.get("error", "the tool's own"), error.get("retry", ""))

    strict = MultiServerMCPClient({"lab": stdio_config()}, handle_tool_errors=False)
    async with strict as client:
        tools = {tool.name: tool for tool in await client.get_tools()}
        try:
            await use(tools["fail"], text="The shop is closed.")
        except ToolException as error:
            print("raised:", error, isinstance(error, ToolFailedError))
        try:
            await use(tools["protocol_error"], code=-32603)
        except PlaitError as error:
            print("raised:", type(error).__name__, error.code)


asyncio.run(main())
