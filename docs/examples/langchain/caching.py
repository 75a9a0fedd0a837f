import asyncio
from collections import Counter

from mcp.server import MCPServer
from mcp.types import Tool, ToolAnnotations

from plait import MultiServerMCPClient

requests = Counter[str]()


class Weather(MCPServer):
    async def list_tools(self) -> list[Tool]:
        requests["list"] += 1
        return await super().list_tools()


weather = Weather("weather", log_level="ERROR")


@weather.tool(annotations=ToolAnnotations(read_only_hint=True))
def forecast(city: str) -> str:
    """Tell the weather of tomorrow."""
    requests["forecast"] += 1
    return f"{city}: rain"


@weather.tool()
def report(city: str, weather: str) -> str:
    """Report the weather."""
    return f"{city}: {weather}, thank you"


async def main() -> None:
    async with MultiServerMCPClient({"weather": weather}, result_cache=300) as client:
        tools = {tool.name: tool for tool in await client.get_tools()}
        for _ in range(10):
            await client.get_tools()
        print(f"11 times get_tools, {requests['list']} list")
        await client.refresh_tools()
        print(f"refresh_tools, {requests['list']} lists")

        for _ in range(3):
            await tools["forecast"].ainvoke({"city": "Rome"})
        print(f"3 times Rome, {requests['forecast']} call")
        await tools["forecast"].ainvoke({"city": "Pisa"})
        print(f"once Pisa, {requests['forecast']} calls")
        await tools["report"].ainvoke({"city": "Rome", "weather": "sun"})
        await tools["forecast"].ainvoke({"city": "Rome"})
        print(f"Rome after a report, {requests['forecast']} calls")


asyncio.run(main())
